// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A grace for neighbours that are lost for a moment.
//!
//! Who is declared unreachable loses tenants for good: they are placed elsewhere and stay there. A
//! route that is withdrawn says that a shard is gone and counts at once. A neighbour without an
//! address under a route that stands may be no more than an entry that the kernel collected and
//! finds again; it counts when it has lasted. What comes back counts at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Unreached;
use crate::srv6::{BaseSid, NextHop};

type Found = BTreeMap<BaseSid, Result<NextHop, Unreached>>;

/// The last next hop of each shard, and since when a neighbour is lost.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::time::Duration;
/// use guideway::addr::MacAddr;
/// use guideway::control::hold::HoldDown;
/// use guideway::control::Unreached;
/// use guideway::srv6::{Mtu, NextHop};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sid = "2001:db8:ff09:10:e000::".parse()?;
/// let mac = |last| MacAddr::new([2, 0, 0, 0, 0, last]);
/// let next_hop = NextHop::new(2, mac(1), mac(2), Mtu::UNCHECKED)?;
/// let ms = Duration::from_millis;
///
/// let mut hold = HoldDown::new(ms(1_000));
/// let found = hold.apply(BTreeMap::from([(sid, Ok(next_hop))]), ms(0));
/// assert_eq!(found[&sid], Ok(next_hop));
/// let lost = BTreeMap::from([(sid, Err(Unreached::NoNeighbour))]);
/// assert_eq!(hold.apply(lost.clone(), ms(500))[&sid], Ok(next_hop));
/// assert_eq!(hold.until(), Some(ms(1_500)));
/// assert_eq!(hold.apply(lost, ms(1_500))[&sid], Err(Unreached::NoNeighbour));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HoldDown {
    hold: Duration,
    last: BTreeMap<BaseSid, Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    next_hop: NextHop,
    lost_since: Option<Duration>,
}

impl HoldDown {
    /// A loss counts when it has lasted so long; 0 for at once.
    #[must_use]
    pub const fn new(hold: Duration) -> Self {
        Self {
            hold,
            last: BTreeMap::new(),
        }
    }

    /// Another time from now on, also for losses that last already.
    pub fn set(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Takes a next hop that is published for the last one, where none is known: a neighbour that is
    /// lost while nobody looked has its time, too.
    pub fn remember(&mut self, sid: BaseSid, next_hop: NextHop) {
        let lost_since = None;
        self.last.entry(sid).or_insert(Last {
            next_hop,
            lost_since,
        });
    }

    /// What counts of what was found now: a lost neighbour's last next hop until its time is up.
    /// Shards that were not asked for are forgotten.
    #[must_use]
    pub fn apply(&mut self, found: Found, now: Duration) -> Found {
        self.last.retain(|sid, _| found.contains_key(sid));
        let counts = |(sid, found)| (sid, self.one(sid, found, now));
        found.into_iter().map(counts).collect()
    }

    fn one(
        &mut self,
        sid: BaseSid,
        found: Result<NextHop, Unreached>,
        now: Duration,
    ) -> Result<NextHop, Unreached> {
        match found {
            Ok(next_hop) => {
                let lost_since = None;
                self.last.insert(
                    sid,
                    Last {
                        next_hop,
                        lost_since,
                    },
                );
                Ok(next_hop)
            }
            Err(Unreached::NoNeighbour) => {
                let held = self.last.get_mut(&sid).and_then(|last| {
                    let since = *last.lost_since.get_or_insert(now);
                    (now.saturating_sub(since) < self.hold).then_some(last.next_hop)
                });
                held.ok_or_else(|| {
                    self.last.remove(&sid);
                    Unreached::NoNeighbour
                })
            }
            Err(other) => {
                self.last.remove(&sid);
                Err(other)
            }
        }
    }

    /// Shards whose neighbour is lost and whose time is not up.
    pub fn held(&self) -> impl Iterator<Item = BaseSid> + '_ {
        let lost = |(&sid, last): (&BaseSid, &Last)| last.lost_since.map(|_| sid);
        self.last.iter().filter_map(lost)
    }

