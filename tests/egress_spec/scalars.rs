// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Single values: what each may be, and how another is refused.

use guideway::encap::{Dscp, DscpValue};
use guideway::tenant::PinQuota;
use serde_json::{json, Value};

use super::{accept_in, refuse_in, small};

const SHARD_SID: &str = "/classes/0/shards/0/sid";
const HOP: &str = "/classes/0/shards/0/next_hop";

#[test]
fn sids() {
    for (sid, code, message) in [
        (
            "2001:db8",
            "address",
            "is not an IPv6 address, got 2001:db8",
        ),
        (
            "192.0.2.1",
            "address",
            "is not an IPv6 address, got 192.0.2.1",
        ),
        (
            "::",
            "sid",
            "is not a uSID: SID :: is the unspecified address",
        ),
        (
            "::ffff:192.0.2.1",
            "sid",
            "is not a uSID: SID ::ffff:192.0.2.1 is an IPv4-mapped address",
        ),
        (
            "ff02::1",
            "sid",
            "is not a uSID: SID ff02::1 is a multicast address",
        ),
        (
            "fe80:0:0:1:e000::",
            "sid",
            "is not a uSID: SID fe80:0:0:1:e000:: is a link-local address",
        ),
        (
            "2001:db8:ff09:0:e000::",
            "sid",
            "is not a uSID: SID 2001:db8:ff09:0:e000:: has node ID 0x0000, not one from 0x0001 to \
             0xdfff",
        ),
        (
            "2001:db8:ff09:e000:e000::",
            "sid",
            "is not a uSID: SID 2001:db8:ff09:e000:e000:: has node ID 0xe000, not one from 0x0001 \
             to 0xdfff",
        ),
        (
            "2001:db8:ff09:10:e000::1",
            "sid",
            "is not a uSID: SID 2001:db8:ff09:10:e000::1 has padding (bytes 12 to 15) 0x00000001, \
             not 0",
        ),
        (
            "2001:db8:ff09:10:e2a5::",
            "sid",
            "must have Argument and slot (bits 68 to 95) 0, got 2001:db8:ff09:10:e2a5:: \
             (2001:db8:ff09:10:e000:: has)",
        ),
        (
            "2001:db8:ff09:10:e000:7::",
            "sid",
            "must have Argument and slot (bits 68 to 95) 0, got 2001:db8:ff09:10:e000:7:: \
             (2001:db8:ff09:10:e000:: has)",
        ),
    ] {
        for pointer in ["/node_sid", SHARD_SID] {
            refuse_in(small(), pointer, json!(sid), code, message);
        }
    }
    // The function is not interpreted.
    accept_in(small(), SHARD_SID, json!("2001:db8:ff09:10:7000::"));
}

#[test]
fn arguments() {
    let pointer = "/tenants/0/argument";
    for (value, number) in [
        (json!(1), 1),
        (json!(4095), 4095),
        (json!("0x1"), 1),
        (json!("0X0FfF"), 0xfff),
    ] {
        let spec = accept_in(small(), pointer, value);
        assert_eq!(spec.tenants()[0].argument.get(), number);
    }
    for (value, shown) in [
        (json!(0), "0"),
        (json!(4096), "4096"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(-1), "-1"),
        (json!(1e300), "1e300"),
        (json!("0x0"), "0x0"),
        (json!("0x1000"), "0x1000"),
        (json!("0x100000001"), "0x100000001"),
    ] {
        let message = format!("must be 0x001 to 0xfff, got {shown}");
        refuse_in(small(), pointer, value, "range", &message);
    }
    for text in ["2a5", "0x", "x", "0x+1", "0x2a5 ", ""] {
        let shown = if text.is_empty() || text.contains(' ') {
            format!("{text:?}")
        } else {
            text.to_owned()
        };
        let message =
            format!("must be a number, or hexadecimal text that begins with 0x, got {shown}");
        refuse_in(small(), pointer, json!(text), "hex", &message);
    }
    let message = "must be an integer without sign, fraction or exponent, got 1.5";
    refuse_in(small(), pointer, json!(1.5), "type", message);
}

#[test]
fn quotas_and_code_points() {
    let pointer = "/tenants/0/pin_quota";
    for (value, quota) in [
        (json!("unlimited"), PinQuota::UNLIMITED),
        (json!(0), PinQuota::NONE),
        (json!(4_294_967_294_u32), PinQuota(4_294_967_294)),
    ] {
        let spec = accept_in(small(), pointer, value);
        assert_eq!(spec.tenants()[0].pin_quota, quota);
    }
    for (value, code, shown) in [
        (json!("none"), "enum", "none"),
        (json!(u32::MAX), "range", "4294967295"),
        (json!(-1), "range", "-1"),
    ] {
        let message = format!("must be unlimited, or 0 to 4294967294, got {shown}");
        refuse_in(small(), pointer, value, code, &message);
    }

    let dscp = |value: Value| {
        let spec = accept_in(small(), "/encap", json!({"dscp": value}));
        spec.encap().dscp
    };
    assert_eq!(dscp(json!("zero")), Dscp::Zero);
    assert_eq!(dscp(json!("copy")), Dscp::Copy);
    assert_eq!(dscp(json!(46)), Dscp::Fixed(DscpValue::new(46).unwrap()));
    for (value, code, shown) in [
        (json!("ef"), "enum", "ef"),
        (json!(64), "range", "64"),
        (json!(256), "range", "256"),
    ] {
        let document = super::with(small(), "/encap", json!({"dscp": value}));
        let message = format!("must be zero, copy, or 0 to 63, got {shown}");
        super::refuse(&document, "/encap/dscp", code, &message);
    }
}

