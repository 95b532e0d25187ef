// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Services that track all flows.

use guideway::abi::Level;
use guideway::reason::Rule::{Flow, Reselect, Table};

use super::case::*;
use super::world::*;
use crate::build::{TCP, UDP};

/// A frame of each kind, what is counted of it beside the outcome, and whether it leaves an entry.
fn packets() -> Vec<(&'static str, Vec<u8>, Vec<guideway::abi::Counter>, bool)> {
    let quic = |payload: &[u8]| datagram(444, payload);
    vec![
        ("udp", datagram(53, b"question"), vec![], true),
        ("tracked-tcp", segment(8081, SYN, b""), vec![STARTS], true),
        ("tracked-tcp", segment(8081, ACK, b""), vec![], true),
        (
            "tracked-quic",
            quic(&long(0, V1, &[7; 8])),
            vec![LONG, STARTS],
            true,
        ),
        (
            "tracked-quic",
            quic(&long(2, V1, &[7; 8])),
            vec![LONG],
            true,
        ),
        ("tracked-quic", quic(&short(&[])), vec![SHORT], true),
        (
            "tracked-quic",
            quic(&long(0, 9, &[7; 8])),
            vec![LONG, UNKNOWN_VERSION],
            true,
        ),
        ("tracked", to_vip(TRACKED_VIP, b"hello"), vec![], true),
        (
            "tracked-quic",
            quic(&long(3, V1, &[7; 8])),
            vec![LONG, RETRY],
            false,
        ),
        (
            "tracked-quic",
            quic(&long(0, 0, &[7; 8])),
            vec![LONG, NEGOTIATION],
            false,
        ),
        (
            "tracked-tcp",
            error_about(TCP, 8081),
            vec![ICMP_ERROR],
            false,
        ),
        ("udp", error_about(UDP, 53), vec![ICMP_ERROR], false),
    ]
}

#[test]
fn every_flow_gets_an_entry_for_its_owner() {
    let mut cases = Vec::new();
    for (service, frame, counters, inserts) in packets() {
        let with = |outcome: &[_]| [&counters[..], outcome].concat();
        let missing = case("missing", service, frame.clone());
        cases.push(if inserts {
            missing
                .goes_to(READY, Table)
                .counts(&with(&[ALL_INSERTED]))
                .leaves(After::Used(READY, 0))
        } else {
            missing.goes_to(READY, Table).counts(&with(&[NO_ENTRY]))
        });
        cases.push(
            case("nobody", service, frame.clone())
                .slot(NONE, PLAIN)
                .counts(&with(&[NO_BACKEND])),
        );
        let found = |row: u16, age: u64| {
            let entry = Given { age, ..given(row) };
            case("found", service, frame.clone()).entry(entry)
        };
        let used = |row| {
            if inserts {
                After::Used(row, 0)
            } else {
                After::Same
            }
        };
        cases.push(
            found(OTHER, 10 * SECOND)
                .goes_to(OTHER, Flow)
                .counts(&with(&[HIT]))
                .leaves(used(OTHER)),
        );
        for row in [UNHEALTHY, EMPTY, BEYOND] {
            cases.push(
                found(row, 10 * SECOND)
                    .goes_to(READY, Reselect)
                    .counts(&with(&[RESELECTED]))
                    .leaves(used(READY)),
            );
        }
        let is_syn = frame == segment(8081, SYN, b"");
        let draining = found(DRAINING, 10 * SECOND);
        cases.push(if is_syn {
            draining
                .goes_to(READY, Reselect)
                .counts(&with(&[RESELECTED]))
                .leaves(used(READY))
        } else {
            draining
                .goes_to(DRAINING, Flow)
                .counts(&with(&[HIT]))
                .leaves(used(DRAINING))
        });
    }
    check("datapath::state::all", cases);
}

/// The flow moves if its slot does; nothing keeps a slot open, since none is.
#[test]
fn a_flow_without_an_entry_is_at_risk() {
    let mut cases = Vec::new();
    for (service, frame, counters, inserts) in packets() {
        for (level, outcome) in [
            (Level::GW_LEVEL_RESERVE, REFUSED_HIGH),
            (Level::GW_LEVEL_NONE, REFUSED_FULL),
        ] {
            let outcomes: &[_] = if inserts {
                &[outcome, AT_RISK]
            } else {
                &[NO_ENTRY]
            };
            cases.push(
                case("missing", service, frame.clone())
                    .level(level)
                    .goes_to(READY, Table)
                    .counts(&[&counters[..], outcomes].concat()),
            );
            let used = if inserts {
                After::Used(OTHER, 0)
            } else {
                After::Same
            };
            cases.push(
                case("found", service, frame.clone())
                    .level(level)
                    .entry(given(OTHER))
                    .goes_to(OTHER, Flow)
                    .counts(&[&counters[..], &[HIT]].concat())
                    .leaves(used),
            );
        }
    }
    check("datapath::state::all_refused", cases);
}

/// Fragments are not looked up: all that is known of them is who sent them.
#[test]
fn a_fragment_is_the_owners() {
    let fragment = || {
        case(
            "a fragment",
            "tracked",
            as_fragment(to_vip(TRACKED_VIP, b"hello")),
        )
    };
    let cases = vec![
        fragment()
            .entry(given(OTHER))
            .goes_to(READY, Table)
            .counts(&[FRAGMENTS, NO_ENTRY])
            .leaves(After::Same),
        fragment()
            .slot(NONE, PLAIN)
            .counts(&[FRAGMENTS, NO_BACKEND]),
    ];
    check("datapath::state::all_fragments", cases);
}
