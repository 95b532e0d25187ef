// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement by flow: the slot of its hash, and its entry.

use super::{Packet, Placed, Router, Target};
use crate::abi::Counter;
use crate::affinity::rules::{Outcome, Slot};
use crate::affinity::state::{FlowId, PacketFacts};
use crate::affinity::Binding;
use crate::flow::Flow;
use crate::hash::{self, FlowHashKey};
use crate::quic::Cid;
use crate::reason::Reason;
use crate::service::HashOf;

impl<'a> Router<'a, '_> {
    /// Places a packet by its flow, and has the flow's backend learn `teaches` if the flow had an
    /// entry before.
    pub(super) fn by_flow(
        &mut self,
        target: Target<'a>,
        packet: Packet,
        teaches: Option<Cid>,
    ) -> Result<Placed<'a>, Reason> {
        let (flow, slot) = self.hash(target, &packet.flow)?;
        let facts = PacketFacts {
            generation: self.generation.number,
            slot,
            tracking: target.service.tracking,
            stats: target.placed.stats,
            grace_until_ns: target.placed.grace_until_ns,
            class: packet.class,
            hints: packet.hints,
        };
        let backends = |row| target.placed.standing(row);
        let placement = self.state.place(&flow, &facts, backends);
        let decision = placement.decision;
        self.verdict.created.flow = placement.created;
        if placement.met_stranger {
            self.count(Counter::GW_COUNTER_TAG_MISMATCH);
        }
        self.count(decision.outcome.counter());
        if decision.at_risk {
            self.count(Counter::GW_COUNTER_AT_RISK);
        }
        let (row, rule) = decision.answer.ok_or(Reason::NoBackend)?;
        let backend = target.placed.backend(row).ok_or(Reason::Internal)?;
        if let (Some(cid), Outcome::Hit) = (teaches, decision.outcome) {
            self.learn(target, &flow, cid);
        }
        Ok((backend, rule))
    }

    /// Finds the flow's slot.
    pub(super) fn hash(
        &mut self,
        target: Target<'_>,
        flow: &Flow,
    ) -> Result<(FlowId, Slot), Reason> {
        let hasher = FlowHashKey::new(self.generation.spec.hash_seed());
        let key = flow.key(target.service.id);
        let h64 = hasher.h64(&key, target.service.hash == HashOf::Source);
        // At most 65,537 slots.
        let index = hash::slot(hash::hash32(h64), target.placed.slots.len() as u32);
        let words = &target.placed.slots;
        let slot = Slot::from_abi(*words.get(index as usize).ok_or(Reason::Internal)?);
        self.verdict.hash = Some(h64);
        self.verdict.slot = Some(index);
        self.verdict.slot_kind = Some(slot.kind);
        let flow = FlowId {
            key,
            tag: hasher.h64(&key, false) as u16,
            hash: hash::hash32(h64),
        };
        Ok((flow, slot))
    }

    /// The flow's entry.
    pub(super) fn find_flow(&mut self, flow: &FlowId) -> Option<Binding> {
        let entry = *self.state.flows.get(&flow.key)?;
        if !flow.owns(&entry) {
            self.count(Counter::GW_COUNTER_TAG_MISMATCH);
            return None;
        }
        Some(entry)
    }
}
