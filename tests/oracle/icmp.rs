// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! ICMP errors go where the flow they are about goes.

use guideway::abi::Counter;
use guideway::oracle::Verdict;
use guideway::reason::{Reason, Rule};
use serde_json::json;

use crate::build::*;
use crate::world::*;

const OF_1: [u8; 8] = [0x00, 0xc4, 0x60, 1, 2, 3, 4, 5];
const OF_NOBODY: [u8; 8] = [0x00, 0xff, 0xff, 1, 2, 3, 4, 5];

/// An error about what the first service of the example sent to 198.51.100.7:50000.
fn about(payload: &[u8]) -> Vec<u8> {
    error4(&quoted4(UDP, &udp(443, 50000, payload)))
}

/// The slot of the flow's own packets is published: 1378, of backend 2.
#[track_caller]
fn assert_by_flow(verdict: &Verdict) {
    assert_by_flow_as(verdict, Counter::GW_COUNTER_PLAIN);
}

#[track_caller]
fn assert_by_flow_as(verdict: &Verdict, outcome: Counter) {
    assert_forwarded(verdict, Rule::Table, 2);
    assert_eq!(
        (verdict.slot, verdict.flow_start),
        (Some(1378), Some(false))
    );
    assert_counts(verdict, &[Counter::GW_COUNTER_ICMP, outcome]);
}

#[test]
fn errors_follow_the_flow_they_quote() {
    for (spec, outcome) in [
        // It learns, so it tracks every flow, and an error makes no entry.
        (example(), Counter::GW_COUNTER_NO_ENTRY),
        (with_server_ids(), Counter::GW_COUNTER_PLAIN),
    ] {
        let generation = generation(&spec);
        for payload in [&b""[..], &short(&OF_1), &long_from(0xe0, 1, &OF_1, &[])] {
            let frame = about(payload);
            let verdict = run(&generation, &frame);
            assert_by_flow_as(&verdict, outcome);
            assert_eq!(verdict.output[6..], frame[6..]);
        }
    }
}

#[test]
fn the_source_connection_id_of_what_a_server_sent_names_it() {
    let generation = generation(&with_server_ids());
    for (first, version) in [(0xc0, 1), (0xe0, 1), (0xc0, 0x0a0a_0a0a)] {
        let whole = long_from(first, version, &[9; 5], &OF_1);
        let verdict = run(&generation, &about(&whole));
        assert_forwarded(&verdict, Rule::ServerId, 1);
        assert_counts(&verdict, &[Counter::GW_COUNTER_ICMP]);
        // Quoted up to its last byte but one.
        let cut = run(&generation, &about(&whole[..6 + 5 + 8]));
        assert_by_flow(&cut);
        assert_forwarded(
            &run(&generation, &about(&whole[..6 + 5 + 9])),
            Rule::ServerId,
            1,
        );
    }
    for payload in [
        // A client's connection ID may look like one of a server.
        long_from(0xe0, 1, &OF_1, &[9; 5]),
        long_from(0xc0, 0, &[9; 5], &OF_1),
        long_from(0xe0, 1, &[9; 5], &OF_NOBODY),
        long_from(0xe0, 1, &[9; 5], &[0; 21]),
    ] {
        assert_by_flow(&run(&generation, &about(&payload)));
    }
}

#[test]
fn errors_about_unhealthy_backends_go_by_flow() {
    let mut spec = with_server_ids();
    spec["services"][0]["backends"][0]["state"] = json!("unhealthy");
    spec["services"][0]["quic"]["unhealthy"] = json!("drop");
    let payload = long_from(0xe0, 1, &[9; 5], &OF_1);
    assert_by_flow(&run(&generation(&spec), &about(&payload)));
}

#[test]
fn other_icmp_passes() {
    let generation = generation(&example());
    let echo = ipv4(ICMP, &icmp(8, 0, &[0; 32]));
    let no_service = error4(&quoted4(UDP, &udp(444, 50000, b"x")));
    let port_0 = error4(&quoted4(UDP, &udp(0, 50000, b"x")));
    let tcp = error4(&quoted4(TCP, &tcp(443, 50000, 0x10)));
    let not_ours = error4(&ipv4_between(CLIENT4, VIP4, UDP, 0, &udp(443, 50000, b"x")));
    for (frame, reason) in [
        (echo, Reason::IcmpOther),
        (no_service, Reason::IcmpNoService),
        (port_0, Reason::IcmpNoService),
        (tcp, Reason::IcmpNoService),
        (not_ours, Reason::IcmpBad),
    ] {
        let verdict = run(&generation, &frame);
        assert_left(&verdict, &frame, reason);
        assert_eq!((verdict.service, verdict.flow_start), (None, None));
        assert_counts(&verdict, &[]);
    }
}
