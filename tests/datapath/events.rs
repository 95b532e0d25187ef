// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program reports, byte by byte, and how it holds back.

use std::time::Duration;

use guideway::abi::{self, EventKind};
use guideway::kernel::ring::Ring;
use guideway::reason::{Reason, Rule};
use serde_json::json;

use crate::build::*;
use crate::cpus::stay_here;
use crate::generations::{document, LONGEST, NOBODY, READY};
use crate::machine::{Machine, EDGE};
use crate::netns::{self, isolated};

fn limited(machine: &Machine, events_per_second: u32) {
    let mut document = document();
    document["events_per_second"] = json!(events_per_second);
    machine.publish(&machine.plan(&document));
}

fn taken(ring: &mut Ring<abi::Event>) -> Vec<abi::Event> {
    let mut events = Vec::new();
    ring.poll(Duration::ZERO, usize::MAX, |event| events.push(*event))
        .unwrap();
    assert_eq!(ring.malformed(), 0);
    events
}

fn short(dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x40];
    payload.extend(dcid);
    payload.extend([0x99; 16]);
    ipv4(UDP, &udp(50000, 443, &payload))
}

fn handshake(dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0xe0, 0, 0, 0, 1, dcid.len() as u8];
    payload.extend(dcid);
    payload.extend([0; 20]);
    ipv4(UDP, &udp(50000, 443, &payload))
}

#[test]
fn a_record_says_what_happened_and_nothing_else() {
    isolated("datapath::record", || {
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 1000);
        // Its headers stay behind in the program's memory.
        machine.run(&ipv6(&[], TCP, &tcp(50001, 8080, 0x10)));
        machine.run(&handshake(&NOBODY));
        let events = taken(&mut ring);
        assert_eq!(events.len(), 1, "{events:?}");
        let record: [u8; 88] = bytemuck::cast(events[0]);
        let now = events[0].time_ns;
        assert!(now > 0);
        let service = machine.service_id("quic");

        let mut expected = Vec::new();
        expected.extend(now.to_ne_bytes());
        expected.extend(7_u64.to_ne_bytes());
        expected.extend(service.to_ne_bytes());
        expected.extend(0_u32.to_ne_bytes());
        expected.extend(netns::ifindex(EDGE).to_ne_bytes());
        expected.extend(0_u32.to_ne_bytes());
        expected.extend((EventKind::GW_EVENT_UNKNOWN_SERVER_ID.0 as u16).to_ne_bytes());
        expected.extend([255, Reason::UnknownServerId.number(), 4, 17, 8, 0]);
        expected.extend(50000_u16.to_be_bytes());
        expected.extend(443_u16.to_be_bytes());
        expected.extend(u32::MAX.to_ne_bytes());
        expected.extend([198, 51, 100, 7]);
        expected.extend([0; 12]);
        expected.extend(NOBODY);
        expected.extend([0; 16]);
        assert_eq!(record[..], expected);
    });
}

/// Without an agreed length, the configuration says how long the connection ID of a short header is.
#[test]
fn the_connection_id_has_the_length_of_its_configuration() {
    isolated("datapath::cid", || {
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 1000);
        let mut longest = LONGEST;
        longest[1] = 0xff;
        for cid in [&NOBODY[..], &longest] {
            for frame in [short(cid), handshake(cid)] {
                machine.run(&frame);
                let [event] = taken(&mut ring)[..] else {
                    panic!("one event");
                };
                assert_eq!(&event.cid[..usize::from(event.cid_len)], cid);
                assert!(event.cid[cid.len()..].iter().all(|byte| *byte == 0));
            }
        }
    });
}

