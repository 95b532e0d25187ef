// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The reader of the event ring: order, bounds, records of another size, waiting.

#[path = "common/netns.rs"]
mod netns;

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use guideway::abi::Event;
use guideway::kernel::map::{Map, MapKind, MapShape};
use guideway::kernel::program::Program;
use guideway::kernel::ring::Ring;
use guideway::kernel::run::Run;
use netns::{insn, isolated, load, pin};

fn ring_map() -> Map {
    Map::create(
        &MapShape {
            name: "gw_ql_events".into(),
            kind: MapKind::RINGBUF,
            key_size: 0,
            value_size: 0,
            max_entries: 65_536,
            flags: 0,
        },
        None,
    )
    .expect("create")
}

/// A program that puts `bytes` bytes into the ring, of which each word is `mark`; it returns 2
/// (XDP_PASS) if there was room.
fn emitter(name: &str, ring: &Map, bytes: u32, mark: i32) -> Program {
    use libbpf_sys::*;
    let words = bytes.div_ceil(8) as i16;
    let mut instructions = Vec::new();
    for word in 1..=words {
        let mut store = insn(BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10 as u8, 0, mark);
        store.off = -8 * word;
        instructions.push(store);
    }
    let fd = ring.as_fd().as_raw_fd();
    let number = BPF_ALU64 | BPF_MOV | BPF_K;
    instructions.extend([
        insn(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD as u8, fd),
        insn(0, 0, 0, 0),
        insn(BPF_ALU64 | BPF_MOV | BPF_X, 2, BPF_REG_10 as u8, 0),
        insn(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, -8 * i32::from(words)),
        insn(number, 3, 0, bytes as i32),
        insn(number, 4, 0, 0),
        insn(BPF_JMP | BPF_CALL, 0, 0, BPF_FUNC_ringbuf_output as i32),
        insn(BPF_ALU64 | BPF_ADD | BPF_K, 0, 0, 2),
        insn(BPF_JMP | BPF_EXIT, 0, 0, 0),
    ]);
    let program = load(name, BPF_PROG_TYPE_XDP, &instructions).expect("load");
    let path = Path::new(netns::BPFFS).join(name);
    pin(&program, &path);
    Program::open(&path).expect("open")
}

fn emit(program: &Program, times: u32) {
    let run = Run {
        repeat: times,
        ..Run::new(&[0; 60])
    };
    assert_eq!(run.run(program).expect("run").action, 2, "room in the ring");
}

#[test]
fn records_come_in_order_and_no_more_than_asked_for() {
    isolated("kernel_ring::order", || {
        let map = ring_map();
        let (first, second) = (
            emitter("first", &map, 88, 1),
            emitter("second", &map, 88, 2),
        );
        let mut ring = Ring::<Event>::new(map).expect("a ring");
        let mut marks = Vec::new();
        let mut poll = |limit| {
            marks.clear();
            let count = ring.poll(Duration::ZERO, limit, |event| marks.push(event.time_ns));
            assert_eq!(count.expect("poll"), marks.len());
            marks.clone()
        };
        assert_eq!(poll(10), [0_u64; 0]);
        emit(&first, 300);
        emit(&second, 300);
        assert_eq!(poll(0), [0_u64; 0]);
        assert_eq!(poll(1), [1]);
        assert_eq!(poll(298), vec![1; 298]);
        assert_eq!(poll(2), [1, 2]);
        assert_eq!(poll(1000), vec![2; 299]);
        assert_eq!(poll(1000), [0_u64; 0]);
    });
}

#[test]
fn records_of_another_size_are_counted_and_skipped() {
    isolated("kernel_ring::malformed", || {
        let map = ring_map();
        let good = emitter("good", &map, 88, 7);
        let others = [8, 80, 87, 96].map(|bytes| emitter(&format!("bad{bytes}"), &map, bytes, 1));
        let mut ring = Ring::<Event>::new(map).expect("a ring");
        emit(&others[0], 300);
        emit(&good, 2);
        for other in &others[1..] {
            emit(other, 1);
            emit(&good, 1);
        }
        let mut events = Vec::new();
        ring.poll(Duration::ZERO, usize::MAX, |event| events.push(*event))
            .expect("poll");
        assert_eq!(events.len(), 5);
        for event in &events {
            // Every byte is the program's: words of 7.
            let words: &[u64] = bytemuck::cast_slice(bytemuck::bytes_of(event));
            assert_eq!(words, [7; 11]);
        }
        assert_eq!(ring.malformed(), 303);
    });
}

#[test]
fn a_reader_waits_no_longer_than_it_must() {
    isolated("kernel_ring::wait", || {
        let map = ring_map();
        let program = emitter("late", &map, 88, 3);
        let mut ring = Ring::<Event>::new(map).expect("a ring");
        let start = Instant::now();
        let count = ring
            .poll(Duration::from_millis(60), 10, |_| {})
            .expect("poll");
        assert_eq!(count, 0);
        assert!(start.elapsed() >= Duration::from_millis(60));

        // The reader is in another thread than its maker, and the writer in a third.
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let count = ring
                    .poll(Duration::from_secs(60), 10, |_| {})
                    .expect("poll");
                (count, ring)
            });
            std::thread::sleep(Duration::from_millis(30));
            emit(&program, 1);
            let (count, mut ring) = reader.join().expect("reader");
            assert_eq!(count, 1);

            // The descriptor is for other loops.
            let ready = |ring: &Ring<Event>| {
                let mut fds = [nix::poll::PollFd::new(
                    ring.as_fd(),
                    nix::poll::PollFlags::POLLIN,
                )];
                nix::poll::poll(&mut fds, 0_u8).expect("poll") == 1
            };
            assert!(!ready(&ring));
            emit(&program, 1);
            assert!(ready(&ring));
            assert_eq!(ring.poll(Duration::ZERO, 10, |_| {}).expect("poll"), 1);
            assert!(!ready(&ring));
        });
    });
}

#[test]
fn only_a_ring_buffer_is_read() {
    isolated("kernel_ring::shape", || {
        let array = MapShape {
            name: "gw_ql_events".into(),
            kind: MapKind::ARRAY,
            key_size: 4,
            value_size: 88,
            max_entries: 1,
            flags: 0,
        };
        let error = Ring::<Event>::new(Map::create(&array, None).expect("create"))
            .expect_err("an array")
            .to_string();
        assert!(error.contains("type is array, not ringbuf"), "{error}");
    });
}
