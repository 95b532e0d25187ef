// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One service whose backends come, drain and go, and the flows that live through it.

use std::collections::BTreeSet;

use guideway::affinity::rules::{Class, Level, Slot, SlotKind, Standing};
use guideway::affinity::state::{FlowId, Hints, PacketFacts, State};
use guideway::affinity::{advance, Phase, SlotChange, SlotSet, Slots};
use guideway::hash::{splitmix64, FlowKey};
use guideway::id::ServiceId;
use guideway::service::{BackendState, Tracking};

use crate::steps::{Step, BACKENDS, FLOWS};
use crate::variant::{Protocol, Variant};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// A flow that was silent for longer is over.
const IDLE: u64 = 20 * SECOND;
const WINDOW: u64 = IDLE + 2 * SECOND;
const GRACE: u64 = 5 * SECOND;
/// Clients go on sending Initials for so long at most.
const HANDSHAKE: u64 = 4 * SECOND;
/// A publication returns after so long at most.
const BARRIER: u64 = HANDSHAKE / 8;
const START: u64 = 1_000 * SECOND;

const SLOTS: u32 = 16;
/// Fewer than backends: a row is soon another's.
const ROWS: u16 = 4;
const STATS: u32 = 0;

/// Who is in a row: its number in the specification and as whom it was let in.
type Tenant = (u8, Standing);

/// What packets see.
#[derive(Debug, Clone)]
struct Generation {
    number: u64,
    rows: Vec<Option<Tenant>>,
    slots: Slots,
    grace_until_ns: u64,
}

impl Generation {
    fn standing(&self, row: u16) -> Option<Standing> {
        let (_, standing) = (*self.rows.get(usize::from(row))?)?;
        Some(standing)
    }

    fn slot(&self, flow: usize) -> Slot {
        Slot::from_abi(self.slots.words()[slot_of(flow) as usize])
    }
}

fn slot_of(flow: usize) -> u32 {
    flow as u32 % SLOTS
}

fn flow_id(flow: usize) -> FlowId {
    FlowId {
        key: FlowKey::new(ServiceId::new(1), flow as u16, 443, [192, 0, 2, 1].into()),
        tag: flow as u16,
        hash: slot_of(flow),
    }
}

/// A row and the incarnation of who is in it.
type Bind = (u16, u32);

/// A flow under way.
#[derive(Debug, Clone, Copy)]
struct Live {
    backend: Bind,
    seen_ns: u64,
    /// Until when its client may send Initials.
    handshake_until_ns: u64,
    /// Counted as a flow that may move, and it has no entry since.
    at_risk: bool,
    /// No packet of it has seen the latest table. Once one has, those behind it do as well: it is
    /// through before its client sends another.
    is_late: bool,
    /// It was refused an entry and has none.
    is_refused: bool,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) moved_at_risk: u64,
    pub(crate) moved_handshakes: u64,
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) unmarked: u64,
    pub(crate) most_entries: usize,
}

pub(crate) struct Model {
    variant: Variant,
    state: State,
    now: Generation,
    /// What packets may still see while a publication has not returned.
    before: Option<Generation>,
    published_ns: u64,
    returned_ns: u64,
    /// What a sweep found that began after the last publication had returned.
    differing: Option<SlotSet>,
    incarnations: u32,
    flows: [Option<Live>; FLOWS],
    tally: Tally,
}

impl Model {
    /// Runs all steps; an error says which promise was broken.
    pub(crate) fn run(variant: Variant, steps: &[Step]) -> Result<Tally, String> {
        let mut model = Self::new(variant);
        for (number, step) in steps.iter().enumerate() {
            model
                .step(step)
                .and_then(|()| model.check())
                .map_err(|broken| format!("step {number}, {step:?}: {broken}"))?;
        }
        Ok(model.tally)
    }

