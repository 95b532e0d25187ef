// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames around a payload. The expected ones were put together by another program, and tshark
//! finds their checksums good.

use std::net::SocketAddr;

use guideway::capture::{default_source, from_hex, udp_frame};

const IPV4: &str = "203.0.113.80:443";
const IPV6: &str = "[2001:db8::80]:443";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn lengths_and_checksums_are_right() {
    let ethernet = "02:00:00:00:00:02 02:00:00:00:00:01";
    for (to, payload, expected) in [
        (
            IPV4,
            "",
            "0800 4500001c000040004011d44bc6336401cb007150 9c4001bb0008fb5c",
        ),
        (
            IPV4,
            "40c460",
            "0800 4500001f000040004011d448c6336401cb007150 9c4001bb000b5a92 40c460",
        ),
        // The sum is zero, which would mean that there is none.
        (
            IPV4,
            "fb58",
            "0800 4500001e000040004011d449c6336401cb007150 9c4001bb000affff fb58",
        ),
        (
            IPV6,
            "c00000000108 8394c8f03e515708",
            "86dd 6000000000161140 20010db8000000000000000000000001
             20010db8000000000000000000000080 9c4001bb001662ec c00000000108 8394c8f03e515708",
        ),
    ] {
        let destination = address(to);
        let payload = from_hex(payload).expect("digits");
        let frame = udp_frame(default_source(destination.ip()), destination, &payload);
        let expected = from_hex(&format!("{ethernet} {expected}")).expect("digits");
        assert_eq!(frame.expect("a frame"), expected, "{to} {payload:02x?}");
    }
}

#[test]
fn clients_are_from_documentation_addresses_unless_named() {
    let from = |to: &str| default_source(address(to).ip()).to_string();
    assert_eq!(from(IPV4), "198.51.100.1:40000");
    assert_eq!(from(IPV6), "[2001:db8::1]:40000");
    let frame = udp_frame(address("192.0.2.9:1"), address(IPV4), &[]).expect("a frame");
    assert_eq!(frame[26..30], [192, 0, 2, 9]);
    assert_eq!(frame[34..36], [0, 1]);
}

#[test]
fn the_longest_payloads_fit_and_longer_ones_do_not() {
    for (to, most) in [(IPV4, 65_507), (IPV6, 65_527)] {
        let destination = address(to);
        let source = default_source(destination.ip());
        let frame = udp_frame(source, destination, &vec![1; most]).expect("a frame");
        let length_at = if to == IPV4 { 16 } else { 18 };
        assert_eq!(frame[length_at..length_at + 2], [0xff, 0xff]);
        let error = udp_frame(source, destination, &vec![1; most + 1]).expect_err("too long");
        assert_eq!(
            error.to_string(),
            format!(
                "a payload of {} bytes does not fit a packet, at most {most} do",
                most + 1
            )
        );
    }
}

#[test]
fn addresses_of_two_families_make_no_packet() {
    for (from, to) in [("198.51.100.1:1", IPV6), ("[2001:db8::1]:1", IPV4)] {
        let error = udp_frame(address(from), address(to), &[]).expect_err("families");
        assert!(
            error
                .to_string()
                .ends_with("they are of different IP versions"),
            "{error}"
        );
    }
}
