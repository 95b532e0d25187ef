// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which shard a packet goes to, and why, without a packet: what the instance has is read, and the
//! [model](crate::oracle::egress) of the program decides.
//!
//! Nothing is changed, no packet is needed, and no lock is taken. What is published or written while it
//! is read may be seen half; who wants to be sure asks again. A row that no writer of this library
//! makes is an error: nobody can say what it means.
//!
//! What the model does not know, this does not say: whether enough answers were sent in this second,
//! and the lowered segment sizes of TCP.

mod address;
mod case;
mod error;
mod facts;
mod sight;

pub(in crate::egress) use address::interface;
pub use address::{Address, AddressExplain, ExplainSchema, Transport, Who};
pub(in crate::egress) use case::Case;
pub use error::ExplainError;
pub use facts::{
    Explain, ExplainedGroup, ExplainedHop, ExplainedMember, ExplainedPin, ExplainedRoute,
    ExplainedTenant, HashState, HashStates, Leads, Verdict,
};
pub(in crate::egress) use sight::{Free, PinSight};

use super::error::InstanceError;
use super::instance::Egress;
use super::pins::Tick;
use crate::oracle::egress::Packet;

impl Egress {
    /// What becomes of a frame that comes in from an interface now, and why. It leaves no pin and is
    /// counted nowhere.
    ///
    /// All routes of the tenant are read, which takes a pass over those of all tenants.
    ///
    /// # Errors
    /// The instance cannot be read.
    pub fn explain(&self, frame: &[u8], ifindex: u32) -> Result<Explain, InstanceError> {
        let world = self.world_at(ifindex)?;
        let packet = Packet::new(ifindex, frame, Tick::now().get());
        Ok(Case::decide(&world, &packet, &self.pin_sight()?)?.explain())
    }
}
