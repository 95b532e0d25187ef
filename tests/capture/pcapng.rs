// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! pcapng files.

use crate::write::{Writer, BOTH};
use crate::{error, frame, frames};
use guideway::capture::Frame;

const TSRESOL: u16 = 9;
const TSOFFSET: u16 = 14;

fn message(frame: &Frame<'_>) -> Option<String> {
    frame.error.as_ref().map(ToString::to_string)
}

/// The time of one packet, captured at `time` by a clock that these options describe.
fn time_ns(order: Writer, options: &[u8], time: u64) -> Option<u64> {
    let file = [
        order.section(),
        order.interface(1, 0, options),
        order.enhanced(0, time, 60, &frame(60)),
    ]
    .concat();
    let frames = frames(&file);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].error, None);
    frames[0].timestamp_ns
}

#[test]
fn every_kind_of_packet_in_both_byte_orders() {
    for order in BOTH {
        let file = [
            order.section(),
            order.block(5, &[9; 12]), // statistics, to be skipped
            order.interface(1, 100, &[]),
            order.enhanced(0, 0x0006_0000_0000_0001, 61, &frame(61)),
            order.simple(62, &frame(62)),
            order.simple(1514, &frame(100)),
            order.block(0x8000_0001, &[7; 5]), // somebody's own, to be skipped
            order.old_packet(0, 7, 63, &frame(63)),
            order.enhanced(0, 8, 1514, &frame(99)),
        ]
        .concat();
        let frames = frames(&file);
        let lengths: Vec<_> = frames.iter().map(|f| f.bytes.len()).collect();
        assert_eq!(lengths, [61, 62, 100, 63, 99], "{order:?}");
        assert!(frames.iter().all(|f| *f.bytes == frame(f.bytes.len())));
        let indices: Vec<_> = frames.iter().map(|f| f.index).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4]);
        // Microseconds where nothing else is said: 6 x 2^48 + 1 of them.
        let first = 1_688_849_860_263_937_000;
        let times: Vec<_> = frames.iter().map(|f| f.timestamp_ns).collect();
        assert_eq!(times, [Some(first), None, None, Some(7_000), Some(8_000)]);
        let originals: Vec<_> = frames.iter().map(|f| f.original_length).collect();
        assert_eq!(originals, [61, 62, 1514, 63, 1514]);
        let messages: Vec<_> = frames.iter().map(message).collect();
        let cut = |n| Some(format!("truncated by the capture: {n} of 1514 bytes"));
        assert_eq!(messages, [None, None, cut(100), None, cut(99)]);
    }
}

#[test]
fn each_interface_has_its_own_clock() {
    for order in BOTH {
        let with = |resolution: u8| order.option(TSRESOL, &[resolution]);
        // A comment before and the end mark behind change nothing.
        let dressed = [order.option(1, b"mine"), with(9), order.option(0, &[])].concat();
        let second = 1_000_000_000;
        for (options, time, expected) in [
            (vec![], 1_500_000, Some(1_500_000_000)),
            (dressed, 1_500_000, Some(1_500_000)),
            (with(0), 3, Some(3 * second)),
            (with(3), 1_500, Some(1_500_000_000)),
            (with(12), 1_999, Some(1)),
            // Powers of two: halves, 1/1024, and 2^-63 of a second.
            (with(0x81), 3, Some(1_500_000_000)),
            (with(0x8a), 512, Some(500_000_000)),
            (with(0xbf), 1 << 62, Some(500_000_000)),
            // Units so small that no time can be told.
            (with(0x7f), u64::MAX, Some(0)),
            (with(0xff), u64::MAX, Some(0)),
            // Units so long that the time does not fit.
            (with(0), u64::MAX, None),
        ] {
            let found = time_ns(order, &options, time);
            assert_eq!(found, expected, "{order:?} {options:?} {time}");
        }
        for (seconds, expected) in [
            (1_700_000_000_i64, Some(1_700_000_001_000_000_000)),
            (-1, Some(0)),
            (-2, None),
            (i64::MAX, None),
            (i64::MIN, None),
        ] {
            let bytes = match order {
                Writer::Big => seconds.to_be_bytes(),
                Writer::Little => seconds.to_le_bytes(),
            };
            let options = order.option(TSOFFSET, &bytes);
            assert_eq!(time_ns(order, &options, 1_000_000), expected, "{seconds}");
        }
    }
}

#[test]
fn packets_find_their_interface_by_number() {
    let order = Writer::Little;
    let file = [
        order.section(),
        order.interface(1, 0, &order.option(TSRESOL, &[9])),
        order.interface(1, 0, &order.option(TSRESOL, &[3])),
        order.enhanced(1, 5, 60, &frame(60)),
        order.enhanced(0, 5, 60, &frame(60)),
        order.old_packet(1, 6, 60, &frame(60)),
    ]
    .concat();
    let times: Vec<_> = frames(&file).iter().map(|f| f.timestamp_ns).collect();
    assert_eq!(times, [Some(5_000_000), Some(5), Some(6_000_000)]);
}

