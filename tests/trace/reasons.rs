// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames with one end each, and what is said of them. What must become of a frame is taken from
//! the rules of the load balancer, frame by frame.

use serde_json::{json, Value};

use crate::build::*;
use crate::netns::isolated;
use crate::{counts, trace};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// One service of each kind.
fn spec() -> Value {
    let backend = |id: u32, interface: &str| json!({"id": id, "interface": interface, "mac": format!("02:00:00:00:01:{id:02x}")});
    let service = |name: &str, vip: &str, port: u16, backends: Vec<Value>| {
        json!({"name": name, "vip": vip, "port": port, "maglev_table_size": 251,
               "backends": backends})
    };
    let mut by_id = service(
        "by-id",
        "203.0.113.81",
        443,
        vec![backend(1, "vm-a"), backend(2, "vm-b")],
    );
    by_id["quic"] = json!({
        "routing": "server-id", "unhealthy": "drop",
        "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}],
    });
    by_id["backends"][0]["server_id"] = json!("c460");
    by_id["backends"][1]["server_id"] = json!("d5e7");
    by_id["backends"][1]["state"] = json!("unhealthy");
    let mut back = service("back", "203.0.113.82", 443, vec![backend(3, "edge0")]);
    back["quic_only"] = json!(false);
    let mut web = service("web", "203.0.113.80", 80, vec![backend(4, "vm-a")]);
    web["protocol"] = json!("tcp");
    let empty = service("empty", "203.0.113.83", 443, vec![]);
    let mut six = service("six", "2001:db8::80", 443, vec![backend(5, "vm-c")]);
    six["fragments"] = json!("pass");
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
        "services": [by_id, back, web, empty, six],
    })
}

/// A datagram to one of the IPv4 VIPs.
fn datagram(vip: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let vip = std::net::Ipv4Addr::new(203, 0, 113, vip);
    let packet = ipv4_between(CLIENT4, vip, UDP, 0, &udp(50000, port, payload));
    ethernet(&[], 0x0800, &packet)
}

/// A short header with a connection ID of eight bytes under config 0.
fn short(server_id: [u8; 2]) -> Vec<u8> {
    let [a, b] = server_id;
    [&[0x40, 0x07, a, b, 1, 2, 3, 4, 5], &[0; 20][..]].concat()
}

/// A long header of version 1 with such a connection ID; type 0 is Initial, 2 is Handshake.
fn long(kind: u8, server_id: [u8; 2]) -> Vec<u8> {
    let [a, b] = server_id;
    let first = 0xc0 | kind << 4;
    [
        &[first, 0, 0, 0, 1, 8, 0x07, a, b, 1, 2, 3, 4, 5, 0],
        &[0; 20][..],
    ]
    .concat()
}

