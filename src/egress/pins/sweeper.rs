// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Removes pins.

use std::time::Instant;

use super::{Fate, Held, Pin, Report, SweepError, Tick};
use crate::abi::{self, PinKind, PinRemoval, PinScope, PinsResult};
use crate::group::{GroupId, Limits};
use crate::kernel::map::Map;
use crate::kernel::pin_object::{LoadError, Options, Remover};
use crate::kernel::routine::Routine;
use crate::route::TableId;

/// What goes by rule: pins that are idle or stale.
const EXPIRY: u32 = PinRemoval::GW_PINS_IDLE.0 | PinRemoval::GW_PINS_STALE.0;
/// Passes after which what is left is left.
const PASSES: u32 = 8;

/// The maps of an instance that pins are in, and those that say which are to go.
#[derive(Debug)]
pub struct Maps {
    /// `gw_groups`.
    pub groups: Map,
    /// `gw_pins`.
    pub sources: Map,
    /// `gw_flow_pins`.
    pub flows: Map,
    /// `gw_pin_use`.
    pub usage: Map,
    /// `gw_eg_stat`.
    pub counters: Map,
}

/// Which pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// All.
    All,
    /// A tenant's.
    Tenant(TableId),
    /// A group's.
    Group(GroupId),
    /// Those that are held to one tenure of a slot.
    Member(GroupId, Held),
}

/// One of the two tables of pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Pins of addresses.
    Sources,
    /// Pins of flows.
    Flows,
}

impl Table {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sources, Self::Flows];
}

/// Removes pins, in the kernel and beside packets.
///
/// A pin that packets use is removed by no rule, only by those methods that remove whatever is there.
/// Each call is a whole pass over both tables, which takes about 0.15 µs a pin, and 0.3 µs more
/// for each that goes: of a million about 0.15 s. Other threads on that CPU wait for it, packets do not.
///
/// There must be one sweeper of an instance at a time: whoever has one holds the instance's lock.
#[derive(Debug)]
pub struct Sweeper {
    remover: Remover,
}

