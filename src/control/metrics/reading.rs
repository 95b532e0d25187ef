// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a scrape takes from the kernel's maps.
#![forbid(unsafe_code)]

use crate::egress::pins::Census;
use crate::egress::Stats;
use crate::group::{Counters, Snapshot};

/// What the kernel's maps say at a moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reading {
    /// What the program has counted.
    pub stats: Stats,
    /// The groups that were ever published, as far as they can be read.
    pub groups: Vec<GroupReading>,
    /// The pins.
    pub pins: Census,
}

/// A group at a moment.
#[derive(Debug, Clone)]
pub struct GroupReading {
    /// What packets see of it.
    pub snapshot: Snapshot,
    /// What its slots have counted, from the first on.
    pub counters: Vec<Counters>,
}

impl Reading {
    /// What there is before the instance: nothing was counted, and no group is published.
    #[must_use]
    pub fn none() -> Self {
        Self {
            stats: Stats::default(),
            groups: Vec::new(),
            pins: Census::default(),
        }
    }
}