#[test]
fn a_new_section_has_its_own_byte_order_and_interfaces() {
    let (big, little) = (Writer::Big, Writer::Little);
    let file = [
        big.section(),
        big.interface(1, 0, &big.option(TSRESOL, &[9])),
        big.enhanced(0, 5, 60, &frame(60)),
        little.section(),
        little.interface(1, 0, &[]),
        little.enhanced(0, 5, 61, &frame(61)),
        big.section(),
        big.enhanced(0, 5, 62, &frame(62)),
    ]
    .concat();
    let frames = frames(&file);
    let times: Vec<_> = frames.iter().map(|f| f.timestamp_ns).collect();
    assert_eq!(times, [Some(5), Some(5_000), None]);
    assert_eq!(frames[1].bytes.len(), 61);
    let message = message(&frames[2]).expect("an error");
    assert!(
        message.ends_with("a packet's interface is not described"),
        "{message}"
    );
}

#[test]
fn other_link_types_are_named_with_their_interface_if_packets_came_from_there() {
    let order = Writer::Big;
    let described = [
        order.section(),
        order.interface(1, 0, &[]),
        order.interface(276, 0, &[]),
        order.enhanced(0, 5, 60, &frame(60)),
    ]
    .concat();
    assert_eq!(frames(&described).len(), 1);
    let used = [described, order.enhanced(1, 5, 60, &frame(60))].concat();
    assert_eq!(
        error(&used).to_string(),
        "frames of link type LINUX_SLL2 (276) on interface 1, only ETHERNET (1) is read"
    );
    let simple = [
        order.section(),
        order.interface(0, 0, &[]),
        order.simple(60, &frame(60)),
    ];
    assert_eq!(
        error(&simple.concat()).to_string(),
        "frames of link type NULL (0) on interface 0, only ETHERNET (1) is read"
    );
}

#[test]
fn a_first_section_that_cannot_be_read_is_an_error_of_the_file() {
    let file = Writer::Big.section();
    for length in 4..file.len() {
        let error = error(&file[..length]).to_string();
        assert!(
            error.starts_with("the pcapng file is damaged at byte 0: "),
            "{length}: {error}"
        );
    }
    let mut magic = file.clone();
    magic[8] = 0;
    assert_eq!(
        error(&magic).to_string(),
        "the pcapng file is damaged at byte 0: a section header has no byte-order magic"
    );
    let mut version = file;
    version[13] = 2;
    assert_eq!(
        error(&version).to_string(),
        "pcapng version 2.0 is not read"
    );
}

#[test]
fn damage_ends_a_file_with_one_error() {
    for order in BOTH {
        let whole = [
            order.section(),
            order.interface(1, 0, &[]),
            order.enhanced(0, 5, 60, &frame(60)),
        ]
        .concat();
        let packet = order.enhanced(0, 5, 60, &frame(60));
        let set = |at: usize, word: u32| {
            let mut packet = packet.clone();
            packet[at..at + 4].copy_from_slice(&order.u32(word));
            packet
        };
        let length = packet.len() as u32;
        let last = packet.len() - 4;
        let mut version = order.section();
        let two = order.u16(2);
        version[12..14].copy_from_slice(&two);
        let cut_option = order.interface(1, 0, &order.option(1, &[0; 8])[..8]);
        let faults = [
            (packet[..7].to_vec(), "a block is cut"),
            (packet[..packet.len() - 1].to_vec(), "a block is cut"),
            (set(4, length + 4), "a block is cut"),
            (set(4, u32::MAX - 3), "a block is cut"),
            (set(4, length - 1), "a block has an impossible length"),
            (set(4, 8), "a block has an impossible length"),
            (set(4, 0), "a block has an impossible length"),
            (set(last, length + 4), "the two lengths of a block differ"),
            (set(8, 1), "a packet's interface is not described"),
            (set(20, 100_000), "a packet goes beyond its block"),
            (set(20, u32::MAX), "a packet goes beyond its block"),
            (order.block(6, &[0; 16]), "a packet's block is cut"),
            (order.block(3, &[]), "a packet's block is cut"),
            (
                order.simple(64, &frame(60)),
                "a packet goes beyond its block",
            ),
            (order.block(1, &[0; 4]), "an interface description is cut"),
            (cut_option, "an interface description is cut"),
            (version, "a section of another version"),
        ];
        for (bytes, what) in faults {
            let file = [whole.clone(), bytes, packet.clone()].concat();
            // Where the fault is a missing end, nothing follows.
            let file = if what == "a block is cut" {
                &file[..file.len() - packet.len()]
            } else {
                &file
            };
            let frames = frames(file);
            assert_eq!(frames.len(), 2, "{order:?} {what}");
            assert_eq!(message(&frames[0]), None);
            let expected = format!("the file is damaged at byte {}: {what}", whole.len());
            assert_eq!(message(&frames[1]), Some(expected));
        }
    }
}