#[test]
fn each_kind_is_reported_with_its_reason() {
    isolated("datapath::kinds", || {
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 1000);
        let syn = ipv4(TCP, &tcp(50000, 8080, 2));
        let bad = |frame: Vec<u8>| with(frame, &[(14, 0x44)]);
        for (frame, kind, reason) in [
            (
                syn.clone(),
                EventKind::GW_EVENT_FLOW_START,
                Reason::Forwarded,
            ),
            (
                ipv4(TCP, &tcp(50000, 8083, 2)),
                EventKind::GW_EVENT_NO_BACKEND,
                Reason::NoBackend,
            ),
            (
                short(&NOBODY),
                EventKind::GW_EVENT_UNKNOWN_SERVER_ID,
                Reason::UnknownServerId,
            ),
            (
                bad(syn.clone()),
                EventKind::GW_EVENT_BAD_PACKET,
                Reason::BadIpv4,
            ),
            (
                ipv4(TCP, &[0; 4]),
                EventKind::GW_EVENT_BAD_PACKET,
                Reason::BadL4,
            ),
            (
                ipv4(ICMP, &icmp(3, 4, &[])),
                EventKind::GW_EVENT_BAD_PACKET,
                Reason::IcmpBad,
            ),
            (
                ipv4(UDP, &udp(50000, 443, &[])),
                EventKind::GW_EVENT_BAD_PACKET,
                Reason::BadQuic,
            ),
            (
                ipv4(
                    UDP,
                    &udp(50000, 443, &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                ),
                EventKind::GW_EVENT_NOT_QUIC,
                Reason::NotQuic,
            ),
            (
                with(syn.clone(), &[(20, 0x20)]),
                EventKind::GW_EVENT_FRAGMENT,
                Reason::FragmentPass,
            ),
        ] {
            machine.run(&frame);
            let events = taken(&mut ring);
            let seen: Vec<_> = events
                .iter()
                .map(|event| (event.kind, event.reason))
                .collect();
            assert_eq!(seen, [(kind.0 as u16, reason.number())], "{reason}");
        }

        machine.run(&syn);
        let [event] = taken(&mut ring)[..] else {
            panic!("one event");
        };
        assert_eq!(
            (event.rule, event.backend_id, event.suppressed),
            (Rule::Table.number(), 1, 0)
        );
        assert!(event.slot < 251, "{}", event.slot);
    });
}

#[test]
fn a_plain_hit_and_somebody_elses_packet_are_not_reported() {
    isolated("datapath::silence", || {
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 1000);
        for frame in [
            short(&READY),
            handshake(&READY),
            ipv4(TCP, &tcp(50000, 8080, 0x10)),
            ipv4(UDP, &udp(50000, 53, b"a question")),
            ipv4(TCP, &tcp(50000, 22, 2)),
            ipv4(ICMP, &icmp(8, 0, &[0; 56])),
            ethernet(&[], 0x0806, &[0; 28]),
        ] {
            machine.run(&frame);
            assert!(taken(&mut ring).is_empty(), "{frame:02x?}");
        }

        limited(&machine, 0);
        machine.run(&short(&NOBODY));
        assert!(taken(&mut ring).is_empty(), "switched off");
        let kind = EventKind::GW_EVENT_UNKNOWN_SERVER_ID;
        assert_eq!(machine.bucket(kind), [0, 0, 0]);
    });
}

#[test]
fn what_was_held_back_is_told_with_the_next_record() {
    isolated("datapath::bucket", || {
        stay_here();
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 2);
        let unknown = EventKind::GW_EVENT_UNKNOWN_SERVER_ID;
        for _ in 0..20 {
            machine.run(&short(&NOBODY));
        }
        let burst = taken(&mut ring);
        let emitted = burst.len() as u64;
        // The tokens of one second, and perhaps of the half second that a busy machine takes.
        assert!((2..=4).contains(&emitted), "{emitted} records");
        assert_eq!(machine.bucket(unknown), [emitted, 20 - emitted, 0]);
        // Another kind has tokens of its own.
        machine.run(&ipv4(TCP, &tcp(50000, 8080, 2)));
        assert_eq!(taken(&mut ring).len(), 1);

        std::thread::sleep(Duration::from_millis(1100));
        for _ in 0..2 {
            machine.run(&short(&NOBODY));
        }
        let later = taken(&mut ring);
        assert_eq!(later.len(), 2);
        let told: u64 = [burst, later]
            .concat()
            .iter()
            .map(|e| u64::from(e.suppressed))
            .sum();
        assert_eq!(told, 20 - emitted);
    });
}

#[test]
fn a_full_ring_loses_records_and_says_how_many() {
    isolated("datapath::full", || {
        stay_here();
        let mut machine = Machine::new();
        let mut ring = machine.ring();
        limited(&machine, 100_000);
        // 1 MiB holds 10,922 records of 88 bytes and their headers of 8.
        for _ in 0..11_000 {
            machine.run(&short(&NOBODY));
        }
        let unknown = EventKind::GW_EVENT_UNKNOWN_SERVER_ID;
        let [emitted, suppressed, lost] = machine.bucket(unknown)[..] else {
            panic!("three numbers");
        };
        assert_eq!(emitted, 10_922);
        assert_eq!(emitted + suppressed + lost, 11_000);
        assert!(lost > 0);
        assert_eq!(taken(&mut ring).len() as u64, emitted);
        machine.run(&short(&NOBODY));
        assert_eq!(taken(&mut ring).len(), 1);
    });
}
