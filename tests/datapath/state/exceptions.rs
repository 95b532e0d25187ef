// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Services that track exceptions: a row for each kind of slot, entry and packet.

use guideway::reason::Rule::{Flow, Previous, Reselect, Table};

use super::case::*;
use super::world::*;
use crate::build::{TCP, UDP};

fn syn() -> Vec<u8> {
    segment(8080, SYN, b"")
}

fn ack() -> Vec<u8> {
    segment(8080, ACK, b"")
}

/// Of versions 1 and 2, each with its own number for a type.
fn initial() -> Vec<u8> {
    datagram(443, &long(0, V1, &[7; 8]))
}

fn initial_2() -> Vec<u8> {
    datagram(443, &long(1, V2, &[7; 8]))
}

fn zero_rtt() -> Vec<u8> {
    datagram(443, &long(1, V1, &[7; 8]))
}

fn handshake() -> Vec<u8> {
    datagram(443, &long(2, V1, &[7; 8]))
}

fn retry() -> Vec<u8> {
    datagram(443, &long(3, V1, &[7; 8]))
}

fn negotiation() -> Vec<u8> {
    datagram(443, &long(0, 0, &[7; 8]))
}

fn unknown_version() -> Vec<u8> {
    datagram(443, &long(0, 0x0a0a_0a0a, &[7; 8]))
}

#[test]
fn a_plain_slot_is_its_owners_whatever_is_in_the_table() {
    let cases = vec![
        case("a start", "tcp", syn())
            .entry(given(OTHER))
            .goes_to(READY, Table)
            .counts(&[STARTS, PLAIN_OUTCOME])
            .leaves(After::Same),
        case("mid-flow", "tcp", ack())
            .entry(given(OTHER))
            .goes_to(READY, Table)
            .counts(&[PLAIN_OUTCOME])
            .leaves(After::Same),
        case("without an entry", "quic", initial())
            .goes_to(READY, Table)
            .counts(&[LONG, STARTS, PLAIN_OUTCOME]),
        case(
            "a fragment",
            "routed",
            as_fragment(to_vip(ROUTED_VIP, b"hello")),
        )
        .entry(given(OTHER))
        .goes_to(READY, Table)
        .counts(&[FRAGMENTS, PLAIN_OUTCOME])
        .leaves(After::Same),
        case("an error", "tcp", error_about(TCP, 8080))
            .entry(given(OTHER))
            .goes_to(READY, Table)
            .counts(&[ICMP_ERROR, PLAIN_OUTCOME])
            .leaves(After::Same),
        case("of nobody", "tcp", ack())
            .slot(NONE, PLAIN)
            .entry(given(OTHER))
            .counts(&[NO_BACKEND])
            .leaves(After::Same),
    ];
    check("datapath::state::plain", cases);
}

/// A usable entry wins in every kind of marked slot, whatever the packet and whoever the owner.
#[test]
fn a_flow_follows_its_entry() {
    let mut cases = Vec::new();
    for base in [HELD, OTHER, DRAINING, UNHEALTHY, EMPTY, BEYOND] {
        for owner in [READY, NONE] {
            let hit = |name, service, frame, row: u16, counters: &[_]| {
                case(name, service, frame)
                    .slot(owner, base)
                    .entry(given(row))
                    .goes_to(row, Flow)
                    .counts(counters)
                    .leaves(After::Used(row, 0))
            };
            cases.extend([
                hit("mid-flow", "tcp", ack(), OTHER, &[HIT]),
                hit("a start", "tcp", syn(), OTHER, &[STARTS, HIT]),
                hit("to a draining backend", "tcp", ack(), DRAINING, &[HIT]),
                hit(
                    "an answer to a draining backend",
                    "tcp",
                    segment(8080, SYN | ACK, b""),
                    DRAINING,
                    &[HIT],
                ),
                hit(
                    "an Initial to a draining backend",
                    "quic",
                    initial(),
                    DRAINING,
                    &[LONG, STARTS, HIT],
                ),
                hit(
                    "a short header",
                    "quic",
                    datagram(443, &short(&[])),
                    OTHER,
                    &[SHORT, HIT],
                ),
                hit(
                    "without starts",
                    "sparse",
                    datagram(54, b"hello"),
                    DRAINING,
                    &[HIT],
                ),
                hit(
                    "by source",
                    "routed",
                    to_vip(ROUTED_VIP, b"hello"),
                    OTHER,
                    &[HIT],
                ),
            ]);
        }
    }
    check("datapath::state::hits", cases);
}

