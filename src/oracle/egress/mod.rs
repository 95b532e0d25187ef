// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The model of the egress program: what happens to a tenant's frame, and why.
//!
//! [`decide`] is total, and its only effect is on the [`Pins`] it is given. It is written for reading,
//! from the same rules as the program, and the two are compared on random worlds and frames: same end,
//! same bytes, same counters, same pins left behind.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use guideway::encap::Encap;
//! use guideway::group::Limits;
//! use guideway::oracle::egress::{decide, Action, Packet, Pins, World};
//! use guideway::reason::egress::End;
//! use guideway::route::TableId;
//! use guideway::srv6::Argument;
//! use guideway::tenant::Tenant;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tenant = Tenant::new(TableId::new(42), Argument::new(0x2a5)?);
//! let world = World {
//!     limits: Limits::default(),
//!     tenants: BTreeMap::from([(7, tenant)]),
//!     routes: BTreeMap::new(),
//!     groups: BTreeMap::new(),
//!     encap: Some(Encap::compat("2001:db8:ff01:1:e000::".parse()?)),
//! };
//! let mut frame = vec![0; 54];
//! (frame[12..15]).copy_from_slice(&[0x86, 0xdd, 0x60]);
//! let mut pins = Pins::with_capacity(65_536, 1);
//! let decision = decide(&world, &mut pins, &Packet::new(7, &frame, 0));
//! assert_eq!(decision.action, Action::Next);
//! assert_eq!(decision.end, End::NoRoute);
//! assert_eq!(
//!     decision.end.explanation(),
//!     "No route of the tenant covers the destination."
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # A packet's way
//!
//! 1. Its EtherType: IPv4 or IPv6, without a VLAN tag.
//! 2. The enabled tenant of its interface.
//! 3. Its IP header. What stays on the link stays there.
//! 4. The node's SID, the source of all that is encapsulated.
//! 5. The route with the longest prefix in the tenant's table. Up to here the next program gets what
//!    ends, untouched. From here on the packet is ours, and is sent or dropped unless the route says
//!    that it passes.
//! 6. A route to a group: its snapshot, in the incarnation that the route means. A pin decides while
//!    its member has the slot that it names and is reachable, and while it was not idle for too long.
//!    Otherwise the group's table decides, and the pin, if it may be touched, becomes one of that
//!    member; an address or flow without a pin gets one if there is room and quota left.
//! 7. Its length: its own header's, that of the outer header's field, and of the link.
//! 8. A TCP SYN of a tenant that asks for that announces no greater segment size than fits.
//! 9. The outer Ethernet and IPv6 headers go in front of it, and it leaves.
//!
//! The sender of what is too big, or may go nowhere, is told by ICMP, if the tenant, the route and the
//! group ask for that and the packet is one that may be answered.
//!
//! # What is not modelled
//!
//! Events; the kernel's refusals to make room or to redirect, locks that it could not take, limits of how many
//! answers are sent in a second, checksums that are left to a device, and rows that no writer of this
//! library makes: who reads those gets an error.

mod answer;
mod inner;
mod mss;
mod outer;
mod pins;
mod run;
mod world;

pub use pins::{Pin, PinUse, Pins, Room};
pub use run::decide;
pub use world::World;

use std::net::Ipv6Addr;

use serde::Serialize;

use crate::group::{Generation, GroupId, Slot};
use crate::pin::Holder;
use crate::reason::egress::{End, Selection};
use crate::route::{Key, Route};
use crate::srv6::BaseSid;
use crate::tenant::Tenant;

/// A frame as the program gets it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface it came in by.
    pub ifindex: u32,
    /// From the Ethernet header on.
    pub frame: &'a [u8],
    /// Whether the kernel has taken a VLAN tag out of it.
    pub tagged: bool,
    /// Payload bytes of a segment, of a frame that is to be segmented; else 0.
    pub gso_bytes: u32,
    /// The time, in ticks of 2^30 ns of the coarse monotonic clock.
    pub now_tick: u32,
}

impl<'a> Packet<'a> {
    /// A frame without a tag that is whole.
    #[must_use]
    pub const fn new(ifindex: u32, frame: &'a [u8], now_tick: u32) -> Self {
        Self {
            ifindex,
            frame,
            tagged: false,
            gso_bytes: 0,
            now_tick,
        }
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// To the next program, untouched.
    Next,
    /// Nowhere.
    Drop,
    /// Out through another interface.
    Redirect {
        /// The interface's index.
        ifindex: u32,
    },
    /// Nowhere; an ICMP error goes out in its place, through the interface that it came in by.
    Answer,
}

/// What becomes of a frame, and what was found for it on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Where it goes.
    pub action: Action,
    /// Why; this counter goes up by one.
    pub end: End,
    /// Whose it is; none where nobody looked, or nobody enabled has the interface.
    pub tenant: Option<Tenant>,
    /// The route that decided.
    pub route: Option<(Key, Route)>,
    /// What its group selected; none before there is a group that forwards.
    pub choice: Option<Choice>,
    /// The outer source and destination address, once they are known.
    pub outer: Option<(Ipv6Addr, Ipv6Addr)>,
    /// The counters beside the end that go up by one, in ascending order.
    pub counters: Vec<Selection>,
    /// The slot whose counters go up, by one packet and the bytes of the frame as it came.
    pub slot: Option<(GroupId, Slot)>,
    /// The frame as it goes on, or the answer.
    pub output: Vec<u8>,
}

/// How a group selected a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The group.
    pub group: GroupId,
    /// The placement hash, whether or not a pin decided.
    pub hash: u32,
    /// The word of the table that it leads to.
    pub word: u32,
    /// Whether the states of the hash in the route are those of the tenant and the group. They are
    /// others between a change of either's number and the rewriting of the routes; packets are placed
    /// by those of the route.
    pub states_agree: bool,
    /// Whose pin the packet's is; none while the group has no pins.
    pub holder: Option<Holder>,
    /// What became of the pin; none where there was none and none was made.
    pub pin: Option<PinFate>,
    /// The member that was selected.
    pub member: Option<Chosen>,
}

/// The member that was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its slot.
    pub slot: Slot,
    /// Its tenure of the slot.
    pub generation: Generation,
    /// The shard.
    pub sid: BaseSid,
    /// What selected it.
    pub by: By,
}

/// What selects a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The packet's pin.
    Pin,
    /// The group's table.
    Table,
}

/// What became of a packet's pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PinFate {
    /// It decided.
    Followed,
    /// It decided, and the time in it was renewed.
    Refreshed,
    /// It was made.
    New,
    /// There was none, and no room for more.
    NoRoom,
    /// There was none, and the tenant has as many as it may have.
    NoQuota,
    /// It was idle for too long, or its member is gone or unreachable: it was made one of the member
    /// that the table names.
    Replaced,
    /// The same, but the table names nobody: it was left.
    Stale,
    /// It is another key's, whose memory the kernel is using again: it was left.
    Torn,
    /// It is about to be deleted: it was left.
    Dead,
}
