// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What can go wrong with an instance, by what was tried.

use super::attachment::AttachmentError;
use super::instance::{Maps, PROGRAM};
use super::limits::LimitError;
use super::live::Subject;
use super::pins::{Report, SweepError};
use super::publish::Step;
use crate::encap::InvalidHopLimit;
use crate::error::{ErrorKind, NOT_OURS, OTHER_VERSION};
use crate::group::{Class, GroupId, ImageError, PlanError, Publication, StalePlan};
use crate::kernel::map::{OpenError, ShapeError};
use crate::kernel::object::LoadError;
use crate::kernel::ring::RingError;
use crate::kernel::statedir::{Section, StateDir, StateError};
use crate::kernel::write_barrier::BarrierError;
use crate::kernel::{PinError, SysError};
use crate::route::RowError;

/// What to do about state that nothing tells the version of. What goes with a directory is what its pins
/// hold: links, not filters.
const UNTOLD: &str =
    "nothing tells which version made it, so nothing in it is touched: remove the directory by hand \
     (rm -r), then apply the specification; that takes pinned links off, so the program is detached and \
     tenants' packets pass as the host routes them until then, and forgets all pins (a filter of clsact \
     stays, until \"tc filter del\")";

/// What to do where no configuration can be read. A loop publishes one, too.
pub(super) const PUBLISH: &str =
    "apply the specification again; beside egressd run: its next sweep publishes one";

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
    /// The events cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A pinned program is missing or something else.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Several pins are missing.
    #[error("not found: {}", pins.join(", "))]
    #[non_exhaustive]
    Lost {
        /// Each of them.
        pins: Vec<String>,
    },
    /// The pinned program does not use the pinned maps.
    #[error("the program pinned at {path} does not use the map {map} pinned beside it")]
    #[non_exhaustive]
    Mixed {
        /// The program.
        path: String,
        /// A map that it should use.
        map: &'static str,
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
    /// It was made in another network namespace, whose interfaces it means.
    #[error(
        "the instance in {path} is of another network namespace: the interfaces here are not its own; \
         enter that one by \"nsenter --net=\""
    )]
    #[non_exhaustive]
    OtherNamespace {
        /// Its directory.
        path: String,
    },
    /// The instance has other maps than when it was opened: it was migrated, mended, or made anew. What
    /// is read from these is of no use, and what would be written reaches no packet.
    #[error("the instance in {path} has another {map} than when it was opened: open it again")]
    #[non_exhaustive]
    Replaced {
        /// Its directory.
        path: String,
        /// A map that is another one, or gone.
        map: &'static str,
    },
    /// A migration was interrupted, and packets can be brought neither to the new state nor back to the
    /// old one.
    #[error("a migration of the instance in {path} was interrupted and cannot be ended: {reason}")]
    #[non_exhaustive]
    Unfinished {
        /// Its directory.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The limits that it was made with make no sense.
    #[error("the instance was made for limits that do not exist: {0}")]
    Meta(LimitError),
    /// A snapshot is live that nothing in the state directory is.
    #[error("what is live in {what} (map {id}) is not pinned in {path}")]
    #[non_exhaustive]
    Orphan {
        /// A group, or the configuration.
        what: Subject,
        /// The kernel's number of its map.
        id: u32,
        /// Where it was looked for.
        path: String,
    },
    /// What is attached cannot be read, or is somebody else's.
    #[error(transparent)]
    Attachment(Box<AttachmentError>),
    /// A snapshot makes no sense.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A row makes no sense.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl From<AttachmentError> for InstanceError {
    fn from(error: AttachmentError) -> Self {
        Self::Attachment(Box::new(error))
    }
}

impl InstanceError {
    /// Whether something is merely missing, so that it can be made again around the rest.
    pub(super) fn is_repairable(&self) -> bool {
        match self {
            Self::Map(error) => error.is_not_found(),
            Self::Pin(error) => error.kind() == ErrorKind::NotFound,
            Self::Mixed { .. } | Self::Lost { .. } => true,
            _ => false,
        }
    }

    /// The same that names all pins that are missing, where it is one of several.
    pub(super) fn with_all_lost(self, dir: &StateDir) -> Self {
        if !self.is_repairable() || self.kind() != ErrorKind::NotFound {
            return self;
        }
        let mut paths: Vec<_> = Maps::NAMES.map(|name| dir.pin(Section::Maps, name)).into();
        paths.push(dir.pin(Section::Programs, PROGRAM));
        paths.retain(|path| !path.exists());
        match paths.len() {
            0 | 1 => self,
            _ => Self::Lost {
                pins: paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect(),
            },
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::State(StateError::Locked { .. }) => Some("try again when it has ended"),
            Self::State(StateError::Open(error)) if error.is_not_found() => {
                Some(UNTOLD)
            }
            Self::State(StateError::NoInstance { .. }) => Some("apply a specification first"),
            Self::Orphan {
                what: Subject::Config,
                ..
            } => Some(PUBLISH),
            Self::Orphan { .. } | Self::Image(_) => {
                Some("detach it with --purge, which forgets all pins, then apply the specification")
            }
            Self::Limits { .. } => Some(
                "\"egressd migrate\" gives it other limits and keeps all that it has; or write what it \
                 was made for into the specification's limits",
            ),
            error if error.is_repairable() => {
                Some("apply the specification again; beside egressd run: restart that")
            }
            Self::Attachment(error) => error.remedy(),
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
            _ => None,
        }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::State(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Map(error) => error.kind(),
            Self::Pin(error) => error.kind(),
            Self::Limits { .. } | Self::OtherNamespace { .. } | Self::Replaced { .. } => {
                ErrorKind::Conflict
            }
            Self::Lost { .. } => ErrorKind::NotFound,
            Self::Unfinished { .. } => ErrorKind::Partial,
            Self::Attachment(error) => error.kind(),
            Self::Sys(error) | Self::Ring(RingError::Sys(error)) => error.kind(),
            Self::Shape(_)
            | Self::Ring(_)
            | Self::Mixed { .. }
            | Self::ForeignProgram { .. }
            | Self::Meta(_)
            | Self::Orphan { .. }
            | Self::Image(_)
            | Self::Row(_) => ErrorKind::Incompatible,
        }
    }
}

