// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Groups of egress shards: who is a member, in which slot, and which addresses go there.
//!
//! A *class* is a kind of translation that shards do for tenants; its *group* is the set of shards
//! that do it. A group is published as one immutable [`Snapshot`], and [`plan()`] makes the next one
//! from what is published and a [`GroupSpec`]. Everything here is pure: the same input gives the
//! same plan, and nothing is published.
//!
//! ```
//! use guideway::group::{allocate, plan, Candidate, Class, Classes, Context, GroupSpec, Limits};
//! use guideway::srv6::{Mtu, NextHop};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let classes = Classes::new([], Limits::default())?;
//! let places = allocate(&classes, &[], |_| 0, Limits::default());
//! let place = places.of(Class::Nat66).ok_or("no place")?;
//! let (source, destination) = ("02:00:00:00:00:01".parse()?, "02:00:00:00:00:02".parse()?);
//! let hop = NextHop::new(7, source, destination, Mtu::UNCHECKED)?;
//! let spec = GroupSpec {
//!     candidates: vec![
//!         Candidate::new("2001:db8:ff09:10:e000::".parse()?, hop),
//!         Candidate::new("2001:db8:ff09:11:e000::".parse()?, hop),
//!     ],
//!     ..GroupSpec::default()
//! };
//! let first = plan(None, &place, &spec, &Context::default())?;
//! assert!(first.is_changed());
//! let again = plan(Some(first.snapshot()), &place, &spec, &Context::default())?;
//! assert!(!again.is_changed());
//! # Ok(())
//! # }
//! ```
//!
//! # Life of a group
//!
//! ```text
//! absent --plan--> open --close--> closing --disable--> disabled --plan--> open, next incarnation
//!                                  closing --plan--> open, same incarnation
//! ```
//!
//! An open group forwards and takes routes, a closing one forwards. Groups belong to classes, not to
//! places in a list ([`allocate`]); a disabled one can be opened for another class, and routes of
//! its former incarnation are not followed into it.
//!
//! # Members
//!
//! A shard keeps its [`Slot`] and the [`Generation`] of its tenure while it is a candidate, also
//! while it drains or nothing reaches it. Pins name both, so nobody inherits the pins of a slot: no
//! number is given twice, also not by a publication that fails ([`HighWater`]), by a process that
//! starts again, or when numbers begin a new round ([`GroupPlan::purge`]).
//!
//! Active members share the addresses without a pin by a [Maglev](crate::maglev) table whose keys
//! are the texts of their base SIDs: the same shards give the same table on every node, whatever
//! slots they have there.
//!
//! What packets read is [`Snapshot::to_bytes`], and [`Snapshot::from_bytes`] reads it back;
//! [`Snapshot::salvage`] what is left of one that is damaged.
#![forbid(unsafe_code)]

mod class;
mod disruption;
mod error;
mod image;
mod limits;
mod number;
mod places;
mod plan;
mod salvage;
mod settings;
mod slots;
mod snapshot;
mod spec;
mod warning;

pub use class::{Class, Classes, ClassesError, ConfiguredClass, Nat64Prefix, Nat64PrefixError};
pub use disruption::{Disruption, MemberShare};
pub use error::PlanError;
pub use image::ImageError;
pub use limits::{LimitError, Limits};
pub use number::{Generation, GroupId, HighWater, Incarnation, Publication, Slot, StalePlan};
pub use places::{allocate, allocate_beside, Duplicate, NoGroupLeft, Place, Places};
pub use plan::{close, disable, plan, track, Change, Context, GroupPlan};
pub use settings::{HashMode, InvalidPinIdle, PinIdle, Settings};
pub use snapshot::{Counters, Member, Snapshot, State};
pub use spec::{Candidate, GroupSpec, MemberState};
pub use warning::Warning;
