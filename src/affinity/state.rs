// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The flow state of an instance as a model: what its maps hold, what they take, and how packets
//! use an entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::rules::{Change, Class, Decision, Level, Question, Refusal, Slot, Standing};
use super::{Binding, CidKey, Origin, Phase};
use crate::abi::Limit;
use crate::hash::FlowKey;
use crate::service::Tracking;

/// A stamp is renewed only when it is older than this: otherwise every packet of a flow would take
/// the entry's cache line from the other CPUs.
pub const STAMP_GRAIN_NS: u64 = 1_000_000_000;

/// Everything that packets leave for later packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Which backend a flow is bound to.
    pub flows: Entries<FlowKey>,
    /// Which backend a connection ID is bound to.
    pub cids: Entries<CidKey>,
    /// What may be inserted, by the counter index of the service; where there is none, anything.
    pub admissions: BTreeMap<u32, Admission>,
    /// The coarse monotonic clock, in nanoseconds.
    pub now_ns: u64,
    /// The secret behind the tags of connection IDs.
    pub cid_seed: u64,
    /// Number of the generation that is being replaced by one in which slots are open no more.
    pub closing_generation: Option<u64>,
}

impl Default for State {
    /// Empty maps of the sizes that an instance has by default, at time 0.
    fn default() -> Self {
        Self::with_capacity(Limit::GW_FLOWS.0 as usize, Limit::GW_CIDS.0 as usize)
    }
}

impl State {
    /// Empty maps that take so many entries, at time 0.
    pub fn with_capacity(flows: usize, cids: usize) -> Self {
        Self {
            flows: Entries::with_capacity(flows),
            cids: Entries::with_capacity(cids),
            admissions: BTreeMap::new(),
            now_ns: 0,
            cid_seed: 0,
            closing_generation: None,
        }
    }

    /// What may be inserted for the service with these counters.
    pub fn admission(&self, stats: u32) -> Admission {
        self.admissions.get(&stats).copied().unwrap_or_default()
    }

    /// Places a packet by its flow as the [rules](super::rules) say, and does to the flow's entry
    /// what they ask for. `backends` tells of each row who is in it.
    pub fn place(
        &mut self,
        flow: &FlowId,
        packet: &PacketFacts,
        backends: impl Fn(u16) -> Option<Standing>,
    ) -> Placement {
        let mut question = Question {
            slot: packet.slot,
            tracking: packet.tracking,
            class: packet.class,
            entry: None,
            grace: self.now_ns < packet.grace_until_ns,
            level: self.admission(packet.stats).flows,
        };
        let found = match question.needs_entry() {
            true => self.flows.get(&flow.key).copied(),
            false => None,
        };
        let own = found.filter(|entry| flow.owns(entry));
        question.entry = own.as_ref();
        let mut placement = Placement {
            decision: question.place(&backends),
            created: false,
            met_stranger: found.is_some() && own.is_none(),
        };
        let decision = &mut placement.decision;
        let bind = decision
            .answer
            .and_then(|(row, _)| Some((row, backends(row)?.incarnation)));
        if let (Change::Insert { .. }, Some(bind)) = (decision.change, bind) {
            let mut entry = Binding::of_traffic(flow.tag, flow.hash, bind, self.now_ns);
            entry.note(packet.hints);
            match self.insert_flow(packet.stats, flow.key, entry) {
                Ok(()) => placement.created = true,
                Err(NotInserted::Full) => *decision = decision.refused(Refusal::Full),
                Err(NotInserted::Exists) => {
                    let second = self.flows.get(&flow.key);
                    let second = second.filter(|entry| flow.owns(entry));
                    *decision = decision.raced(second, &backends);
                }
            }
        }
        if decision.keeps_open {
            self.note_refusal(packet.stats);
            // It may be too late for that.
            decision.at_risk |= self.closing_generation == Some(packet.generation);
        }
        let now_ns = self.now_ns;
        let entry = match decision.change {
            Change::None | Change::Insert { .. } => None,
            Change::Refresh | Change::Rebind | Change::Revive => self.flows.get_mut(&flow.key),
        };
        if let (Some(entry), Some(bind)) = (entry, bind) {
            match decision.change {
                Change::None | Change::Insert { .. } => {}
                Change::Revive => entry.revive(),
                Change::Refresh | Change::Rebind => {
                    (entry.row, entry.incarnation) = bind;
                    entry.touch(now_ns);
                    entry.note(packet.hints);
                    entry.revive();
                }
            }
        }
        placement
    }

    /// Inserts a flow's entry for the service with these counters. A full table takes nothing more
    /// for it until user space lowers the level.
    ///
    /// # Errors
    /// Why there is no new entry.
    pub fn insert_flow(
        &mut self,
        stats: u32,
        key: FlowKey,
        binding: Binding,
    ) -> Result<(), NotInserted> {
        let inserted = self.flows.insert(key, binding);
        if inserted == Err(NotInserted::Full) {
            self.admissions.entry(stats).or_default().flows = Level::None;
        }
        inserted
    }