/// A frame, and the members of its trace that must have a certain value.
fn cases() -> Vec<(&'static str, Vec<u8>, Value)> {
    let short_id = |id| datagram(81, 443, &short(id));
    let long_id = |kind, id| datagram(81, 443, &long(kind, id));
    let pass = |reason: &str| json!({"verdict": "pass", "reason": reason, "rule": null, "service": null, "backend": null, "flow_start": null, "hash": null});
    vec![
        ("arp", ethernet(&[], 0x0806, &[0; 46]), pass("not_ip")),
        (
            "three tags",
            ethernet(&[(0x8100, 1), (0x88a8, 2), (0x8100, 3)], 0x0800, &[0; 46]),
            pass("vlan_depth"),
        ),
        (
            "no ip header",
            ethernet(&[], 0x0800, &[0x45; 10]),
            pass("bad_ipv4"),
        ),
        (
            "no ipv6 header",
            ethernet(&[], 0x86dd, &[0x60; 10]),
            pass("bad_ipv6"),
        ),
        (
            "seven headers",
            ipv6(&vec![options(60, 8); 7], UDP, &request()),
            pass("ext_headers"),
        ),
        (
            "segments left",
            ipv6(&[routing(8, 1)], UDP, &request()),
            pass("routing_header"),
        ),
        ("gre", ipv4(47, &[0; 20]), pass("l4_other")),
        ("no udp header", ipv4(UDP, &[0; 7]), pass("bad_l4")),
        ("no such port", datagram(80, 443, b"x"), pass("no_service")),
        ("no such vip", datagram(99, 443, b"x"), pass("no_service")),
        (
            "echo",
            ipv4(ICMP, &icmp(8, 0, &[0; 20])),
            pass("icmp_other"),
        ),
        (
            "error about nothing",
            ipv4(ICMP, &icmp(3, 4, &[0; 20])),
            pass("icmp_bad"),
        ),
        (
            "error about no service",
            error4(&quoted4(UDP, &udp(444, 50000, b"world!"))),
            pass("icmp_no_service"),
        ),
        (
            "dtls",
            datagram(81, 443, &[&[22, 0xfe, 0xfd][..], &[0; 10]].concat()),
            json!({"verdict": "pass", "reason": "not_quic", "service": {"name": "by-id"}, "quic": {"form": "not-quic"}}),
        ),
        (
            "nothing",
            datagram(81, 443, &[]),
            json!({"verdict": "pass", "reason": "bad_quic", "service": {"name": "by-id"}, "quic": {"form": "malformed"}}),
        ),
        (
            "id of backend 1",
            short_id([0xc4, 0x60]),
            json!({"verdict": "redirect", "rule": "server_id", "backend": {"id": 1, "interface": "vm-a", "state": "ready"}, "flow_start": false, "slot": null,
                   "quic": {"form": "short", "config_id": 0, "server_id": "c460", "dcid": "07c4600102030405"}}),
        ),
        (
            "id of an unhealthy backend",
            short_id([0xd5, 0xe7]),
            json!({"verdict": "drop", "reason": "unhealthy", "rule": null, "backend": {"id": 2, "interface": "vm-b", "state": "unhealthy"}}),
        ),
        (
            "start with the id of an unhealthy backend",
            long_id(0, [0xd5, 0xe7]),
            json!({"verdict": "redirect", "rule": "table", "backend": {"id": 1}, "flow_start": true, "slot_state": "plain", "quic": {"server_id": "d5e7"}}),
        ),
        (
            "id of nobody",
            short_id([1, 2]),
            json!({"verdict": "drop", "reason": "unknown_server_id", "backend": null, "quic": {"server_id": "0102", "unroutable": "unknown"}}),
        ),
        (
            "start with the id of nobody",
            long_id(0, [1, 2]),
            json!({"verdict": "redirect", "rule": "table", "flow_start": true, "quic": {"type": "initial", "unroutable": "unknown"}}),
        ),
        (
            "handshake with the id of nobody",
            long_id(2, [1, 2]),
            json!({"verdict": "drop", "reason": "unknown_server_id", "flow_start": false}),
        ),
        (
            "reserved",
            datagram(81, 443, &[&[0x40, 0xe7][..], &[9; 20]].concat()),
            json!({"verdict": "redirect", "rule": "table", "quic": {"unroutable": "reserved", "server_id": null}}),
        ),
        (
            "no backend",
            datagram(83, 443, &[0x40; 20]),
            json!({"verdict": "drop", "reason": "no_backend", "service": {"name": "empty"}, "backend": null, "flow_start": false}),
        ),
        (
            "back where it came from",
            datagram(82, 443, b"any"),
            json!({"verdict": "tx", "rule": "table", "backend": {"id": 3, "interface": "edge0"}, "quic": null}),
        ),
        (
            "fragment",
            with(ipv4(TCP, &tcp(50000, 80, ACK)), &[(20, 0x20)]),
            json!({"verdict": "drop", "reason": "fragment_drop", "service": {"name": "web"}, "ip": {"fragment": "first", "source_port": null}, "flow_start": null}),
        ),
        (
            "passing fragment",
            ipv6(&[fragment(1, false)], UDP, &[0; 20]),
            json!({"verdict": "pass", "reason": "fragment_pass", "service": {"name": "six"}, "ip": {"fragment": "later"}}),
        ),
        (
            "tcp start",
            ipv4(TCP, &tcp(50000, 80, SYN)),
            json!({"verdict": "redirect", "rule": "table", "backend": {"id": 4}, "flow_start": true, "ip": {"protocol": "tcp"}, "quic": null}),
        ),
        (
            "tcp on its way",
            ipv4(TCP, &tcp(50000, 80, ACK)),
            json!({"verdict": "redirect", "rule": "table", "backend": {"id": 4}, "flow_start": false}),
        ),
        (
            "tagged",
            ethernet(
                &[(0x88a8, 100), (0x8100, 0xe005)],
                0x86dd,
                &ipv6_between(
                    CLIENT6,
                    VIP6,
                    &[options(0, 8)],
                    UDP,
                    &udp(50000, 443, &[0x40; 20]),
                ),
            ),
            json!({"verdict": "redirect", "rule": "table", "backend": {"id": 5}, "l2": {"vlans": [100, 5], "ethertype": 0x86dd}, "ip": {"family": "ipv6", "source": "2001:db8::7"}}),
        ),
        (
            "error about a tcp flow",
            error4(&quoted4(TCP, &tcp(80, 50000, ACK))),
            json!({"verdict": "redirect", "rule": "table", "backend": {"id": 4}, "service": {"name": "web"}, "flow_start": false,
                   "ip": {"protocol": "icmp", "source_port": null},
                   "icmp": {"type": 3, "code": 4, "embedded": {"protocol": "tcp", "source": "203.0.113.80", "source_port": 80, "destination_port": 50000}}}),
        ),
    ]
}

