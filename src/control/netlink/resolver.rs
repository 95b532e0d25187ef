// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How shards are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use super::keep::{Keeper, Unkept};
use super::view::locator;
use crate::addr::MacAddr;
use crate::control::hold::HoldDown;
use crate::control::{Reachability, Unreached};
use crate::error::ErrorKind;
use crate::group::Snapshot;
use crate::id::InterfaceName;
use crate::kernel::netdev::{self, Interface};
use crate::kernel::routing::{self, NeighbourEntry, NeighbourKey, Way};
use crate::kernel::SysError;
use crate::srv6::{BaseSid, Mtu, NextHop};

/// Finds the next hop of each shard, by asking the kernel each time.
///
/// It works in the network namespace of the thread that calls it.
#[derive(Debug)]
pub struct Resolver {
    names: Vec<InterfaceName>,
    hold: HoldDown,
    keeper: Option<Keeper>,
    failures: Failures,
}

/// Why a resolver cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolverError {
    /// The process lacks the right to have neighbours kept.
    #[error("cannot keep next hops alive: missing right: CAP_NET_ADMIN")]
    Permission,
    /// The kernel cannot be asked.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl ResolverError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Permission => ErrorKind::Permission,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// The way to each shard that was asked for. A neighbour that was lost a moment ago counts as
    /// what it was.
    pub reachability: Reachability,
    /// Shards whose neighbour is lost and still counts.
    pub held: Vec<BaseSid>,
    /// Uplinks that do not exist.
    pub missing_uplinks: Vec<InterfaceName>,
    /// Next hops that the kernel did not agree to keep. The sweep goes on without that.
    pub unkept: Vec<Unkept>,
}

/// How many shards were not reached, counted again at each resolution, before any grace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failures {
    /// No route.
    pub no_route: u64,
    /// A route by another interface, or by an uplink that no packet can be sent through.
    pub not_uplink: u64,
    /// No address of the next hop.
    pub no_neighbour: u64,
}

impl std::ops::Add for Failures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            no_route: self.no_route + other.no_route,
            not_uplink: self.not_uplink + other.not_uplink,
            no_neighbour: self.no_neighbour + other.no_neighbour,
        }
    }
}

impl Failures {
    fn count(&mut self, unreached: &Unreached) {
        match unreached {
            Unreached::NoRoute => self.no_route += 1,
            Unreached::NotUplink(_) | Unreached::NoNextHop(_) => self.not_uplink += 1,
            Unreached::NoNeighbour => self.no_neighbour += 1,
        }
    }
}

impl Resolver {
    /// Only asks, and tells what is so now without any grace: for who looks and changes nothing.
    #[must_use]
    pub fn looking(uplinks: &[InterfaceName]) -> Self {
        Self {
            names: uplinks.to_vec(),
            hold: HoldDown::new(Duration::ZERO),
            keeper: None,
            failures: Failures::default(),
        }
    }

    /// Asks, looks for neighbours that are missing without waiting for them, and has the kernel keep
    /// the next hops alive. A neighbour that is lost counts when that has lasted for `down_hold`.
    /// Takes CAP_NET_ADMIN. Nothing is changed yet.
    ///
    /// # Errors
    /// The right is missing, or the kernel cannot be asked.
    pub fn keeping(uplinks: &[InterfaceName], down_hold: Duration) -> Result<Self, ResolverError> {
        if !routing::may_order()? {
            return Err(ResolverError::Permission);
        }
        Ok(Self {
            hold: HoldDown::new(down_hold),
            keeper: Some(Keeper::default()),
            ..Self::looking(uplinks)
        })
    }

    /// Another `down_hold` from now on.
    pub fn set_down_hold(&mut self, down_hold: Duration) {
        self.hold.set(down_hold);
    }

    /// Takes what is published for what was found last, where nothing was found yet: a loop that begins
    /// while a neighbour is lost for a moment waits for it as one that runs.
    pub fn remember(&mut self, groups: &[Snapshot]) {
        let members = groups.iter().filter(|group| group.forwards());
        for member in members.flat_map(|group| &group.members) {
            if let Some(next_hop) = member.next_hop {
                self.hold.remember(member.sid, next_hop);
            }
        }
    }