    /// Inserts a connection ID's entry, as [`insert_flow`](Self::insert_flow) does a flow's.
    ///
    /// # Errors
    /// Why there is no new entry.
    pub fn insert_cid(
        &mut self,
        stats: u32,
        key: CidKey,
        binding: Binding,
    ) -> Result<(), NotInserted> {
        let inserted = self.cids.insert(key, binding);
        if inserted == Err(NotInserted::Full) {
            self.admissions.entry(stats).or_default().cids = Level::None;
        }
        inserted
    }

    /// Notes that a flow in an open slot got no entry, so that slots stay open for longer.
    pub fn note_refusal(&mut self, stats: u32) {
        let refused_ns = &mut self.admissions.entry(stats).or_default().refused_ns;
        if is_old(*refused_ns, self.now_ns) {
            *refused_ns = self.now_ns;
        }
    }
}

/// A flow as the map of entries knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// The key of its entry.
    pub key: FlowKey,
    /// What its entry carries, beside the hash, to be told from a stranger's.
    pub tag: u16,
    /// The hash that places it.
    pub hash: u32,
}

impl FlowId {
    /// Whether an entry under its key is its own. The memory of one that was deleted is used again
    /// at once, so a look-up may give another's.
    pub fn owns(&self, entry: &Binding) -> bool {
        (entry.tag, entry.hash) == (self.tag, self.hash)
    }
}

/// A packet and its service, as far as they decide where it goes.
#[derive(Debug, Clone, Copy)]
pub struct PacketFacts {
    /// Number of the generation that it sees.
    pub generation: u64,
    /// The slot of its flow.
    pub slot: Slot,
    /// What its service tracks.
    pub tracking: Tracking,
    /// Index of the service's counters.
    pub stats: u32,
    /// Until when the service's handshake grace lasts; 0: there is none.
    pub grace_until_ns: u64,
    /// What it may do.
    pub class: Class,
    /// What it says of its connection's end.
    pub hints: Hints,
}

/// How a packet was placed, and what that did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// Where it goes.
    pub decision: Decision,
    /// Whether its flow has an entry that it had not.
    pub created: bool,
    /// Whether the look-up gave a stranger's entry, which counts as none.
    pub met_stranger: bool,
}

/// What may be inserted for a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Admission {
    /// Of flows.
    pub flows: Level,
    /// Of connection IDs.
    pub cids: Level,
    /// When an insert in an open slot was refused last, on the coarse monotonic clock in
    /// nanoseconds, to the second; 0: never.
    pub refused_ns: u64,
}

/// Why there is no new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotInserted {
    /// There is one with that key.
    Exists,
    /// The map is full.
    Full,
}

impl From<NotInserted> for Refusal {
    fn from(error: NotInserted) -> Self {
        match error {
            NotInserted::Exists => Self::Busy,
            NotInserted::Full => Self::Full,
        }
    }
}

/// A map of entries that takes a number of them and refuses more: it never makes room by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<K: Eq + Hash> {
    entries: HashMap<K, Binding>,
    capacity: usize,
}

impl<K: Eq + Hash> Entries<K> {
    /// An empty map that takes `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            capacity,
        }
    }

    /// Adds an entry. It never replaces one, and of a key that exists the map says so even if it is
    /// full.
    ///
    /// # Errors
    /// Why there is no new entry.
    pub fn insert(&mut self, key: K, binding: Binding) -> Result<(), NotInserted> {
        if self.entries.contains_key(&key) {
            return Err(NotInserted::Exists);
        }
        if self.entries.len() >= self.capacity {
            return Err(NotInserted::Full);
        }
        self.entries.insert(key, binding);
        Ok(())
    }

    /// The entry of this key, whoever's it is.
    pub fn get(&self, key: &K) -> Option<&Binding> {
        self.entries.get(key)
    }

    /// The entry of this key, to be changed in place.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut Binding> {
        self.entries.get_mut(key)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<Binding> {
        self.entries.remove(key)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Binding)> {
        self.entries.iter()
    }

    /// Keeps the entries that `keep` says, as a sweep does.
    pub fn retain(&mut self, keep: impl FnMut(&K, &mut Binding) -> bool) {
        self.entries.retain(keep);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

/// What a TCP segment says of its connection's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// It carries FIN.
    pub fin: bool,
    /// It carries RST.
    pub rst: bool,
    /// It carries data.
    pub payload: bool,
}

impl Binding {
    /// A live entry that a packet makes now.
    pub(crate) fn of_traffic(
        tag: u16,
        hash: u32,
        (row, incarnation): (u16, u32),
        now_ns: u64,
    ) -> Self {
        Self {
            tag,
            row,
            incarnation,
            seen_ns: now_ns,
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin: Origin::Traffic,
            learned: 0,
            hash,
        }
    }

    /// Notes that a packet uses the entry: an expiring one is live again, and its time is now if
    /// that is worth a store. An entry that is about to be deleted keeps its time.
    pub fn touch(&mut self, now_ns: u64) {
        let is_stamped = self.origin != Origin::Registered;
        match self.phase {
            Phase::Expiring => {
                self.phase = Phase::Live;
                if is_stamped {
                    self.seen_ns = now_ns;
                }
            }
            Phase::Live if is_stamped && is_old(self.seen_ns, now_ns) => self.seen_ns = now_ns,
            Phase::Live | Phase::Dead | Phase::Touched => {}
        }
    }

