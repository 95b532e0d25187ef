// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Entries that are refused, by level and by a table that is full. No packet is dropped for it.

use guideway::abi::{self, Level};
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::reason::Reason;
use guideway::reason::Rule::{self, Previous, Table};

use super::case::*;
use super::world::*;
use crate::build::*;
use crate::machine::Machine;
use crate::netns::isolated;

fn syn() -> Vec<u8> {
    segment(8080, SYN, b"")
}

fn ack() -> Vec<u8> {
    segment(8080, ACK, b"")
}

fn initial() -> Vec<u8> {
    datagram(443, &long(0, V1, &[7; 8]))
}

const RESERVE: Level = Level::GW_LEVEL_RESERVE;
const FULL: Level = Level::GW_LEVEL_NONE;

/// The reserve is for flows that a change of the table would move.
#[test]
fn the_reserve_is_not_for_starts() {
    let open =
        |name, service, frame, base| case(name, service, frame).slot(READY, base).level(RESERVE);
    let start = &[STARTS, REFUSED_HIGH][..];
    let cases = vec![
        // Its later packets find no entry and go to the base, so it must go there too.
        open("a start", "tcp", syn(), OTHER)
            .goes_to(OTHER, Previous)
            .counts(start)
            .keeps_open(),
        open("an Initial", "quic", initial(), OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[LONG, STARTS, REFUSED_HIGH])
            .keeps_open(),
        open("an Initial in the grace", "quic", initial(), OTHER)
            .grace()
            .goes_to(OTHER, Previous)
            .counts(&[LONG, STARTS, REFUSED_HIGH])
            .keeps_open(),
        open("an Initial without an owner", "quic", initial(), OTHER)
            .slot(NONE, OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[LONG, STARTS, REFUSED_HIGH])
            .keeps_open(),
        open("a start without an owner", "tcp", syn(), OTHER)
            .slot(NONE, OTHER)
            .counts(&[STARTS, NO_BACKEND]),
        // New flows never go to a draining backend.
        open("a start at a draining base", "tcp", syn(), DRAINING)
            .goes_to(READY, Table)
            .counts(&[STARTS, REFUSED_HIGH, AT_RISK])
            .keeps_open(),
        open("an Initial at a draining base", "quic", initial(), DRAINING)
            .goes_to(READY, Table)
            .counts(&[LONG, STARTS, REFUSED_HIGH, AT_RISK])
            .keeps_open(),
        open("a start at an unhealthy base", "tcp", syn(), UNHEALTHY)
            .goes_to(READY, Table)
            .counts(&[STARTS, REFUSED_HIGH, AT_RISK])
            .keeps_open(),
        open("mid-flow", "tcp", ack(), OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[BASE_INSERTED])
            .leaves(After::Used(OTHER, 0)),
        open(
            "mid-flow without starts",
            "sparse",
            datagram(54, b"x"),
            DRAINING,
        )
        .goes_to(DRAINING, Previous)
        .counts(&[BASE_INSERTED])
        .leaves(After::Used(DRAINING, 0)),
    ];
    check("datapath::state::reserve", cases);
}

/// A refusal that comes when slots are about to close may be too late to keep them open.
#[test]
fn flows_that_are_refused_when_slots_close_are_at_risk() {
    let closing = |name, frame, base, level, generation| {
        let case = case(name, "tcp", frame).slot(READY, base).level(level);
        case.closing(generation)
    };
    let cases = vec![
        closing("a start", syn(), OTHER, RESERVE, 7)
            .goes_to(OTHER, Previous)
            .counts(&[STARTS, REFUSED_HIGH, AT_RISK])
            .keeps_open(),
        closing("mid-flow", ack(), DRAINING, FULL, 7)
            .goes_to(DRAINING, Previous)
            .counts(&[REFUSED_FULL, AT_RISK])
            .keeps_open(),
        closing("at risk in any case", syn(), DRAINING, RESERVE, 7)
            .goes_to(READY, Table)
            .counts(&[STARTS, REFUSED_HIGH, AT_RISK])
            .keeps_open(),
        closing("with room", syn(), OTHER, Level::GW_LEVEL_ALL, 7)
            .goes_to(READY, Table)
            .counts(&[STARTS, START_INSERTED])
            .leaves(After::Used(READY, 0)),
        closing("held", syn(), HELD, FULL, 7)
            .goes_to(READY, Table)
            .counts(&[STARTS, HELD_DEFAULT]),
        closing("in the generation before", syn(), OTHER, RESERVE, 6)
            .goes_to(OTHER, Previous)
            .counts(&[STARTS, REFUSED_HIGH])
            .keeps_open(),
    ];
    check("datapath::state::closing", cases);
}

