// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the object consists of, read from its file.

use guideway::error::ErrorKind;
use guideway::kernel::attach::occupants;
use guideway::kernel::map::MapKind;
use guideway::kernel::offload_object::Options;

use crate::netns::{ifindex, isolated, veth};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/quiclb_offload.bpf.o"));

/// Helpers that cards have, by the kernel's numbers: look up, update and delete an element.
const HELPERS: [i32; 3] = [1, 2, 3];
/// Bytes of key and value together.
const ELEMENT_BYTES: u32 = 64;

struct Instruction {
    code: u8,
    source: u8,
    immediate: i32,
}

struct Section {
    flags: u64,
    bytes: Vec<u8>,
}

/// The sections of an ELF file of 64 bits.
fn sections(file: &[u8]) -> Vec<Section> {
    let u16_at = |at: usize| u16::from_ne_bytes(file[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_ne_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(&file[..5], b"\x7fELF\x02");
    let (headers, size, count) = (u64_at(0x28) as usize, u16_at(0x3a), u16_at(0x3c));
    let header = |index: u16| headers + usize::from(index) * usize::from(size);
    let content = |at: usize| {
        const NOTHING: u32 = 8;
        let (start, bytes) = (u64_at(at + 0x18) as usize, u64_at(at + 0x20) as usize);
        let is_there = u32_at(at + 4) != NOTHING;
        file[start..start + if is_there { bytes } else { 0 }].to_vec()
    };
    (0..count)
        .map(header)
        .map(|at| Section {
            flags: u64_at(at + 8),
            bytes: content(at),
        })
        .collect()
}

fn instructions() -> Vec<Instruction> {
    const EXECUTABLE: u64 = 4;
    let sections = sections(OBJECT);
    let code = sections
        .iter()
        .filter(|section| section.flags & EXECUTABLE != 0);
    let instructions: Vec<_> = code
        .flat_map(|section| section.bytes.chunks_exact(8))
        .map(|bytes| Instruction {
            code: bytes[0],
            source: bytes[1] >> 4,
            immediate: i32::from_ne_bytes(bytes[4..].try_into().unwrap()),
        })
        .collect();
    assert!(instructions.len() > 1000, "{}", instructions.len());
    instructions
}

#[test]
fn the_program_calls_only_what_a_card_has() {
    const CALL: u8 = 0x85;
    let instructions = instructions();
    let calls: Vec<_> = instructions.iter().filter(|of| of.code == CALL).collect();
    assert!(calls.len() > 20, "{}", calls.len());
    for call in calls {
        // 1: a function of the program, 2: a function of the kernel.
        assert_eq!(call.source, 0, "neither functions nor kfuncs");
        assert!(
            HELPERS.contains(&call.immediate),
            "helper {}",
            call.immediate
        );
    }
}

#[test]
fn the_program_consists_of_instructions_that_cards_translate() {
    const STORE: u8 = 3;
    const ALU: [u8; 2] = [4, 7];
    const ATOMIC: u8 = 0xc0;
    const SIGNED_LOAD: u8 = 0x80;
    for instruction in instructions() {
        let (class, mode) = (instruction.code & 7, instruction.code & 0xe0);
        let operation = instruction.code & 0xf0;
        if class == STORE && mode == ATOMIC {
            assert_eq!(
                instruction.immediate, 0,
                "an addition that gives nothing back"
            );
        }
        assert!(
            class != 1 || mode != SIGNED_LOAD,
            "of a newer set: a signed load"
        );
        assert_ne!(instruction.code, 0x06, "of a newer set: a far jump");
        // Divide and remainder, by whatever.
        assert!(!ALU.contains(&class) || ![0x30, 0x90].contains(&operation));
        // Sign extension, and swaps that know no order.
        assert_ne!(
            instruction.code, 0xd7,
            "of a newer set: an unconditional swap"
        );
    }
}

#[test]
fn the_maps_are_of_kinds_and_sizes_that_a_card_has() {
    isolated("offload::maps", || {
        let shapes = Options::default().shapes().expect("shapes");
        assert_eq!(
            shapes.len(),
            12,
            "no constants and no variables: {:?}",
            shapes.keys()
        );
        for (name, shape) in shapes {
            assert!(name.len() <= 15, "{name}");
            assert!(
                [MapKind::ARRAY, MapKind::HASH].contains(&shape.kind),
                "{name}"
            );
            assert_eq!(shape.flags, 0, "{name}");
            let padded = shape.key_size.next_multiple_of(8) + shape.value_size.next_multiple_of(8);
            assert!(padded <= ELEMENT_BYTES, "{name}: {padded} bytes");
        }
    });
}

#[test]
fn bound_to_an_interface_without_such_a_card_it_fails_and_leaves_nothing() {
    isolated("offload::bound", || {
        veth("gw-of0", "gw-of1");
        let device = ifindex("gw-of0");
        let options = Options {
            device: Some(device),
            ..Options::default()
        };
        let error = options.load().expect_err("a veth runs no programs");
        assert_eq!(error.kind(), ErrorKind::Kernel, "{error}");
        let text = error.to_string();
        assert!(text.contains("gw_quiclb for network cards"), "{text}");
        assert!(
            text.contains("Invalid argument") || text.contains("-EINVAL"),
            "{text}"
        );
        assert_eq!(occupants(device).expect("an interface"), []);
        let gone = Options {
            device: Some(device + 1000),
            ..Options::default()
        };
        gone.load().expect_err("no such interface");
    });
}