    /// Notes what a segment says of the connection's end. FIN and RST are remembered until one
    /// comes that carries data and neither: both can be forged, and the connection go on. An entry
    /// that is about to be deleted remembers nothing more.
    pub fn note(&mut self, hints: Hints) {
        if matches!(self.phase, Phase::Dead | Phase::Touched) {
            return;
        }
        if hints.fin || hints.rst {
            self.fin |= hints.fin;
            self.rst |= hints.rst;
        } else if hints.payload {
            (self.fin, self.rst) = (false, false);
        }
    }

    /// Marks an entry that is about to be deleted, so that the sweep puts it back.
    pub fn revive(&mut self) {
        // Who ends a registration means it.
        if self.phase == Phase::Dead && self.origin != Origin::Registered {
            self.phase = Phase::Touched;
        }
    }
}

fn is_old(stamp_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(stamp_ns) > STAMP_GRAIN_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key(port: u16) -> FlowKey {
        let service = crate::id::ServiceId::new(7);
        FlowKey::new(service, port, 443, [192, 0, 2, 1].into())
    }

    fn entry(seen_ns: u64) -> Binding {
        Binding::of_traffic(1, 2, (3, 4), seen_ns)
    }

    #[test]
    fn a_full_map_refuses_newcomers_and_keeps_residents() {
        let mut state = State::with_capacity(2, 1);
        for port in [1, 2] {
            assert_eq!(state.insert_flow(5, key(port), entry(0)), Ok(()));
        }
        assert_eq!(state.admission(5), Admission::default());
        // An existing key is that first of all, and leaves the level alone.
        let again = state.insert_flow(5, key(2), entry(9));
        assert_eq!(again, Err(NotInserted::Exists));
        assert_eq!(state.admission(5).flows, Level::All);
        let third = state.insert_flow(5, key(3), entry(0));
        assert_eq!(third, Err(NotInserted::Full));
        assert_eq!(state.admission(5).flows, Level::None);
        assert_eq!(state.admission(5).cids, Level::All);
        assert_eq!(state.admission(6), Admission::default());
        assert_eq!(state.flows.get(&key(2)), Some(&entry(0)));
        assert_eq!(state.flows.len(), 2);
    }

    #[test]
    fn stamps_are_renewed_when_they_are_older_than_a_second() {
        for (seen_ns, now_ns, expected) in [
            (10 * SECOND, 11 * SECOND, 10 * SECOND),
            (10 * SECOND, 11 * SECOND + 1, 11 * SECOND + 1),
            (10 * SECOND, 9 * SECOND, 10 * SECOND),
        ] {
            let mut live = entry(seen_ns);
            live.touch(now_ns);
            assert_eq!(live, entry(expected));
        }
        let mut expiring = Binding {
            phase: Phase::Expiring,
            ..entry(5)
        };
        expiring.touch(6);
        assert_eq!(expiring, entry(6));
    }

    #[test]
    fn the_end_of_a_registration_is_not_a_stamp() {
        for phase in [Phase::Live, Phase::Expiring] {
            let registered = Binding {
                origin: Origin::Registered,
                ..entry(5)
            };
            let mut touched = Binding {
                phase,
                ..registered
            };
            touched.touch(100 * SECOND);
            assert_eq!(touched, registered);
        }
    }

    #[test]
    fn an_entry_about_to_be_deleted_is_marked_and_nothing_else() {
        for phase in [Phase::Dead, Phase::Touched] {
            let mut dead = Binding { phase, ..entry(5) };
            dead.touch(100 * SECOND);
            dead.note(Hints {
                fin: true,
                ..Hints::default()
            });
            dead.revive();
            let expected = Binding {
                phase: Phase::Touched,
                ..entry(5)
            };
            assert_eq!(dead, expected);
        }
        let mut live = entry(5);
        live.revive();
        assert_eq!(live, entry(5));
    }

    #[test]
    fn only_data_without_fin_or_rst_takes_a_hint_back() {
        let hints = |fin, rst, payload| Hints { fin, rst, payload };
        let mut entry = entry(0);
        for (hint, fin, rst) in [
            (hints(false, false, false), false, false),
            (hints(true, false, true), true, false),
            (hints(false, false, false), true, false),
            (hints(false, true, false), true, true),
            (hints(true, false, true), true, true),
            (hints(false, false, true), false, false),
            (hints(false, true, true), false, true),
        ] {
            entry.note(hint);
            assert_eq!((entry.fin, entry.rst), (fin, rst), "after {hint:?}");
        }
    }

    #[test]
    fn refusals_are_noted_to_the_second() {
        let mut state = State::default();
        for (now_ns, noted_ns) in [
            (10 * SECOND, 10 * SECOND),
            (11 * SECOND, 10 * SECOND),
            (12 * SECOND, 12 * SECOND),
        ] {
            state.now_ns = now_ns;
            state.note_refusal(1);
            assert_eq!(state.admission(1).refused_ns, noted_ns);
        }
    }
}
