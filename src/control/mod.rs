// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loop that keeps a node's egress in line with what it should be and with what is reached.
//!
//! A sweep reads what there is ([`Observed`]), compares it with what there should be ([`Desired`]),
//! and does what follows, a [`Plan`] of steps. The comparison is pure: no clock, file or kernel, the
//! same input gives the same plan.
//!
//! | what | by whom |
//! |---|---|
//! | read what there is | [`observe`], of a [`Kernel`](kernel::Kernel) |
//! | compare | [`reconcile`](reconcile()) |
//! | do it, step by step | [`apply`](apply()), on the same |
//! | look whether what must hold does | [`invariants`](invariants()) |
//! | write a new tenant's routes, beside the loop | [`install`](install()), by any process |
//!
//! A `Kernel` is an instance that this process publishes in ([`Live`](kernel::Live)), or one in memory
//! for tests ([`fake`]).
//!
//! What is not known takes nothing away. No list of shards yet ([`Known::Unknown`]) is not an empty
//! one, and a source that fails ([`Known::Stale`]) leaves its last list in force.

mod apply;
mod desired;
mod document;
mod effect;
mod eligible;
pub mod fake;
pub mod files;
pub mod hold;
mod install;
mod invariants;
pub mod kernel;
mod known;
#[cfg(feature = "kube")]
pub mod kube;
pub mod machine;
pub mod manifest;
pub mod metrics;
pub mod netlink;
mod observe;
mod observed;
mod plan;
mod problem;
mod reconcile;
pub mod schema;
mod shard;
pub mod source;
mod source_errors;
pub mod sweep;

pub use apply::{apply, Applied, Deadline, Outcome, RouteCounts, StepReport};
pub use desired::{Desired, Mode, Policy, Verdict};
pub use document::{
    document, ClassDocument, ControlDocument, ControlPlan, IneligibleShard, Knowledge,
    ProblemDocument, ShareDocument, StepDocument,
};
pub use effect::{ClassEffect, MemberCounts, Part, PinEffect, PredictedEffect, ShardShare};
pub use eligible::Pool;
pub use install::{install, Install, InstallError, InstallPolicy, Installed, Placed, Why};
pub use invariants::{invariants, Broken, Invariants};
pub use known::Known;
pub use observe::{observe, observe_only};
pub use observed::{Damage, GroupContext, Observed, Reachability, SenselessRoute, Unreached};
pub use plan::{MoveReason, Plan, PlannedStep, Repair, RouteEnd, RouteMove, Step};
pub use problem::Problem;
pub use reconcile::reconcile;
pub use shard::{Shard, ShardFault, ShardList};