    fn new(variant: Variant) -> Self {
        let mut state = State::with_capacity(variant.capacity, 0);
        state.now_ns = START;
        let mut model = Self {
            variant,
            state,
            now: Generation {
                number: 0,
                rows: vec![None; usize::from(ROWS)],
                slots: Slots::plain(&vec![u16::MAX; SLOTS as usize]),
                grace_until_ns: 0,
            },
            before: None,
            published_ns: START,
            returned_ns: START,
            differing: None,
            incarnations: 0,
            flows: [None; FLOWS],
            tally: Tally::default(),
        };
        model.publish(&[
            (0, Some(BackendState::Ready)),
            (1, Some(BackendState::Ready)),
        ]);
        model.returns();
        model
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Wait(ms) if self.before.is_none() => self.state.now_ns += u64::from(*ms) * MS,
            Step::Wait(ms) => {
                self.state.now_ns += u64::from(*ms) * MS / 10;
                if self.state.now_ns - self.published_ns > BARRIER {
                    self.returns();
                }
            }
            Step::Packet {
                flow,
                late,
                first,
                again,
            } => return self.packet(*flow, *late, *first, *again),
            Step::Publish(changes) => {
                self.returns();
                self.publish(changes);
            }
            Step::Return => self.returns(),
            Step::Sweep => self.sweep(),
        }
        Ok(())
    }

    fn returns(&mut self) {
        if self.before.take().is_some() {
            self.returned_ns = self.state.now_ns;
            if !self.variant.sweeps_before_return {
                self.differing = None;
            }
        }
    }

    fn publish(&mut self, changes: &[(u8, Option<BackendState>)]) {
        let mut rows = self.now.rows.clone();
        let mut removed = BTreeSet::new();
        for (id, _) in changes.iter().filter(|(_, state)| state.is_none()) {
            if let Some(row) = row_of(&rows, *id) {
                rows[usize::from(row)] = None;
                removed.insert(row);
            }
        }
        for (id, state) in changes {
            let (Some(state), true) = (*state, *id < BACKENDS) else {
                continue;
            };
            // Rows that get free with this publication are given last.
            let free = |row: &u16| rows[usize::from(*row)].is_none();
            let row = row_of(&rows, *id)
                .or_else(|| (0..ROWS).find(|row| free(row) && !removed.contains(row)))
                .or_else(|| (0..ROWS).find(free));
            let Some(row) = row else {
                continue;
            };
            let tenant = &mut rows[usize::from(row)];
            match tenant {
                Some((_, standing)) => standing.state = state,
                None => {
                    self.incarnations += 1;
                    let incarnation = self.incarnations;
                    *tenant = Some((*id, Standing { state, incarnation }));
                }
            }
        }
        let owners: Vec<_> = (0..SLOTS).map(|slot| owner(&rows, slot)).collect();
        let refused_ns = self.state.admission(STATS).refused_ns;
        let change = SlotChange {
            owners: &owners,
            removed: &removed,
            now_ns: self.state.now_ns,
            returned_ns: Some(self.returned_ns),
            window_ns: WINDOW,
            refused_ns: (refused_ns > 0 && !self.variant.closes_despite_refusals)
                .then_some(refused_ns),
            differing: self.differing.as_ref(),
            before: Tracking::Exceptions,
            after: Tracking::Exceptions,
        };
        let mut slots = advance(&self.now.slots, &change);
        if self.variant.moves_base {
            slots = with_moved_base(&self.now.slots, &slots, &removed);
        }
        let opens = opened(&self.now.slots, &slots);
        self.count_marks(&slots);
        let grace_until_ns = match opens && self.variant.grace {
            true => self.state.now_ns + GRACE,
            false => self.now.grace_until_ns,
        };
        // Packets that are refused by the table before may be too late to keep its slots open.
        if self.variant.says_that_it_closes && closes(&self.now.slots, &slots) {
            self.state.closing_generation = Some(self.now.number);
        }
        let next = Generation {
            number: self.now.number + 1,
            rows,
            slots,
            grace_until_ns,
        };
        self.before = Some(std::mem::replace(&mut self.now, next));
        self.published_ns = self.state.now_ns;
        for live in self.flows.iter_mut().flatten() {
            live.is_late = true;
        }
        self.differing = None;
        self.forget_broken();
    }

    fn count_marks(&mut self, slots: &Slots) {
        for (before, after) in self.now.slots.words().iter().zip(slots.words().iter()) {
            let kinds = (Slot::from_abi(*before).kind, Slot::from_abi(*after).kind);
            match kinds {
                (SlotKind::Plain | SlotKind::Held, SlotKind::Open { .. }) => self.tally.opened += 1,
                (SlotKind::Open { .. }, SlotKind::Held) => self.tally.closed += 1,
                (SlotKind::Held, SlotKind::Plain) => self.tally.unmarked += 1,
                _ => {}
            }
        }
    }

    /// Nobody owes anything to flows whose backend is gone or unhealthy.
    fn forget_broken(&mut self) {
        for flow in &mut self.flows {
            let backend = flow.map(|flow| flow.backend);
            if backend.is_some_and(|backend| !is_usable(&self.now, backend)) {
                *flow = None;
            }
        }
    }

    fn packet(&mut self, flow: usize, late: bool, first: bool, again: bool) -> Result<(), String> {
        self.tally.packets += 1;
        let now_ns = self.state.now_ns;
        let live = self.flows[flow].filter(|live| now_ns - live.seen_ns <= IDLE);
        let in_handshake = live.is_some_and(|live| now_ns < live.handshake_until_ns);
        let starts = match live {
            None => first,
            Some(_) => self.variant.protocol == Protocol::Quic && in_handshake && again,
        };
        let class = match (starts, self.variant.protocol) {
            (false, _) => Class::MidFlow,
            (true, Protocol::Tcp) => Class::TcpStart,
            (true, Protocol::Quic) => Class::QuicStart,
        };
        let generation = match &self.before {
            Some(before) if late && live.is_none_or(|live| live.is_late) => before,
            _ => &self.now,
        };
        let is_late = !std::ptr::eq(generation, &self.now);
        let facts = PacketFacts {
            generation: generation.number,
            slot: generation.slot(flow),
            tracking: Tracking::Exceptions,
            stats: STATS,
            grace_until_ns: generation.grace_until_ns,
            class,
            hints: Hints::default(),
        };
        let id = flow_id(flow);
        let had_entry = self.state.flows.get(&id.key).is_some();
        let placement = self
            .state
            .place(&id, &facts, |row| generation.standing(row));
        if placement.created && !self.variant.inserts {
            self.state.flows.remove(&id.key);
        }
        self.tally.most_entries = self.tally.most_entries.max(self.state.flows.len());
        let decision = placement.decision;
        let bind = |row| (row, generation.standing(row).map_or(0, |s| s.incarnation));
        let answer = decision.answer.map(|(row, _)| bind(row));
        // An Initial of a handshake that began before its backend drained, or without room for an
        // entry: by the time that there is room its client may have to begin again.
        let straddles = match facts.slot.kind {
            SlotKind::Open { base } if class == Class::QuicStart && !had_entry => {
                let base = generation.standing(base).map(|base| base.state);
                base == Some(BackendState::Draining) || live.is_some_and(|live| live.is_refused)
            }
            _ => false,
        };
        // Packets that still see the table before may bind to who is gone by now.
        let answer = answer.filter(|answer| is_usable(&self.now, *answer));
        let has_entry = self.state.flows.get(&id.key).is_some();
        if let Some(live) = live {
            if answer != Some(live.backend) {
                if live.at_risk {
                    self.tally.moved_at_risk += 1;
                } else if straddles {
                    self.tally.moved_handshakes += 1;
                } else {
                    return Err(format!(
                        "flow {flow} of {:?} goes to {:?}, slot {:?}",
                        live.backend, decision, facts.slot
                    ));
                }
            }
        }
        self.flows[flow] = answer.map(|backend| Live {
            backend,
            seen_ns: now_ns,
            handshake_until_ns: match live {
                Some(live) => live.handshake_until_ns,
                None => now_ns + HANDSHAKE,
            },
            at_risk: decision.at_risk || live.is_some_and(|live| live.at_risk) && !has_entry,
            is_late,
            is_refused: decision.keeps_open
                || live.is_some_and(|live| live.is_refused) && !has_entry,
        });
        Ok(())
    }

    /// Deletes what has been idle twice and what is not needed, finds slots with entries that
    /// differ from the owner, and sets the level.
    fn sweep(&mut self) {
        if self.before.is_some() {
            if self.variant.sweeps_before_return {
                self.differing = Some(self.find_differing());
                return;
            }
            self.returns();
        }
        let (now_ns, generation) = (self.state.now_ns, &self.now);
        let keeps_redundant = self.variant.keeps_redundant;
        self.state.flows.retain(|_, entry| {
            let bind = (entry.row, entry.incarnation);
            let slot = Slot::from_abi(generation.slots.words()[entry.hash as usize]);
            let is_idle = now_ns.saturating_sub(entry.seen_ns) > IDLE + SECOND;
            let exists = generation
                .standing(bind.0)
                .is_some_and(|standing| standing.incarnation == bind.1);
            let is_redundant = match slot.kind {
                SlotKind::Plain => true,
                SlotKind::Held => slot.owner == Some(bind.0),
                SlotKind::Open { .. } => false,
            };
            match entry.phase {
                _ if !exists || is_redundant && !keeps_redundant => false,
                Phase::Live if is_idle => {
                    entry.phase = Phase::Expiring;
                    true
                }
                Phase::Expiring => !is_idle,
                _ => true,
            }
        });
        self.differing = Some(self.find_differing());
        let (used, capacity) = (self.state.flows.len(), self.state.flows.capacity());
        let level = &mut self.state.admissions.entry(STATS).or_default().flows;
        *level = match 100 * used {
            used if used >= 99 * capacity => Level::None,
            used if used > 90 * capacity => Level::Reserve,
            used if used < 85 * capacity => Level::All,
            _ => *level,
        };
    }

    fn find_differing(&self) -> SlotSet {
        let entries = self.state.flows.iter();
        let differing = entries.filter(|(_, entry)| {
            let owner = Slot::from_abi(self.now.slots.words()[entry.hash as usize]).owner;
            let incarnation = owner.and_then(|row| self.now.standing(row));
            let incarnation = incarnation.map(|standing| standing.incarnation);
            (owner, incarnation) != (Some(entry.row), Some(entry.incarnation))
        });
        differing.map(|(_, entry)| entry.hash).collect()
    }

    /// The promise: every live flow has an entry for its backend, or packets without an entry go
    /// there.
    fn check(&self) -> Result<(), String> {
        for (flow, live) in self.flows.iter().enumerate() {
            let Some(live) = live.filter(|live| self.state.now_ns - live.seen_ns <= IDLE) else {
                continue;
            };
            if live.at_risk {
                continue;
            }
            let entry = self.state.flows.get(&flow_id(flow).key);
            let bound = entry.map(|entry| (entry.row, entry.incarnation));
            let before = self.before.as_ref().filter(|_| live.is_late);
            for generation in [Some(&self.now), before].into_iter().flatten() {
                let slot = generation.slot(flow);
                let default = slot.default_answer(|row| generation.standing(row));
                let default =
                    default.and_then(|(row, _)| Some((row, generation.standing(row)?.incarnation)));
                let looks_up = slot.kind != SlotKind::Plain;
                let answer = bound.filter(|_| looks_up).or(default);
                if answer != Some(live.backend) {
                    return Err(format!(
                        "flow {flow} of {:?} has entry {bound:?} in slot {slot:?}, whose default \
                         is {default:?}",
                        live.backend
                    ));
                }
            }
        }
        Ok(())
    }
}

