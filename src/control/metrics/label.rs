// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Values of labels: closed sets, so that every series is there before anything happens.
#![forbid(unsafe_code)]

use std::fmt::Debug;

use crate::control::machine::Trigger;
use crate::control::Repair;

/// The values that one label can have.
pub trait Label: Copy + Ord + Debug + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The value as it is exported.
    fn name(self) -> &'static str;
}

/// Defines a label's values with their texts.
macro_rules! labels {
    ($(#[$type_doc:meta])* $type:ident; $($(#[$doc:meta])* $variant:ident = $text:literal,)+) => {
        $(#[$type_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl Label for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

labels! {
    /// Where a sweep failed.
    Stage;
    /// Publishing groups that take routes, or how packets are encapsulated.
    Apply = "apply",
    /// Writing and moving routes, but for the last ones of a group that ends.
    Refresh = "refresh",
    /// Reading the list of shards.
    Watch = "watch",
    /// Publishing that a group takes no new routes.
    Close = "close",
    /// Publishing that a group forwards no more.
    Disable = "disable",
    /// Opening the instance.
    Open = "open",
    /// Finding out which group is whose.
    Ownership = "ownership",
    /// Reading routes and tenants.
    Census = "census",
    /// Asking the kernel how shards are reached.
    Resolve = "resolve",
    /// Taking the routes off a group that ends.
    Retire = "retire",
    /// Looking whether all is as it should be, after the steps.
    Verify = "verify",
}

labels! {
    /// What became of a group's plan.
    Publication;
    /// It was published.
    Ok = "ok",
    /// It changed nothing, so nothing was published.
    Unchanged = "unchanged",
    /// It failed; the one before is in force.
    Failed = "failed",
}

labels! {
    /// Why a shard cannot be reached.
    Unresolved;
    /// No route leads to it.
    NoRoute = "no_route",
    /// Its route leaves by an interface that is no uplink.
    NotUplink = "not_uplink",
    /// The next hop has no link-layer address.
    NoNeighbour = "no_neighbour",
}

labels! {
    /// Where the list of shards comes from.
    SourceKind;
    /// One file.
    File = "file",
    /// The files of a directory.
    Dir = "dir",
    /// A Kubernetes API server.
    Kube = "kube",
}

labels! {
    /// How the barrier between writers of routes and who retires a group is held.
    Side;
    /// Beside others.
    Shared = "shared",
    /// Alone.
    Exclusive = "exclusive",
}

labels! {
    /// What the datapath uses where the kernel has it, and does without elsewhere.
    Optional;
    /// Links for programs at a device's hooks (Linux 6.6).
    Tcx = "tcx",
    /// Several entries of a map by one call.
    Batch = "batch",
}

impl Optional {
    /// The name of the [check](crate::egress::PreflightCheck) that tries it.
    #[must_use]
    pub const fn check(self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Batch => "updates in batches",
        }
    }
}

impl Label for Trigger {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.as_str()
    }
}

impl Label for Repair {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<L: Label>() -> Vec<&'static str> {
        L::ALL.iter().map(|label| label.name()).collect()
    }

    #[test]
    fn labels_have_their_published_values() {
        assert_eq!(
            names::<Trigger>(),
            ["source", "route", "neighbour", "link", "timer", "command"]
        );
        assert_eq!(
            names::<Stage>(),
            [
                "apply",
                "refresh",
                "watch",
                "close",
                "disable",
                "open",
                "ownership",
                "census",
                "resolve",
                "retire",
                "verify"
            ]
        );
        assert_eq!(names::<Publication>(), ["ok", "unchanged", "failed"]);
        assert_eq!(
            names::<Unresolved>(),
            ["no_route", "not_uplink", "no_neighbour"]
        );
        assert_eq!(names::<SourceKind>(), ["file", "dir", "kube"]);
        assert_eq!(names::<Side>(), ["shared", "exclusive"]);
        assert_eq!(names::<Optional>(), ["tcx", "batch"]);
        assert_eq!(
            names::<Repair>(),
            ["wrong_class", "old_incarnation", "missing", "orphan"]
        );
    }
}
