// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where the list of shards comes from.
//!
//! A program that knows its shards itself tells them by a [`Source`] of its own:
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//! use std::io::{Read, Write};
//! use std::os::fd::{AsFd, BorrowedFd};
//! use std::os::unix::net::UnixStream;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use guideway::control::fake::Fake;
//! use guideway::control::machine::{Action, Machine, Timing, Trigger};
//! use guideway::control::source::{Source, SourceErrors};
//! use guideway::control::sweep::sweep;
//! use guideway::control::{Deadline, Desired, Known, Mode, Policy, Reachability, Shard, ShardList};
//! use guideway::encap::Encap;
//! use guideway::group::{Classes, Limits, Settings};
//! use guideway::srv6::{BaseSid, Mtu, NextHop};
//!
//! struct Own {
//!     list: Arc<Mutex<Known<ShardList>>>,
//!     changes: UnixStream,
//! }
//!
//! impl Source for Own {
//!     fn latest(&self) -> Known<ShardList> {
//!         self.list.lock().map_or(Known::Unknown, |list| list.clone())
//!     }
//!
//!     fn events(&self) -> BorrowedFd<'_> {
//!         self.changes.as_fd()
//!     }
//!
//!     fn acknowledge(&mut self) -> bool {
//!         let mut any = false;
//!         while let Ok(1..) = self.changes.read(&mut [0; 64]) {
//!             any = true;
//!         }
//!         any
//!     }
//!
//!     fn errors(&self) -> SourceErrors {
//!         SourceErrors::default()
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut tell, changes) = UnixStream::pair()?;
//! changes.set_nonblocking(true)?;
//! let list = Arc::new(Mutex::new(Known::Unknown));
//! let mut source = Own { list: Arc::clone(&list), changes };
//!
//! // Another thread has a shard, and says so.
//! let sid: BaseSid = "2001:db8:ff09:10:e000::".parse()?;
//! let shard = Shard { ipv6: true, ..Shard::new("rack1/shard1", sid) };
//! *list.lock().unwrap() = Known::Known(ShardList { shards: vec![shard], faults: Vec::new() });
//! tell.write_all(b".")?;
//!
//! // The loop, where `events` is readable; here on a node in memory.
//! let fake = Fake::new(Limits::default());
//! let mut kernel = fake.kernel();
//! let ms = Duration::from_millis;
//! let mut machine = Machine::new(Timing::default(), ms(0));
//! if source.acknowledge() {
//!     machine.kick(Trigger::Source, ms(0));
//! }
//! if let Action::Sweep(_) = machine.poll(ms(250)) {
//!     source.refresh(ms(250));
//!     let desired = Desired {
//!         mode: Mode::Hashed,
//!         classes: Classes::new([], Limits::default())?,
//!         settings: Settings::default(),
//!         encap: Encap::standard("2001:db8:ff01:1:e000::".parse()?),
//!         shards: source.latest(),
//!         static_sids: Vec::new(),
//!         policy: Policy::default(),
//!         overrides: BTreeMap::new(),
//!     };
//!     let (from, to) = ("02:00:00:00:00:01".parse()?, "02:00:00:00:00:02".parse()?);
//!     let hop = NextHop::new(7, from, to, Mtu::UNCHECKED)?;
//!     let mut reach = |sids: &BTreeSet<BaseSid>, _| {
//!         Ok(Reachability(sids.iter().map(|&sid| (sid, Ok(hop))).collect()))
//!     };
//!     let swept = sweep(&mut kernel, &desired, &mut reach, &Deadline::at(ms(10_250)))?;
//!     assert!(swept.is_complete());
//!     machine.swept(None);
//! }
//! let members = fake.world(|world| world.groups.values().flat_map(|group| group.members.clone()).count());
//! assert_eq!(members, 1);
//! # Ok(())
//! # }
//! ```

use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use super::source_errors::{SourceErrorReason, SourceErrors};
use super::{Known, ShardList};

/// Where the list of shards comes from: files, an API server, or anything that an embedding program
/// makes. It only tells; nothing that it does changes what packets see.
///
/// An event asks for a sweep, and the sweep reads the store: events themselves say nothing.
pub trait Source: Send {
    /// The list as of the last reading. Unknown until it was complete once; stale while it cannot be
    /// read, with the last one. Never an empty list because of an error.
    fn latest(&self) -> Known<ShardList>;

    /// Becomes readable when the list may have changed, until [`acknowledge`](Self::acknowledge).
    fn events(&self) -> BorrowedFd<'_>;

    /// Takes note of all events so far, without blocking; whether one of them may have changed the
    /// list.
    fn acknowledge(&mut self) -> bool;

    /// Reads anew what is read on demand, as each sweep begins with: bounded work, no waiting for
    /// others. `now` is a monotonic time. A source that is told of changes has nothing to do.
    fn refresh(&mut self, now: Duration) {
        let _ = now;
    }

    /// What there is that looks as if it were meant, and is not read, in words: the first of it. The
    /// list is complete without it.
    fn passed_over(&self) -> Vec<String> {
        Vec::new()
    }

    /// How often reading failed.
    fn errors(&self) -> SourceErrors;

    /// Why the list is not known at present, as far as the source can tell: also before there ever
    /// was one.
    fn failure(&self) -> Option<String> {
        match self.latest() {
            Known::Stale { why, .. } => Some(why),
            _ => None,
        }
    }
}
