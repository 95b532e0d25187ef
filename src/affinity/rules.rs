// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where a packet goes by its flow: the rules over slot, entry and backends, for one packet.
//!
//! [`Question::place`] knows neither frames nor maps. Whoever asks looks the flow up first if
//! [`Question::needs_entry`], compares the entry found with the packet, and afterwards does to the
//! table what [`Decision::change`] says. An insert may fail: [`Decision::refused`] and
//! [`Decision::raced`] give what holds then.
//!
//! | slot | entry | packet | answer | change |
//! |---|---|---|---|---|
//! | plain | not looked up | any | owner | none |
//! | marked | usable | any but the next row | the entry's backend | refresh |
//! | marked | draining | TCP start | owner | rebind to it |
//! | marked | not usable | any | owner | rebind to it |
//! | open | none | start | owner | insert it; refused: base if ready, else owner |
//! | open | none | any other | base if usable, else owner | insert it; refused: the same |
//! | held | none | any | owner | none |
//!
//! A service that tracks all flows has plain slots only, and every packet is looked up: hits as
//! above, a miss gives the owner and inserts it. Where the answer is nobody the packet is dropped
//! and nothing changes.
//!
//! A QUIC start that misses in an open slot may belong to a handshake that was under way when the
//! table changed. While the handshake grace lasts, or inserts of starts are refused anyway, it gets
//! the answer of any other packet if the base is ready. A start never goes to a draining base.

use super::{Binding, Phase};
use crate::abi;
use crate::abi::Counter;
use crate::reason::Rule;
use crate::service::{BackendState, Tracking};

/// A slot of a table: who owns it, and what a change left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Row of the backend that owns it in the current table.
    pub owner: Option<u16>,
    /// Its kind.
    pub kind: SlotKind,
}

/// What packets of a slot have to heed beside its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// Nothing: all its packets are the owner's.
    Plain,
    /// Some of its flows have entries; all others are the owner's.
    Held,
    /// The table changed: flows without an entry are where they were before.
    Open {
        /// Row of the owner before the change.
        base: u16,
    },
}

impl Slot {
    /// The slot that stands in a generation.
    pub fn from_abi(word: abi::Slot) -> Self {
        use abi::SlotWord as W;
        Self {
            owner: (u32::from(word.owner) != W::GW_SLOT_NONE.0).then_some(word.owner),
            kind: match u32::from(word.base) {
                base if base == W::GW_SLOT_PLAIN.0 => SlotKind::Plain,
                base if base == W::GW_SLOT_HELD.0 => SlotKind::Held,
                _ => SlotKind::Open { base: word.base },
            },
        }
    }

    /// The slot as it stands in a generation.
    pub fn to_abi(self) -> abi::Slot {
        use abi::SlotWord as W;
        abi::Slot {
            owner: self.owner.unwrap_or(W::GW_SLOT_NONE.0 as u16),
            base: match self.kind {
                SlotKind::Plain => W::GW_SLOT_PLAIN.0 as u16,
                SlotKind::Held => W::GW_SLOT_HELD.0 as u16,
                SlotKind::Open { base } => base,
            },
        }
    }

    /// The backend that gets packets of flows without an entry, and what chose it: the base of an
    /// open slot if it is usable, else the owner.
    pub fn default_answer(self, backends: impl Fn(u16) -> Option<Standing>) -> Option<(u16, Rule)> {
        match self.kind {
            SlotKind::Open { base } if backends(base).is_some_and(Standing::is_usable) => {
                Some((base, Rule::Previous))
            }
            _ => self.owner.map(|owner| (owner, Rule::Table)),
        }
    }
}

/// A backend in its row, as packets see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Its state; a ready backend of weight 0 is draining.
    pub state: BackendState,
    /// Tells it from others in that row.
    pub incarnation: u32,
}

impl Standing {
    /// Whether it keeps the flows that it has.
    pub fn is_usable(self) -> bool {
        match self.state {
            BackendState::Ready | BackendState::Draining => true,
            BackendState::Unhealthy => false,
        }
    }
}

