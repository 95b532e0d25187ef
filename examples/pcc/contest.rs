// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! All policies under the same packets and the same changes of the table.

use guideway::maglev::{BuildError, TableSize};
use guideway::service::Tracking;

use crate::balancer::{Balancer, SECOND_NS};
use crate::fleet::{Bound, Fleet, Updates};
use crate::lru::Lru;
use crate::policy::{Policy, Stateless};
use crate::random::{Random, Stream, MEAN_DURATION};
use crate::several::{Several, BALANCERS};
use crate::traffic::{Packet, Traffic, STEP};

/// Where the clock stands at first. Time 0 would mean "never" where refusals are noted.
const BEGIN_NS: u64 = 1_000 * SECOND_NS;
const STEP_NS: u64 = (STEP * SECOND_NS as f64) as u64;
/// Steps from one look at the numbers of entries and open slots to the next.
const LOOK: usize = 20;
/// Entries of LRU tables, as shares of the connections at a time.
pub(crate) const LRU_SHARES: [f64; 6] = [0.25, 0.50, 0.75, 1.00, 1.50, 3.00];
/// Entries of a table that is too small, as a share of the connections at a time.
pub(crate) const SMALL_SHARE: f64 = 0.10;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    /// Connections at a time.
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    pub(crate) servers: u16,
    /// Seconds for which servers drain before they go.
    pub(crate) drain: u32,
}

impl Setup {
    /// Connections that traffic comes to in the whole run.
    pub(crate) fn expected(&self) -> u64 {
        (f64::from(self.connections) * f64::from(self.seconds) / MEAN_DURATION) as u64
    }
}

/// What came of one policy.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) policy: String,
    pub(crate) violations: u64,
    /// Connections of which the policy said that they may move.
    pub(crate) at_risk: u64,
    /// Violations of connections of which it did not.
    pub(crate) unforeseen: u64,
    pub(crate) entries_peak: usize,
    pub(crate) entries_mean: f64,
    /// Shares of the table's slots.
    pub(crate) open_peak: f64,
    pub(crate) open_mean: f64,
}

/// What came of one rate of updates.
#[derive(Debug, Clone)]
pub(crate) struct Contest {
    pub(crate) updates_per_minute: u32,
    /// Servers that were taken away.
    pub(crate) updates: u64,
    /// Connections that began.
    pub(crate) connections: u32,
    /// In the order of the table that is printed; the last has a table that is too small.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Contest {
    /// Simulates all policies.
    pub(crate) fn run(setup: &Setup, updates_per_minute: u32) -> Result<Self, BuildError> {
        let steps = (f64::from(setup.seconds) / STEP) as usize;
        let mut fleet = Fleet::new(setup.servers)?;
        let mut traffic = Traffic::new(setup.seed, setup.connections, steps);
        let random = Random::new(setup.seed, Stream::Updates);
        let mut updates = Updates::new(random, updates_per_minute, setup.drain);
        let mut entrants = entrants(setup, &fleet);
        // As each entrant sees them, those of a connection one after the other.
        let mut connections: Vec<Connection> = Vec::new();
        let mut removed = 0;
        for step in 0..steps {
            let now_ns = BEGIN_NS + step as u64 * STEP_NS;
            if let Some(change) = updates.happen(step as f64 * STEP, &mut fleet)? {
                removed += change.removed.len() as u64;
                for entrant in &mut entrants {
                    entrant.policy.publish(&change, &fleet, now_ns);
                }
            }
            for entrant in &mut entrants {
                entrant.policy.tick(&fleet, now_ns);
            }
            traffic.send(step, |packet| {
                let at = packet.connection as usize * entrants.len();
                if packet.starts {
                    connections.resize(at + entrants.len(), Connection::default());
                }
                for (entrant, connection) in entrants.iter_mut().zip(&mut connections[at..]) {
                    entrant.send(packet, connection, &fleet, now_ns);
                }
            });
            for entrant in &mut entrants {
                entrant.look(step % LOOK == 0);
            }
        }
        Ok(Self {
            updates_per_minute,
            updates: removed,
            connections: traffic.arrived(),
            outcomes: entrants.into_iter().map(Entrant::outcome).collect(),
        })
    }
}

