// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The servers behind the balancers, their upgrades, and the table that is published for them.

use std::collections::BTreeSet;

use guideway::affinity::rules::Standing;
use guideway::maglev::{BuildError, Member, Scratch, Table, TableSize};
use guideway::service::BackendState;

use crate::random::{Random, DOWNTIMES};

/// Servers by row.
pub(crate) struct Fleet {
    servers: Vec<Server>,
    table: Table<u16>,
    scratch: Scratch,
}

struct Server {
    /// What it is known by in the table.
    key: String,
    /// Who comes back after an upgrade is another one in the same row: the connections ended when
    /// the server went.
    incarnation: u16,
    /// None while it is away.
    state: Option<BackendState>,
}

/// Who answers a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) row: u16,
    pub(crate) incarnation: u16,
}

impl Fleet {
    pub(crate) fn new(servers: u16) -> Result<Self, BuildError> {
        let servers: Vec<_> = (1..=servers)
            .map(|id| Server {
                key: id.to_string(),
                incarnation: 1,
                state: Some(BackendState::Ready),
            })
            .collect();
        let mut scratch = Scratch::new();
        Ok(Self {
            table: build(&servers, &mut scratch)?,
            servers,
            scratch,
        })
    }

    /// The row that owns each slot.
    pub(crate) fn owners(&self) -> &[u16] {
        self.table.slots()
    }

    /// The server in a row, as packets see it.
    pub(crate) fn standing(&self, row: u16) -> Option<Standing> {
        let server = self.servers.get(usize::from(row))?;
        Some(Standing {
            state: server.state?,
            incarnation: server.incarnation.into(),
        })
    }

    /// The server that is in a row now.
    pub(crate) fn bound(&self, row: u16) -> Option<Bound> {
        let server = self.servers.get(usize::from(row))?;
        let incarnation = server.incarnation;
        server.state.map(|_| Bound { row, incarnation })
    }

    /// The row that owns a slot.
    pub(crate) fn owner(&self, slot: u32) -> Option<u16> {
        let row = *self.owners().get(slot as usize)?;
        (usize::from(row) < self.servers.len()).then_some(row)
    }

    pub(crate) fn rows(&self) -> u16 {
        self.servers.len() as u16
    }

    fn ready(&self) -> Vec<u16> {
        (0..self.rows())
            .filter(|&row| self.servers[usize::from(row)].state == Some(BackendState::Ready))
            .collect()
    }

    fn set(&mut self, row: u16, state: Option<BackendState>) {
        let server = &mut self.servers[usize::from(row)];
        server.state = state;
        server.incarnation += u16::from(state.is_none());
    }

    fn rebuild(&mut self) -> Result<(), BuildError> {
        self.table = build(&self.servers, &mut self.scratch)?;
        Ok(())
    }
}

/// The table of the servers that take new connections.
fn build(servers: &[Server], scratch: &mut Scratch) -> Result<Table<u16>, BuildError> {
    let members: Vec<_> = (0..)
        .zip(servers)
        .filter(|(_, server)| server.state == Some(BackendState::Ready))
        .map(|(row, server)| Member::new(server.key.as_bytes(), row, 1))
        .collect();
    Table::build_with(scratch, TableSize::SERVICE, &members)
}

/// When servers go and come back.
pub(crate) struct Updates {
    random: Random,
    /// Mean time from one to the next, in seconds.
    gap: f64,
    /// For how long a server takes no new connections before it goes, in seconds.
    drain: f64,
    next: f64,
    upgrades: Vec<Upgrade>,
}

/// A server that drains or is away.
#[derive(Debug, Clone, Copy)]
struct Upgrade {
    row: u16,
    goes: f64,
    returns: f64,
}

/// A publication.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Rows of servers that are gone.
    pub(crate) removed: BTreeSet<u16>,
}

impl Updates {
    pub(crate) fn new(mut random: Random, per_minute: u32, drain: u32) -> Self {
        let gap = 60.0 / f64::from(per_minute);
        Self {
            next: random.exponential(gap),
            random,
            gap,
            drain: drain.into(),
            upgrades: Vec::new(),
        }
    }

    /// Lets everything happen that is due by `now`, and builds the table for it.
    pub(crate) fn happen(
        &mut self,
        now: f64,
        fleet: &mut Fleet,
    ) -> Result<Option<Change>, BuildError> {
        let mut change = Change::default();
        let mut is_changed = false;
        self.upgrades.retain(|upgrade| {
            if upgrade.returns <= now {
                fleet.set(upgrade.row, Some(BackendState::Ready));
                is_changed = true;
            }
            upgrade.returns > now
        });
        while self.next <= now {
            let goes = self.next + self.drain;
            let returns = goes + self.random.draw(&DOWNTIMES);
            self.next += self.random.exponential(self.gap);
            let ready = fleet.ready();
            // The last one stays.
            if ready.len() > 1 {
                let row = ready[self.random.below(ready.len())];
                fleet.set(row, Some(BackendState::Draining));
                self.upgrades.push(Upgrade { row, goes, returns });
                is_changed = true;
            }
        }
        for upgrade in &self.upgrades {
            if upgrade.goes <= now && fleet.bound(upgrade.row).is_some() {
                fleet.set(upgrade.row, None);
                change.removed.insert(upgrade.row);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(None);
        }
        fleet.rebuild()?;
        Ok(Some(change))
    }
}
