// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What can go wrong with an instance, by what was tried.

use crate::error::{ErrorKind, NOT_OURS, OTHER_VERSION};
use crate::id::InstanceId;
use crate::kernel::attach::AttachError;
use crate::kernel::map::{OpenError, ShapeError};
use crate::kernel::object::LoadError;
use crate::kernel::record;
use crate::kernel::ring::RingError;
use crate::kernel::statedir::{AbiVersion, StateError};
use crate::kernel::{PinError, SysError};
use crate::plan::{ImageError, RecordError};
use crate::quiclb::publish::Step;
use crate::service::Faults;

/// What to do about state that nothing tells the version of. What goes with a directory is what its pins
/// hold: links, not places in the arrays of others.
const UNTOLD: &str =
    "nothing tells which version made it, so nothing in it is touched: remove the directory by hand \
     (rm -r), then apply the specification; that takes a pinned link off, so the program is detached \
     and packets pass unsteered until then, and forgets all flows (in a root array the program stays, \
     until the owner takes it out)";

/// Why an instance cannot be made, opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A pinned map is missing or another one.
    #[error(transparent)]
    Map(#[from] OpenError),
    /// A map has another shape than the program's.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A pinned program or link is missing or something else.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The pinned program does not use the pinned maps.
    #[error("the program pinned at {path} does not use the map {map} pinned beside it")]
    #[non_exhaustive]
    Mixed {
        /// The program.
        path: String,
        /// A map that it should use.
        map: &'static str,
    },
    /// Another build made the state, with maps of an older layout. It works as before; this build
    /// neither reads nor changes it.
    #[error(
        "{path} has state of ABI {found}, which an older version made; an upgrade makes it {current}"
    )]
    #[non_exhaustive]
    Older {
        /// The map that tells the version.
        path: String,
        /// The version that it tells.
        found: AbiVersion,
        /// The version of this library.
        current: AbiVersion,
    },
    /// The pinned program uses few of the pinned maps, or none: it is somebody else's.
    #[error(
        "{path} is program {id} ({name}), which works on other maps than those pinned beside it"
    )]
    #[non_exhaustive]
    ForeignProgram {
        /// Where.
        path: String,
        /// The kernel's number of the program.
        id: u32,
        /// Its name.
        name: String,
    },
    /// The limits that size the maps differ from those the instance was made with.
    #[error("the instance was made for {limit} {found}, not {wanted}")]
    #[non_exhaustive]
    Limits {
        /// Which limit.
        limit: &'static str,
        /// What it was made with.
        found: u32,
        /// What is wanted now.
        wanted: u32,
    },
    /// The instance runs elsewhere than was asked: on CPUs or on a network card.
    #[error("the instance in {path} runs on {found}, which has another form")]
    #[non_exhaustive]
    Profile {
        /// Its state directory.
        path: String,
        /// Where it runs.
        found: &'static str,
    },
    /// The instance runs on another network card than the one asked for, or on none. What was
    /// published there would reach no packet here.
    #[error(
        "the instance was loaded for {}, not for {}",
        card(found),
        card(wanted)
    )]
    #[non_exhaustive]
    Device {
        /// Index of the interface whose card it was loaded for; none: for no card.
        found: Option<u32>,
        /// Index of the interface whose card is wanted; none: no card.
        wanted: Option<u32>,
    },
    /// The interface went away whose network card has the program, even if there is one of that
    /// name again.
    #[error("the network card has gone that had the program pinned at {path}")]
    #[non_exhaustive]
    Gone {
        /// The program.
        path: String,
    },
    /// What was stored with the live generation cannot be read.
    #[error(transparent)]
    Stored(#[from] record::RecordError),
    /// What was stored with the live generation makes no sense.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What is pinned beside the live generation was stored with another one.
    #[error("{path} belongs to generation {number} of instance {instance}")]
    #[non_exhaustive]
    OtherRecord {
        /// Where.
        path: String,
        /// The number of the generation that it was stored with.
        number: u64,
        /// The instance of that generation.
        instance: InstanceId,
    },
    /// A generation is live that nothing in the state directory describes.
    #[error("the live generation (map {id}) is not among those pinned in {path}")]
    #[non_exhaustive]
    Orphan {
        /// The kernel's number of its map.
        id: u32,
        /// Where it was looked for.
        path: String,
    },
    /// The event ring cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// What holds the interface cannot be read.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl InstanceError {
    /// Whether something is merely missing, so that it can be made again around the rest.
    pub(super) fn is_repairable(&self) -> bool {
        match self {
            Self::Map(error) => error.is_not_found(),
            Self::Pin(error) => error.kind() == ErrorKind::NotFound,
            Self::Mixed { .. } => true,
            _ => false,
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::State(StateError::Locked { .. }) => Some("try again when it has ended"),
            Self::Older { .. } => Some("upgrade the instance"),
            Self::State(StateError::Open(error)) if error.is_not_found() => Some(UNTOLD),
            Self::OtherRecord { .. } => Some(
                "give what is pinned in gen/ the names again that it had, or detach with --purge, then \
                 apply the specification",
            ),
            Self::Orphan { .. } | Self::Stored(_) | Self::Record(_) | Self::Limits { .. } => {
                Some("detach it with --purge, then apply the specification")
            }
            Self::Device { .. } | Self::Gone { .. } => {
                Some("detach it with --purge, then apply the specification")
            }
            error if error.is_repairable() => Some("apply the specification again"),
            Self::State(StateError::Version { .. }) => Some(OTHER_VERSION),
            Self::State(StateError::Corrupt { .. }) => Some(NOT_OURS),
            Self::State(StateError::Open(_))
            | Self::Map(_)
            | Self::Pin(_)
            | Self::ForeignProgram { .. }
                if self.kind() == ErrorKind::Incompatible =>
            {
                Some(NOT_OURS)
            }
            Self::Attach(error) => error.remedy(),
            _ => None,
        }
    }

    /// Whether the same call may come to something later. If not, the instance is gone, of another
    /// version or runs elsewhere, or the process lacks rights.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Profile { .. }) && self.kind().may_pass()
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::State(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Map(error) => error.kind(),
            Self::Pin(error) => error.kind(),
            Self::Shape(_)
            | Self::Mixed { .. }
            | Self::Older { .. }
            | Self::ForeignProgram { .. } => ErrorKind::Incompatible,
            Self::Stored(_) | Self::Record(_) | Self::OtherRecord { .. } | Self::Orphan { .. } => {
                ErrorKind::Incompatible
            }
            Self::Limits { .. } | Self::Device { .. } => ErrorKind::Conflict,
            Self::Gone { .. } => ErrorKind::NotFound,
            Self::Profile { .. } => ErrorKind::Unsupported,
            Self::Ring(RingError::Sys(error)) => error.kind(),
            Self::Ring(_) => ErrorKind::Incompatible,
            Self::Attach(error) => error.kind(),
            Self::Sys(error) => error.kind(),
        }
    }
}

