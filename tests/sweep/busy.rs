// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Passes that can delete nothing, because the kernel takes no lock.

use std::os::fd::AsFd;

use guideway::abi;
use guideway::affinity::{cid_tag, CidKey};
use guideway::id::ServiceId;
use guideway::kernel::map::Update;
use guideway::quic::Cid;

use crate::machine::*;
use crate::netns::isolated;
use crate::programs::{call_with, Programs, Use};
use crate::touch::service;

const LIVE: u32 = 0;
const EXPIRING: u32 = 1;
const DEAD: u32 = 2;
const FIN: u32 = 1 << 2;

/// The program of tests/bpf/busy.bpf.c around the maps of a machine.
fn busy(machine: &Machine) -> Programs {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/busy.bpf.o"));
    let maps = machine.maps();
    Programs::load(bytes, |name| {
        let shared = maps.iter().find(|(of, _)| *of == name);
        shared.map_or(Use::Own, |(_, map)| Use::Shared(map.as_fd()))
    })
}

#[test]
fn an_entry_that_cannot_be_deleted_lives_on() {
    isolated("sweep::busy", || {
        let service = service(0x77);
        let machine = Machine::new(std::slice::from_ref(&service), 64);
        let idle = FLOW_IDLE + 1;
        // The second and the last have a packet meanwhile.
        let states = [EXPIRING, EXPIRING | FIN, DEAD, DEAD | FIN];
        let flows = (0..).zip(states).map(|(number, state)| {
            let flow = Flow::new(&service, number);
            let entry = flow.entry(0, 11, idle, state);
            let inserted = machine.flows.update(&flow.key, &entry, Update::Insert);
            inserted.expect("room");
            flow
        });
        let flows: Vec<_> = flows.collect();
        let cid = Cid::new(&[0x40, 1, 2, 3, 4, 5, 6, 7]).expect("an ID");
        let cid = CidKey::new(ServiceId::new(service.id), cid).to_abi();
        let learned = abi::Binding {
            tag: cid_tag(&cid, CID_SEED),
            row: 0,
            incarnation: 11,
            seen_ns: NOW - CID_IDLE - 1,
            state: EXPIRING,
            hash: 0,
        };
        let inserted = machine.cids.update(&cid, &learned, Update::Insert);
        inserted.expect("room");

        machine.prepare();
        let mut context = machine.context(NOW);
        let busy = busy(&machine);
        assert_eq!(call_with(busy.program("gw_sweep_flows"), &mut context), 0);
        assert_eq!(call_with(busy.program("gw_sweep_cids"), &mut context), 0);
        let found = &machine.swept(&context).services[0];
        assert_eq!((found.flows.entries, found.flows.deleted[0]), (4, 0));
        assert_eq!((found.cids.entries, found.cids.deleted[0]), (1, 0));
        for (flow, before) in flows.iter().zip(states) {
            let value = machine.flows.get(&flow.key).expect("read").expect("there");
            let expected = (LIVE | before & FIN, NOW);
            assert_eq!((value.state, value.seen_ns), expected, "{before}");
        }
        let value = machine.cids.get(&cid).expect("read").expect("there");
        assert_eq!((value.state, value.seen_ns), (LIVE, NOW));

        // From then on as any other.
        let later = NOW + CID_IDLE + 1;
        machine.sweep(later);
        assert!(machine.cids.get(&cid).expect("read").is_some());
        machine.sweep(later);
        assert!(machine.cids.get(&cid).expect("read").is_none());
        assert!(machine.flows.get(&flows[0].key).expect("read").is_none());
    });
}
