// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flows whose place is published: every node and every implementation must agree on it.

use serde_json::{json, Value};

use crate::build::*;
use crate::machine::{Machine, ONE, TWO};
use crate::netns::isolated;

const ZERO: &str = "00000000000000000000000000000000";
const COUNTING: &str = "000102030405060708090a0b0c0d0e0f";

fn document(seed: &str, hash: &str, vip: &str, name: &str) -> Value {
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "gw-edge",
        "hash_seed": seed,
        "services": [{
            "name": name, "vip": vip, "port": 443, "short_dcid_len": 8, "hash": hash,
            "maglev_table_size": 4093,
            "backends": [
                {"id": 1, "interface": ONE, "mac": "02:00:00:00:01:01"},
                {"id": 2, "interface": TWO, "mac": "02:00:00:00:01:02"},
            ],
        }],
    })
}

/// An Initial packet with a connection ID of the client's invention.
fn initial() -> Vec<u8> {
    let mut payload = vec![0xc0, 0, 0, 0, 1, 8];
    payload.extend([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, 0]);
    payload.extend([0; 1183]);
    payload
}

#[test]
fn published_flows_have_their_published_places() {
    isolated("datapath::placement", || {
        let machine = Machine::tracing();
        for (seed, hash, h64, slot, backend) in [
            (ZERO, "flow", 0x5630_5f65_43cb_2707_u64, 1378, 2),
            (COUNTING, "flow", 0x63d9_eb92_39c1_356c, 1596, 2),
            (ZERO, "source", 0x2073_3fac_0c9a_8f7b, 518, 2),
            (COUNTING, "source", 0x114e_f7bd_1629_7831, 276, 1),
        ] {
            machine.publish(&machine.plan(&document(seed, hash, "203.0.113.80", "quic-api")));
            machine.run(&ipv4(UDP, &udp(50000, 443, &initial())));
            let note = machine.note();
            assert_eq!(note.service_id, 0x8cd5_d28f);
            assert_eq!(
                (note.hash, note.slot, note.backend_id),
                (h64, slot, backend),
                "{hash} under {seed}"
            );
        }
    });
}

/// What else a packet says does not move it: two nodes may see it through other links.
#[test]
fn nothing_but_the_flow_places_a_packet() {
    isolated("datapath::nothing_but_the_flow", || {
        let machine = Machine::tracing();
        machine.publish(&machine.plan(&document(COUNTING, "flow", "203.0.113.80", "quic-api")));
        let datagram = udp(50000, 443, &initial());
        let plain = ipv4_options(UDP, 0, &datagram);
        let mut other_cid = initial();
        other_cid[6..14].fill(0x55);
        for frame in [
            ethernet(&[], 0x0800, &plain),
            ethernet(&[(0x8100, 5)], 0x0800, &plain),
            ethernet(&[(0x88a8, 5), (0x8100, 0x6006)], 0x0800, &plain),
            ethernet(&[], 0x0800, &ipv4_options(UDP, 4, &datagram)),
            ethernet(&[(0x8100, 5)], 0x0800, &ipv4_options(UDP, 40, &datagram)),
            ipv4(UDP, &udp(50000, 443, &other_cid)),
            ipv4(UDP, &udp(50000, 443, &initial()[..14])),
            ipv4(UDP, &udp(50000, 443, &[0x40; 9])),
        ] {
            machine.run(&frame);
            let note = machine.note();
            assert_eq!(
                (note.hash, note.slot, note.backend_id),
                (0x63d9_eb92_39c1_356c, 1596, 2),
                "{frame:02x?}"
            );
        }
    });
}

#[test]
fn ipv6_places_by_all_of_the_address() {
    isolated("datapath::ipv6", || {
        let machine = Machine::tracing();
        machine.publish(&machine.plan(&document(ZERO, "flow", "2001:db8::80", "quic-api6")));
        let datagram = udp(50000, 443, &initial());
        let hash_of = |frame: &[u8]| {
            machine.run(frame);
            let note = machine.note();
            assert_eq!(note.service_id, 0xe9f7_a012, "{frame:02x?}");
            note.hash
        };
        let plain = hash_of(&ipv6(&[], UDP, &datagram));
        for exts in [
            vec![options(0, 8)],
            vec![routing(24, 0), fragment(0, false), options(60, 8)],
            vec![authentication(24)],
            vec![options(60, 512)],
        ] {
            assert_eq!(hash_of(&ipv6(&exts, UDP, &datagram)), plain, "{exts:?}");
        }
        for byte in 0..16 {
            let frame = with(ipv6(&[], UDP, &datagram), &[(22 + byte, 0xee)]);
            assert_ne!(hash_of(&frame), plain, "byte {byte} of the address");
        }
    });
}