/// Whether `found` has all that `expected` has.
fn matches(found: &Value, expected: &Value) -> bool {
    match expected.as_object() {
        Some(members) => members
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| matches(found, value))),
        None => found == expected,
    }
}

#[test]
fn every_frame_ends_as_the_rules_say() {
    isolated("trace::reasons", || {
        let cases = cases();
        let frames: Vec<_> = cases.iter().map(|(_, frame, _)| frame.clone()).collect();
        let document = trace(&spec(), &frames);
        let packets = document["packets"].as_array().expect("packets");
        assert_eq!(packets.len(), cases.len());
        let mut wrong = String::new();
        for (packet, (name, frame, expected)) in packets.iter().zip(&cases) {
            if !matches(packet, expected) || packet["error"] != Value::Null {
                wrong += &format!("{name}: expected {expected}\nfound {packet:#}\n");
            }
            let forwarded = packet["reason"] == "forwarded";
            assert_eq!(forwarded, packet["rule"] != Value::Null, "{name}");
            assert_eq!(packet["output"]["length"], frame.len(), "{name}");
            // Those that pass are untouched.
            if packet["verdict"] == "pass" {
                assert_eq!(packet["output"]["changed"], json!([]), "{name}");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");

        let summary = &document["summary"];
        let sum = |object: &Value| -> u64 {
            let numbers = object.as_object().expect("an object").values();
            numbers.filter_map(Value::as_u64).sum()
        };
        let verdicts = ["redirect", "tx", "pass", "drop", "aborted"];
        let verdicts: u64 = verdicts
            .iter()
            .filter_map(|name| summary[name].as_u64())
            .sum();
        assert_eq!(summary["packets"], cases.len());
        assert_eq!(verdicts, cases.len() as u64);
        assert_eq!(sum(&summary["by_reason"]), cases.len() as u64);
        assert_eq!(
            json!(sum(&summary["by_rule"])),
            summary["by_reason"]["forwarded"]
        );
        assert_eq!(summary["tx"], 1);
        assert_eq!(summary["by_rule"]["server_id"], 1);
    });
}

/// A frame sent back must not keep the sender's address: it gets that of the interface, which is
/// made up here, and the notes say so.
#[test]
fn frames_sent_back_have_the_address_of_the_interface() {
    isolated("trace::transmit", || {
        let document = trace(&spec(), &[datagram(82, 443, b"any")]);
        let changed = &document["packets"][0]["output"]["changed"];
        // From 02:00:00:00:00:01 to the backend's 02:00:00:00:01:03; the source follows.
        assert_eq!(
            changed[0],
            json!({"offset": 4, "from": "0001", "to": "0103"})
        );
        assert!(changed[1]["offset"].as_u64() >= Some(6), "{changed}");
        assert_eq!(
            document["notes"],
            json!([
                "stand-ins took the place of interfaces that do not exist here: edge0, vm-a, \
                 vm-b, vm-c",
                "source addresses of those interfaces are made up"
            ])
        );
    });
}

/// The order of decision holds for the first frame as for the last: no flow state exists.
#[test]
fn frames_are_the_same_when_each_is_the_first() {
    isolated("trace::reset", || {
        let frames = [
            datagram(81, 443, &short([0xc4, 0x60])),
            ipv4(TCP, &tcp(50000, 80, ACK)),
            ipv4(TCP, &tcp(50000, 80, ACK)),
        ];
        let numbered = || {
            let frames = frames.iter().enumerate();
            frames.map(|(index, bytes)| guideway::capture::Frame::new(index as u64, bytes))
        };
        use guideway::quiclb::trace::Reset;
        let together = crate::trace_frames(&spec(), numbered(), Reset::Never);
        let apart = crate::trace_frames(&spec(), numbered(), Reset::BeforeEach);
        assert_eq!(together, apart);
        assert_eq!(
            counts(&apart),
            json!({"packets": 3, "redirect": 3, "by_reason": {"forwarded": 3},
                   "by_rule": {"server_id": 1, "table": 2}})
        );
    });
}