#[test]
fn an_entry_that_is_of_no_use_is_given_to_the_owner() {
    let mut cases = Vec::new();
    let gone = [
        given(UNHEALTHY),
        given(EMPTY),
        given(BEYOND),
        Given {
            later: 1,
            ..given(OTHER)
        },
        Given {
            later: 1,
            ..given(READY)
        },
    ];
    for base in [HELD, OTHER, DRAINING] {
        for entry in gone {
            let reselected = case("mid-flow", "tcp", ack())
                .slot(READY, base)
                .entry(entry)
                .goes_to(READY, Reselect)
                .counts(&[RESELECTED])
                .leaves(After::Used(READY, 0));
            let dropped = case("to nobody", "tcp", ack())
                .slot(NONE, base)
                .entry(entry)
                .counts(&[NO_BACKEND])
                .leaves(After::Same);
            cases.extend([reselected, dropped]);
        }
        let moved = case("a start to a draining backend", "tcp", syn())
            .slot(READY, base)
            .entry(given(DRAINING))
            .goes_to(READY, Reselect)
            .counts(&[STARTS, RESELECTED])
            .leaves(After::Used(READY, 0));
        let dropped = case("a start to a draining backend alone", "tcp", syn())
            .slot(NONE, base)
            .entry(given(DRAINING))
            .counts(&[STARTS, NO_BACKEND])
            .leaves(After::Same);
        let initial = case("an Initial", "quic", initial())
            .slot(READY, base)
            .entry(given(UNHEALTHY))
            .goes_to(READY, Reselect)
            .counts(&[LONG, STARTS, RESELECTED])
            .leaves(After::Used(READY, 0));
        cases.extend([moved, dropped, initial]);
    }
    check("datapath::state::reselected", cases);
}

#[test]
fn a_held_slot_is_its_owners_and_gets_no_entries() {
    let held = |name, service, frame, counters: &[_]| {
        case(name, service, frame)
            .slot(READY, HELD)
            .goes_to(READY, Table)
            .counts(counters)
    };
    let cases = vec![
        held("a start", "tcp", syn(), &[STARTS, HELD_DEFAULT]),
        held("mid-flow", "tcp", ack(), &[HELD_DEFAULT]),
        held(
            "an Initial",
            "quic",
            initial(),
            &[LONG, STARTS, HELD_DEFAULT],
        ),
        held(
            "an Initial in the grace",
            "quic",
            initial(),
            &[LONG, STARTS, HELD_DEFAULT],
        )
        .grace(),
        held(
            "an error",
            "tcp",
            error_about(TCP, 8080),
            &[ICMP_ERROR, HELD_DEFAULT],
        ),
        held(
            "a fragment",
            "routed",
            as_fragment(to_vip(ROUTED_VIP, b"hello")),
            &[FRAGMENTS, HELD_DEFAULT],
        )
        .entry(given(OTHER))
        .leaves(After::Same),
        case("of nobody", "tcp", ack())
            .slot(NONE, HELD)
            .counts(&[NO_BACKEND]),
    ];
    check("datapath::state::held", cases);
}

/// Who begins goes to the owner, who goes on to the base as long as that can take it.
#[test]
fn an_open_slot_keeps_its_flows_at_the_base_and_gives_each_an_entry() {
    let mut cases = Vec::new();
    for base in [OTHER, DRAINING, UNHEALTHY, EMPTY, BEYOND] {
        let usable = base == OTHER || base == DRAINING;
        let (row, rule) = if usable {
            (base, Previous)
        } else {
            (READY, Table)
        };
        let begins = |name, service, frame, counters: &[_]| {
            case(name, service, frame)
                .slot(READY, base)
                .goes_to(READY, Table)
                .counts(counters)
                .leaves(After::Used(READY, 0))
        };
        let goes_on = |name, service, frame, counters: &[_]| {
            case(name, service, frame)
                .slot(READY, base)
                .goes_to(row, rule)
                .counts(counters)
                .leaves(After::Used(row, 0))
        };
        cases.extend([
            begins("a start", "tcp", syn(), &[STARTS, START_INSERTED]),
            begins(
                "an Initial",
                "quic",
                initial(),
                &[LONG, STARTS, START_INSERTED],
            ),
            begins(
                "one of version 2",
                "quic",
                initial_2(),
                &[LONG, STARTS, START_INSERTED],
            ),
            begins("0-RTT", "quic", zero_rtt(), &[LONG, STARTS, START_INSERTED]),
            goes_on("mid-flow", "tcp", ack(), &[BASE_INSERTED]),
            goes_on(
                "an answer",
                "tcp",
                segment(8080, SYN | ACK, b""),
                &[BASE_INSERTED],
            ),
            goes_on("a handshake", "quic", handshake(), &[LONG, BASE_INSERTED]),
            goes_on(
                "a short header",
                "quic",
                datagram(443, &short(&[])),
                &[SHORT, BASE_INSERTED],
            ),
            goes_on(
                "an unknown version",
                "quic",
                unknown_version(),
                &[LONG, UNKNOWN_VERSION, BASE_INSERTED],
            ),
            goes_on(
                "without starts",
                "sparse",
                datagram(54, b"hello"),
                &[BASE_INSERTED],
            ),
            goes_on(
                "by source",
                "routed",
                to_vip(ROUTED_VIP, b"hello"),
                &[BASE_INSERTED],
            ),
            // A start without an owner is dropped whatever the base, and leaves nothing.
            case("a start to nobody", "tcp", syn())
                .slot(NONE, base)
                .counts(&[STARTS, NO_BACKEND]),
            case("an Initial to nobody", "quic", initial())
                .slot(NONE, base)
                .counts(&[LONG, STARTS, NO_BACKEND]),
        ]);
        let alone = case("mid-flow without an owner", "tcp", ack()).slot(NONE, base);
        cases.push(if usable {
            alone
                .goes_to(base, Previous)
                .counts(&[BASE_INSERTED])
                .leaves(After::Used(base, 0))
        } else {
            alone.counts(&[NO_BACKEND])
        });
    }
    check("datapath::state::open", cases);
}

