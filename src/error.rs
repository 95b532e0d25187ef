// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the errors of all parts have in common: a kind to act on.

use std::fmt;

/// What to do about an object under our names that is somebody else's or damaged.
pub(crate) const NOT_OURS: &str =
    "it was left alone: if nothing needs it, remove it by hand, then \
                                   apply the specification again";
/// What to do about state of a version that this one does not understand.
pub(crate) const OTHER_VERSION: &str = "use the version that wrote it";

/// What a caller can do about an error, whatever failed; every error type has `kind()`.
///
/// The text form is what the tool prints as `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself makes no sense: correct the arguments.
    Usage,
    /// A document or a value in it is at fault: correct the input.
    Invalid,
    /// The named object does not exist.
    NotFound,
    /// A file could not be read or written.
    Io,
    /// The process lacks a right.
    Permission,
    /// The kernel, driver or build lacks a feature.
    Unsupported,
    /// The kernel's verifier rejected the program.
    Verifier,
    /// The kernel refused an operation for another reason.
    Kernel,
    /// A check of the surroundings failed before anything was changed.
    Preflight,
    /// Some of what was asked is done, the rest is not.
    Partial,
    /// Somebody else holds the interface.
    Occupied,
    /// State of another version or layout: not touched.
    Incompatible,
    /// The plan was made against a generation that is no longer live.
    StalePlan,
    /// Another writer holds the state directory.
    Locked,
    /// The change contradicts what is there.
    Conflict,
}

impl ErrorKind {
    /// The name that outputs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Invalid => "invalid",
            Self::NotFound => "not-found",
            Self::Io => "io",
            Self::Permission => "permission",
            Self::Unsupported => "unsupported",
            Self::Verifier => "verifier",
            Self::Kernel => "kernel",
            Self::Preflight => "preflight",
            Self::Partial => "partial",
            Self::Occupied => "occupied",
            Self::Incompatible => "incompatible",
            Self::StalePlan => "stale-plan",
            Self::Locked => "locked",
            Self::Conflict => "conflict",
        }
    }

    /// Whether the same call may come to something later, with nothing changed by whoever calls it.
    pub(crate) fn may_pass(self) -> bool {
        !matches!(
            self,
            Self::NotFound | Self::Permission | Self::Incompatible | Self::Verifier
        )
    }

    /// The kind of a system call's errno.
    pub(crate) fn of_errno(errno: i32) -> Self {
        use nix::libc;
        match errno {
            libc::EPERM | libc::EACCES => Self::Permission,
            libc::ENOENT | libc::ENODEV => Self::NotFound,
            libc::EOPNOTSUPP | libc::ENOSYS => Self::Unsupported,
            _ => Self::Kernel,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
