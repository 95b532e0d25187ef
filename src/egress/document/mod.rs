// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress of this machine in documents: what a specification would change, what was changed.
//!
//! Each document says in `schema` which form it has, serialises as one JSON object, and is described
//! by a [JSON Schema](super::schema). Names of interfaces are those of the calling thread's network
//! namespace. Numbers are numbers; SIDs, prefixes and classes are texts.

mod apply;
mod class;
mod error;
mod interfaces;
mod plan;
mod risk;
mod routes;

pub use apply::{apply, ApplyDocument, ApplyResult, ApplySchema, GroupApplied, NotApplied};
pub use class::{ClassPlan, GroupSettings, MemberChange, MemberPlan};
pub use error::Error;
pub use interfaces::{resolve, InterfaceName};
pub use plan::{
    plan, DuplicateClass, InterfaceChange, InterfacePlan, PlanDocument, PlanResult, PlanSchema,
    RetiredGroup, SettingChange, TenantPlan, TenantRemoval,
};
pub use risk::PinsAtRisk;
pub use routes::RoutePlan;
