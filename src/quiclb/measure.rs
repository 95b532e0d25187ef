// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a publication did, read back from the kernel.

use super::error::InstanceError;
use super::instance::QuicLb;
use crate::kernel::clock;
use crate::plan::{measure, Live, Plan, ServiceDisruption};

/// What was live before a publication.
pub(super) struct Before {
    live: Option<Live>,
    cells: Option<Vec<u8>>,
}

impl Before {
    /// What is live now.
    pub(super) fn of(balancer: &QuicLb) -> Result<Self, InstanceError> {
        Ok(Self {
            live: balancer.live_record()?,
            cells: balancer.live_cells()?,
        })
    }

    /// What the publication of `plan` did to each service. Slots are those that packets see,
    /// windows those that the record tells, bindings are counted; how many flows there are is the
    /// plan's estimate.
    pub(super) fn disruption(
        &self,
        balancer: &QuicLb,
        plan: &Plan,
    ) -> Result<Vec<ServiceDisruption>, InstanceError> {
        let mut services = plan.document().disruption();
        let Some(cells) = balancer.live_cells()? else {
            return Ok(services);
        };
        let measured = measure(self.cells.as_deref(), &cells);
        let after = balancer.live_record()?;
        let now_ns = clock::monotonic_ns();
        let lost = self.lost(balancer, after.as_ref())?;
        for service in &mut services {
            let id = service.service_id;
            let Some(found) = measured.get(&id) else {
                continue;
            };
            let to = &mut service.disruption;
            to.slots_moved = found.slots_moved;
            to.slots_forced = found.slots_forced;
            to.slots_extra = found.slots_extra;
            to.slots_open = found.slots_open;
            to.slots_held = found.slots_held;
            to.moved_ratio = found.moved_ratio;
            let window = after
                .as_ref()
                .and_then(|after| after.window_seconds(id, now_ns));
            to.window_seconds = window.unwrap_or(0);
            to.bindings_lost = Some(lost(id));
        }
        Ok(services)
    }

    /// Entries of backends that were live before and are not any more, by the number of the
    /// service.
    fn lost(
        &self,
        balancer: &QuicLb,
        after: Option<&Live>,
    ) -> Result<impl Fn(u32) -> u64, InstanceError> {
        let removed = |live: &Live| live.removed_by(after);
        let removed = self.live.as_ref().map(removed).unwrap_or_default();
        let mut counted = None;
        if let Some(before) = self.live.as_ref().filter(|_| !removed.is_empty()) {
            counted = Some(balancer.count_by_row(before)?);
        }
        Ok(move |id| {
            let rows = counted.iter().flatten();
            let gone = rows.filter(|(row, _)| row.0 == id && removed.contains(row));
            gone.map(|(_, entries)| entries).sum()
        })
    }
}
