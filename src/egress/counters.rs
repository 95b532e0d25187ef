// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program has counted.

use std::collections::BTreeMap;

use super::instance::Egress;
use crate::kernel::SysError;
use crate::reason::egress::{End, Reported, Selection};

/// Counts since the instance was made, of all CPUs together. Every name is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Packets by how they ended: all of those that the program has seen.
    pub ends: BTreeMap<End, u64>,
    /// What happened where groups chose members, and where pins were removed.
    pub selection: BTreeMap<Selection, u64>,
    /// What became of events.
    pub events: BTreeMap<Reported, u64>,
}

impl Egress {
    /// What the program has counted. Packets go on meanwhile: each number is right by itself.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn stats(&self) -> Result<Stats, SysError> {
        let count = |number: u8| {
            let counters = &self.maps.counters;
            counters.fold(number.into(), 0_u64, |sum, cpu| sum.wrapping_add(*cpu))
        };
        let mut stats = Stats::default();
        for end in End::ALL {
            stats.ends.insert(*end, count(end.number())?);
        }
        for one in Selection::ALL {
            stats.selection.insert(*one, count(one.number())?);
        }
        for one in Reported::ALL {
            stats.events.insert(*one, count(one.number())?);
        }
        Ok(stats)
    }
}
