// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What passes over the pins came to.
#![forbid(unsafe_code)]

use std::ops::AddAssign;
use std::time::Duration;

use crate::abi;

/// How many pins stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standings {
    /// In use, or not idle for long enough; also of members that nothing reaches at the moment.
    pub live: u64,
    /// Without a packet for longer than pins of their group live and may wait for renewal.
    pub idle: u64,
    /// Of a tenure that is over.
    pub stale: u64,
    /// About to be deleted.
    pub dead: u64,
    /// Of a group that is not published, or not as this library knows it.
    pub unjudged: u64,
}

impl Standings {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.live + self.idle + self.stale + self.dead + self.unjudged
    }
}

impl AddAssign for Standings {
    fn add_assign(&mut self, more: Self) {
        self.live += more.live;
        self.idle += more.idle;
        self.stale += more.stale;
        self.dead += more.dead;
        self.unjudged += more.unjudged;
    }
}

/// How many pins were deleted, by the counter that says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Removed {
    /// Idle for too long, or left dead.
    pub idle: u64,
    /// Of a tenure that is over.
    pub stale: u64,
    /// Of a tenant that goes.
    pub tenant: u64,
    /// Somebody wanted it.
    pub called: u64,
}

impl Removed {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.idle + self.stale + self.tenant + self.called
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, more: Self) {
        self.idle += more.idle;
        self.stale += more.stale;
        self.tenant += more.tenant;
        self.called += more.called;
    }
}

/// What a pass over both tables came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The pins that it was about, as they were found.
    pub found: Standings,
    /// The pins that it deleted.
    pub removed: Removed,
    /// Pins that were to be removed, and left alone: packets renewed them meanwhile, or they were gone.
    pub changed: u64,
    /// Pins that were to be removed, and left alone, for their tag is another key's. No packet follows
    /// such a pin, and no program of this library leaves one behind.
    pub torn: u64,
    /// Pins that were to be removed, and are there still: their part of the table was locked.
    pub busy: u64,
    /// Removed pins that their tenant's count had no more of: it does not agree with its pins.
    pub uncounted: u64,
    /// How long it took.
    pub duration: Duration,
}

impl Report {
    /// Whether nothing that packets would follow is left of what was to be removed when it was found.
    /// Pins that packets make meanwhile are not looked at.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.changed == 0 && self.busy == 0
    }

    pub(super) fn add(&mut self, counts: &abi::PinCounts) {
        self.found += Standings {
            live: counts.live,
            idle: counts.idle,
            stale: counts.stale,
            dead: counts.dead,
            unjudged: counts.unjudged,
        };
        self.removed += Removed {
            idle: counts.removed_idle,
            stale: counts.removed_stale,
            tenant: counts.removed_tenant,
            called: counts.removed_called,
        };
        self.changed += counts.changed;
        self.torn += counts.torn;
        self.busy += counts.busy;
        self.uncounted += counts.uncounted;
    }

    /// Takes in what another pass over the same pins did: they are not counted twice.
    pub(super) fn go_on(&mut self, again: &Self) {
        self.removed += again.removed;
        self.changed = again.changed;
        self.torn = again.torn;
        self.busy = again.busy;
        self.uncounted += again.uncounted;
        self.duration += again.duration;
    }
}

/// What became of one pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Deleted.
    Removed,
    /// It was not there any more.
    Gone,
    /// It says something else than when it was read, and stays.
    Changed,
    /// Its tag is another key's, and it stays.
    Torn,
    /// Its part of the table was locked, and it stays.
    Busy,
}

impl Fate {
    pub(super) fn from_abi(fate: u32) -> Option<Self> {
        Some(match abi::PinFate(fate) {
            abi::PinFate::GW_PIN_REMOVED => Self::Removed,
            abi::PinFate::GW_PIN_GONE => Self::Gone,
            abi::PinFate::GW_PIN_CHANGED => Self::Changed,
            abi::PinFate::GW_PIN_TORN => Self::Torn,
            abi::PinFate::GW_PIN_BUSY => Self::Busy,
            _ => return None,
        })
    }
}