/// What a packet may do to flow state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// A TCP SYN without ACK: it begins a flow.
    TcpStart,
    /// A QUIC Initial or 0-RTT packet of a known version: it begins a flow, or goes on with a
    /// handshake.
    QuicStart,
    /// Any other packet of a client.
    MidFlow,
    /// A packet that is placed like its flow and leaves no trace: an ICMP error about it, or what no
    /// client sends.
    Observer,
    /// A fragment, whose flow nobody can tell.
    Fragment,
}

impl Class {
    /// Whether it can begin a flow.
    pub fn is_start(self) -> bool {
        matches!(self, Self::TcpStart | Self::QuicStart)
    }
}

/// What may still be inserted for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Anything.
    #[default]
    All,
    /// What a change of the table needs: no starts, and nothing of services that track all flows.
    Reserve,
    /// Nothing.
    None,
}

impl Level {
    /// The level that stands in a map; what has no meaning there admits nothing.
    pub fn from_abi(level: u32) -> Self {
        match level {
            level if level == abi::Level::GW_LEVEL_ALL.0 => Self::All,
            level if level == abi::Level::GW_LEVEL_RESERVE.0 => Self::Reserve,
            _ => Self::None,
        }
    }

    /// The level as it stands in a map.
    pub fn to_abi(self) -> u32 {
        match self {
            Self::All => abi::Level::GW_LEVEL_ALL,
            Self::Reserve => abi::Level::GW_LEVEL_RESERVE,
            Self::None => abi::Level::GW_LEVEL_NONE,
        }
        .0
    }

    /// Whether an entry may be inserted for a packet.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(self, tracking: Tracking, class: Class) -> Result<(), Refusal> {
        match self {
            Self::All => Ok(()),
            Self::Reserve if tracking == Tracking::All || class.is_start() => Err(Refusal::High),
            Self::Reserve => Ok(()),
            Self::None => Err(Refusal::Full),
        }
    }
}

/// Why an entry is not inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The rest of the table is for others.
    High,
    /// The table is full, or was a short while ago.
    Full,
    /// The table could not be locked, or the entry is about to change hands.
    Busy,
}

/// How a packet was placed by its flow: exactly one for each packet so placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// By the owner of a plain slot.
    Plain,
    /// By an entry.
    Hit,
    /// By the owner, since the entry's backend takes it no longer.
    Reselected,
    /// By the owner of an open slot, with an entry of its own.
    StartInserted,
    /// By the default answer of an open slot, with an entry of its own.
    BaseInserted,
    /// By the owner of a held slot.
    HeldDefault,
    /// By the owner, with an entry of its own, in a service that tracks all flows.
    AllInserted,
    /// By the entry that another CPU has just inserted.
    Raced,
    /// Without an entry: what is left of the table is for others.
    RefusedHigh,
    /// Without an entry: the table is full.
    RefusedFull,
    /// Without an entry: the table could not be locked.
    RefusedBusy,
    /// By an entry that is about to be deleted.
    DeadUsed,
    /// By the default answer: such a packet leaves no entry.
    NoEntry,
    /// Nowhere: it is dropped.
    NoBackend,
}

impl Outcome {
    /// The service's counter of such packets.
    pub fn counter(self) -> Counter {
        match self {
            Self::Plain => Counter::GW_COUNTER_PLAIN,
            Self::Hit => Counter::GW_COUNTER_HIT,
            Self::Reselected => Counter::GW_COUNTER_RESELECTED,
            Self::StartInserted => Counter::GW_COUNTER_START_INSERTED,
            Self::BaseInserted => Counter::GW_COUNTER_BASE_INSERTED,
            Self::HeldDefault => Counter::GW_COUNTER_HELD_DEFAULT,
            Self::AllInserted => Counter::GW_COUNTER_ALL_INSERTED,
            Self::Raced => Counter::GW_COUNTER_RACED,
            Self::RefusedHigh => Counter::GW_COUNTER_REFUSED_HIGH,
            Self::RefusedFull => Counter::GW_COUNTER_REFUSED_FULL,
            Self::RefusedBusy => Counter::GW_COUNTER_REFUSED_BUSY,
            Self::DeadUsed => Counter::GW_COUNTER_DEAD_USED,
            Self::NoEntry => Counter::GW_COUNTER_NO_ENTRY,
            Self::NoBackend => Counter::GW_COUNTER_NO_BACKEND,
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::High => Self::RefusedHigh,
            Refusal::Full => Self::RefusedFull,
            Refusal::Busy => Self::RefusedBusy,
        }
    }
}

