// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress datapath of a node: tenants' packets go to SRv6 shards, spread over groups of them.

pub mod apply;
mod attachment;
mod error;
mod instance;
mod ledger;
mod limits;
mod live;
mod loader;
pub mod pins;
mod plan;
mod publish;
mod retire;
mod routes;
mod rows;
mod tenants;
mod ticket;

pub use attachment::{Attached, AttachmentError, AttachmentView};
pub use error::{GroupError, GuardError, InstanceError, PublishError};
pub use instance::{Egress, Writer};
pub use ledger::RouteError;
pub use limits::{LimitError, Limits};
pub use live::Subject;
pub use loader::Loader;
pub use publish::{Aborted, Published, Step};
pub use retire::{
    Move, MoveReport, RetireError, RetireGuard, RouteCensus, StillReferenced, ZeroRoutes,
    MOST_REFRESHED,
};
pub use routes::{RouteWriteGuard, VerifyError};
pub use rows::RouteRow;
pub use tenants::{RemovedTenant, TenantError};
pub use ticket::{GroupTicket, TicketError, To};