#[test]
fn next_hops() {
    let mac = |name: &str| format!("{HOP}/{name}");
    for name in ["destination", "source"] {
        for (value, message) in [
            (
                "00:00:00:00:00:00",
                "must be a unicast address, 00:00:00:00:00:00 is all zero",
            ),
            (
                "ff:ff:ff:ff:ff:ff",
                "must be a unicast address, ff:ff:ff:ff:ff:ff is broadcast",
            ),
            (
                "33:33:00:00:00:01",
                "must be a unicast address, 33:33:00:00:00:01 is multicast",
            ),
            (
                "02:00:00:00:01",
                "must be six two-digit hexadecimal bytes separated by ':', got 02:00:00:00:01",
            ),
        ] {
            refuse_in(small(), &mac(name), json!(value), "mac", message);
        }
    }
    let pointer = format!("{HOP}/mtu");
    for mtu in [0, 1320, 9000, 65_536] {
        let spec = accept_in(small(), &pointer, json!(mtu));
        let next_hop = spec.classes()[0].shards[0].next_hop.as_ref().unwrap();
        assert_eq!(next_hop.mtu.unwrap().get(), mtu);
    }
    for mtu in [1, 1319, 65_537] {
        let message = format!(
            "must be 0 (unchecked) or 1320 (1280 and 40 of encapsulation) to 65536, got {mtu}"
        );
        refuse_in(small(), &pointer, json!(mtu), "range", &message);
    }
}

#[test]
fn gateways() {
    for (name, value, message) in [
        (
            "gateway6",
            "192.0.2.1",
            "is not an IPv6 address, got 192.0.2.1",
        ),
        (
            "gateway6",
            "::",
            "must be a unicast address, :: is unspecified",
        ),
        (
            "gateway6",
            "::1",
            "must be a unicast address, ::1 is loopback",
        ),
        (
            "gateway6",
            "ff02::1",
            "must be a unicast address, ff02::1 is multicast",
        ),
        (
            "gateway6",
            "::ffff:192.0.2.1",
            "must be a unicast address, ::ffff:192.0.2.1 is IPv4-mapped",
        ),
        ("gateway4", "fe80::1", "is not an IPv4 address, got fe80::1"),
        (
            "gateway4",
            "0.0.0.0",
            "must be a unicast address, 0.0.0.0 is unspecified",
        ),
        (
            "gateway4",
            "127.0.0.1",
            "must be a unicast address, 127.0.0.1 is loopback",
        ),
        (
            "gateway4",
            "224.0.0.1",
            "must be a unicast address, 224.0.0.1 is multicast",
        ),
        (
            "gateway4",
            "255.255.255.255",
            "must be a unicast address, 255.255.255.255 is broadcast",
        ),
    ] {
        let pointer = format!("/tenants/0/interfaces/0/{name}");
        refuse_in(small(), &pointer, json!(value), "address", message);
    }
    accept_in(
        small(),
        "/tenants/0/interfaces/0/gateway6",
        json!("2001:db8::1"),
    );
    accept_in(
        small(),
        "/tenants/0/interfaces/0/gateway4",
        json!("169.254.1.1"),
    );
}

#[test]
fn encapsulation() {
    for (member, value, code, message) in [
        (
            "profile",
            json!("upstream"),
            "enum",
            "must be one of standard, compat, got upstream",
        ),
        (
            "hop_limit",
            json!(256),
            "range",
            "must be 1 to 255, got 256",
        ),
        (
            "ecn",
            json!("copy"),
            "enum",
            "must be one of compatibility, normal, got copy",
        ),
        (
            "flow_label",
            json!(1),
            "type",
            "must be a boolean, got a number",
        ),
        (
            "too_big",
            json!("no"),
            "type",
            "must be a boolean, got a string",
        ),
        ("mss", json!(null), "type", "must be an object, got null"),
        ("icmp", json!(5), "type", "must be an object, got a number"),
    ] {
        let document = super::with(small(), "/encap", json!({member: value}));
        super::refuse(&document, &format!("/encap/{member}"), code, message);
    }
    for (member, part, value, message) in [
        (
            "mss",
            "ipv6",
            json!(65_536),
            "must be 0 to 65535, got 65536",
        ),
        ("mss", "ipv4", json!(-1), "must be 0 to 65535, got -1"),
        (
            "icmp",
            "per_second",
            json!(1_000_001),
            "must be 0 to 1000000, got 1000001",
        ),
        (
            "events",
            "burst",
            json!(1_000_001),
            "must be 0 to 1000000, got 1000001",
        ),
    ] {
        let document = super::with(small(), "/encap", json!({member: {part: value}}));
        super::refuse(
            &document,
            &format!("/encap/{member}/{part}"),
            "range",
            message,
        );
    }
}
