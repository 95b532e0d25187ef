// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads what a scrape takes from the kernel's maps.

use super::reading::{GroupReading, Reading};
use crate::egress::pins::Tick;
use crate::egress::{Egress, InstanceError};
use crate::group::GroupId;

impl Reading {
    /// Reads the maps of an instance; takes no lock, changes nothing, and nobody waits for it. Takes
    /// some ten milliseconds where there are as many pins as there is room for by default.
    ///
    /// A group that makes no sense is left out: it serves nobody.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn of(egress: &Egress, now: Tick) -> Result<Self, InstanceError> {
        let mut groups = Vec::new();
        for group in (0..egress.limits().groups().groups().into()).filter_map(GroupId::new) {
            if let Ok(Some(snapshot)) = egress.group(group) {
                let counters = egress.slot_counters(group)?;
                groups.push(GroupReading { snapshot, counters });
            }
        }
        let snapshots: Vec<_> = groups.iter().map(|of| &of.snapshot).collect();
        let pins = egress.pin_census(&snapshots, now)?;
        Ok(Self {
            stats: egress.stats()?,
            groups,
            pins,
        })
    }
}
