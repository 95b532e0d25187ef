// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress of this machine in documents: what a specification would change, what was changed, and
//! what is there.
//!
//! Each document says in `schema` which form it has, serialises as one JSON object, and is described
//! by a [JSON Schema](super::schema). Names of interfaces are those of the calling thread's network
//! namespace. Numbers are numbers; SIDs, prefixes and classes are texts.

mod apply;
mod attach;
mod class;
mod collect;
mod detach;
mod diagnose;
mod error;
mod finding;
mod interfaces;
mod migrate;
mod pins;
mod plan;
mod retire;
mod risk;
mod routes;
mod state;
mod status;
mod sweep;

pub use apply::{apply, ApplyDocument, ApplyResult, ApplySchema, GroupApplied, NotApplied};
pub use attach::{AttachDocument, AttachSchema, AttachWarning, ProgramAttached};
pub use class::{ClassPlan, GroupSettings, MemberChange, MemberPlan};
pub use collect::status;
pub use detach::{
    detach, DetachDocument, DetachSchema, DetachScope, InterfaceDetached, LeftBehind,
    TenantDetached,
};
pub use error::Error;
pub use finding::{Finding, FindingCode};
pub use interfaces::{InterfaceAdvice, InterfaceName};
pub use migrate::{migrate, plan_migration, MigrateDocument, MigrateResult, MigrateSchema};
pub use pins::{pins, FlowDocument, PinDocument, PinFilter, PinSchema};
pub(crate) use plan::Parts;
pub use plan::{
    plan, DuplicateClass, InterfaceChange, InterfacePlan, PlanDocument, PlanResult, PlanSchema,
    RetiredGroup, SettingChange, TenantPlan, TenantRemoval,
};
pub use retire::{retire, GroupRetired, NamedBy, RetireDocument, RetireRefused, RetireSchema};
pub use risk::PinsAtRisk;
pub use routes::RoutePlan;
pub use status::{
    AttachmentStatus, AttachmentWay, CheckStatus, ForeignRouteStatus, GroupStatus, Health,
    LoopStatus, MemberStatus, PacketStatus, PinStatus, ProgramStatus, RouteStatus, StatusDocument,
    StatusSchema, TenantStatus,
};
pub use sweep::{expire, remove, SweepDocument, SweepRule, SweepSchema};

pub use crate::document::severity::Severity;