/// What is to be done to the table of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Nothing.
    None,
    /// The entry was used: note the time, and that it is live.
    Refresh,
    /// The entry is about to be deleted: insert its binding again, or mark it as touched.
    Revive,
    /// The entry is to name the answer's backend, and was used.
    Rebind,
    /// An entry for the answer's backend is to be inserted, never over one that exists.
    Insert {
        /// What holds if it cannot be.
        fallback: Fallback,
    },
}

/// The answer for a packet whose entry could not be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fallback {
    row: u16,
    rule: Rule,
    at_risk: bool,
    in_open_slot: bool,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Decision {
    /// The backend and what chose it; none: the packet is dropped.
    pub answer: Option<(u16, Rule)>,
    /// How the packet is counted.
    pub outcome: Outcome,
    /// Whether the packet's flow may move with the next change, for want of an entry.
    pub at_risk: bool,
    /// Whether open slots have to stay open longer, since a flow in one has no entry.
    pub keeps_open: bool,
    /// What happens to the flow's entry.
    pub change: Change,
}

impl Decision {
    fn of(answer: Option<(u16, Rule)>, outcome: Outcome, change: Change) -> Self {
        let (outcome, change) = match answer {
            Some(_) => (outcome, change),
            None => (Outcome::NoBackend, Change::None),
        };
        Self {
            answer,
            outcome,
            at_risk: false,
            keeps_open: false,
            change,
        }
    }

    /// What holds if the insert that this decision asks for is refused; itself if it asks for none.
    #[must_use]
    pub fn refused(self, refusal: Refusal) -> Self {
        let Change::Insert { fallback } = self.change else {
            return self;
        };
        Self {
            answer: Some((fallback.row, fallback.rule)),
            outcome: refusal.into(),
            at_risk: fallback.at_risk,
            keeps_open: fallback.in_open_slot,
            change: Change::None,
        }
    }

    /// What holds if there is an entry already when it is to be inserted: another CPU was first.
    /// `entry` is what a second look-up finds; where that is nothing of this flow's that can be
    /// used, the packet is placed as if the table had been busy.
    #[must_use]
    pub fn raced(
        self,
        entry: Option<&Binding>,
        backends: impl Fn(u16) -> Option<Standing>,
    ) -> Self {
        match entry.filter(|entry| standing(entry, &backends).is_some_and(Standing::is_usable)) {
            Some(entry) => Self::of(Some((entry.row, Rule::Flow)), Outcome::Raced, Change::None),
            None => self.refused(Refusal::Busy),
        }
    }
}

/// A packet and all that decides where it goes.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The slot of its flow's hash.
    pub slot: Slot,
    /// What its service tracks.
    pub tracking: Tracking,
    /// What it may do.
    pub class: Class,
    /// Its flow's entry, if there is one and it was looked up. It is the flow's own: whoever looked
    /// it up has compared tag and hash.
    pub entry: Option<&'a Binding>,
    /// Whether the handshake grace of the service lasts.
    pub grace: bool,
    /// What may be inserted.
    pub level: Level,
}

