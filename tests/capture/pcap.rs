// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Classic pcap files.

use crate::write::{Writer, BOTH};
use crate::{error, frame, frames};
use guideway::capture::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

#[test]
fn both_byte_orders_and_both_units_of_time() {
    let units = [
        (MICROSECONDS, 1_700_000_000_123_456_000, 999_999_000),
        (NANOSECONDS, 1_700_000_000_000_123_456, 999_999),
    ];
    for order in BOTH {
        for (magic, first_ns, second_ns) in units {
            let file = [
                order.pcap(magic, 1),
                order.packet((1_700_000_000, 123_456), 60, &frame(60)),
                order.packet((0, 999_999), 1514, &frame(1514)),
            ]
            .concat();
            let frames = frames(&file);
            let times: Vec<_> = frames.iter().map(|f| f.timestamp_ns).collect();
            assert_eq!(
                times,
                [Some(first_ns), Some(second_ns)],
                "{order:?} {magic:x}"
            );
            let indices: Vec<_> = frames.iter().map(|f| f.index).collect();
            assert_eq!(indices, [0, 1]);
            assert_eq!(*frames[0].bytes, frame(60));
            assert_eq!(*frames[1].bytes, frame(1514));
            assert!(frames.iter().all(|f| f.error.is_none()));
        }
    }
}

#[test]
fn the_latest_time_that_the_form_can_hold_is_kept() {
    let file = [
        Writer::Big.pcap(MICROSECONDS, 1),
        Writer::Big.packet((u32::MAX, u32::MAX), 14, &frame(14)),
    ]
    .concat();
    // 4,294,967,295 s and as many microseconds.
    assert_eq!(
        frames(&file)[0].timestamp_ns,
        Some(4_294_971_589_967_295_000)
    );
}

#[test]
fn a_file_without_packets_has_no_frames() {
    assert_eq!(frames(&Writer::Big.pcap(MICROSECONDS, 1)), []);
}

#[test]
fn lengths_that_cannot_be_run_are_errors_of_their_frames_alone() {
    let order = Writer::Little;
    let longest = MAX_FRAME_BYTES;
    let mut file = order.pcap(MICROSECONDS, 1);
    let cases = [
        (
            0,
            0,
            Some("0 bytes, below the 14 of an Ethernet header".to_owned()),
        ),
        (
            13,
            13,
            Some("13 bytes, below the 14 of an Ethernet header".to_owned()),
        ),
        (MIN_FRAME_BYTES, MIN_FRAME_BYTES, None),
        (
            96,
            1514,
            Some("truncated by the capture: 96 of 1514 bytes".to_owned()),
        ),
        (
            0,
            64,
            Some("truncated by the capture: 0 of 64 bytes".to_owned()),
        ),
        (longest, longest, None),
        (
            longest + 1,
            longest + 1,
            Some("65598 bytes, above the 65597 that programs are run on".to_owned()),
        ),
        // Some drivers report a length without the padding that they add.
        (64, 60, None),
        (60, 60, None),
    ];
    for (captured, original, _) in &cases {
        file.extend(order.packet((1, 1), *original, &frame(*captured)));
    }
    let frames = frames(&file);
    assert_eq!(frames.len(), cases.len());
    for (index, (frame, (captured, original, error))) in frames.iter().zip(cases).enumerate() {
        assert_eq!(frame.index, index as u64);
        assert_eq!(frame.bytes.len(), captured);
        assert_eq!(frame.original_length, original as u64);
        assert_eq!(frame.error.as_ref().map(ToString::to_string), error);
    }
}

#[test]
fn the_upper_half_of_the_link_type_is_something_else() {
    // Bit 26: the length of the frame check sequence is given, in the four bits above.
    let file = Writer::Big.pcap(MICROSECONDS, 0x2400_0001);
    assert_eq!(frames(&file), []);
}

#[test]
fn other_link_types_are_named() {
    for (link_type, message) in [
        (
            113,
            "frames of link type LINUX_SLL (113), only ETHERNET (1) is read",
        ),
        (
            101,
            "frames of link type RAW (101), only ETHERNET (1) is read",
        ),
        (147, "frames of link type 147, only ETHERNET (1) is read"),
    ] {
        let error = error(&Writer::Little.pcap(NANOSECONDS, link_type));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn other_versions_are_named() {
    let mut file = Writer::Big.pcap(MICROSECONDS, 1);
    file[7] = 3;
    assert_eq!(error(&file).to_string(), "pcap version 2.3 is not read");
}

#[test]
fn a_cut_header_is_an_error() {
    let file = Writer::Big.pcap(MICROSECONDS, 1);
    for length in 4..file.len() {
        assert_eq!(
            error(&file[..length]).to_string(),
            "the pcap file is damaged at byte 0: the file header is cut",
            "{length}"
        );
    }
}

#[test]
fn a_cut_file_gives_what_is_whole_and_says_where_it_ends() {
    let order = Writer::Big;
    let file = [
        order.pcap(MICROSECONDS, 1),
        order.packet((1, 1), 60, &frame(60)),
        order.packet((2, 2), 60, &frame(60)),
    ]
    .concat();
    let second = 24 + 16 + 60;
    for length in second + 1..file.len() {
        let frames = frames(&file[..length]);
        assert_eq!(frames.len(), 2, "{length}");
        assert_eq!((frames[0].bytes.len(), &frames[0].error), (60, &None));
        let what = if length < second + 16 {
            "the header of a packet is cut"
        } else {
            "a packet goes beyond the end of the file"
        };
        let message = format!("the file is damaged at byte {second}: {what}");
        assert_eq!(
            frames[1].error.as_ref().map(ToString::to_string),
            Some(message)
        );
        assert_eq!(frames[1].index, 1);
    }
    assert_eq!(frames(&file[..second]).len(), 1);
}

#[test]
fn a_length_beyond_the_file_is_no_length() {
    let mut packet = Writer::Big.packet((1, 1), 60, &frame(60));
    packet[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    let file = [Writer::Big.pcap(MICROSECONDS, 1), packet].concat();
    let frames = frames(&file);
    assert_eq!(frames.len(), 1);
    assert!(frames[0]
        .error
        .as_ref()
        .is_some_and(|e| e.to_string().contains("byte 24")));
}
