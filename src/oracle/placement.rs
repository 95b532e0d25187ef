// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement by flow: the slot of its hash, and its entry.

use super::{Packet, Placed, Router, Target};
use crate::abi::Counter;
use crate::affinity::rules::{Change, Decision, Outcome, Question, Refusal, Slot};
use crate::affinity::state::NotInserted;
use crate::affinity::Binding;
use crate::flow::Flow;
use crate::hash::{self, FlowHashKey, FlowKey};
use crate::plan::PlacedBackend;
use crate::quic::Cid;
use crate::reason::Reason;
use crate::service::HashOf;

/// A flow as its service knows it.
#[derive(Clone, Copy)]
pub(super) struct Hashed {
    /// What it is.
    pub(super) key: FlowKey,
    /// What its entry must carry, beside the hash, to be its own.
    tag: u16,
    /// Where it is placed.
    pub(super) hash: u32,
    pub(super) slot: Slot,
}

impl Hashed {
    fn owns(&self, entry: &Binding) -> bool {
        (entry.tag, entry.hash) == (self.tag, self.hash)
    }
}

impl<'a> Router<'a, '_> {
    /// Places a packet by its flow, and has the flow's backend learn `teaches` if the flow had an
    /// entry before.
    pub(super) fn by_flow(
        &mut self,
        target: Target<'a>,
        packet: Packet,
        teaches: Option<Cid>,
    ) -> Result<Placed<'a>, Reason> {
        let flow = self.hash(target, &packet.flow)?;
        let backends = |row| target.placed.standing(row);
        let mut question = Question {
            slot: flow.slot,
            tracking: target.service.tracking,
            class: packet.class,
            entry: None,
            grace: self.state.now_ns < target.placed.grace_until_ns,
            level: self.state.admission(target.placed.stats).flows,
        };
        let entry = match question.needs_entry() {
            true => self.find_flow(&flow),
            false => None,
        };
        question.entry = entry.as_ref();
        let mut decision = question.place(backends);
        if let Change::Insert { .. } = decision.change {
            decision = self.insert(target, packet, &flow, decision)?;
        }
        self.count(decision.outcome.counter());
        if decision.at_risk {
            self.count(Counter::GW_COUNTER_AT_RISK);
        }
        if decision.keeps_open {
            self.state.note_refusal(target.placed.stats);
        }
        let (row, rule) = decision.answer.ok_or(Reason::NoBackend)?;
        let backend = target.placed.backend(row).ok_or(Reason::Internal)?;
        self.change(packet, &flow, decision.change, backend);
        if let (Some(cid), Outcome::Hit) = (teaches, decision.outcome) {
            self.learn(target, &flow, cid);
        }
        Ok((backend, rule))
    }

    /// Finds the flow's slot.
    pub(super) fn hash(&mut self, target: Target<'_>, flow: &Flow) -> Result<Hashed, Reason> {
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
        Ok(Hashed {
            key,
            tag: hasher.h64(&key, false) as u16,
            hash: hash::hash32(h64),
            slot,
        })
    }

    /// The flow's entry. One that is not the flow's own is none: its memory was another's a moment
    /// ago.
    pub(super) fn find_flow(&mut self, flow: &Hashed) -> Option<Binding> {
        let entry = *self.state.flows.get(&flow.key)?;
        if !flow.owns(&entry) {
            self.count(Counter::GW_COUNTER_TAG_MISMATCH);
            return None;
        }
        Some(entry)
    }

    /// Inserts the entry that a decision asks for.
    fn insert(
        &mut self,
        target: Target<'_>,
        packet: Packet,
        flow: &Hashed,
        decision: Decision,
    ) -> Result<Decision, Reason> {
        let backend = decision
            .answer
            .and_then(|(row, _)| target.placed.backend(row))
            .ok_or(Reason::Internal)?;
        let mut entry = self.new_flow(flow, backend);
        entry.note(packet.hints);
        let inserted = self.state.insert_flow(target.placed.stats, flow.key, entry);
        Ok(match inserted {
            Ok(()) => {
                self.verdict.created.flow = true;
                decision
            }
            Err(NotInserted::Exists) => {
                let second = self.state.flows.get(&flow.key);
                let second = second.filter(|entry| flow.owns(entry));
                decision.raced(second, |row| target.placed.standing(row))
            }
            Err(NotInserted::Full) => decision.refused(Refusal::Full),
        })
    }

    /// An entry that binds the flow to a backend.
    pub(super) fn new_flow(&self, flow: &Hashed, backend: &PlacedBackend) -> Binding {
        let bind = (backend.row, backend.incarnation);
        Binding::of_traffic(flow.tag, flow.hash, bind, self.state.now_ns)
    }

    /// Does to the flow's entry what was decided.
    fn change(&mut self, packet: Packet, flow: &Hashed, change: Change, backend: &PlacedBackend) {
        let now_ns = self.state.now_ns;
        let Some(entry) = self.state.flows.get_mut(&flow.key) else {
            return;
        };
        match change {
            Change::None | Change::Insert { .. } => {}
            Change::Revive => entry.revive(),
            Change::Refresh | Change::Rebind => {
                (entry.row, entry.incarnation) = (backend.row, backend.incarnation);
                entry.touch(now_ns);
                entry.note(packet.hints);
            }
        }
    }
}