impl Question<'_> {
    /// Whether the flow's entry matters.
    pub fn needs_entry(&self) -> bool {
        let is_marked = self.tracking == Tracking::All || self.slot() != SlotKind::Plain;
        is_marked && self.class != Class::Fragment
    }

    /// Decides where the packet goes. `backends` tells of each row who is in it.
    pub fn place(&self, backends: impl Fn(u16) -> Option<Standing>) -> Decision {
        let backends = &backends;
        match self.entry {
            Some(entry) if self.needs_entry() => self.hit(entry, backends),
            _ => self.miss(backends),
        }
    }

    /// The slot's kind. Nothing is ever marked where every flow has its entry.
    fn slot(&self) -> SlotKind {
        match self.tracking {
            Tracking::All => SlotKind::Plain,
            Tracking::Exceptions => self.slot.kind,
        }
    }

    fn owner(&self) -> Option<(u16, Rule)> {
        self.slot.owner.map(|owner| (owner, Rule::Table))
    }

    fn hit(&self, entry: &Binding, backends: &impl Fn(u16) -> Option<Standing>) -> Decision {
        let watches = self.class == Class::Observer;
        let change = |change| if watches { Change::None } else { change };
        let keeps = match standing(entry, backends).map(|backend| backend.state) {
            Some(BackendState::Ready) => true,
            Some(BackendState::Draining) => self.class != Class::TcpStart,
            Some(BackendState::Unhealthy) | None => false,
        };
        if !keeps {
            let answer = self.slot.owner.map(|owner| (owner, Rule::Reselect));
            return Decision::of(answer, Outcome::Reselected, change(Change::Rebind));
        }
        let answer = Some((entry.row, Rule::Flow));
        match entry.phase {
            Phase::Live | Phase::Expiring => {
                Decision::of(answer, Outcome::Hit, change(Change::Refresh))
            }
            Phase::Dead | Phase::Touched => {
                Decision::of(answer, Outcome::DeadUsed, change(Change::Revive))
            }
        }
    }

    fn miss(&self, backends: &impl Fn(u16) -> Option<Standing>) -> Decision {
        let inserts = !matches!(self.class, Class::Observer | Class::Fragment);
        match (self.tracking, self.slot()) {
            (Tracking::All, _) if inserts => {
                self.insert(self.owner(), self.owner(), Outcome::AllInserted, true)
            }
            (Tracking::All, _) => Decision::of(self.owner(), Outcome::NoEntry, Change::None),
            (_, SlotKind::Plain) => Decision::of(self.owner(), Outcome::Plain, Change::None),
            (_, SlotKind::Held) => Decision::of(self.owner(), Outcome::HeldDefault, Change::None),
            (_, SlotKind::Open { base }) => {
                let standing = backends(base);
                let is_ready = standing.is_some_and(|base| base.state == BackendState::Ready);
                let default = self.slot.default_answer(backends);
                if !inserts {
                    return Decision::of(default, Outcome::NoEntry, Change::None);
                }
                if self.begins_flow(is_ready) {
                    let refused = match is_ready {
                        true => Some((base, Rule::Previous)),
                        false => self.owner(),
                    };
                    return self.insert(self.owner(), refused, Outcome::StartInserted, !is_ready);
                }
                let is_usable = standing.is_some_and(Standing::is_usable);
                self.insert(default, default, Outcome::BaseInserted, !is_usable)
            }
        }
    }

    /// Whether the packet counts as a flow's first in an open slot.
    fn begins_flow(&self, base_is_ready: bool) -> bool {
        match self.class {
            Class::TcpStart => true,
            Class::QuicStart => !(base_is_ready && (self.grace || self.level != Level::All)),
            Class::MidFlow | Class::Observer | Class::Fragment => false,
        }
    }

    /// Inserts `answer`; where that is refused the packet goes to `refused`.
    fn insert(
        &self,
        answer: Option<(u16, Rule)>,
        refused: Option<(u16, Rule)>,
        outcome: Outcome,
        at_risk: bool,
    ) -> Decision {
        // Nobody to go to: dropped, whatever a refusal would have given.
        let (Some(_), Some((row, rule))) = (answer, refused) else {
            return Decision::of(None, Outcome::NoBackend, Change::None);
        };
        let fallback = Fallback {
            row,
            rule,
            at_risk,
            in_open_slot: matches!(self.slot(), SlotKind::Open { .. }),
        };
        let decision = Decision::of(answer, outcome, Change::Insert { fallback });
        match self.level.admit(self.tracking, self.class) {
            Ok(()) => decision,
            Err(refusal) => decision.refused(refusal),
        }
    }
}

/// The backend that an entry names, if it is still the one.
fn standing(entry: &Binding, backends: &impl Fn(u16) -> Option<Standing>) -> Option<Standing> {
    backends(entry.row).filter(|backend| backend.incarnation == entry.incarnation)
}

#[cfg(test)]
mod tests;