impl Sweeper {
    /// Loads the programs around the maps of an instance whose groups have these limits. Takes
    /// CAP_BPF.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(maps: Maps, limits: Limits) -> Result<Self, LoadError> {
        let Maps {
            groups,
            sources,
            flows,
            usage,
            counters,
        } = maps;
        let options = Options {
            members: limits.members().into(),
            maps: &[groups, sources, flows, usage, counters],
            verifier_report: false,
        };
        let remover = options.load()?;
        Ok(Self { remover })
    }

    /// Counts pins, and removes none.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn count(&mut self, scope: Scope, now: Tick) -> Result<Report, SweepError> {
        self.pass(scope, 0, now)
    }

    /// Removes pins that are idle or stale, and those that an earlier pass left dead. One that a packet
    /// uses or renews meanwhile stays.
    ///
    /// `now` decides what is idle: a time to come takes pins that are in use.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn expire(&mut self, now: Tick) -> Result<Report, SweepError> {
        self.pass(Scope::All, EXPIRY, now)
    }

    /// As [`expire`](Self::expire), in one table alone: half a pass, for who has other things to do
    /// in between.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn expire_in(&mut self, table: Table, now: Tick) -> Result<Report, SweepError> {
        self.pass_over(&[table], Scope::All, EXPIRY, now)
    }

    /// Removes the pins of a group that name no tenure of a member as it is published, whether that
    /// member is reached or not. To be done before a publication whose slot generations begin a new
    /// round: what it removes could name one of those.
    ///
    /// The report of this pass must be [complete](Report::is_complete) before that publication.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn purge(&mut self, group: GroupId, now: Tick) -> Result<Report, SweepError> {
        self.repeat(Scope::Group(group), PinRemoval::GW_PINS_STALE, now)
    }

    /// Removes all pins of a tenant that goes. No packet may find its interface or routes any more:
    /// otherwise there are new ones at once.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn remove_tenant(&mut self, table: TableId, now: Tick) -> Result<Report, SweepError> {
        self.repeat(Scope::Tenant(table), PinRemoval::GW_PINS_OF_TENANT, now)
    }

    /// Removes pins that may be in use. Their next packets go where the group's table says, which may
    /// be another shard.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn remove(&mut self, scope: Scope, now: Tick) -> Result<Report, SweepError> {
        self.repeat(scope, PinRemoval::GW_PINS_CALLED, now)
    }

    /// Removes a pin that may be in use, if it still says what it said when it was read. Uses of it
    /// change nothing about that, being bound anew does.
    ///
    /// # Errors
    /// [`SweepError`].
    pub fn remove_pin(&mut self, pin: &Pin) -> Result<Fate, SweepError> {
        let mut context = abi::PinOne {
            bind: pin.bind(),
            kind: PinKind::GW_PIN_BY_SOURCE.0,
            ..Default::default()
        };
        match &pin.holder.flow {
            None => context.source = pin.holder.source_key(),
            Some(flow) => {
                let Some(key) = pin.holder.flow_key(flow) else {
                    return Ok(Fate::Gone);
                };
                context.kind = PinKind::GW_PIN_BY_FLOW.0;
                context.flow = key;
            }
        }
        let routine = &self.remover.one;
        let result = routine.call(&mut context)?;
        Fate::from_abi(context.fate)
            .filter(|_| result == PinsResult::GW_PINS_DONE.0)
            .ok_or_else(|| broken(routine, result))
    }

    /// Passes until nothing is left that was to go, or it is in vain.
    fn repeat(
        &mut self,
        scope: Scope,
        removal: PinRemoval,
        now: Tick,
    ) -> Result<Report, SweepError> {
        let mut report = self.pass(scope, removal.0, now)?;
        for _ in 1..PASSES {
            if report.is_complete() {
                break;
            }
            report.go_on(&self.pass(scope, removal.0, now)?);
        }
        Ok(report)
    }

    fn pass(&mut self, scope: Scope, removal: u32, now: Tick) -> Result<Report, SweepError> {
        self.pass_over(&Table::ALL, scope, removal, now)
    }

    fn pass_over(
        &mut self,
        tables: &[Table],
        scope: Scope,
        removal: u32,
        now: Tick,
    ) -> Result<Report, SweepError> {
        let started = Instant::now();
        let mut report = Report::default();
        for table in tables {
            let routine = match table {
                Table::Sources => &self.remover.sources,
                Table::Flows => &self.remover.flows,
            };
            let mut context = abi::PinPass {
                now_tick: now.get(),
                removal,
                ..scope.context()
            };
            let result = routine.call(&mut context)?;
            if result != PinsResult::GW_PINS_DONE.0 {
                return Err(broken(routine, result));
            }
            report.add(&context.counts);
        }
        report.duration = started.elapsed();
        Ok(report)
    }
}

fn broken(routine: &Routine, result: u32) -> SweepError {
    SweepError::Broken {
        program: routine.program().name().to_owned(),
        result,
    }
}

impl Scope {
    fn context(self) -> abi::PinPass {
        let mut context = abi::PinPass::default();
        match self {
            Self::All => {}
            Self::Tenant(table) => {
                context.scope = PinScope::GW_PINS_OF_TABLE.0;
                context.table_id = table.get();
            }
            Self::Group(group) => {
                context.scope = PinScope::GW_PINS_OF_GROUP.0;
                context.group_id = group.get().into();
            }
            Self::Member(group, held) => {
                context.scope = PinScope::GW_PINS_OF_GROUP.0 | PinScope::GW_PINS_OF_SLOT.0;
                context.group_id = group.get().into();
                context.slot = held.slot.get().into();
                context.generation = held.generation.get();
            }
        }
        context
    }
}
