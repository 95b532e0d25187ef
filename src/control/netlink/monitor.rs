// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What changes on the node.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::libc;

use super::view::{State, View};
use crate::control::machine::{Machine, Trigger};
use crate::id::InterfaceName;
use crate::kernel::routing::{self, Loss, Notice, Received, Subscription};
use crate::kernel::{netdev, SysError};
use crate::srv6::BaseSid;

/// Room for reports that wait, in bytes, that a [`Monitor`] asks for: some 20,000 changes.
pub const RECEIVE_BUFFER_BYTES: usize = 16 << 20;

/// So many reports are thrown away before a dump; nobody makes more of them in the time it takes.
const MAX_DRAINED: usize = 1 << 20;

/// Hears of changes of the uplinks, the neighbours on them, and the routes to watched shards.
///
/// It belongs to the network namespace of the thread that opened it, and is to be used by threads
/// of the same one.
#[derive(Debug)]
pub struct Monitor {
    subscription: Subscription,
    asked_bytes: usize,
    view: View,
    losses: Losses,
    resyncs: u64,
}

/// What calls for a sweep among the changes that were heard of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct News {
    /// One for each change that does, the oldest first.
    pub triggers: Vec<Trigger>,
    /// Indices of interfaces that are gone, whatever they were.
    pub gone: Vec<u32>,
    /// Changes were lost: a sweep and a [`dump`](Monitor::dump) are needed.
    pub lost: bool,
    /// There may be more to receive.
    pub more: bool,
}

impl News {
    /// Tells the loop.
    pub fn tell(&self, machine: &mut Machine, now: Duration) {
        for &trigger in &self.triggers {
            machine.kick(trigger, now);
        }
        if self.lost {
            machine.overrun(now);
        }
    }
}

/// How often changes were lost, by the way it happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// The kernel had no room for them.
    pub overrun: u64,
    /// A report was longer than any is.
    pub truncated: u64,
    /// A report made no sense.
    pub malformed: u64,
}

impl Losses {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.overrun + self.truncated + self.malformed
    }

    fn count(&mut self, loss: Loss) {
        match loss {
            Loss::Overrun => self.overrun += 1,
            Loss::Truncated => self.truncated += 1,
            Loss::Malformed => self.malformed += 1,
        }
    }
}

/// The host gave less room for reports than was asked for. Under many changes at once some are
/// lost; each time costs a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "reports of changes have {got} bytes of room, not {asked}: it takes CAP_NET_ADMIN, or \
     net.core.rmem_max of {asked}"
)]
#[non_exhaustive]
pub struct ReceiveBufferWarning {
    /// Bytes that were asked for.
    pub asked: usize,
    /// Bytes that there are.
    pub got: usize,
}

impl Monitor {
    /// Subscribes, with [`RECEIVE_BUFFER_BYTES`] of room, and looks at what there is. Uplinks need
    /// not exist yet: they are followed by name.
    ///
    /// # Errors
    /// The kernel gives no socket, or does not list links or neighbours.
    pub fn open(uplinks: &[InterfaceName]) -> Result<Self, SysError> {
        Self::with_receive_buffer(uplinks, RECEIVE_BUFFER_BYTES)
    }

