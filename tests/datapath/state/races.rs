// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Two CPUs at one entry.

use std::sync::Barrier;

use guideway::abi;
use guideway::kernel::map::Update;
use guideway::kernel::program::Program;
use guideway::kernel::run::Run;
use guideway::reason::Rule;

use super::case::*;
use super::world::*;
use crate::build::*;
use crate::cpus::stay_on;
use crate::netns::isolated;

const ROUNDS: u16 = 2000;

/// Runs each frame on both CPUs at the same time, and gives where the two went.
fn at_once(program: &Program, frames: &[Vec<u8>]) -> Vec<[[u8; 6]; 2]> {
    let barrier = Barrier::new(2);
    let one = |cpu| {
        stay_on(cpu);
        let run = |frame| {
            barrier.wait();
            let ran = Run::new(frame).run(program).unwrap();
            ran.frame[..6].try_into().unwrap()
        };
        frames
            .iter()
            .map(|frame| run(frame))
            .collect::<Vec<[u8; 6]>>()
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| one(1));
        (
            scope.spawn(|| one(0)).join().unwrap(),
            other.join().unwrap(),
        )
    });
    one.into_iter()
        .zip(other)
        .map(|(one, other)| [one, other])
        .collect()
}

fn frames() -> Vec<Vec<u8>> {
    let from = |port: u16| {
        let [high, low] = (1000 + port).to_be_bytes();
        with(segment(8080, SYN, b""), &[(34, high), (35, low)])
    };
    (0..ROUNDS).map(from).collect()
}

/// One entry, and both packets at its backend.
#[test]
fn two_cpus_insert_one_entry() {
    isolated("datapath::state::race", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let stats = world.stats("tcp");
        let mac = |row| world.service("tcp").1.backend(row).unwrap().mac.octets();
        for ends in at_once(world.machine.program(), &frames()) {
            assert_eq!(ends, [mac(READY); 2]);
        }
        assert_eq!(world.machine.flows().len(), usize::from(ROUNDS));
        let (_, rules, counters) = world.machine.service(stats);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        assert_eq!(count(START_INSERTED), u64::from(ROUNDS));
        assert_eq!(
            count(HIT) + count(RACED) + count(REFUSED_BUSY),
            u64::from(ROUNDS)
        );
        println!("raced: {}, busy: {}", count(RACED), count(REFUSED_BUSY));
        assert_eq!(
            rules[usize::from(Rule::Flow.number())],
            count(HIT) + count(RACED)
        );
    });
}

/// Whoever comes second follows the first, even if the table is another by then.
#[test]
fn an_entry_that_was_there_first_decides() {
    isolated("datapath::state::first", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let begins = segment(8080, SYN, b"");
        let goes_on = segment(8080, ACK, b"");
        let went = |world: &World, frame| {
            let ran = world.machine.run(frame);
            <[u8; 6]>::try_from(&ran.frame[..6]).unwrap()
        };
        let first = went(&world, &begins);
        world.publish(OTHER, READY);
        for frame in [&begins, &goes_on] {
            assert_eq!(went(&world, frame), first);
        }
        assert_eq!(world.machine.flows().len(), 1);
    });
}

/// Both CPUs give up the same entry: one exchange succeeds, and both packets go where it says.
#[test]
fn two_cpus_reselect_alike() {
    isolated("datapath::state::reselect_race", || {
        let mut world = World::new();
        world.publish(READY, HELD);
        let stats = world.stats("tcp");
        for port in 0..ROUNDS {
            let key = world.key_of("tcp", 1000 + port);
            let entry = world.entry_of("tcp", 1000 + port, UNHEALTHY);
            world
                .machine
                .flows
                .update(&key, &entry, Update::Insert)
                .unwrap();
        }
        let mac = world.service("tcp").1.backend(READY).unwrap().mac.octets();
        for ends in at_once(world.machine.program(), &frames()) {
            assert_eq!(ends, [mac; 2]);
        }
        for (_, entry) in world.machine.flows() {
            assert_eq!(entry.row, READY);
            assert_eq!(entry.incarnation, world.incarnation("tcp", READY));
        }
        let (_, _, counters) = world.machine.service(stats);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        assert_eq!(count(RESELECTED) + count(HIT), 2 * u64::from(ROUNDS));
        assert!(count(RESELECTED) >= u64::from(ROUNDS));
    });
}

/// One binding and one in the flow's count, whichever CPU was first.
#[test]
fn two_cpus_learn_one_connection_id() {
    isolated("datapath::state::learn_race", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let stats = world.stats("learned");
        let mut frames = Vec::new();
        for flow in 0..ROUNDS / 8 {
            let port = 1000 + flow;
            let key = world.key_of("learned", port);
            let entry = world.entry_of("learned", port, OTHER);
            world.machine.put_flow(&key, &entry);
            for number in 0..8 {
                let [high, low] = port.to_be_bytes();
                let frame = datagram(445, &short(&[high, low, number, 0, 0, 0, 0, 0]));
                frames.push(with(frame, &[(34, high), (35, low)]));
            }
        }
        let mac = world
            .service("learned")
            .1
            .backend(OTHER)
            .unwrap()
            .mac
            .octets();
        for ends in at_once(world.machine.program(), &frames) {
            assert_eq!(ends, [mac; 2]);
        }
        // Where both reserved a place for one ID, another may have found none left for a moment.
        for frame in &frames {
            world.machine.run(frame);
        }
        let (_, _, counters) = world.machine.service(stats);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        let learned = u64::from(ROUNDS / 8 * 8);
        assert_eq!(
            [CID_LEARNED, CID_CONFLICT, CID_REFUSED].map(count),
            [learned, 0, 0]
        );
        assert_eq!(world.machine.cids().len() as u64, learned);
        for (_, flow) in world.machine.flows() {
            assert_eq!(flow.state, 8 << 8);
        }
    });
}
