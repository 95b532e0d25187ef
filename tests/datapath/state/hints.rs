// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! FIN and RST shorten a flow's time and do nothing else: anybody can forge them.

use guideway::reason::Rule::{Flow, Previous, Reselect};

use super::case::*;
use super::world::*;
use crate::build::*;

fn to_tcp(flags: u8, data: &[u8]) -> Vec<u8> {
    segment(8080, flags, data)
}

/// A packet of a flow with this state, and the state that it leaves.
fn seen(name: &'static str, frame: Vec<u8>, before: u32, after: u32) -> Case {
    let entry = Given {
        state: before,
        ..given(OTHER)
    };
    case(name, "tcp", frame)
        .slot(READY, HELD)
        .entry(entry)
        .goes_to(OTHER, Flow)
        .counts(&[HIT])
        .leaves(After::Used(OTHER, after))
}

#[test]
fn the_end_of_a_flow_is_noted_and_only_data_takes_it_back() {
    let both = FIN_SEEN | RST_SEEN;
    let learned = 3 << 8;
    // Four bytes of options, and no data.
    let options = with(to_tcp(ACK, &[1; 4]), &[(46, 0x60)]);
    // The data offset points behind the end of the packet.
    let beyond = with(to_tcp(ACK, b"data"), &[(46, 0xf0)]);
    // Bytes behind the packet that fill the frame.
    let mut padded = to_tcp(ACK, b"");
    padded.extend([0; 6]);
    let cases = vec![
        seen("FIN", to_tcp(FIN | ACK, b""), 0, FIN_SEEN),
        seen("FIN with data", to_tcp(FIN | ACK, b"bye"), 0, FIN_SEEN),
        seen("RST", to_tcp(RST, b""), 0, RST_SEEN),
        seen("RST with data", to_tcp(RST, b"why"), 0, RST_SEEN),
        seen("both", to_tcp(FIN | RST, b""), 0, both),
        seen("FIN after RST", to_tcp(FIN | ACK, b""), RST_SEEN, both),
        seen("again", to_tcp(FIN | ACK, b""), FIN_SEEN, FIN_SEEN),
        seen("nothing", to_tcp(ACK, b""), 0, 0),
        seen("an acknowledgement", to_tcp(ACK, b""), both, both),
        seen("one with options", options, both, both),
        seen("one that lies", beyond, both, both),
        seen("one in padding", padded, both, both),
        seen("data", to_tcp(ACK, b"x"), both, 0),
        seen("data in an open flow", to_tcp(ACK, b"x"), 0, 0),
        seen("the rest stays", to_tcp(ACK, b"x"), both | learned, learned),
        seen(
            "the rest stays",
            to_tcp(RST, b""),
            learned,
            learned | RST_SEEN,
        ),
        seen("an expiring entry", to_tcp(FIN, b""), EXPIRING, FIN_SEEN),
        seen(
            "an expiring entry",
            to_tcp(ACK, b"x"),
            EXPIRING | FIN_SEEN,
            0,
        ),
        seen(
            "an expiring entry",
            to_tcp(ACK, b""),
            EXPIRING | FIN_SEEN,
            FIN_SEEN,
        ),
    ];
    check("datapath::state::hints", cases);
}

/// The hint is written at once, however recent the last packet.
#[test]
fn a_hint_does_not_wait_for_the_next_second() {
    let entry = Given {
        age: 0,
        ..given(OTHER)
    };
    let with = |frame, before, after| {
        case("a hint", "tcp", frame)
            .slot(READY, HELD)
            .entry(Given {
                state: before,
                ..entry
            })
            .goes_to(OTHER, Flow)
            .counts(&[HIT])
            .leaves(After::Marked(after))
    };
    let cases = vec![
        with(to_tcp(FIN | ACK, b""), 0, FIN_SEEN),
        with(to_tcp(ACK, b"x"), FIN_SEEN, 0),
    ];
    check("datapath::state::early_hints", cases);
}

/// One segment of the right 4-tuple is all that a forger needs. It moves no flow of a ready backend
/// and removes none.
#[test]
fn forged_segments_move_and_delete_nothing() {
    let mut cases = Vec::new();
    for base in [HELD, DRAINING] {
        for flags in [FIN, RST, FIN | RST, SYN, SYN | FIN, SYN | RST, SYN | ACK, 0] {
            let hints = [(FIN, FIN_SEEN), (RST, RST_SEEN)];
            let seen = |(flag, hint)| if flags & flag != 0 { hint } else { 0 };
            let state = hints.map(seen).iter().sum();
            let starts = flags & (SYN | ACK) == SYN;
            let counters: &[_] = if starts { &[STARTS, HIT] } else { &[HIT] };
            cases.push(
                case("forged", "tcp", to_tcp(flags, b""))
                    .slot(READY, base)
                    .entry(given(OTHER))
                    .goes_to(OTHER, Flow)
                    .counts(counters)
                    .leaves(After::Used(OTHER, state)),
            );
        }
    }
    check("datapath::state::forged", cases);
}

/// A flow whose end is all that was seen of it in an open slot.
#[test]
fn an_entry_begins_with_the_hints_of_its_packet() {
    let closing = |flags, state| {
        case("closing", "tcp", to_tcp(flags, b""))
            .slot(READY, OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[BASE_INSERTED])
            .leaves(After::Used(OTHER, state))
    };
    let cases = vec![
        closing(FIN | ACK, FIN_SEEN),
        closing(RST, RST_SEEN),
        closing(ACK, 0),
        case("to another backend", "tcp", to_tcp(RST, b""))
            .slot(READY, HELD)
            .entry(given(UNHEALTHY))
            .goes_to(READY, Reselect)
            .counts(&[RESELECTED])
            .leaves(After::Used(READY, RST_SEEN)),
    ];
    check("datapath::state::closing", cases);
}

/// What an ICMP error quotes is the other direction, and anybody's word.
#[test]
fn an_error_gives_no_hint() {
    let cases = vec![case("an error", "tcp", error_about(TCP, 8080))
        .slot(READY, HELD)
        .entry(Given {
            state: FIN_SEEN,
            ..given(OTHER)
        })
        .goes_to(OTHER, Flow)
        .counts(&[ICMP_ERROR, HIT])
        .leaves(After::Same)];
    check("datapath::state::quoted_hints", cases);
}
