// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer on a machine: load, publish, attach, look at it.
//!
//! A [`Loader`] makes or opens an instance and gives a [`Writer`], the one process that may change
//! it; a [`QuicLb`] only looks. Everything that the kernel holds is pinned in the instance's
//! [state directory](crate::kernel::statedir), so traffic goes on when the process ends.
//!
//! ```no_run
//! use guideway::quiclb::{Loader, Options, StateRoot};
//! use guideway::service::Spec;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec::from_json(&std::fs::read("spec.json")?)?;
//! let dir = StateRoot::default().quiclb(spec.instance_id());
//! let mut balancer = Loader::new(&dir, spec.limits()).load()?;
//! let plan = balancer.plan(&spec, Options::default())?;
//! balancer.publish(&plan)?;
//! balancer.attach(spec.interface(), spec.mode().into())?;
//! println!("{:#?}", balancer.stats()?);
//! # Ok(())
//! # }
//! ```

mod apply;
mod attachment;
mod bindings;
pub mod collector;
mod contexts;
mod detach;
mod diff;
mod doctor;
mod error;
mod events;
mod failure;
mod finding;
pub mod hardware;
mod instance;
mod layout;
mod live;
mod loader;
mod measure;
mod mend;
mod observe;
mod ours;
mod probe;
mod publish;
mod root_array;
pub mod schema;
mod stats;
mod status;
pub mod trace;
mod upgrade;
mod watch;

pub use crate::affinity::Conflict;
pub use apply::{
    apply, plan_here, rollback_spec, Applied, ApplyError, ApplyOptions, ApplyResult, ApplySchema,
    Wanted,
};
pub use attachment::{Attached, Holder};
pub use bindings::{
    read_affinity, ExportSchema, Exported, ImportError, ImportSchema, Imported, ReadError,
    RegisterError, Registration, UseBindingsError,
};
pub use collector::{Collector, CollectorOptions};
pub use contexts::decryption;
pub use detach::{detach, DetachSchema, Detached, LeftBehind};
pub use diff::{DiffSchema, Foreseen, MemberChange, Op, SpecDiff};
pub use doctor::{Diagnosis, DoctorCheck, DoctorSchema};
pub use error::{DetachError, InstanceError, PlanError, PublishError};
pub use events::{
    Event, EventKind, EventLine, EventSchema, EventStream, EventSummary, SummaryKind,
};
pub use failure::{ErrorDocument, ErrorFault, ErrorSchema};
pub use finding::{Finding, FindingCode, Severity};
pub use hardware::{CardStatus, HardwareAcknowledged, HardwareLb, HardwareLoader, HardwareWriter};
pub use instance::{QuicLb, Writer};
pub use layout::{upgrade, upgrade_observed};
pub use live::Published as LiveGeneration;
pub use loader::Loader;
pub use observe::observe;
pub use probe::{
    InterfaceProbe, KernelSupport, OffloadHint, ProbeSchema, ProgramOnHook, Queues, XdpSupport,
};
pub use publish::{Publication, Step};
pub use root_array::AttachedAt;
pub use stats::{BackendStats, EventStats, ServiceStats, Stats};
pub use status::{
    Abi, AffinityStatus, Attachment, AttachmentKind, BackendCounters, BackendEntries,
    BackendStatus, CidState, FlowState, GenerationStatus, Health, InstanceList, ListSchema,
    ListedInstance, Owner, Profile, ProgramStatus, RedirectErrorSource, RedirectErrors,
    RootArrayPlace, ServiceStatus, Status, StatusSchema, Sweep, TableStatus,
};
pub use upgrade::{UpgradeError, UpgradeSchema, Upgraded};
pub use watch::{BackendRates, ServiceRates, WatchLine, WatchSchema};

pub use crate::kernel::attach::{AttachError, Mode};
pub use crate::kernel::build::Build;
pub use crate::kernel::exchange::{
    Aborted, ProgramChange, Seen, SeenHow, Step as UpgradeStep, UpgradeKind,
};
pub use crate::kernel::repair::{Repair, RepairAction};
pub use crate::kernel::statedir::{StateDir, StateRoot};
pub use crate::plan::{plan, Options, Plan, World};
pub use crate::service::Spec;
