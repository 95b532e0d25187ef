// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One frame of each kind, and what must become of it: verdict, reason, rule, every byte that
//! leaves and every counter that moves.

mod case;
mod connection_ids;
mod headers;
mod others;

use std::collections::BTreeSet;

use guideway::plan::Generation;
use guideway::reason::{Reason, Rule};

use crate::build::*;
use crate::generations::*;
use crate::machine::{own_mac, Machine, EDGE, ONE};
use crate::netns::isolated;
use case::End::*;
use case::*;

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;

fn cases() -> Vec<Case> {
    let mut cases = headers::headers();
    cases.extend(connection_ids::connection_ids());
    cases.extend(others::others());
    cases
}

/// What a run changed, and what it had to.
fn check(machine: &Machine, generation: &Generation, case: &Case) -> Reason {
    let Case {
        name,
        frame,
        service,
        end,
        counters,
    } = case;
    let services = || {
        let services = generation.services();
        services.map(|(service, placed)| (service.name.as_str(), machine.service(placed.stats)))
    };
    let backends = || -> Vec<_> {
        let placed = generation
            .services()
            .flat_map(|(_, placed)| placed.rows.iter().flatten());
        placed
            .map(|row| (row.mac.octets(), machine.backend(row.stats)))
            .collect()
    };
    // What the frames before have left behind is another table's subject.
    machine.forget();
    let (reasons, before, backends_before) = (
        machine.reasons(),
        services().collect::<Vec<_>>(),
        backends(),
    );

    let ran = machine.run(frame);

    let (action, reason, rule) = match *end {
        Redirected(_, rule) => (REDIRECT, Reason::Forwarded, Some(rule)),
        Transmitted(_) => (TX, Reason::Forwarded, Some(Rule::Table)),
        Passed(reason) => (PASS, reason, None),
        Dropped(reason) => (DROP, reason, None),
    };
    let mut expected = frame.clone();
    if let Redirected(mac, _) | Transmitted(mac) = *end {
        expected[..6].copy_from_slice(&[2, 0, 0, 0, mac[0], mac[1]]);
    }
    if let Transmitted(_) = end {
        expected[6..12].copy_from_slice(&own_mac(EDGE).octets());
    }
    assert_eq!(ran.action, action, "{name}: action");
    assert_eq!(ran.frame, expected, "{name}: frame");

    let mut moved = reasons;
    moved[usize::from(reason.number())] += 1;
    assert_eq!(machine.reasons(), moved, "{name}: reasons");
    let bytes = frame.len() as u64;
    for ((other, mut was), (_, is)) in before.into_iter().zip(services()) {
        if *service == Some(other) {
            was.0[0] += 1;
            was.0[1] += bytes;
            if let Some(rule) = rule {
                was.1[usize::from(rule.number())] += 1;
            }
            for counter in *counters {
                was.2[counter.0 as usize] += 1;
            }
        }
        assert_eq!(
            is, was,
            "{name}: packets and bytes, rules, counters of {other}"
        );
    }
    let mut moved = backends_before;
    if reason == Reason::Forwarded {
        let backend = moved
            .iter_mut()
            .find(|(mac, _)| mac[..] == expected[..6])
            .unwrap();
        backend.1[0] += 1;
        backend.1[1] += bytes;
    }
    assert_eq!(backends(), moved, "{name}: backends");
    reason
}

#[test]
fn every_frame_has_its_end() {
    isolated("datapath::table", || {
        let machine = Machine::new();
        let frame = to_tcp(8080, SYN);
        let ran = machine.run(&frame);
        assert_eq!(
            (ran.action, &ran.frame),
            (PASS, &frame),
            "without a generation"
        );
        assert_eq!(
            machine.reasons()[usize::from(Reason::NoGeneration.number())],
            1
        );

        let generation = generation(&machine);
        machine.publish(&generation);
        let cases = cases();
        let met: BTreeSet<_> = cases
            .iter()
            .map(|case| check(&machine, &generation, case))
            .collect();
        let elsewhere = [Reason::NoGeneration, Reason::Internal];
        let missing: Vec<_> = Reason::ALL
            .iter()
            .filter(|reason| !met.contains(reason))
            .collect();
        assert_eq!(
            missing,
            elsewhere.iter().collect::<Vec<_>>(),
            "reasons without a case"
        );
    });
}

#[test]
fn the_interfaces_own_address_is_the_source_where_that_is_asked_for() {
    isolated("datapath::source", || {
        let machine = Machine::new();
        let mut document = document();
        document["source_mac"] = "interface".into();
        machine.publish(&machine.plan(&document));
        for (port, action, mac, interface) in
            [(8080, REDIRECT, [4, 1], ONE), (8081, TX, [5, 1], EDGE)]
        {
            let frame = to_tcp(port, ACK);
            let ran = machine.run(&frame);
            let mut expected = frame;
            expected[..6].copy_from_slice(&[2, 0, 0, 0, mac[0], mac[1]]);
            expected[6..12].copy_from_slice(&own_mac(interface).octets());
            assert_eq!((ran.action, ran.frame), (action, expected), "port {port}");
        }
    });
}

/// The length is checked in full, not masked, against the packet and not the frame.
#[test]
fn udp_lengths_that_lie_are_bad() {
    isolated("datapath::udp_lengths", || {
        let machine = Machine::new();
        machine.publish(&generation(&machine));
        let lengths = (0..=9).chain(16_383..=16_385).chain([65_535]);
        for (length, payload) in lengths.flat_map(|length| [0, 1, 9, 16_376].map(|p| (length, p))) {
            let [high, low] = u16::to_be_bytes(length);
            let mut frame = with(to(53, &vec![0x55; payload]), &[(38, high), (39, low)]);
            // The frame may go on: it is the packet that ends.
            frame.extend([0; 64]);
            let linear = frame.len().min(2_000);
            let fits = (8..=8 + payload).contains(&usize::from(length));
            let action = machine.run_in_pieces(&frame, linear).action;
            let expected = if fits { REDIRECT } else { PASS };
            assert_eq!(action, expected, "length {length}, {payload} bytes");
        }
    });
}

/// However the driver cuts the frame into pieces, it is read alike.
#[test]
fn frames_in_pieces_have_the_same_end() {
    isolated("datapath::pieces", || {
        let machine = Machine::new();
        machine.publish(&generation(&machine));
        for case in cases() {
            let whole = machine.run(&case.frame);
            for linear in 14..case.frame.len() {
                let ran = machine.run_in_pieces(&case.frame, linear);
                // The source address tells the ingress interface, which is another here.
                let ends =
                    [&ran.frame[..6], &ran.frame[12..]] == [&whole.frame[..6], &whole.frame[12..]];
                assert!(
                    ran.action == whole.action && ends,
                    "{}, {linear} bytes in the first piece: {} instead of {}",
                    case.name,
                    ran.action,
                    whole.action
                );
            }
        }
        // A datagram of a jumbo frame: no driver has it in one piece.
        let ran = machine.run_in_pieces(&quic(&vec![0x40; 3000]), 128);
        assert_eq!(ran.action, REDIRECT);
        assert_eq!(ran.frame.len(), 3042);
    });
}