fn row_of(rows: &[Option<Tenant>], id: u8) -> Option<u16> {
    let position = rows
        .iter()
        .position(|tenant| tenant.is_some_and(|(other, _)| other == id));
    position.map(|row| row as u16)
}

fn is_usable(generation: &Generation, (row, incarnation): Bind) -> bool {
    let standing = generation.standing(row);
    standing.is_some_and(|standing| standing.incarnation == incarnation && standing.is_usable())
}

/// The ready backend that scores highest: few slots move when one comes or goes.
fn owner(rows: &[Option<Tenant>], slot: u32) -> u16 {
    let score = |id: u8| splitmix64(&mut (u64::from(slot) << 8 | u64::from(id)));
    let ready = rows.iter().zip(0..).filter_map(|(tenant, row)| {
        let (id, standing) = (*tenant)?;
        (standing.state == BackendState::Ready).then(|| (score(id), row))
    });
    ready.max().map_or(u16::MAX, |(_, row)| row)
}

/// Whether a slot is open that was not.
fn opened(before: &Slots, after: &Slots) -> bool {
    let is_open = |word| matches!(Slot::from_abi(word).kind, SlotKind::Open { .. });
    let mut both = before.words().iter().zip(after.words().iter());
    both.any(|(before, after)| !is_open(*before) && is_open(*after))
}