/// Why a snapshot is not published. Unless it says otherwise the one before is still in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The plan was made against a publication that is no longer in force.
    #[error(
        "group {group}: the plan was made against {}, in force is {}; plan again",
        named(*base),
        named(*live)
    )]
    #[non_exhaustive]
    Stale {
        /// The group.
        group: GroupId,
        /// The publication it was made against.
        base: Option<Publication>,
        /// The one in force.
        live: Option<Publication>,
    },
    /// Numbers of the plan were used by another one.
    #[error(transparent)]
    Claimed(#[from] StalePlan),
    /// The instance was made for fewer groups.
    #[error("there is no group {group}: the instance was made for {groups}")]
    #[non_exhaustive]
    NoGroup {
        /// The group.
        group: GroupId,
        /// How many there are.
        groups: u32,
    },
    /// Another group forwards for the class.
    #[error("group {group} cannot be opened for {class}: group {other} is its group")]
    #[non_exhaustive]
    ClaimedClass {
        /// The class.
        class: Class,
        /// The group that was to be opened.
        group: GroupId,
        /// The one that is.
        other: GroupId,
    },
    /// Two plans for one group.
    #[error("there are two plans for group {group}")]
    #[non_exhaustive]
    Twice {
        /// The group.
        group: GroupId,
    },
    /// A group can be disabled with a proof alone that no route names it.
    #[error("group {group} can be disabled by who retires it alone")]
    #[non_exhaustive]
    NotRetired {
        /// The group.
        group: GroupId,
    },
    /// The snapshot has no form that the kernel could be given.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The configuration makes no sense.
    #[error(transparent)]
    Encap(#[from] InvalidHopLimit),
    /// What is in force cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Pins of former slot generations could not be removed.
    #[error(transparent)]
    Pins(#[from] SweepError),
    /// Pins of former slot generations are left, and the plan would use these numbers again.
    #[error("group {group}: pins of former slot generations are left: {report:?}")]
    #[non_exhaustive]
    PinsLeft {
        /// The group.
        group: GroupId,
        /// What the last pass found.
        report: Box<Report>,
    },
    /// The kernel refused a step. Behind [`Step::Swap`] the new snapshot is in force.
    #[error("{what}: {step}: {error}")]
    #[non_exhaustive]
    Step {
        /// `group 3`, or the configuration.
        what: String,
        /// The step.
        step: Step,
        /// Why.
        error: SysError,
    },
    /// The caller's observer stopped the publication before a step. Behind [`Step::Swap`] the new
    /// snapshot is in force.
    #[error("{what}: stopped by the caller before: {step}")]
    #[non_exhaustive]
    Aborted {
        /// `group 3`, or the configuration.
        what: String,
        /// The step that was not made.
        step: Step,
    },
}

fn named(publication: Option<Publication>) -> String {
    match publication {
        Some(number) => format!("publication {number}"),
        None => "none".to_owned(),
    }
}

impl PublishError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Stale { .. } | Self::Claimed(_) => ErrorKind::StalePlan,
            Self::ClaimedClass { .. } => ErrorKind::Conflict,
            Self::Encap(_)
            | Self::NoGroup { .. }
            | Self::Twice { .. }
            | Self::NotRetired { .. }
            | Self::Image(_) => ErrorKind::Invalid,
            Self::Instance(error) => error.kind(),
            Self::Step { error, .. } => error.kind(),
            Self::Pins(error) => error.kind(),
            Self::PinsLeft { .. } | Self::Aborted { .. } => ErrorKind::Partial,
        }
    }

    /// Whether the new snapshot is in force all the same.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        match self {
            Self::Step { step, .. } | Self::Aborted { step, .. } => *step > Step::Swap,
            _ => false,
        }
    }
}

/// Why a group cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// What is published cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// What is asked for is impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no such group.
    #[error("group {group} was never opened")]
    #[non_exhaustive]
    Absent {
        /// The group.
        group: GroupId,
    },
}

impl GroupError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Plan(PlanError::State { .. } | PlanError::OtherClass { .. }) => {
                ErrorKind::Conflict
            }
            Self::Plan(_) => ErrorKind::Invalid,
            Self::Absent { .. } => ErrorKind::NotFound,
        }
    }
}

/// Why the write barrier is not held, or what it protects cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// Others held it, or it cannot be locked.
    #[error(transparent)]
    Barrier(#[from] BarrierError),
    /// The tenants cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Packets are between two states, since a migration was interrupted: nothing can be written until
    /// somebody takes the instance's lock and ends it.
    #[error("a migration of the instance in {path} was interrupted: its next writer ends it")]
    #[non_exhaustive]
    Unfinished {
        /// Its directory.
        path: String,
    },
}

impl GuardError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unfinished { .. } => ErrorKind::Locked,
            Self::Barrier(error) => error.kind(),
            Self::Instance(error) => error.kind(),
        }
    }
}
