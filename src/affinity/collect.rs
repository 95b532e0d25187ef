// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which entries of flow state may be forgotten, and why.
//!
//! The program that sweeps decides the same; this is the rule for sweeping without it, and for
//! tests of it.

use std::fmt;
use std::time::Duration;

use super::rules::{Slot, SlotKind, Standing};
use super::{Binding, Origin};
use crate::abi::{Counter, SweepReason};
use crate::service::{Service, Tracking};

/// Why an entry is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No packet for too long; of a registered connection ID: the end of its time to live.
    Idle,
    /// No packet for long since the flow looked closed.
    Closed,
    /// The backend is not in its row any more.
    BackendGone,
    /// The table says the same, or no packet finds the entry any more: its slot is plain, it is of
    /// another hash seed, or its service is gone.
    Redundant,
}

impl Reason {
    /// Every reason, in the order of the numbers that the programs use.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Closed, Self::BackendGone, Self::Redundant];

    /// The name of the counter without its first part.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Closed => "closed",
            Self::BackendGone => "backend_gone",
            Self::Redundant => "redundant",
        }
    }

    /// Its number in what the programs return.
    pub fn index(self) -> usize {
        let reason = match self {
            Self::Idle => SweepReason::GW_SWEEP_IDLE,
            Self::Closed => SweepReason::GW_SWEEP_CLOSED,
            Self::BackendGone => SweepReason::GW_SWEEP_BACKEND_GONE,
            Self::Redundant => SweepReason::GW_SWEEP_REDUNDANT,
        };
        reason.0 as usize
    }

    /// The service's counter of entries deleted for it.
    pub fn counter(self) -> Counter {
        match self {
            Self::Idle => Counter::GW_COUNTER_DELETED_IDLE,
            Self::Closed => Counter::GW_COUNTER_DELETED_CLOSED,
            Self::BackendGone => Counter::GW_COUNTER_DELETED_BACKEND_GONE,
            Self::Redundant => Counter::GW_COUNTER_DELETED_REDUNDANT,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A packet stores its time only when the stored one is older than this: an entry may be so much
/// younger than it looks.
const GRANULARITY: Duration = Duration::from_secs(1);

/// How long a flow is remembered that looks closed: one direction alone is seen, and what closes a
/// flow can be forged.
const CLOSED: Duration = Duration::from_secs(240);

/// For how long entries of a service may be silent, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patience {
    /// Flows.
    pub flow_ns: u64,
    /// Flows that look closed; at most `flow_ns`.
    pub closed_ns: u64,
    /// Learned and imported connection IDs.
    pub cid_ns: u64,
}

impl Patience {
    /// That of a service.
    pub fn of(service: &Service) -> Self {
        let ns = |idle: Duration| {
            u64::try_from(idle.saturating_add(GRANULARITY).as_nanos()).unwrap_or(u64::MAX)
        };
        Self {
            flow_ns: ns(service.flow_idle),
            closed_ns: ns(service.flow_idle.min(CLOSED)),
            cid_ns: ns(service.cid_idle),
        }
    }
}

/// What a sweep makes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Verdict {
    /// Why it may be forgotten, if it may.
    pub doomed: Option<Reason>,
    /// Whether no packet can need it, so that it goes at once.
    pub at_once: bool,
    /// Whether its backend is another than the one that a machine without any state would choose.
    pub differs: bool,
}

impl Verdict {
    /// Of an entry whose service is gone.
    pub fn nobodys() -> Self {
        Self::at_once(Reason::Redundant)
    }

    fn at_once(reason: Reason) -> Self {
        Self {
            doomed: Some(reason),
            at_once: true,
            differs: false,
        }
    }
}

/// An entry, and all that decides about it.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The entry.
    pub entry: &'a Binding,
    /// Whether tag and hash are what they must be for packets to find it.
    pub is_found: bool,
    /// The slot of its hash.
    pub slot: Slot,
    /// Who is in its row.
    pub standing: Option<Standing>,
    /// What its service tracks.
    pub tracking: Tracking,
    /// How long its service remembers.
    pub patience: Patience,
    /// Monotonic clock in nanoseconds.
    pub now_ns: u64,
}

impl Case<'_> {
    /// Judges the entry of a flow.
    pub fn flow(&self) -> Verdict {
        let differs = self.differs();
        // One that stayed in a plain slot would mislead packets when the slot is open again.
        let needed = match (self.tracking, self.slot.kind) {
            (Tracking::All, _) | (_, SlotKind::Open { .. }) => true,
            (_, SlotKind::Held) => differs,
            (_, SlotKind::Plain) => false,
        };
        if !self.is_found || !needed {
            return Verdict::at_once(Reason::Redundant);
        }
        let silent_ns = self.silent_ns();
        let doomed = if self.is_gone() {
            Some(Reason::BackendGone)
        } else if silent_ns > self.patience.flow_ns {
            Some(Reason::Idle)
        } else if (self.entry.fin || self.entry.rst) && silent_ns > self.patience.closed_ns {
            Some(Reason::Closed)
        } else {
            None
        };
        Verdict {
            doomed,
            at_once: false,
            differs,
        }
    }

    /// Judges the binding of a connection ID. Only what was learned tells its flow, and so where
    /// the table would send it.
    pub fn cid(&self) -> Verdict {
        let registered = self.entry.origin == Origin::Registered;
        let end_ns = self.entry.seen_ns;
        if !self.is_found {
            return Verdict::at_once(Reason::Redundant);
        }
        if self.is_gone() {
            return Verdict::at_once(Reason::BackendGone);
        }
        if registered && end_ns != 0 && end_ns < self.now_ns {
            return Verdict::at_once(Reason::Idle);
        }
        let silent = !registered && self.silent_ns() > self.patience.cid_ns;
        Verdict {
            doomed: silent.then_some(Reason::Idle),
            at_once: false,
            differs: self.entry.origin == Origin::Traffic && self.differs(),
        }
    }

    fn differs(&self) -> bool {
        self.slot.owner != Some(self.entry.row)
    }

    fn is_gone(&self) -> bool {
        self.standing
            .is_none_or(|standing| standing.incarnation != self.entry.incarnation)
    }

    /// How long no packet has come, as far as the entry tells.
    fn silent_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.entry.seen_ns)
    }
}
