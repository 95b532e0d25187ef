// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Entries in every phase, of every age, and those of somebody else.

use guideway::reason::Rule::{Flow, Previous, Reselect, Table};

use super::case::*;
use super::world::*;

fn ack() -> Vec<u8> {
    segment(8080, ACK, b"")
}

/// A write takes the entry's cache line from other CPUs, so a second must have passed.
#[test]
fn the_time_of_the_last_packet_is_written_once_a_second() {
    let aged = |age| Given {
        age,
        ..given(OTHER)
    };
    let hit = |age, after| {
        case("a hit", "tcp", ack())
            .slot(READY, HELD)
            .entry(aged(age))
            .goes_to(OTHER, Flow)
            .counts(&[HIT])
            .leaves(after)
    };
    let cases = vec![
        hit(0, After::Same),
        hit(SECOND / 2, After::Same),
        hit(3 * SECOND / 2, After::Used(OTHER, 0)),
        hit(3600 * SECOND, After::Used(OTHER, 0)),
        // As a packet finds it that took it for its own: a registration without an end is in the
        // memory of a flow's entry by now, and any time would be its end.
        hit(u64::MAX, After::Same),
    ];
    check("datapath::state::refresh", cases);
}

#[test]
fn a_packet_brings_an_expiring_entry_back_and_tells_the_sweep_of_a_dead_one() {
    let in_phase = |row, state| Given {
        state,
        age: 3600 * SECOND,
        ..given(row)
    };
    let hit = |state, outcome, after| {
        case("a hit", "tcp", ack())
            .slot(READY, HELD)
            .entry(in_phase(OTHER, state))
            .goes_to(OTHER, Flow)
            .counts(&[outcome])
            .leaves(after)
    };
    let learned = 5 << 8;
    let cases = vec![
        hit(EXPIRING, HIT, After::Used(OTHER, 0)),
        hit(EXPIRING | learned, HIT, After::Used(OTHER, learned)),
        // The entry is still there, so nothing can be inserted: the sweep finds it touched.
        hit(DEAD, DEAD_USED, After::Marked(TOUCHED)),
        hit(DEAD | learned, DEAD_USED, After::Marked(TOUCHED | learned)),
        hit(TOUCHED, DEAD_USED, After::Marked(TOUCHED)),
        case("of no use", "tcp", ack())
            .slot(READY, HELD)
            .entry(in_phase(UNHEALTHY, EXPIRING))
            .goes_to(READY, Reselect)
            .counts(&[RESELECTED])
            .leaves(After::Used(READY, 0)),
    ];
    check("datapath::state::phases", cases);
}

/// The memory of an entry may be a stranger's by the time it is read: tag or hash differ.
#[test]
fn what_is_not_the_flows_own_is_a_miss_that_writes_nothing() {
    let mut cases = Vec::new();
    let strangers = [
        Given {
            tag: 1,
            ..given(DRAINING)
        },
        Given {
            hash: 1 << 31,
            ..given(DRAINING)
        },
    ];
    for stranger in strangers {
        let with = |name, service, frame, base| {
            case(name, service, frame)
                .slot(READY, base)
                .entry(stranger)
                .leaves(After::Same)
        };
        let syn = segment(8080, SYN, b"");
        cases.extend([
            with("held", "tcp", ack(), HELD)
                .goes_to(READY, Table)
                .counts(&[TAG_MISMATCH, HELD_DEFAULT]),
            with("open", "tcp", ack(), OTHER)
                .goes_to(OTHER, Previous)
                .counts(&[TAG_MISMATCH, REFUSED_BUSY])
                .keeps_open(),
            // Its later packets will be taken for those of a flow that was there before.
            with("a start", "tcp", syn, OTHER)
                .goes_to(OTHER, Previous)
                .counts(&[STARTS, TAG_MISMATCH, REFUSED_BUSY])
                .keeps_open(),
            with("the base is gone", "tcp", ack(), EMPTY)
                .goes_to(READY, Table)
                .counts(&[TAG_MISMATCH, REFUSED_BUSY, AT_RISK])
                .keeps_open(),
            with("all", "udp", datagram(53, b"question"), PLAIN)
                .goes_to(READY, Table)
                .counts(&[TAG_MISMATCH, REFUSED_BUSY, AT_RISK]),
        ]);
    }
    check("datapath::state::strangers", cases);
}

/// The hash that places packets of a source ignores ports, the tag does not.
#[test]
fn flows_of_one_source_have_tags_of_their_own() {
    crate::netns::isolated("datapath::state::tags", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let key = world.key("routed");
        let (tag, hash) = world.marks("routed", &key);
        let (other_tag, other_hash) = world.marks("routed", &world.key_of("routed", 50001));
        assert_eq!(hash, other_hash);
        assert_ne!(tag, other_tag);
        world.machine.run(&to_vip(ROUTED_VIP, b"hello"));
        let [(found, entry)] = world.machine.flows()[..] else {
            panic!("one entry");
        };
        assert_eq!(bytemuck::bytes_of(&found), bytemuck::bytes_of(&key));
        assert_eq!((entry.tag, entry.hash), (tag, hash));
    });
}
