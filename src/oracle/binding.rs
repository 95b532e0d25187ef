// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement by the binding of a connection ID, and how bindings are learned.

use super::{Packet, Placed, Router, Target};
use crate::abi::{Counter, Limit};
use crate::affinity::rules::{Class, Outcome};
use crate::affinity::state::{FlowId, NotInserted};
use crate::affinity::{cid_tag, Binding, CidKey, Origin};
use crate::plan::PlacedBackend;
use crate::quic::Cid;
use crate::reason::{Reason, Rule};
use crate::service::Routing;

/// Connection IDs that one flow teaches.
const MOST_LEARNED: u8 = Limit::GW_MAX_LEARNED.0 as u8;

impl<'a> Router<'a, '_> {
    /// Places a packet by the binding of its connection ID, if there is one.
    pub(super) fn by_binding(
        &mut self,
        target: Target<'a>,
        packet: Packet,
        cid: Cid,
    ) -> Result<Option<Placed<'a>>, Reason> {
        if !target.placed.exact {
            return Ok(None);
        }
        let key = CidKey::new(target.service.id, cid);
        let Some(entry) = self.state.cids.get(&key).copied() else {
            return Ok(None);
        };
        if entry.tag != cid_tag(&key.to_abi(), self.state.cid_seed) {
            self.count(Counter::GW_COUNTER_TAG_MISMATCH);
            return Ok(None);
        }
        if entry.has_ended(self.state.now_ns) {
            return Ok(None);
        }
        let leaves_trace = packet.class != Class::Observer;
        let backend = target.placed.backend(entry.row);
        let backend = backend.filter(|backend| backend.incarnation == entry.incarnation);
        let Some(backend) = backend.filter(|backend| backend.standing().is_usable()) else {
            if backend.is_none() {
                self.count(Counter::GW_COUNTER_STALE);
            }
            let owner = self.owner(target, packet)?;
            if leaves_trace {
                self.use_binding(&key, owner);
            }
            return Ok(Some((owner, Rule::Reselect)));
        };
        if leaves_trace {
            self.use_binding(&key, backend);
            if target.service.quic.routing == Routing::Learned {
                self.follow(target, packet, backend)?;
            }
        }
        let rule = match entry.origin {
            Origin::Registered => Rule::CidRegistered,
            Origin::Imported => Rule::CidImported,
            Origin::Traffic => Rule::CidLearned,
        };
        Ok(Some((backend, rule)))
    }

    /// The owner of the flow's slot, for a packet whose binding is of no use.
    fn owner(&mut self, target: Target<'a>, packet: Packet) -> Result<&'a PlacedBackend, Reason> {
        let (_, slot) = self.hash(target, &packet.flow)?;
        let Some(row) = slot.owner else {
            self.count(Outcome::NoBackend.counter());
            return Err(Reason::NoBackend);
        };
        self.count(Outcome::Reselected.counter());
        target.placed.backend(row).ok_or(Reason::Internal)
    }

    /// Notes that a packet used the binding to get to this backend.
    fn use_binding(&mut self, key: &CidKey, backend: &PlacedBackend) {
        let now_ns = self.state.now_ns;
        if let Some(entry) = self.state.cids.get_mut(key) {
            (entry.row, entry.incarnation) = (backend.row, backend.incarnation);
            entry.touch(now_ns);
            entry.revive();
        }
    }

    /// Has the packet's flow follow its connection ID to a backend: if it has no entry it gets one,
    /// so that the next connection ID that comes this way is learned.
    fn follow(
        &mut self,
        target: Target<'_>,
        packet: Packet,
        backend: &PlacedBackend,
    ) -> Result<(), Reason> {
        let (flow, _) = self.hash(target, &packet.flow)?;
        let bind = |entry: &Binding| (entry.row, entry.incarnation);
        match self.find_flow(&flow) {
            Some(entry) if bind(&entry) == (backend.row, backend.incarnation) => {
                let now_ns = self.state.now_ns;
                if let Some(entry) = self.state.flows.get_mut(&flow.key) {
                    entry.touch(now_ns);
                    entry.revive();
                }
            }
            Some(_) => self.count(Counter::GW_COUNTER_CID_CONFLICT),
            // A stranger's: nobody tries.
            None if self.state.flows.get(&flow.key).is_some() => {}
            None => {
                let stats = target.placed.stats;
                let level = self.state.admission(stats).flows;
                let bind = (backend.row, backend.incarnation);
                let entry = Binding::of_traffic(flow.tag, flow.hash, bind, self.state.now_ns);
                if level.admit(target.service.tracking, packet.class).is_ok()
                    && self.state.insert_flow(stats, flow.key, entry).is_ok()
                {
                    self.verdict.created.flow = true;
                    self.count(Counter::GW_COUNTER_REBIND);
                } else {
                    self.count(Counter::GW_COUNTER_CID_REFUSED);
                }
            }
        }
        Ok(())
    }

    /// Binds a connection ID to the backend of the flow that it was seen on.
    pub(super) fn learn(&mut self, target: Target<'_>, flow: &FlowId, cid: Cid) {
        let Some(entry) = self.state.flows.get(&flow.key).copied() else {
            return;
        };
        if entry.learned >= MOST_LEARNED {
            return;
        }
        let key = CidKey::new(target.service.id, cid);
        // A stranger, or a registration that is over: its place is free when the sweep has come by.
        if self.state.cids.get(&key).is_some() {
            return;
        }
        let stats = target.placed.stats;
        let level = self.state.admission(stats).cids;
        if level
            .admit(target.service.tracking, Class::MidFlow)
            .is_err()
        {
            return self.count(Counter::GW_COUNTER_CID_REFUSED);
        }
        let tag = cid_tag(&key.to_abi(), self.state.cid_seed);
        let bind = (entry.row, entry.incarnation);
        let binding = Binding::of_traffic(tag, flow.hash, bind, self.state.now_ns);
        match self.state.insert_cid(stats, key, binding) {
            Ok(()) => {
                self.verdict.created.cid = true;
                self.count(Counter::GW_COUNTER_CID_LEARNED);
                if let Some(entry) = self.state.flows.get_mut(&flow.key) {
                    entry.learned += 1;
                }
            }
            Err(NotInserted::Exists) => self.count(Counter::GW_COUNTER_CID_CONFLICT),
            Err(NotInserted::Full) => self.count(Counter::GW_COUNTER_CID_REFUSED),
        }
    }
}