fn card(ifindex: &Option<u32>) -> String {
    match ifindex {
        Some(ifindex) => format!("the network card of interface {ifindex}"),
        None => "no network card".to_owned(),
    }
}

/// Why no plan can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The machine cannot be looked at.
    #[error(transparent)]
    Observe(#[from] SysError),
    /// What stands against the plan, all of it.
    #[error(transparent)]
    Faults(#[from] Faults),
}

impl PlanError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Observe(error) => error.kind(),
            Self::Faults(_) => ErrorKind::Invalid,
        }
    }
}

/// Why a plan was not published. The generation before it is still live.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The plan is for another instance.
    #[error("the plan is for instance {plan}, this is {instance}")]
    #[non_exhaustive]
    OtherInstance {
        /// The instance of the plan.
        plan: String,
        /// This one.
        instance: String,
    },
    /// The plan was made without asking this machine.
    #[error("the plan was made offline: it names no interface of this machine")]
    Offline,
    /// The plan was made against a generation that is no longer live.
    #[error(
        "the plan was made against {}, live is {}; plan again",
        named(base),
        named(live)
    )]
    #[non_exhaustive]
    Stale {
        /// The generation it was made against.
        base: Option<u64>,
        /// The live one.
        live: Option<u64>,
    },
    /// A window was to end with the plan, and an insert was refused since it was made: a flow of the
    /// service has no entry yet.
    #[error(
        "an insert was refused in a slot of service {service:#010x} whose window was to end; plan \
         again"
    )]
    #[non_exhaustive]
    Refused {
        /// Number of the service.
        service: u32,
    },
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The generation has no form that the kernel could be given.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What is stored with the generation has no text form.
    #[error("the record of the generation cannot be written: {0}")]
    Record(#[from] serde_json::Error),
    /// The plan has keys, and the program of the instance was loaded by a build, or on a kernel,
    /// that cannot decrypt: load it again.
    #[error(
        "the plan has keys, and the program of the instance cannot decrypt: load it again on a \
         kernel and by a build that can"
    )]
    Plain,
    /// The kernel refused a step.
    #[error("{step}: {error}")]
    #[non_exhaustive]
    Step {
        /// The step.
        step: Step,
        /// Why.
        error: SysError,
    },
    /// The caller's observer stopped the publication before a step.
    #[error("stopped by the caller before: {step}")]
    #[non_exhaustive]
    Aborted {
        /// The step that was not made.
        step: Step,
    },
}

fn named(generation: &Option<u64>) -> String {
    match generation {
        Some(number) => format!("generation {number}"),
        None => "no generation".to_owned(),
    }
}

impl PublishError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OtherInstance { .. } | Self::Offline | Self::Record(_) => ErrorKind::Invalid,
            Self::Stale { .. } | Self::Refused { .. } => ErrorKind::StalePlan,
            Self::Instance(error) => error.kind(),
            Self::Image(_) => ErrorKind::Invalid,
            Self::Plain => ErrorKind::Unsupported,
            Self::Step { error, .. } => error.kind(),
            Self::Aborted { .. } => ErrorKind::Partial,
        }
    }
}

/// Why an instance was not detached, or not wholly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The program could not be taken off its interface.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

impl DetachError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Attach(error) => error.kind(),
        }
    }
}