    /// When the first of them must be looked at again.
    #[must_use]
    pub fn until(&self) -> Option<Duration> {
        let ends = self.last.values().filter_map(|last| last.lost_since);
        ends.map(|since| since.saturating_add(self.hold)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::MacAddr;
    use crate::srv6::Mtu;

    const HOLD: Duration = Duration::from_millis(1_000);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sid(node: u8) -> BaseSid {
        format!("2001:db8:ff09:{node:x}:e000::").parse().unwrap()
    }

    fn next_hop(last: u8) -> NextHop {
        let mac = |last| MacAddr::new([2, 0, 0, 0, 0, last]);
        NextHop::new(2, mac(1), mac(last), Mtu::UNCHECKED).unwrap()
    }

    fn one(
        hold: &mut HoldDown,
        found: Result<NextHop, Unreached>,
        now: u64,
    ) -> Result<NextHop, Unreached> {
        hold.apply(Found::from([(sid(1), found)]), ms(now))
            .remove(&sid(1))
            .unwrap()
    }

    #[test]
    fn a_route_counts_at_once_in_both_directions() {
        for gone in [Unreached::NoRoute, Unreached::NotUplink("lo".into())] {
            let mut hold = HoldDown::new(HOLD);
            assert_eq!(one(&mut hold, Ok(next_hop(9)), 0), Ok(next_hop(9)));
            assert_eq!(one(&mut hold, Err(gone.clone()), 1), Err(gone.clone()));
            assert_eq!(hold.until(), None);
            // A route that comes back without a neighbour has nothing to hold on to.
            assert_eq!(
                one(&mut hold, Err(Unreached::NoNeighbour), 2),
                Err(Unreached::NoNeighbour)
            );
            assert_eq!(one(&mut hold, Ok(next_hop(8)), 3), Ok(next_hop(8)));
            // It goes while the neighbour is lost.
            assert_eq!(
                one(&mut hold, Err(Unreached::NoNeighbour), 4),
                Ok(next_hop(8))
            );
            assert_eq!(one(&mut hold, Err(gone.clone()), 5), Err(gone));
            assert_eq!(hold.until(), None);
        }
    }

    #[test]
    fn what_is_published_is_held_to_as_if_it_had_been_seen() {
        let mut hold = HoldDown::new(HOLD);
        let lost = || Err(Unreached::NoNeighbour);
        hold.remember(sid(1), next_hop(9));
        assert_eq!(one(&mut hold, lost(), 10), Ok(next_hop(9)));
        assert_eq!(hold.until(), Some(ms(1_010)));
        // What was seen since is not taken back.
        hold.remember(sid(1), next_hop(8));
        assert_eq!(one(&mut hold, lost(), 1_009), Ok(next_hop(9)));
        assert_eq!(one(&mut hold, lost(), 1_010), lost());
        hold.remember(sid(1), next_hop(9));
        let gone = Err(Unreached::NoRoute);
        assert_eq!(one(&mut hold, gone.clone(), 1_020), gone);
    }

    #[test]
    fn a_neighbour_counts_as_lost_when_it_has_lasted() {
        let mut hold = HoldDown::new(HOLD);
        let lost = || Err(Unreached::NoNeighbour);
        assert_eq!(one(&mut hold, lost(), 0), lost(), "never seen");
        assert_eq!(hold.until(), None);
        assert_eq!(one(&mut hold, Ok(next_hop(9)), 10), Ok(next_hop(9)));
        for now in [500, 900, 1_499] {
            assert_eq!(one(&mut hold, lost(), now), Ok(next_hop(9)), "{now}");
            assert_eq!(hold.until(), Some(ms(1_500)), "from the first loss");
            assert_eq!(hold.held().collect::<Vec<_>>(), [sid(1)]);
        }
        assert_eq!(one(&mut hold, lost(), 1_500), lost());
        assert_eq!((hold.until(), hold.held().count()), (None, 0));
        assert_eq!(one(&mut hold, lost(), 1_501), lost());
        assert_eq!(
            one(&mut hold, Ok(next_hop(9)), 1_502),
            Ok(next_hop(9)),
            "back at once"
        );
    }

    #[test]
    fn a_blip_begins_anew_each_time() {
        let mut hold = HoldDown::new(HOLD);
        for begin in (0..10_000).step_by(1_000) {
            assert!(one(&mut hold, Ok(next_hop(9)), begin).is_ok());
            assert!(one(&mut hold, Err(Unreached::NoNeighbour), begin + 50).is_ok());
            assert!(one(&mut hold, Err(Unreached::NoNeighbour), begin + 950).is_ok());
        }
        // It comes back with another address.
        assert_eq!(one(&mut hold, Ok(next_hop(8)), 10_000), Ok(next_hop(8)));
        assert_eq!(
            one(&mut hold, Err(Unreached::NoNeighbour), 10_001),
            Ok(next_hop(8))
        );
    }

    #[test]
    fn shards_are_held_apart_and_forgotten_when_not_asked_for() {
        let mut hold = HoldDown::new(HOLD);
        let lost = || Err(Unreached::NoNeighbour);
        let all = |founds: [Result<NextHop, Unreached>; 2]| {
            Found::from_iter([sid(1), sid(2)].into_iter().zip(founds))
        };
        drop(hold.apply(all([Ok(next_hop(1)), Ok(next_hop(2))]), ms(0)));
        drop(hold.apply(all([lost(), Ok(next_hop(2))]), ms(100)));
        drop(hold.apply(all([lost(), lost()]), ms(300)));
        assert_eq!(hold.until(), Some(ms(1_100)));
        let found = hold.apply(all([lost(), lost()]), ms(1_100));
        assert_eq!(found, all([lost(), Ok(next_hop(2))]));
        assert_eq!(hold.until(), Some(ms(1_300)));
        drop(hold.apply(Found::new(), ms(1_200)));
        assert_eq!(hold.until(), None);
        assert_eq!(
            hold.apply(all([lost(), lost()]), ms(1_200)),
            all([lost(), lost()])
        );
    }

    #[test]
    fn without_a_hold_a_loss_counts_at_once() {
        let mut hold = HoldDown::new(Duration::ZERO);
        assert!(one(&mut hold, Ok(next_hop(9)), 0).is_ok());
        assert_eq!(
            one(&mut hold, Err(Unreached::NoNeighbour), 0),
            Err(Unreached::NoNeighbour)
        );
        // Changed while a loss lasts.
        let mut hold = HoldDown::new(HOLD);
        assert!(one(&mut hold, Ok(next_hop(9)), 0).is_ok());
        assert!(one(&mut hold, Err(Unreached::NoNeighbour), 0).is_ok());
        hold.set(ms(100));
        assert_eq!(hold.until(), Some(ms(100)));
        assert!(one(&mut hold, Err(Unreached::NoNeighbour), 100).is_err());
    }
}
