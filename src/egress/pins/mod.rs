// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins: which shard a tenant's address or flow is held to.
//!
//! Packets make pins, follow them, and renew them when their shard's tenure is over; a full table or
//! an exhausted quota refuses the newcomer, who then goes where the group's table says. What packets
//! never do is delete a pin. [`Pins`] reads them, [`Sweeper`] removes them:
//!
//! | why | with |
//! |---|---|
//! | no packet for the group's idle time and two intervals of renewal | [`Sweeper::expire`] |
//! | the slot has no member any more, or one of another generation | [`Sweeper::expire`], [`Sweeper::purge`] |
//! | the tenant goes | [`Sweeper::remove_tenant`] |
//! | somebody wants it | [`Sweeper::remove`], [`Sweeper::remove_pin`] |
//!
//! A pin of a member that nothing reaches is none of these: the member may be back in a moment.
//!
//! Each tenant's pins are counted, for its quota; [`Writer::recount_pins`](super::Writer::recount_pins)
//! makes counts right that are not.
//!
//! Time is passed in as [`Tick`]s.

mod census;
mod error;
mod grow;
mod instance;
mod list;
mod pin;
mod recount;
mod report;
mod status;
mod sweeper;
mod tick;

pub use crate::pin::{Flow, Holder};
pub use census::Census;
pub use error::{ReadError, SweepError};
pub use grow::{copy, Copied};
pub use list::{Pins, Use};
pub use pin::{Held, Pin};
pub use recount::Recounted;
pub use report::{Fate, Removed, Report, Standings};
pub use status::{MemberPins, Rules, Standing, Status, TenantPins};
pub use sweeper::{Maps, Scope, Sweeper, Table};
pub use tick::Tick;
