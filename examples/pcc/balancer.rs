// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A balancer with the crate's flow state: its rules for packets, for publications and for what is
//! forgotten.

use guideway::affinity::collect::{Case, Patience, Verdict};
use guideway::affinity::level::{Fill, LevelRules};
use guideway::affinity::rules::{Class, Outcome, Slot};
use guideway::affinity::state::{Hints, PacketFacts, State, STAMP_GRAIN_NS};
use guideway::affinity::{advance, cid_tag, Binding, CidKey, Phase, SlotChange, SlotSet, Slots};
use guideway::hash::fmix64;
use guideway::maglev::TableSize;
use guideway::quic::Cid;
use guideway::service::Tracking;

use crate::fleet::{Change, Fleet};
use crate::policy::{Placed, Policy};
use crate::traffic::{Packet, SERVICE};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// For how long a live connection may be silent: the service's `flow_idle` and `cid_idle`.
const IDLE_NS: u64 = 120 * SECOND_NS;
const PATIENCE: Patience = Patience {
    flow_ns: IDLE_NS + STAMP_GRAIN_NS,
    closed_ns: IDLE_NS,
    cid_ns: IDLE_NS + STAMP_GRAIN_NS,
};
/// How long slots stay open, as a specification without a value of its own has it.
const WINDOW_NS: u64 = IDLE_NS + 2 * SECOND_NS;
/// Time from one collection to the next.
const SWEEP_NS: u64 = IDLE_NS / 4;
/// The counters of the only service.
const STATS: u32 = 0;

/// One instance, and the control loop that looks after it.
pub(crate) struct Balancer {
    pub(crate) state: State,
    slots: Slots,
    tracking: Tracking,
    /// Whether connection IDs are learned and looked up.
    learns: bool,
    /// When the last publication returned.
    published_ns: u64,
    next_sweep_ns: u64,
}

impl Balancer {
    /// One that takes at most `capacity` flows.
    pub(crate) fn new(tracking: Tracking, capacity: usize, fleet: &Fleet, now_ns: u64) -> Self {
        Self {
            state: State::with_capacity(capacity, 0),
            slots: Slots::plain(fleet.owners()),
            tracking,
            learns: false,
            published_ns: now_ns,
            next_sweep_ns: now_ns + SWEEP_NS,
        }
    }

    /// One that has an entry for every flow and every connection ID.
    pub(crate) fn learning(fleet: &Fleet, now_ns: u64) -> Self {
        Self {
            state: State::with_capacity(usize::MAX, usize::MAX),
            learns: true,
            ..Self::new(Tracking::All, 0, fleet, now_ns)
        }
    }

    /// Publishes what another balancer published that remembers no more of earlier tables.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.slots = other.slots.clone();
        self.published_ns = other.published_ns;
    }

    fn advance(
        &mut self,
        change: &Change,
        differing: Option<&SlotSet>,
        fleet: &Fleet,
        now_ns: u64,
    ) {
        let refused_ns = self.state.admission(STATS).refused_ns;
        self.slots = advance(
            &self.slots,
            &SlotChange {
                owners: fleet.owners(),
                removed: &change.removed,
                now_ns,
                returned_ns: Some(self.published_ns),
                window_ns: WINDOW_NS,
                refused_ns: (refused_ns != 0).then_some(refused_ns),
                differing,
                before: self.tracking,
                after: self.tracking,
            },
        );
        self.published_ns = now_ns;
    }

    /// Forgets what may be forgotten, and tells in which slots entries are left that differ from
    /// the owner.
    fn sweep(&mut self, fleet: &Fleet, now_ns: u64) -> SlotSet {
        let mut differing = SlotSet::default();
        let sweep = Sweep {
            slots: &self.slots,
            tracking: self.tracking,
            fleet,
            now_ns,
        };
        self.state.flows.retain(|_, entry| {
            let verdict = sweep.case(entry).flow();
            let stays = ages(entry, verdict);
            if stays && verdict.differs {
                differing.insert(slot_of(entry));
            }
            stays
        });
        self.state.cids.retain(|_, entry| {
            let verdict = sweep.case(entry).cid();
            ages(entry, verdict)
        });
        differing
    }

    /// Sets what may be inserted, by how much room there is.
    fn admit(&mut self) {
        let fill = Fill {
            used: self.state.flows.len() as u64,
            capacity: self.state.flows.capacity() as u64,
        };
        let level = &mut self.state.admissions.entry(STATS).or_default().flows;
        *level = LevelRules::default().level(*level, fill, None);
    }

    /// Where the binding of the packet's connection ID leads.
    fn by_cid(&mut self, packet: &Packet, fleet: &Fleet, now_ns: u64) -> Option<u16> {
        let entry = self.state.cids.get_mut(&cid_key(packet))?;
        let server = fleet.standing(entry.row)?;
        (server.incarnation == entry.incarnation).then(|| entry.touch(now_ns))?;
        Some(entry.row)
    }

    /// Binds the packet's connection ID to the server of its flow.
    fn learn(&mut self, packet: &Packet) {
        let Some(flow) = self.state.flows.get(&packet.flow.key).copied() else {
            return;
        };
        let key = cid_key(packet);
        let binding = Binding {
            tag: cid_tag(&key.to_abi(), self.state.cid_seed),
            learned: 0,
            ..flow
        };
        // There is room, and what is bound already stays.
        let _ = self.state.insert_cid(STATS, key, binding);
    }

    fn by_flow(&mut self, packet: &Packet, class: Class, fleet: &Fleet) -> Placed {
        let facts = PacketFacts {
            generation: 1,
            slot: Slot::from_abi(self.slots.words()[packet.slot as usize]),
            tracking: self.tracking,
            stats: STATS,
            grace_until_ns: 0,
            class,
            hints: Hints::default(),
        };
        let placement = self
            .state
            .place(&packet.flow, &facts, |row| fleet.standing(row));
        let decision = placement.decision;
        if self.learns && decision.outcome == Outcome::Hit {
            self.learn(packet);
        }
        Placed {
            row: decision.answer.map(|(row, _)| row),
            at_risk: decision.at_risk,
        }
    }
}

