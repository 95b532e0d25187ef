// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What headers say, in the form of traces.

use guideway::oracle::describe;
use serde_json::{json, Value};

use crate::build::*;
use crate::world::*;

#[track_caller]
fn assert_described(spec: &Value, frame: &[u8], expected: Value) {
    let description = describe(&generation(spec), frame);
    assert_eq!(serde_json::to_value(description).unwrap(), expected);
}

fn ip(protocol: Value, ports: [Value; 2], fragment: &str) -> Value {
    let [source_port, destination_port] = ports;
    json!({
        "family": "ipv4", "protocol": protocol, "source": "198.51.100.7",
        "destination": "203.0.113.80", "source_port": source_port,
        "destination_port": destination_port, "fragment": fragment,
    })
}

fn udp_to_443() -> Value {
    ip(json!("udp"), [json!(50000), json!(443)], "none")
}

#[test]
fn tags_addresses_and_long_headers() {
    let payload = long(0xe0, 1, &[0x00, 0xc4, 0x60, 1, 2, 3, 4, 5]);
    let packet = ipv4_options(UDP, 0, &udp(50000, 443, &payload));
    assert_described(
        &with_server_ids(),
        &ethernet(&[(0x88a8, 0x3007), (0x8100, 9)], 0x0800, &packet),
        json!({
            "l2": {"vlans": [7, 9], "ethertype": 0x0800},
            "ip": udp_to_443(),
            "icmp": null,
            "quic": {
                "form": "long", "version": 1, "type": "handshake", "dcid": "00c4600102030405",
                "config_id": 0, "server_id": "c460", "unroutable": null,
            },
        }),
    );
}

#[test]
fn types_of_long_headers() {
    for (first, version, name) in [
        (0xc0, 1, "initial"),
        (0xd0, 1, "0-rtt"),
        (0xf0, 1, "retry"),
        (0xc0, 0, "version-negotiation"),
        (0xc0, 5, "unknown"),
    ] {
        let frame = to_vip(&long(first, version, &[0xaa; 8]));
        let described = serde_json::to_value(describe(&generation(&example()), &frame)).unwrap();
        let expected = json!({
            "form": "long", "version": version, "type": name, "dcid": "aaaaaaaaaaaaaaaa",
            "config_id": null, "server_id": null, "unroutable": null,
        });
        assert_eq!(described["quic"], expected);
    }
}

