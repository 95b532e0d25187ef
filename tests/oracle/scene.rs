// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A generation with the state that frames leave, and what a test sets in both.

use std::sync::Arc;

use guideway::affinity::rules::{Slot, SlotKind};
use guideway::affinity::state::State;
use guideway::affinity::{cid_tag, Binding, CidKey, Origin, Phase};
use guideway::hash::{hash32, FlowHashKey, FlowKey};
use guideway::oracle::{route, Verdict};
use guideway::plan::Generation;
use serde_json::{json, Value};

use crate::world::{example, generation};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Some time after the start of the machine.
pub(crate) const NOW: u64 = 1000 * SECOND;
pub(crate) const CID_SEED: u64 = 0x0123_4567_89ab_cdef;

/// 198.51.100.7:50000 to port 443 of the example's service, published with its hash: key, the tag
/// of its entry, and the hash that places it.
pub(crate) const KEY: &str = "8fd2d58cc35001bbc633640700000000";
pub(crate) const TAG: u16 = 0x2707;
pub(crate) const HASH: u32 = 0x5630_5f65;

pub(crate) struct Scene {
    pub(crate) generation: Generation,
    pub(crate) state: State,
}

impl Scene {
    /// Under this specification, at [`NOW`].
    pub(crate) fn new(spec: &Value) -> Self {
        let mut state = State::with_capacity(100, 100);
        state.now_ns = NOW;
        state.cid_seed = CID_SEED;
        Self {
            generation: generation(spec),
            state,
        }
    }

    /// The example by tuple, without learning: only exceptions have entries. Backend 2 owns every
    /// slot; they are of this kind, and backend 1, in row 0, is in this state.
    pub(crate) fn of_slots(protocol: &str, kind: SlotKind, state: &str) -> Self {
        let mut scene = Self::new(&by_tuple(protocol, state));
        scene.mark(Some(1), kind);
        scene
    }

    /// Gives every slot this owner and kind.
    pub(crate) fn mark(&mut self, owner: Option<u16>, kind: SlotKind) {
        let placed = &mut self.generation.services[0];
        let word = Slot { owner, kind }.to_abi();
        placed.slots = Arc::from(vec![word; placed.slots.len()]);
    }

    pub(crate) fn run(&mut self, frame: &[u8]) -> Verdict {
        route(&self.generation, &mut self.state, frame, |_| true)
    }

    /// A backend's row and incarnation, as an entry holds them.
    pub(crate) fn bind(&self, id: u16) -> (u16, u32) {
        let backend = self.generation.services[0].backend(id - 1).unwrap();
        assert_eq!(backend.id.get(), u32::from(id));
        (backend.row, backend.incarnation)
    }

    /// The entry of the example's flow; there must be no other.
    pub(crate) fn entry(&self) -> Option<Binding> {
        assert!(self.state.flows.len() <= 1);
        self.state.flows.iter().next().map(|(_, entry)| *entry)
    }

    pub(crate) fn key(&self) -> FlowKey {
        let service = self.generation.spec.services()[0].id;
        FlowKey::new(service, 50000, 443, [198, 51, 100, 7].into())
    }

    /// Puts an entry of the example's flow there.
    pub(crate) fn put(&mut self, bind: (u16, u32), phase: Phase, seen_ns: u64) -> Binding {
        let key = self.key();
        let h64 = FlowHashKey::new(self.generation.spec.hash_seed()).h64(&key, false);
        let entry = Binding {
            tag: h64 as u16,
            row: bind.0,
            incarnation: bind.1,
            seen_ns,
            phase,
            fin: false,
            rst: false,
            origin: Origin::Traffic,
            learned: 0,
            hash: hash32(h64),
        };
        self.state.flows.remove(&key);
        self.state.flows.insert(key, entry).unwrap();
        entry
    }

    /// Binds a connection ID of the first service.
    pub(crate) fn bind_cid(&mut self, cid: &[u8], bind: (u16, u32), origin: Origin) -> CidKey {
        let key = self.cid_key(cid);
        let binding = Binding {
            tag: cid_tag(&key.to_abi(), CID_SEED),
            row: bind.0,
            incarnation: bind.1,
            // The time of the last packet, or of a registration's end.
            seen_ns: match origin {
                Origin::Registered => NOW + 100 * SECOND,
                Origin::Traffic | Origin::Imported => NOW - 100 * SECOND,
            },
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin,
            learned: 0,
            hash: 0x5eed,
        };
        self.state.cids.insert(key, binding).unwrap();
        self.generation.services[0].exact = true;
        key
    }

    pub(crate) fn cid_key(&self, cid: &[u8]) -> CidKey {
        let cid = guideway::quic::Cid::new(cid).unwrap();
        CidKey::new(self.generation.spec.services()[0].id, cid)
    }

    pub(crate) fn cid(&self, cid: &[u8]) -> Option<Binding> {
        self.state.cids.get(&self.cid_key(cid)).copied()
    }
}

/// The example without learning, of this protocol, with backend 1 in this state.
pub(crate) fn by_tuple(protocol: &str, state: &str) -> Value {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["protocol"] = json!(protocol);
    service["short_dcid_len"] = json!(if protocol == "udp" { 8 } else { 0 });
    service["tracking"] = json!("exceptions");
    if protocol == "udp" {
        service["quic"] = json!({"routing": "tuple"});
    } else {
        service["quic_only"] = json!(false);
    }
    service["backends"][0]["state"] = json!(state);
    spec
}
