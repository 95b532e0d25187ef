// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations and records: created, filled, frozen, swapped, and what the kernel refuses then.

#[path = "common/netns.rs"]
mod netns;

use std::path::Path;

use guideway::kernel::map::{Map, Update};
use guideway::kernel::object::Options;
use guideway::kernel::publish::{Generation, Slot, CELL_BYTES};
use guideway::kernel::record;
use guideway::kernel::run::Run;
use netns::isolated;
use nix::libc;

const CELLS: &str = "gw_ql_cells";

/// Cells that differ from each other in every byte that could be mixed up.
fn cells(count: usize, seed: u32) -> Vec<u8> {
    let words = count * CELL_BYTES / 4;
    (0..words as u32)
        .flat_map(|word| {
            word.wrapping_mul(2_654_435_761)
                .wrapping_add(seed)
                .to_ne_bytes()
        })
        .collect()
}

fn slot() -> Slot {
    let mut object = Options::default().load().expect("the program loads");
    Slot::new(object.take_map("gw_ql_gen").expect("the outer map")).expect("an array of maps")
}

/// A whole UDP datagram over IPv4, which no early check turns away.
fn udp_frame() -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([192, 0, 2, 1, 198, 51, 100, 1]);
    frame.extend([0x30, 0x39, 0x01, 0xbb, 0, 26, 0, 0]);
    frame.extend([0x40; 18]);
    frame
}

#[test]
fn a_generation_of_any_size_holds_what_it_was_filled_with() {
    isolated("kernel_publish::filled", || {
        for count in [1, 2, 255, 4096, 70_000] {
            let bytes = cells(count, 7);
            let generation = Generation::create(CELLS, bytes.len()).expect("create");
            generation.fill(&bytes).expect("fill");
            assert!(generation.read().expect("read") == bytes, "{count} cells");
        }
    });
}

#[test]
fn bytes_that_are_no_whole_cells_are_refused() {
    isolated("kernel_publish::whole_cells", || {
        for bytes in [0, 1, CELL_BYTES - 1, CELL_BYTES + 1] {
            let error = Generation::create(CELLS, bytes).expect_err("no whole cells");
            assert_eq!(error.errno, libc::EINVAL);
        }
        let generation = Generation::create(CELLS, 2 * CELL_BYTES).expect("create");
        for count in [1, 3] {
            assert_eq!(
                generation.fill(&cells(count, 0)).expect_err("size").errno,
                libc::EINVAL
            );
        }
    });
}

#[test]
fn nobody_writes_a_frozen_generation() {
    isolated("kernel_publish::frozen", || {
        let bytes = cells(3, 1);
        let generation = Generation::create(CELLS, bytes.len()).expect("create");
        generation.fill(&bytes).expect("fill");
        assert!(!generation.map().is_frozen().expect("fdinfo"));
        generation.freeze().expect("freeze");
        assert!(generation.map().is_frozen().expect("fdinfo"));

        let refused = generation.fill(&cells(3, 2)).expect_err("frozen");
        assert_eq!(refused.errno, libc::EPERM);
        let refused = generation
            .map()
            .update(&1_u32.to_ne_bytes(), &[9; CELL_BYTES], Update::Any)
            .expect_err("frozen");
        assert_eq!(refused.errno, libc::EPERM);
        assert!(refused.to_string().contains(CELLS), "{refused}");
        assert!(generation.read().expect("read") == bytes);
    });
}

#[test]
fn the_slot_tells_which_pinned_generation_is_live() {
    isolated("kernel_publish::live", || {
        let slot = slot();
        assert_eq!(slot.live_id().expect("look"), None);

        let mut pins = Vec::new();
        for (number, count) in [(1, 4), (2, 1), (3, 300)] {
            let bytes = cells(count, number);
            let generation = Generation::create(CELLS, bytes.len()).expect("create");
            generation.fill(&bytes).expect("fill");
            generation.freeze().expect("freeze");
            let pin = Path::new(netns::BPFFS).join(number.to_string());
            generation.map().pin(&pin).expect("pin");
            slot.swap(&generation).expect("swap");
            pins.push((pin, generation.map().id()));
            assert_eq!(slot.live_id().expect("look"), Some(pins[pins.len() - 1].1));
        }

        let live = slot.live_id().expect("look");
        let opened: Vec<bool> = pins
            .iter()
            .map(|(pin, _)| Some(Generation::open(pin, CELLS).expect("open").map().id()) == live)
            .collect();
        assert_eq!(opened, [false, false, true]);

        assert!(slot.clear().expect("clear"));
        assert_eq!(slot.live_id().expect("look"), None);
        assert!(!slot.clear().expect("clear an empty slot"));
    });
}