    /// The way to each of `sids` now. Neighbours that none of them needs are no longer kept.
    ///
    /// Nobody is waited for: one without an address is not reached, and looked for; when it
    /// answers, that is news.
    ///
    /// # Errors
    /// The kernel cannot be asked: nothing is known then. What was held goes on being held.
    pub fn resolve(
        &mut self,
        sids: &BTreeSet<BaseSid>,
        now: Duration,
    ) -> Result<Resolution, SysError> {
        let links = routing::links(&self.names)?;
        let missing_uplinks = (self.names.iter().zip(&links))
            .filter(|(_, link)| link.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        let hops = Hops::find(sids, links.into_iter().flatten())?;
        let unkept = match &mut self.keeper {
            Some(keeper) => keeper.keep(&hops.neighbours, &hops.idle)?,
            None => Vec::new(),
        };
        let mut found = BTreeMap::new();
        for &sid in sids {
            let next_hop = hops.next_hop(sid);
            if let Err(unreached) = &next_hop {
                self.failures.count(unreached);
            }
            found.insert(sid, next_hop);
        }
        Ok(Resolution {
            reachability: Reachability(self.hold.apply(found, now)),
            held: self.hold.held().collect(),
            missing_uplinks,
            unkept,
        })
    }

    /// When the neighbour that was lost first must be looked at again, for
    /// [`Machine::swept`](crate::control::machine::Machine::swept).
    #[must_use]
    pub fn hold_until(&self) -> Option<Duration> {
        self.hold.until()
    }

    /// How often which shards were not reached.
    #[must_use]
    pub const fn failures(&self) -> Failures {
        self.failures
    }
}

/// What the kernel says at one time.
struct Hops {
    uplinks: BTreeMap<u32, Interface>,
    /// By /64: the shards of one node share its way.
    ways: BTreeMap<u64, Result<Way, Unreached>>,
    neighbours: BTreeMap<NeighbourKey, Option<NeighbourEntry>>,
    /// Neighbours at uplinks without a carrier.
    idle: BTreeSet<NeighbourKey>,
}

impl Hops {
    fn find(
        sids: &BTreeSet<BaseSid>,
        links: impl Iterator<Item = Interface>,
    ) -> Result<Self, SysError> {
        let mut hops = Self {
            uplinks: links.map(|link| (link.index, link)).collect(),
            ways: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            idle: BTreeSet::new(),
        };
        hops.find_ways(sids)?;
        let keys = sids.iter().filter_map(|&sid| hops.key(sid).ok());
        let (alive, idle): (BTreeSet<_>, _) =
            keys.partition(|&(ifindex, _)| hops.uplinks.get(&ifindex).is_some_and(|up| up.carrier));
        let alive: Vec<_> = alive.into_iter().collect();
        let entries = routing::neighbours(&alive)?;
        hops.neighbours = alive.into_iter().zip(entries).collect();
        hops.idle = idle;
        Ok(hops)
    }

    fn find_ways(&mut self, sids: &BTreeSet<BaseSid>) -> Result<(), SysError> {
        let first: BTreeMap<_, _> = (sids.iter().rev())
            .map(|&sid| (locator(sid), Ipv6Addr::from(sid)))
            .collect();
        let destinations: Vec<_> = first.values().copied().collect();
        let mut strangers = BTreeMap::new();
        for (locator, way) in first.into_keys().zip(routing::ways(&destinations)?) {
            let way = match way {
                None => Err(Unreached::NoRoute),
                Some(way) if self.uplinks.contains_key(&way.ifindex) => Ok(way),
                Some(way) => {
                    let name = match strangers.get(&way.ifindex) {
                        Some(name) => String::clone(name),
                        None => name(way.ifindex)?,
                    };
                    strangers.insert(way.ifindex, name.clone());
                    Err(Unreached::NotUplink(name))
                }
            };
            self.ways.insert(locator, way);
        }
        Ok(())
    }

    fn way(&self, sid: BaseSid) -> Result<Way, Unreached> {
        let way = self.ways.get(&locator(sid)).cloned();
        way.unwrap_or(Err(Unreached::NoRoute))
    }

    /// Who is the next hop.
    fn key(&self, sid: BaseSid) -> Result<NeighbourKey, Unreached> {
        let way = self.way(sid)?;
        Ok((way.ifindex, way.gateway.unwrap_or_else(|| sid.into())))
    }

    fn next_hop(&self, sid: BaseSid) -> Result<NextHop, Unreached> {
        let way = self.way(sid)?;
        let Some(uplink) = self.uplinks.get(&way.ifindex) else {
            return Err(Unreached::NoRoute);
        };
        let entry = self.neighbours.get(&self.key(sid)?).copied().flatten();
        let mac = entry.and_then(|entry| entry.usable());
        let mac = mac.ok_or(Unreached::NoNeighbour)?;
        let bytes = way.mtu.map_or(uplink.mtu, |mtu| mtu.min(uplink.mtu));
        let mtu = Mtu::new(bytes).ok().filter(|&mtu| mtu != Mtu::UNCHECKED);
        let mtu = mtu.ok_or_else(|| {
            Unreached::NoNextHop(format!(
                "the way by {} has an MTU of {bytes}, less than {}",
                uplink.name,
                Mtu::MIN
            ))
        })?;
        let source = MacAddr::new(uplink.mac);
        NextHop::new(uplink.index, source, MacAddr::new(mac), mtu)
            .map_err(|error| Unreached::NoNextHop(format!("by {}: {error}", uplink.name)))
    }
}

fn name(ifindex: u32) -> Result<String, SysError> {
    let found = netdev::by_index(ifindex)?;
    Ok(found.map_or_else(|| format!("interface {ifindex}"), |found| found.name))
}
