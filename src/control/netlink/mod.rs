// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The node's ways to its shards: what leads there now, and when to look again.
//!
//! A [`Monitor`] hears what changes and says which changes call for a sweep. A [`Resolver`] is asked
//! by the sweep how each shard is reached; it asks the kernel every time, so that an event that was
//! lost costs time and nothing else. Both work without threads of their own: a monitor is an
//! [`AsFd`](std::os::fd::AsFd) to wait on together with the deadline of a
//! [`Machine`](super::machine::Machine), and its work per call is bounded.
//!
//! Changes of policy rules are not heard of, nor those of nexthop objects where the host has switched
//! the reports of their routes off (`net.ipv4.nexthop_compat_mode=0`): the next sweep finds them.
//!
//! The entries of next hops in the neighbour table are kept by the kernel on behalf of the resolver:
//! `ip -6 neigh` shows them as `managed` and `proto 103` ([`NEIGHBOUR_PROTOCOL`]). One that somebody
//! wrote down (`permanent`, `extern_learn`), or has kept himself, is used as it is.
//!
//! ```no_run
//! use std::collections::BTreeSet;
//! use std::os::fd::AsFd;
//! use std::time::{Duration, Instant};
//!
//! use guideway::control::machine::{Action, Machine, Timing};
//! use guideway::control::netlink::{Monitor, Resolver};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let uplinks = ["eth0".parse()?];
//! let shards = BTreeSet::from(["2001:db8:ff09:10:e000::".parse()?]);
//! let mut monitor = Monitor::open(&uplinks)?;
//! let mut resolver = Resolver::keeping(&uplinks, Duration::from_secs(1))?;
//! let begin = Instant::now();
//! let mut machine = Machine::new(Timing::default(), begin.elapsed());
//! loop {
//!     match machine.poll(begin.elapsed()) {
//!         Action::Dump => {
//!             if monitor.dump().is_err() {
//!                 machine.overrun(begin.elapsed());
//!             }
//!         }
//!         Action::Sweep(_) => {
//!             monitor.watch(shards.iter().copied()).tell(&mut machine, begin.elapsed());
//!             let found = resolver.resolve(&shards, begin.elapsed())?;
//!             println!("{:?}", found.reachability);
//!             machine.swept(resolver.hold_until());
//!         }
//!         Action::Wait(until) => {
//!             wait(monitor.as_fd(), until);
//!             monitor.receive(64)?.tell(&mut machine, begin.elapsed());
//!         }
//!         _ => {}
//!     }
//! }
//! # fn wait(_: std::os::fd::BorrowedFd<'_>, _: Option<Duration>) {}
//! # }
//! ```

mod keep;
mod monitor;
mod resolver;
mod view;

pub use keep::{Unkept, NEIGHBOUR_PROTOCOL};
pub use monitor::{Losses, Monitor, News, ReceiveBufferWarning, RECEIVE_BUFFER_BYTES};
pub use resolver::{Failures, Resolution, Resolver, ResolverError};
pub use view::{State, Uplink};