#[test]
fn the_program_reads_the_generation_that_is_live() {
    isolated("kernel_publish::program", || {
        let mut object = Options::default().load().expect("load");
        let slot = Slot::new(object.take_map("gw_ql_gen").expect("map")).expect("shape");
        let frame = udp_frame();
        let action = |object: &guideway::kernel::object::Object| {
            Run::new(&frame).run(&object.program).expect("run").action
        };
        assert_eq!(
            action(&object),
            libbpf_sys::XDP_PASS,
            "without a generation"
        );

        // No header begins with this: the program must notice that it reads nonsense.
        let bytes = cells(1, 3);
        let generation = Generation::create(CELLS, bytes.len()).expect("create");
        generation.fill(&bytes).expect("fill");
        slot.swap(&generation).expect("swap");
        assert_eq!(
            action(&object),
            libbpf_sys::XDP_ABORTED,
            "with a generation of nonsense"
        );

        slot.clear().expect("clear");
        assert_eq!(
            action(&object),
            libbpf_sys::XDP_PASS,
            "without a generation again"
        );
    });
}

#[test]
fn a_map_of_another_shape_is_no_generation() {
    isolated("kernel_publish::shape", || {
        let record = record::write("gw_ql_record", b"{}").expect("write");
        let pin = Path::new(netns::BPFFS).join("record");
        record.pin(&pin).expect("pin");
        let error = Generation::open(&pin, CELLS)
            .expect_err("a record")
            .to_string();
        assert!(error.contains("value size is 4096, not 256"), "{error}");
        assert!(
            error.contains("name is gw_ql_record, not gw_ql_cells"),
            "{error}"
        );

        let error = Slot::new(Map::open_any(&pin).expect("open")).expect_err("an array");
        assert!(
            error
                .to_string()
                .contains("type is array, not array_of_maps"),
            "{error}"
        );
    });
}

#[test]
fn a_record_returns_the_bytes_that_were_written() {
    isolated("kernel_publish::record", || {
        let pin = Path::new(netns::BPFFS).join("record");
        for length in [0, 1, 4087, 4088, 4089, 4096, 100_000] {
            let bytes: Vec<u8> = (0..length as u32).map(|n| (n % 251) as u8).collect();
            let map = record::write("gw_ql_record", &bytes).expect("write");
            map.pin(&pin).expect("pin");
            assert!(
                record::read(&pin, "gw_ql_record").expect("read") == bytes,
                "{length} bytes"
            );
            let refused = map
                .update(&[0; 4], &[0; 4096], Update::Any)
                .expect_err("frozen");
            assert_eq!(refused.errno, libc::EPERM);
            std::fs::remove_file(&pin).expect("unpin");
        }
    });
}

#[test]
fn a_record_with_false_contents_is_refused() {
    isolated("kernel_publish::false_record", || {
        let good = record::write("gw_ql_record", b"abc").expect("write");
        let forge = |name: &str, words: [u32; 2], freeze: bool| {
            let map = Map::create(good.shape(), None).expect("create");
            let mut chunk = vec![0_u8; 4096];
            chunk[..4].copy_from_slice(&words[0].to_ne_bytes());
            chunk[4..8].copy_from_slice(&words[1].to_ne_bytes());
            map.update(&[0; 4], &chunk, Update::Any).expect("fill");
            if freeze {
                map.freeze().expect("freeze");
            }
            let pin = Path::new(netns::BPFFS).join(name);
            map.pin(&pin).expect("pin");
            record::read(&pin, "gw_ql_record")
        };
        let magic = u32::from_be_bytes(*b"GWRC");
        assert_eq!(forge("right", [magic, 5], true).expect("a record"), [0; 5]);
        for (name, words, freeze, reason) in [
            ("magic", [1, 5], true, "begins with 0x00000001"),
            (
                "longer",
                [magic, 4089],
                true,
                "length 4089 in a map of 4096 bytes",
            ),
            ("huge", [magic, u32::MAX], true, "length 4294967295"),
            ("unfinished", [magic, 5], false, "never finished"),
        ] {
            let error = forge(name, words, freeze).expect_err(name).to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
    });
}
