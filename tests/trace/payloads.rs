// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames around a payload, by the name of the service.

use guideway::quiclb::trace::payload_frame;
use serde_json::json;

use crate::{example, parse};

#[test]
fn a_payload_goes_to_the_address_and_port_of_its_service() {
    let spec = parse(&example());
    let frame = payload_frame(&spec, "quic-api", None, b"\x40").expect("a frame");
    assert_eq!(frame[26..34], [198, 51, 100, 1, 203, 0, 113, 80]);
    assert_eq!(frame[34..38], [0x9c, 0x40, 0x01, 0xbb]); // 40000 to 443
    let source = "192.0.2.1:7".parse().expect("an address");
    let frame = payload_frame(&spec, "quic-api", Some(source), b"\x40").expect("a frame");
    assert_eq!(frame[26..30], [192, 0, 2, 1]);
    assert_eq!(frame[34..36], [0, 7]);
}

#[test]
fn what_makes_no_frame_is_named() {
    let mut tcp = example();
    tcp["services"][0]["protocol"] = json!("tcp");
    tcp["services"][0]["short_dcid_len"] = json!(0);
    tcp["services"][0]["quic_only"] = json!(false);
    let source = "[2001:db8::1]:7".parse().expect("an address");
    for (spec, name, source, message) in [
        (
            example(),
            "quic",
            None,
            "no service is named \"quic\"; there are quic-api",
        ),
        (
            tcp,
            "quic-api",
            None,
            "service quic-api is a tcp service: a payload makes a UDP datagram",
        ),
        (
            example(),
            "quic-api",
            Some(source),
            "no packet goes from 2001:db8::1 to 203.0.113.80: they are of different IP versions",
        ),
    ] {
        let error = payload_frame(&parse(&spec), name, source, b"x").expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}
