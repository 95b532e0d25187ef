// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress datapath of a node: tenants' packets go to SRv6 shards, spread over groups of them.
//!
//! The [guide](crate::guide::egress) tells what it is for and how a packet goes.
//!
//! | who | has | and may |
//! |---|---|---|
//! | anybody | [`Egress`] | look at everything, count, list pins |
//! | who sets up tenants | a [`RouteWriteGuard`] of an [`Egress`] | write interfaces and routes, beside others |
//! | who publishes, one at a time | a [`Writer`] | [publish](Writer::publish) groups and the configuration, [attach](Writer::attach), sweep [pins], [apply](Writer::apply) a whole specification |
//! | the same | a [`RetireGuard`] of a [`Writer`] | move routes while nobody writes any, and disable a group with a [proof](ZeroRoutes) |
//!
//! A [`Loader`] makes the kernel's side where there is none. Everything lives on in the
//! [state directory](crate::kernel::statedir) when its maker is gone.
//!
//! Minimum kernel: 6.1; CAP_BPF and CAP_NET_ADMIN. Calls that publish block until no packet uses the
//! snapshot before: 8 to 30 ms, sometimes 250.

mod adjust;
pub mod apply;
mod attachment;
mod census;
mod counters;
pub mod document;
mod error;
mod events;
pub mod explain;
mod instance;
mod known;
mod ledger;
mod limits;
mod live;
mod loader;
mod loop_report;
mod lost_rows;
mod mend;
pub mod migrate;
mod ours;
pub mod pins;
mod plan;
mod preflight;
mod publish;
mod refresh;
mod resolve;
mod retire;
mod routes;
mod rows;
pub mod schema;
mod tenants;
mod ticket;
pub mod trace;
mod upgrade;
mod warning;

pub use crate::kernel::build::Build;
pub use crate::kernel::exchange::{
    Aborted, ProgramChange, Seen, SeenHow, Step as UpgradeStep, UpgradeKind,
};
pub use crate::kernel::repair::{Repair, RepairAction};
pub use attachment::{interfaces_of, Attached, AttachmentError, AttachmentView};
pub use census::{ForeignRoute, RouteCensus};
pub use counters::Stats;
pub use error::{GroupError, GuardError, InstanceError, PublishError};
pub use events::{Event, EventKind, EventStream};
pub use instance::{Egress, Writer};
pub use ledger::RouteError;
pub use limits::{LimitError, Limits};
pub use live::{Groups, Subject};
pub use loader::Loader;
pub use loop_report::{LoopMode, LoopReport, LoopReportError};
pub use lost_rows::Rows;
pub use preflight::{preflight, PreflightCheck};
pub use publish::{Published, Step};
pub use refresh::Changed;
pub use resolve::{resolve, ResolveError};
pub use retire::{
    Move, MoveReport, RetireError, RetireGuard, StillReferenced, ZeroRoutes, MOST_REFRESHED,
};
pub use routes::{RouteWriteGuard, VerifyError};
pub use rows::RouteRow;
pub use tenants::{RemovedTenant, TenantError};
pub use ticket::{GroupTicket, TicketError, To};
pub use upgrade::{HookUpgraded, UpgradeError, UpgradeSchema, Upgraded};
pub use warning::{warnings, InterfaceWarning};
