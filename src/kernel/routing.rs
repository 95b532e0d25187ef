// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes, neighbours and links of the calling thread's network namespace: what the kernel says
//! when they change, what it answers when asked, and orders about neighbours.
//!
//! A [`Subscription`] reports changes. It may lose some, and says so; who needs to be right asks:
//! [`ways`], [`neighbours`], [`links`]. Only what is used of a message is read, so that attributes
//! of newer kernels are nothing to stumble over.

mod ask;
mod neighbour;
mod notice;
mod order;
mod subscription;

pub use ask::{all_neighbours, links, neighbours, ways, Way};
pub use neighbour::{NeighbourEntry, NeighbourKey};
pub use notice::{Malformed, Notice};
pub use order::{manage, may_order, release, Outcome};
pub use subscription::{Loss, Received, Subscription};