#[test]
fn what_leaves_no_entry_goes_where_its_flow_would() {
    let mut cases = Vec::new();
    for base in [OTHER, UNHEALTHY] {
        let (row, rule) = if base == OTHER {
            (base, Previous)
        } else {
            (READY, Table)
        };
        let missing = |name, service, frame, counters: &[_]| {
            case(name, service, frame)
                .slot(READY, base)
                .goes_to(row, rule)
                .counts(counters)
        };
        cases.extend([
            missing(
                "an error",
                "tcp",
                error_about(TCP, 8080),
                &[ICMP_ERROR, NO_ENTRY],
            ),
            missing(
                "an error about QUIC",
                "quic",
                error_about(UDP, 443),
                &[ICMP_ERROR, NO_ENTRY],
            ),
            missing("Retry", "quic", retry(), &[LONG, RETRY, NO_ENTRY]),
            missing(
                "negotiation",
                "quic",
                negotiation(),
                &[LONG, NEGOTIATION, NO_ENTRY],
            ),
            // Nobody looks for the flow of a fragment.
            missing(
                "a fragment",
                "routed",
                as_fragment(to_vip(ROUTED_VIP, b"hello")),
                &[FRAGMENTS, NO_ENTRY],
            )
            .entry(given(DRAINING))
            .leaves(After::Same),
            case("an error to nobody", "tcp", error_about(TCP, 8080))
                .slot(NONE, UNHEALTHY)
                .counts(&[ICMP_ERROR, NO_BACKEND]),
        ]);
        for (frame, service, counters) in [
            (error_about(TCP, 8080), "tcp", vec![ICMP_ERROR]),
            (retry(), "quic", vec![LONG, RETRY]),
            (negotiation(), "quic", vec![LONG, NEGOTIATION]),
        ] {
            let found = |entry: Given, outcome| {
                case("with an entry", service, frame.clone())
                    .slot(READY, base)
                    .entry(entry)
                    .counts(&[counters.clone(), vec![outcome]].concat())
                    .leaves(After::Same)
            };
            let in_phase = |state| Given {
                state,
                ..given(DRAINING)
            };
            cases.extend([
                found(given(DRAINING), HIT).goes_to(DRAINING, Flow),
                found(in_phase(EXPIRING), HIT).goes_to(DRAINING, Flow),
                found(in_phase(DEAD), DEAD_USED).goes_to(DRAINING, Flow),
                found(given(UNHEALTHY), RESELECTED).goes_to(READY, Reselect),
            ]);
        }
    }
    check("datapath::state::passive", cases);
}

/// In the grace a start is taken for a part of a handshake that began before the change, where the
/// base may get new flows.
#[test]
fn the_grace_keeps_handshakes_at_a_ready_base() {
    let graced = |name, frame, counters: &[_]| {
        case(name, "quic", frame)
            .slot(READY, OTHER)
            .grace()
            .goes_to(OTHER, Previous)
            .counts(counters)
            .leaves(After::Used(OTHER, 0))
    };
    let begins = |name, service, base, frame, counters: &[_]| {
        case(name, service, frame)
            .slot(READY, base)
            .grace()
            .goes_to(READY, Table)
            .counts(counters)
            .leaves(After::Used(READY, 0))
    };
    let cases = vec![
        graced("an Initial", initial(), &[LONG, STARTS, BASE_INSERTED]),
        graced(
            "one of version 2",
            initial_2(),
            &[LONG, STARTS, BASE_INSERTED],
        ),
        graced("0-RTT", zero_rtt(), &[LONG, STARTS, BASE_INSERTED]),
        graced("a handshake", handshake(), &[LONG, BASE_INSERTED]),
        case("without an owner", "quic", initial())
            .slot(NONE, OTHER)
            .grace()
            .goes_to(OTHER, Previous)
            .counts(&[LONG, STARTS, BASE_INSERTED])
            .leaves(After::Used(OTHER, 0)),
        begins("TCP", "tcp", OTHER, syn(), &[STARTS, START_INSERTED]),
        begins(
            "draining",
            "quic",
            DRAINING,
            initial(),
            &[LONG, STARTS, START_INSERTED],
        ),
        begins(
            "unhealthy",
            "quic",
            UNHEALTHY,
            initial(),
            &[LONG, STARTS, START_INSERTED],
        ),
        begins(
            "gone",
            "quic",
            EMPTY,
            initial(),
            &[LONG, STARTS, START_INSERTED],
        ),
    ];
    check("datapath::state::grace", cases);
}
