// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the processes of a node in memory share.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::process::{Life, Pid};
use crate::abi::{self, RouteKind};
use crate::control::kernel::{Groups, PinCounts, RouteChange, Routes};
use crate::control::observed::{Damage, SenselessRoute};
use crate::egress::{Changed, InstanceError, RouteError, Subject, TicketError};
use crate::egress_spec::RouteTarget;
use crate::group::{Class, Generation, GroupId, HighWater, Limits, Slot, Snapshot, State as Phase};
use crate::oracle::egress::{Pins, World};
use crate::placement::Scope;
use crate::route::{Block, Key, Origin, Route, TableId, Target};
use crate::srv6::Argument;
use crate::tenant::Tenant;

/// The slot generations that a process has used, by group.
pub(super) type Marks = BTreeMap<GroupId, HighWater>;

/// One taking of the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hold(u64);

pub(super) struct State {
    pub(super) now: Duration,
    pub(super) world: World,
    pub(super) senseless: BTreeMap<Key, abi::Route>,
    /// Groups that are damaged, and whether it is known what they are.
    pub(super) damaged: BTreeMap<GroupId, bool>,
    pub(super) pins: Pins,
    /// How many routes there is room for.
    pub(super) room: usize,
    pub(super) pids: u64,
    pub(super) lives: BTreeMap<Pid, Life>,
    holds: u64,
    /// Who holds the barrier, and whether alone.
    held: BTreeMap<Hold, (Pid, bool)>,
    /// Who waits to hold it alone: nobody else gets in before.
    gate: Option<Pid>,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            now: Duration::from_secs(1),
            world: World {
                limits,
                tenants: BTreeMap::new(),
                routes: BTreeMap::new(),
                groups: BTreeMap::new(),
                encap: None,
            },
            senseless: BTreeMap::new(),
            damaged: BTreeMap::new(),
            pins: Pins::with_capacity(65_536, 65_536),
            room: 32_768,
            pids: 0,
            lives: BTreeMap::new(),
            holds: 0,
            held: BTreeMap::new(),
            gate: None,
        }
    }

    /// Ends a process: what it holds is given back.
    pub(super) fn kill(&mut self, pid: Pid) {
        self.lives.entry(pid).or_default().kill();
        self.held.retain(|_, (holder, _)| *holder != pid);
        if self.gate == Some(pid) {
            self.gate = None;
        }
    }

    /// Takes the barrier if it is free; whether it was.
    pub(super) fn take(&mut self, pid: Pid, alone: bool) -> Option<Hold> {
        let barred = match alone {
            true => !self.held.is_empty(),
            false => self.held.values().any(|(_, alone)| *alone),
        };
        if barred || self.gate.is_some_and(|waiting| waiting != pid) {
            if alone {
                self.gate.get_or_insert(pid);
            }
            return None;
        }
        self.gate = None;
        self.holds += 1;
        let hold = Hold(self.holds);
        self.held.insert(hold, (pid, alone));
        Some(hold)
    }

    /// Waits no longer.
    pub(super) fn give_up(&mut self, pid: Pid) {
        if self.gate == Some(pid) {
            self.gate = None;
        }
    }

    pub(super) fn give_back(&mut self, hold: Hold) {
        self.held.remove(&hold);
    }

    pub(super) fn is_lost(&self, group: GroupId) -> bool {
        self.damaged.get(&group) == Some(&false)
    }

    pub(super) fn groups(&self) -> Groups {
        let groups = self.world.groups.values();
        let known = groups.filter(|live| !self.is_lost(live.group));
        let damage = |(&group, _)| {
            let why = format!("group {group} was damaged");
            let remedy = Some("make another node");
            (group, Damage { why, remedy })
        };
        Groups {
            known: known.cloned().collect(),
            damaged: self.damaged.iter().map(damage).collect(),
        }
    }

    pub(super) fn routes(&self) -> Routes {
        let senseless = self.senseless.iter();
        let senseless = senseless.filter_map(|(key, row)| {
            let error = Route::from_row(key, row).err()?;
            let names = row.kind == RouteKind::GW_ROUTE_GROUP.0 as u8;
            let senseless = SenselessRoute {
                origin: Origin(row.origin),
                group: GroupId::new(row.group_id).filter(|_| names),
                error,
            };
            Some((*key, senseless))
        });
        Routes {
            by_key: self.world.routes.clone(),
            senseless: senseless.collect(),
            unreadable: Vec::new(),
        }
    }

    pub(super) fn put_row(&mut self, key: Key, row: abi::Route) {
        match Route::from_row(&key, &row) {
            Ok(route) => {
                self.senseless.remove(&key);
                self.world.routes.insert(key, route);
            }
            Err(_) => {
                self.world.routes.remove(&key);
                self.senseless.insert(key, row);
            }
        }
    }

    /// Pins that hold, idle or not, by the tenure that holds them.
    pub(super) fn live_pins(&self) -> PinCounts {
        let mut counts = PinCounts::new();
        for (holder, pin) in self.pins.pins.iter().filter(|(_, pin)| !pin.dead) {
            let held = Slot::new(pin.slot.into()).zip(Generation::new(pin.generation));
            let Some((slot, generation)) = held else {
                continue;
            };
            let live = self.world.groups.get(&holder.group);
            let member = live.and_then(|live| live.member(slot));
            if member.is_some_and(|member| member.generation == generation) {
                *counts.entry((holder.group, slot, generation)).or_default() += 1;
            }
        }
        counts
    }

    /// The tenant of a table at one of its interfaces.
    fn tenant(&self, table: TableId) -> Option<Tenant> {
        let mut rows = self.world.tenants.values();
        rows.find(|tenant| tenant.table == table).copied()
    }

    /// The group that takes routes of a class.
    pub(super) fn open(&self, class: Class) -> Result<&Snapshot, TicketError> {
        let rank = |state| match state {
            Phase::Open => 0,
            Phase::Closing => 1,
            Phase::Disabled => 2,
        };
        let claims = self.world.groups.values();
        let claims = claims.filter(|live| live.class == class && !self.is_lost(live.group));
        let claims: Vec<_> = claims.collect();
        let mut damaged = self.damaged.keys();
        if let (true, Some(&lost)) = (
            claims.is_empty(),
            damaged.find(|group| self.is_lost(**group)),
        ) {
            return Err(lost_group(lost).into());
        }
        let best = claims.iter().map(|live| rank(live.state)).min();
        let claims = claims
            .into_iter()
            .filter(|live| Some(rank(live.state)) == best);
        let named = |group| {
            let routes = self.world.routes.values().filter_map(Route::group);
            routes.filter(|(named, _)| *named == group).count()
        };
        let live = claims.max_by_key(|live| (named(live.group), Reverse(live.group)));
        let live = live.ok_or(TicketError::NotPublished { class })?;
        let group = live.group;
        match live.state {
            Phase::Open => Ok(live),
            Phase::Closing => Err(TicketError::Closing { class, group }),
            Phase::Disabled => Err(TicketError::Disabled { class, group }),
        }
    }

    /// A route of a tenant to there.
    pub(super) fn led(
        &self,
        key: &Key,
        tenant: &Tenant,
        argument: Argument,
        to: RouteTarget,
    ) -> Result<Route, TicketError> {
        Ok(Route::new(match to {
            RouteTarget::Pass => Target::Pass,
            RouteTarget::Block(block) => Target::Block(block),
            RouteTarget::Shard { sid, next_hop } => Target::Shard {
                argument,
                sid,
                next_hop,
            },
            RouteTarget::Class(class) => {
                let live = self.open(class)?;
                let scope = Scope {
                    table: tenant.hash_table,
                    group: live.hash_group,
                };
                let (group, incarnation) = (live.group, live.incarnation);
                Target::group(argument, group, incarnation, scope, key.prefix)
            }
        }))
    }

    /// Makes one change of the loop's.
    pub(super) fn change(
        &mut self,
        change: &RouteChange,
    ) -> Result<Changed, crate::control::kernel::KernelError> {
        let key = change.key();
        match change {
            RouteChange::Insert { to, .. } => {
                let rows = self.world.tenants.values();
                let mut rows = rows.filter(|tenant| tenant.table == key.table && tenant.enabled);
                let Some(tenant) = rows.next().copied() else {
                    return Ok(Changed::Orphaned);
                };
                let route = self.led(&key, &tenant, tenant.argument, *to)?;
                if self.world.routes.contains_key(&key) {
                    return Ok(Changed::Other);
                }
                self.write(key, route)?;
            }
            RouteChange::Exchange { before, to, .. } => {
                let tenant = self.tenant(key.table);
                let argument = before.argument().or(tenant.map(|tenant| tenant.argument));
                let led = match (to, tenant, argument) {
                    (RouteTarget::Pass, ..) => Target::Pass,
                    (RouteTarget::Block(block), ..) => Target::Block(*block),
                    (&RouteTarget::Shard { sid, next_hop }, _, Some(argument)) => Target::Shard {
                        argument,
                        sid,
                        next_hop,
                    },
                    (_, Some(tenant), Some(argument)) => {
                        self.led(&key, &tenant, argument, *to)?.target
                    }
                    _ => return Ok(Changed::Orphaned),
                };
                match self.world.routes.get_mut(&key) {
                    Some(route) if route == before => route.target = led,
                    _ => return Ok(Changed::Other),
                }
            }
            RouteChange::Remove { before, .. } => {
                if self.world.routes.get(&key) != Some(before) {
                    return Ok(Changed::Other);
                }
                self.world.routes.remove(&key);
            }
            RouteChange::Mend { .. } => {
                if self.senseless.remove(&key).is_none() {
                    return Ok(Changed::Other);
                }
                let route = Route::new(Target::Block(Block::Drop));
                self.world.routes.insert(key, route);
            }
        }
        Ok(Changed::Done)
    }

    /// Writes a route, whatever was there.
    pub(super) fn write(&mut self, key: Key, route: Route) -> Result<(), RouteError> {
        let is_new = !self.world.routes.contains_key(&key) && !self.senseless.contains_key(&key);
        if is_new && self.world.routes.len() + self.senseless.len() >= self.room {
            return Err(RouteError::Full {
                what: "routes",
                max: u32::try_from(self.room).unwrap_or(u32::MAX),
            });
        }
        self.senseless.remove(&key);
        self.world.routes.insert(key, route);
        Ok(())
    }
}

/// As if nothing in the state directory were what packets see.
pub(super) fn lost_group(group: GroupId) -> InstanceError {
    InstanceError::Orphan {
        what: Subject::Group(group),
        id: 0,
        path: "memory".to_owned(),
    }
}