/// The policies, in the order of the table that is printed.
fn entrants(setup: &Setup, fleet: &Fleet) -> Vec<Entrant> {
    let share = |share: f64| (share * f64::from(setup.connections)) as usize;
    let tracked = |tracking, capacity| Balancer::new(tracking, capacity, fleet, BEGIN_NS);
    let several = |exchange| {
        let balancer = |_| match exchange {
            true => Balancer::learning(fleet, BEGIN_NS),
            false => tracked(Tracking::All, usize::MAX),
        };
        let random = Random::new(setup.seed, Stream::Paths);
        Several::new(
            (0..BALANCERS).map(balancer).collect(),
            exchange,
            random,
            BEGIN_NS,
        )
    };
    let lru = LRU_SHARES.map(|of| Entrant::new(format!("lru-{of:.2}"), Lru::new(share(of))));
    let mut entrants = vec![Entrant::new("stateless", Stateless)];
    entrants.extend(lru);
    entrants.extend([
        Entrant::new("hash", tracked(Tracking::All, usize::MAX)),
        Entrant::new("exceptions", tracked(Tracking::Exceptions, usize::MAX)),
        Entrant::new("8lb-nosync", several(false)),
        Entrant::new("8lb-import", several(true)),
        Entrant::new(
            format!("exceptions-{SMALL_SHARE:.2}"),
            tracked(Tracking::Exceptions, share(SMALL_SHARE)),
        ),
    ]);
    entrants
}

/// A policy, and what came of it so far.
struct Entrant {
    name: String,
    policy: Box<dyn Policy>,
    violations: u64,
    at_risk: u64,
    unforeseen: u64,
    entries_peak: usize,
    entries_sum: usize,
    open_peak: u32,
    open_sum: u64,
    looks: u32,
}

/// A connection as a policy treats it.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    /// Who answered its first packet; none when it is over.
    server: Option<Bound>,
    at_risk: bool,
}

impl Entrant {
    fn new(name: impl Into<String>, policy: impl Policy + 'static) -> Self {
        Self {
            name: name.into(),
            policy: Box::new(policy),
            violations: 0,
            at_risk: 0,
            unforeseen: 0,
            entries_peak: 0,
            entries_sum: 0,
            open_peak: 0,
            open_sum: 0,
            looks: 0,
        }
    }

    /// Sends a packet, if its connection is not over. It is when its server has gone, which no
    /// balancer can help; or when a packet reaches another server: a violation.
    fn send(&mut self, packet: &Packet, connection: &mut Connection, fleet: &Fleet, now_ns: u64) {
        if !packet.starts {
            let is_there = |server: &Bound| fleet.bound(server.row) == Some(*server);
            connection.server = connection.server.filter(is_there);
            if connection.server.is_none() {
                return;
            }
        }
        let placed = self.policy.place(packet, fleet, now_ns);
        let reached = placed.row.and_then(|row| fleet.bound(row));
        if placed.at_risk && !connection.at_risk {
            connection.at_risk = true;
            self.at_risk += 1;
        }
        if packet.starts {
            connection.server = reached;
        } else if connection.server != reached {
            connection.server = None;
            self.violations += 1;
            self.unforeseen += u64::from(!connection.at_risk);
        }
    }

    /// Notes how many entries there are, and now and then more than that.
    fn look(&mut self, at_everything: bool) {
        let entries = self.policy.entries();
        self.entries_peak = self.entries_peak.max(entries);
        if at_everything {
            let open = self.policy.open_slots();
            self.entries_sum += entries;
            self.open_peak = self.open_peak.max(open);
            self.open_sum += u64::from(open);
            self.looks += 1;
        }
    }

    fn outcome(self) -> Outcome {
        let slots = f64::from(TableSize::SERVICE.get());
        let looks = f64::from(self.looks.max(1));
        Outcome {
            policy: self.name,
            violations: self.violations,
            at_risk: self.at_risk,
            unforeseen: self.unforeseen,
            entries_peak: self.entries_peak,
            entries_mean: self.entries_sum as f64 / looks,
            open_peak: f64::from(self.open_peak) / slots,
            open_mean: self.open_sum as f64 / slots / looks,
        }
    }
}