impl Policy for Balancer {
    fn place(&mut self, packet: &Packet, fleet: &Fleet, now_ns: u64) -> Placed {
        self.state.now_ns = now_ns;
        let class = match packet.starts {
            true => Class::TcpStart,
            false => Class::MidFlow,
        };
        if !self.learns {
            return self.by_flow(packet, class, fleet);
        }
        if packet.starts {
            // The rest of the handshake follows at once, with the server's connection ID.
            self.by_flow(packet, Class::QuicStart, fleet);
        }
        match self.by_cid(packet, fleet, now_ns) {
            Some(row) => Placed {
                row: Some(row),
                at_risk: false,
            },
            None => self.by_flow(packet, Class::MidFlow, fleet),
        }
    }

    fn publish(&mut self, change: &Change, fleet: &Fleet, now_ns: u64) {
        self.advance(change, None, fleet, now_ns);
    }

    fn tick(&mut self, fleet: &Fleet, now_ns: u64) {
        if now_ns < self.next_sweep_ns {
            return;
        }
        self.next_sweep_ns = now_ns + SWEEP_NS;
        let differing = self.sweep(fleet, now_ns);
        self.admit();
        // Closes windows that are over, and forgets marks that the sweep found needless.
        self.advance(&Change::default(), Some(&differing), fleet, now_ns);
    }

    fn entries(&self) -> usize {
        self.state.flows.len() + self.state.cids.len()
    }

    fn open_slots(&self) -> u32 {
        self.slots.count().open
    }
}

/// The connection ID that the server gave the connection.
fn cid_key(packet: &Packet) -> CidKey {
    let bytes = fmix64(u64::from(packet.connection) + 1).to_be_bytes();
    CidKey::new(
        SERVICE,
        Cid::new(&bytes).expect("eight bytes are a connection ID"),
    )
}

/// What a sweep knows beside the entries.
struct Sweep<'a> {
    slots: &'a Slots,
    tracking: Tracking,
    fleet: &'a Fleet,
    now_ns: u64,
}

impl Sweep<'_> {
    fn case<'a>(&self, entry: &'a Binding) -> Case<'a> {
        Case {
            entry,
            is_found: true,
            slot: Slot::from_abi(self.slots.words()[slot_of(entry) as usize]),
            standing: self.fleet.standing(entry.row),
            tracking: self.tracking,
            patience: PATIENCE,
            now_ns: self.now_ns,
        }
    }
}

fn slot_of(entry: &Binding) -> u32 {
    TableSize::SERVICE.slot_by_multiply_shift(entry.hash)
}

/// Brings an entry a step nearer to its end if it may be forgotten; whether it stays.
fn ages(entry: &mut Binding, verdict: Verdict) -> bool {
    match (verdict.doomed, entry.phase) {
        _ if verdict.at_once => return false,
        (Some(_), Phase::Live) => entry.phase = Phase::Expiring,
        (Some(_), _) => return false,
        (None, _) => entry.phase = Phase::Live,
    }
    true
}