/// Whether a slot is open no more in which packets without an entry have to go elsewhere.
fn closes(before: &Slots, after: &Slots) -> bool {
    let mut both = before.words().iter().zip(after.words().iter());
    both.any(|(before, after)| {
        let kinds = (Slot::from_abi(*before).kind, Slot::from_abi(*after).kind);
        match kinds {
            (SlotKind::Open { .. }, SlotKind::Open { .. }) => false,
            (SlotKind::Open { base }, _) => base != after.owner,
            _ => false,
        }
    })
}

/// A mistake: the base of an open slot follows its owner.
fn with_moved_base(before: &Slots, after: &Slots, removed: &BTreeSet<u16>) -> Slots {
    let words = after.words();
    let owners: Vec<_> = words.iter().map(|word| word.owner).collect();
    let marks = after.marks().map(|mut mark| {
        let former = Slot::from_abi(before.words()[mark.slot as usize]);
        let owner = former.owner.filter(|owner| !removed.contains(owner));
        if let (SlotKind::Open { .. }, Some(owner), Some((base, _))) =
            (former.kind, owner, mark.open.as_mut())
        {
            if owner != owners[mark.slot as usize] {
                *base = owner;
            }
        }
        mark
    });
    let marks: Vec<_> = marks.collect();
    Slots::with_marks(&owners, after.openings().to_vec(), marks).unwrap()
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.moved_at_risk += other.moved_at_risk;
        self.moved_handshakes += other.moved_handshakes;
        self.opened += other.opened;
        self.closed += other.closed;
        self.unmarked += other.unmarked;
        self.most_entries = self.most_entries.max(other.most_entries);
    }
}
