// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an instance on a card does, and what the card has counted.

use std::collections::BTreeMap;

use serde::Serialize;

use super::HardwareLb;
use crate::abi::{self, OffloadLimit};
use crate::id::{InstanceId, InterfaceName};
use crate::plan::Lack;
use crate::quiclb::attachment::mode_here;
use crate::quiclb::error::InstanceError;
use crate::quiclb::ours::pinned_link;
use crate::reason::{Reason, Rule};
use crate::service::Mode;

/// What an instance on a card does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CardStatus {
    /// Names this form.
    pub schema: CardSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Always `offload`.
    pub mode: Mode,
    /// Where clients' packets arrive; none while nothing is published.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interface: Option<InterfaceName>,
    /// Number of the generation that packets follow, as the card has it; none before the first.
    pub generation: Option<u64>,
    /// What holds the program on its interface; none: it is not attached.
    pub attachment: Option<CardAttachment>,
    /// Flow state.
    pub flows: CardFlows,
    /// Packets by the reason they left the program for.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub reasons: BTreeMap<Reason, u64>,
    /// The services of the live generation, in the order of their names.
    pub services: Vec<CardServiceStatus>,
    /// What other modes have and this one has not.
    pub lacks: Vec<Lack>,
}

/// Names the form of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CardSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.card/v1")]
    V1,
}

/// A program on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CardAttachment {
    /// Index of the interface.
    pub ifindex: u32,
    /// The kernel's number of the link.
    pub link_id: u32,
    /// The kernel's number of the program.
    pub program_id: u32,
}

/// Flow state on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CardFlows {
    /// Flows that have an element.
    pub used: u64,
    /// How many can have one.
    pub limit: u32,
    /// The epoch: how often their age was counted on.
    pub epoch: u32,
}

/// What a card has counted of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CardServiceStatus {
    /// Its name.
    pub name: String,
    /// Packets that found the service, whatever became of them.
    pub packets: u64,
    /// Lengths of their frames.
    pub bytes: u64,
    /// Forwarded packets, by the rule that placed them.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub rules: BTreeMap<Rule, u64>,
    /// Packets of flows that found no room for an element.
    pub refused_full: u64,
    /// Packets of each backend, by its id.
    pub backends: BTreeMap<u32, u64>,
    /// Packets of backends that are gone. Those of one may be in it twice if the process that
    /// removed it was killed just when it added them.
    pub removed_packets: u64,
}

impl HardwareLb {
    /// What the instance does, read from the card element by element.
    ///
    /// # Errors
    /// The card cannot be asked, or the live generation not be read.
    pub fn status(&self) -> Result<CardStatus, InstanceError> {
        let live = self.live_record()?;
        let mut reasons = BTreeMap::new();
        for reason in Reason::ALL {
            let packets = self.maps.reasons.get(reason.number().into())?;
            reasons.insert(*reason, packets);
        }
        let mut services = Vec::new();
        for (service, record) in live.iter().flat_map(|live| live.placed()) {
            services.push(self.service(&service.name, record)?);
        }
        Ok(CardStatus {
            schema: CardSchema::V1,
            instance_id: self.dir.instance(),
            mode: Mode::Offload,
            interface: live.as_ref().map(|live| live.spec().interface().clone()),
            generation: self.live_number()?,
            attachment: self.attachment()?,
            flows: CardFlows {
                used: self.maps.flows.keys_one_by_one()?.len() as u64,
                limit: self.maps.flows.map().shape().max_entries,
                epoch: self.maps.epoch.get(0)?.epoch,
            },
            reasons,
            services,
            lacks: crate::plan::lacks(Mode::Offload),
        })
    }

    fn attachment(&self) -> Result<Option<CardAttachment>, InstanceError> {
        let Some(link) = pinned_link(&self.dir)? else {
            return Ok(None);
        };
        let state = link.state()?;
        let here = mode_here(&state)?.is_some();
        Ok(state
            .ifindex
            .filter(|_| here)
            .map(|ifindex| CardAttachment {
                ifindex,
                link_id: state.id,
                program_id: state.program_id,
            }))
    }

    fn service(
        &self,
        name: &impl ToString,
        record: &crate::plan::ServiceRecord,
    ) -> Result<CardServiceStatus, InstanceError> {
        let first = record.stats * OffloadLimit::GW_OFFLOAD_COUNTERS.0;
        let at = |number: u32| self.maps.counters.get(first + number);
        let mut rules = BTreeMap::new();
        for rule in Rule::ALL {
            let number = u32::from(rule.number());
            rules.insert(*rule, at(OffloadLimit::GW_OFFLOAD_RULES_AT.0 + number)?);
        }
        let mut backends = BTreeMap::new();
        for backend in &record.backends {
            let packets = self.maps.backends.get(backend.stats)?.packets;
            backends.insert(backend.id, packets);
        }
        Ok(CardServiceStatus {
            name: name.to_string(),
            packets: at(OffloadLimit::GW_OFFLOAD_PACKETS_AT.0)?,
            bytes: at(OffloadLimit::GW_OFFLOAD_BYTES_AT.0)?,
            rules,
            refused_full: at(abi::Counter::GW_COUNTER_REFUSED_FULL.0)?,
            backends,
            removed_packets: self.maps.removed.get(record.stats)?,
        })
    }
}