#[test]
fn a_full_table_takes_nothing_and_places_everything() {
    let open =
        |name, service, frame, base| case(name, service, frame).slot(READY, base).level(FULL);
    let mut cases = Vec::new();
    for base in [OTHER, DRAINING] {
        cases.push(
            open("mid-flow", "tcp", ack(), base)
                .goes_to(base, Previous)
                .counts(&[REFUSED_FULL])
                .keeps_open(),
        );
    }
    for base in [UNHEALTHY, EMPTY, BEYOND] {
        cases.push(
            open("mid-flow", "tcp", ack(), base)
                .goes_to(READY, Table)
                .counts(&[REFUSED_FULL, AT_RISK])
                .keeps_open(),
        );
    }
    cases.extend([
        open("a start", "tcp", syn(), OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[STARTS, REFUSED_FULL])
            .keeps_open(),
        open("a start at a draining base", "tcp", syn(), DRAINING)
            .goes_to(READY, Table)
            .counts(&[STARTS, REFUSED_FULL, AT_RISK])
            .keeps_open(),
        open("an entry", "tcp", ack(), OTHER)
            .entry(given(DRAINING))
            .goes_to(DRAINING, Rule::Flow)
            .counts(&[HIT])
            .leaves(After::Used(DRAINING, 0)),
        open("an entry of no use", "tcp", ack(), OTHER)
            .entry(given(UNHEALTHY))
            .goes_to(READY, Rule::Reselect)
            .counts(&[RESELECTED])
            .leaves(After::Used(READY, 0)),
        open("held", "tcp", ack(), HELD)
            .goes_to(READY, Table)
            .counts(&[HELD_DEFAULT]),
        open("an error", "tcp", error_about(TCP, 8080), OTHER)
            .goes_to(OTHER, Previous)
            .counts(&[ICMP_ERROR, NO_ENTRY]),
    ]);
    check("datapath::state::full", cases);
}

fn from(port: u16, frame: Vec<u8>) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    with(frame, &[(34, high), (35, low)])
}

/// The first that does not fit closes the table for its service; those who are in it stay.
#[test]
fn a_table_that_fills_up_refuses_the_newcomer() {
    isolated("datapath::state::filling", || {
        const ROOM: u16 = 64;
        let mut world = World::on(Machine::with_entries(ROOM.into()));
        world.publish(READY, OTHER);
        let (tcp, udp) = (world.stats("tcp"), world.stats("udp"));
        let before = world.machine.reasons();
        for port in 0..ROOM {
            world.machine.run(&from(1000 + port, ack()));
        }
        assert_eq!(world.machine.flows().len(), usize::from(ROOM));
        assert_eq!(world.machine.admission(tcp).flows, Level::GW_LEVEL_ALL.0);

        let begin = monotonic_coarse_ns();
        for port in 0..10 {
            world.machine.run(&from(2000 + port, ack()));
            assert_eq!(world.machine.admission(tcp).flows, FULL.0);
        }
        world.machine.run(&from(2000, syn()));
        let refused = world.machine.admission(tcp).refused_ns;
        assert!((begin..=monotonic_coarse_ns()).contains(&refused));
        // Another service finds out by itself.
        assert_eq!(world.machine.admission(udp).flows, Level::GW_LEVEL_ALL.0);
        world.machine.run(&datagram(53, b"question"));
        assert_eq!(world.machine.admission(udp).flows, FULL.0);
        assert_eq!(
            world.machine.admission(udp).refused_ns,
            0,
            "no slot of it is open"
        );
        for port in 0..ROOM {
            world.machine.run(&from(1000 + port, ack()));
        }
        assert_eq!(world.machine.flows().len(), usize::from(ROOM));

        let (packets, rules, counters) = world.machine.service(tcp);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        assert_eq!(packets[0], 64 + 11 + 64);
        assert_eq!(
            [BASE_INSERTED, REFUSED_FULL, HIT, AT_RISK].map(count),
            [64, 11, 64, 0]
        );
        assert_eq!(rules[usize::from(Previous.number())], 64 + 11);
        let (_, _, counters) = world.machine.service(udp);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        assert_eq!([ALL_INSERTED, REFUSED_FULL, AT_RISK].map(count), [0, 1, 1]);
        let forwarded = usize::from(Reason::Forwarded.number());
        let mut expected = before;
        expected[forwarded] += 64 + 11 + 1 + 64;
        assert_eq!(
            world.machine.reasons(),
            expected,
            "every packet is forwarded"
        );
    });
}

/// Written at most once a second: in a flood it would be the line that all CPUs fight for.
#[test]
fn the_time_of_the_last_refusal_is_written_once_a_second() {
    isolated("datapath::state::refused_ns", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let stats = world.stats("tcp");
        let refuse = |age: u64| {
            let put = monotonic_coarse_ns() - age;
            world.machine.admit(
                stats,
                abi::Admission {
                    flows: FULL.0,
                    cids: 0,
                    refused_ns: put,
                },
            );
            world.machine.run(&ack());
            (put, world.machine.admission(stats).refused_ns)
        };
        let (put, found) = refuse(SECOND / 2);
        assert_eq!(found, put);
        let (put, found) = refuse(3 * SECOND / 2);
        assert!(found > put + SECOND, "{found}");
    });
}