    /// [`open`](Self::open) with another room for reports that wait, in bytes.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn with_receive_buffer(uplinks: &[InterfaceName], bytes: usize) -> Result<Self, SysError> {
        let mut monitor = Self {
            subscription: Subscription::open(bytes)?,
            asked_bytes: bytes,
            view: View::new(uplinks),
            losses: Losses::default(),
            resyncs: 0,
        };
        monitor.look()?;
        Ok(monitor)
    }

    /// Whether there is less room for reports than was asked for.
    #[must_use]
    pub fn warning(&self) -> Option<ReceiveBufferWarning> {
        let (asked, got) = (self.asked_bytes, self.subscription.receive_buffer_bytes());
        (got < asked).then_some(ReceiveBufferWarning { asked, got })
    }

    /// Takes in what was reported, at most `budget` reports, without waiting.
    ///
    /// # Errors
    /// The socket fails; lost reports are no error but news.
    pub fn receive(&mut self, budget: usize) -> Result<News, SysError> {
        let mut news = News {
            more: true,
            ..News::default()
        };
        for _ in 0..budget {
            let view = &mut self.view;
            let each = |notice| {
                if let Notice::LinkGone(index) = &notice {
                    news.gone.push(*index);
                }
                news.triggers.extend(view.apply(&notice));
            };
            match self.subscription.receive(each)? {
                Received::Notices => {}
                Received::Nothing => {
                    news.more = false;
                    break;
                }
                Received::Lost(loss) => self.lost(loss, &mut news),
            }
        }
        Ok(news)
    }

    fn lost(&mut self, loss: Loss, news: &mut News) {
        self.losses.count(loss);
        self.view.lose();
        news.lost = true;
    }

    /// Makes the view anew from what there is. What waits to be received is thrown away: it is
    /// older, and after an overrun the kernel reports nothing until all of it was taken.
    ///
    /// # Errors
    /// Links or neighbours cannot be listed; there is no view then, and everything that may matter
    /// calls for a sweep.
    pub fn dump(&mut self) -> Result<(), SysError> {
        self.view.lose();
        self.drain()?;
        self.look()?;
        self.resyncs += 1;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), SysError> {
        for _ in 0..MAX_DRAINED {
            match self.subscription.receive(drop)? {
                Received::Nothing => return Ok(()),
                Received::Notices => {}
                Received::Lost(loss) => self.losses.count(loss),
            }
        }
        Err(SysError::new(
            "catch up with",
            "changes of routes",
            libc::EAGAIN,
        ))
    }

    fn look(&mut self) -> Result<(), SysError> {
        let links = netdev::all()?;
        self.view.fill(&links, &routing::all_neighbours()?);
        Ok(())
    }

    /// Says which shards matter: all members, candidates and static SIDs. From now on changes of
    /// routes to their /64s are news. A /64 that was not watched is news itself, as what happened to
    /// its route until now was passed over; who resolves after this call needs not be told.
    pub fn watch(&mut self, sids: impl IntoIterator<Item = BaseSid>) -> News {
        let added = self.view.watch(sids);
        News {
            triggers: added.then_some(Trigger::Route).into_iter().collect(),
            ..News::default()
        }
    }

    /// The uplinks and the neighbours on them as last heard of; none since something was lost.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        self.view.state()
    }

    /// How often changes were lost.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// How often the view was made anew.
    #[must_use]
    pub const fn resyncs(&self) -> u64 {
        self.resyncs
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::machine::{Action, Timing};

    #[test]
    fn whatever_is_lost_costs_the_view_and_asks_for_another() {
        // Anybody may listen; what links there are makes no difference.
        let mut monitor = Monitor::open(&["up0".parse().unwrap()]).unwrap();
        for (losses, loss) in (1..).zip([Loss::Overrun, Loss::Truncated, Loss::Malformed]) {
            assert!(monitor.state().is_some());
            let mut news = News::default();
            monitor.lost(loss, &mut news);
            assert_eq!(monitor.losses().total(), losses, "{loss:?}");
            assert_eq!(monitor.state(), None, "{loss:?}");

            let now = Duration::ZERO;
            let mut machine = Machine::new(Timing::default(), now);
            assert!(matches!(machine.poll(now), Action::Sweep(_)));
            news.tell(&mut machine, now);
            assert_eq!(machine.poll(now), Action::Dump, "{loss:?}");
            monitor.dump().unwrap();
            assert_eq!(monitor.resyncs(), losses);
        }
        let Losses {
            overrun,
            truncated,
            malformed,
        } = monitor.losses();
        assert_eq!([overrun, truncated, malformed], [1, 1, 1]);
    }
}
