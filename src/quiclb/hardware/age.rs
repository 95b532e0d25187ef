// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The age of flows on a card, counted in epochs that user space advances.

use std::time::Duration;

use serde::Serialize;

use super::HardwareWriter;
use crate::abi;
use crate::quiclb::error::InstanceError;

/// How often [`HardwareWriter::age`] is to be called: flows are as old as the calls since their last
/// packet, times this.
pub const EPOCH: Duration = Duration::from_secs(10);

/// What one step in the age of flows found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Aged {
    /// Names this form.
    pub schema: AgedSchema,
    /// The epoch that has begun.
    pub epoch: u32,
    /// Flows that had an element.
    pub flows: u64,
    /// Those without a packet for longer than their service lets them be, which were deleted.
    pub idle: u64,
    /// Those whose service or backend is gone, which were deleted.
    pub gone: u64,
}

/// Names the form of such a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AgedSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.card-run/v1")]
    V1,
}

impl HardwareWriter {
    /// Begins the next epoch, and deletes the flows that were idle for longer than `flow_idle` of
    /// their service: between one and two epochs longer. A packet writes its flow's epoch anew when
    /// it meets another one, so a flow costs the card one write for each epoch.
    ///
    /// A flow whose first packet in all that time arrives in the moment of its deletion begins
    /// anew, as one that was idle for a little longer does.
    ///
    /// # Errors
    /// The card cannot be asked, or the live generation not be read.
    pub fn age(&mut self) -> Result<Aged, InstanceError> {
        let epoch = self.maps.epoch.get(0)?.epoch.wrapping_add(1);
        let word = abi::OffloadEpoch { epoch, zero: 0 };
        self.maps.epoch.set(0, &word)?;
        let mut aged = Aged {
            schema: AgedSchema::V1,
            epoch,
            flows: 0,
            idle: 0,
            gone: 0,
        };
        let Some(live) = self.live_record()? else {
            return Ok(aged);
        };
        for key in self.maps.flows.keys_one_by_one()? {
            let Some(flow) = self.maps.flows.get(&key)? else {
                continue;
            };
            aged.flows += 1;
            let mut placed = live.placed();
            let Some((service, record)) = placed.find(|(_, of)| of.id == key.service) else {
                aged.gone += u64::from(self.maps.flows.remove(&key)?);
                continue;
            };
            let mut backends = record.backends.iter();
            let is_there =
                backends.any(|of| of.row == flow.row && of.incarnation == flow.incarnation);
            let idle = service.flow_idle.as_secs().div_ceil(EPOCH.as_secs());
            // One that was written after the epoch had begun is of the future to a stale reader.
            let age = epoch.wrapping_sub(flow.epoch) as i32;
            if !is_there {
                aged.gone += u64::from(self.maps.flows.remove(&key)?);
            } else if i64::from(age) > idle as i64 + 1 {
                aged.idle += u64::from(self.maps.flows.remove(&key)?);
            }
        }
        Ok(aged)
    }
}