#[test]
fn short_headers_and_what_is_no_quic() {
    let mut by_config = with_server_ids();
    by_config["services"][0]["short_dcid_len"] = json!(0);
    let mut by_tuple = example();
    by_tuple["services"][0]["short_dcid_len"] = json!(0);
    let quic = |form: &str, dcid: Value, config: Value, id: Value, unroutable: Value| {
        json!({
            "form": form, "version": null, "type": null, "dcid": dcid, "config_id": config,
            "server_id": id, "unroutable": unroutable,
        })
    };
    let null = || Value::Null;
    let cases = [
        (
            &by_config,
            short(&[0x00, 0xd5, 0xe7, 1, 2, 3, 4, 5, 6]),
            quic(
                "short",
                json!("00d5e70102030405"),
                json!(0),
                json!("d5e7"),
                null(),
            ),
        ),
        (
            &by_config,
            short(&[0x00, 0xff, 0xff, 1, 2, 3, 4, 5, 6]),
            quic(
                "short",
                json!("00ffff0102030405"),
                json!(0),
                json!("ffff"),
                json!("unknown"),
            ),
        ),
        (
            &by_config,
            vec![0x40, 0x00, 1, 2],
            quic("short", null(), json!(0), null(), json!("short")),
        ),
        (
            &by_config,
            // Self-described: three bytes.
            short(&[0xe2, 1, 2, 3]),
            quic("short", json!("e20102"), null(), null(), json!("reserved")),
        ),
        (
            &by_config,
            short(&[0x20, 1, 2, 3]),
            quic("short", null(), null(), null(), json!("config")),
        ),
        (
            &example(),
            short(&[7; 8]),
            quic("short", json!("0707070707070707"), null(), null(), null()),
        ),
        (
            &example(),
            vec![0x40, 7],
            quic("short", null(), null(), null(), null()),
        ),
        (
            &by_tuple,
            short(&[7; 8]),
            quic("short", null(), null(), null(), null()),
        ),
        (
            &example(),
            vec![],
            quic("malformed", null(), null(), null(), null()),
        ),
        (
            &example(),
            vec![
                0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
            quic("not-quic", null(), null(), null(), null()),
        ),
    ];
    for (spec, payload, expected) in cases {
        let described = describe(&generation(spec), &to_vip(&payload));
        assert_eq!(
            serde_json::to_value(described).unwrap()["quic"],
            expected,
            "{payload:02x?}"
        );
    }
}

#[test]
fn only_services_that_read_quic_have_it_read() {
    let mut spec = example();
    spec["services"][0]["quic_only"] = json!(false);
    spec["services"][0]["short_dcid_len"] = json!(0);
    let plain = json!({
        "l2": {"vlans": [], "ethertype": 0x0800}, "ip": udp_to_443(), "icmp": null, "quic": null,
    });
    assert_described(&spec, &to_vip(&long(0xc0, 1, &[1; 8])), plain);
}

#[test]
fn errors_and_what_they_quote() {
    let router = |version: &str| match version {
        "ipv4" => ("192.0.2.254", "203.0.113.80", "icmp"),
        _ => ("2001:db8::fe", "2001:db8::80", "icmpv6"),
    };
    let outer = |version: &str| {
        let (source, destination, protocol) = router(version);
        json!({
            "family": version, "protocol": protocol, "source": source,
            "destination": destination, "source_port": null, "destination_port": null,
            "fragment": "none",
        })
    };
    assert_described(
        &example(),
        &error4(&quoted4(UDP, &udp(443, 50000, b""))),
        json!({
            "l2": {"vlans": [], "ethertype": 0x0800},
            "ip": outer("ipv4"),
            "icmp": {"type": 3, "code": 4, "embedded": {
                "family": "ipv4", "protocol": "udp", "source": "203.0.113.80",
                "destination": "198.51.100.7", "source_port": 443, "destination_port": 50000,
                "fragment": "none",
            }},
            "quic": null,
        }),
    );
    // A first fragment is quoted, and cut within its ports.
    assert_described(
        &example(),
        &error6(&quoted6(&[fragment(0, true)], TCP, &[1, 187, 0])),
        json!({
            "l2": {"vlans": [], "ethertype": 0x86dd},
            "ip": outer("ipv6"),
            "icmp": {"type": 2, "code": 0, "embedded": {
                "family": "ipv6", "protocol": "tcp", "source": "2001:db8::80",
                "destination": "2001:db8::7", "source_port": null, "destination_port": null,
                "fragment": "first",
            }},
            "quic": null,
        }),
    );
    let echo = ipv4(ICMP, &icmp(8, 0, &[0; 20]));
    let described = serde_json::to_value(describe(&generation(&example()), &echo)).unwrap();
    assert_eq!(
        described["icmp"],
        json!({"type": 8, "code": 0, "embedded": null})
    );
    assert_eq!(
        described["ip"],
        ip(json!("icmp"), [Value::Null, Value::Null], "none")
    );
}

/// Frames that belong to no flow are described as far as they could be read.
#[test]
fn what_was_read_of_frames_that_cannot_be() {
    let whole = to_vip(b"hello!");
    let no_ports = || [Value::Null, Value::Null];
    for (frame, ethertype, header) in [
        (whole[..13].to_vec(), json!(null), json!(null)),
        (ethernet(&[], 0x0806, &[0; 28]), json!(0x0806), json!(null)),
        (
            ethernet(&[(0x8100, 1); 3], 0x0800, &[]),
            json!(0x8100),
            json!(null),
        ),
        // A total length beyond the frame.
        (
            with(whole.clone(), &[(16, 0xff)]),
            json!(0x0800),
            json!(null),
        ),
        // A UDP length beyond the packet.
        (
            with(whole.clone(), &[(38, 0xff)]),
            json!(0x0800),
            ip(json!("udp"), no_ports(), "none"),
        ),
        (
            with(whole.clone(), &[(23, 50)]),
            json!(0x0800),
            ip(json!(50), no_ports(), "none"),
        ),
        (
            with(whole.clone(), &[(20, 0x20)]),
            json!(0x0800),
            ip(json!("udp"), no_ports(), "first"),
        ),
        (
            with(whole, &[(21, 1)]),
            json!(0x0800),
            ip(json!("udp"), no_ports(), "later"),
        ),
    ] {
        let described = describe(&generation(&example()), &frame);
        let described = serde_json::to_value(described).unwrap();
        assert_eq!(described["l2"]["ethertype"], ethertype);
        assert_eq!(described["ip"], header);
        assert_eq!(
            (&described["icmp"], &described["quic"]),
            (&json!(null), &json!(null))
        );
    }
    let behind_routing = ipv6(&[options(0, 8), routing(24, 1)], UDP, &udp(50000, 443, b""));
    let described = describe(&generation(&example()), &behind_routing);
    assert_eq!(
        serde_json::to_value(described).unwrap()["ip"]["protocol"],
        json!(43)
    );
}
