// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Files written by tcpdump and editcap: three UDP datagrams to 203.0.113.80 and 2001:db8::80,
//! captured at the same time by several processes. Times and lengths are those that tshark shows.

use crate::frames;

const MICROSECONDS: &[u8] = include_bytes!("../data/capture/tcpdump-us.pcap");
const NANOSECONDS: &[u8] = include_bytes!("../data/capture/tcpdump-ns.pcap");
const SNAPPED: &[u8] = include_bytes!("../data/capture/tcpdump-snap.pcap");
const PCAPNG: &[u8] = include_bytes!("../data/capture/editcap-ns.pcapng");

const TIMES_NS: [u64; 3] = [
    1_796_077_212_383_152_411,
    1_796_077_212_383_437_517,
    1_796_077_212_383_474_262,
];
const LENGTHS: [usize; 3] = [86, 80, 43];

/// What was sent.
fn payloads() -> [Vec<u8>; 3] {
    let mut long = b"\xc0\0\0\0\x01\x08\x83\x94\xc8\xf0\x3e\x51\x57\x08".to_vec();
    long.extend([0; 30]);
    let mut short = b"\x40\x00\xc4\x60\x11\x22\x33\x44\x55\x66".to_vec();
    short.extend([1; 8]);
    [long, short, b"x".to_vec()]
}

#[test]
fn the_frames_are_those_that_were_sent() {
    for (file, unit) in [(MICROSECONDS, 1_000), (NANOSECONDS, 1), (PCAPNG, 1)] {
        let frames = frames(file);
        assert_eq!(frames.len(), 3);
        for (index, frame) in frames.iter().enumerate() {
            assert_eq!(frame.index, index as u64);
            assert_eq!(frame.error, None);
            assert_eq!(frame.bytes.len(), LENGTHS[index]);
            assert_eq!(frame.timestamp_ns, Some(TIMES_NS[index] / unit * unit));
            assert!(frame.bytes.ends_with(&payloads()[index]));
        }
        let ethertypes: Vec<_> = frames.iter().map(|f| [f.bytes[12], f.bytes[13]]).collect();
        assert_eq!(ethertypes, [[0x08, 0x00], [0x86, 0xdd], [0x08, 0x00]]);
    }
    let bytes = |file| {
        frames(file)
            .into_iter()
            .map(|f| f.bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(bytes(MICROSECONDS), bytes(NANOSECONDS));
    assert_eq!(bytes(NANOSECONDS), bytes(PCAPNG));
}

#[test]
fn frames_cut_by_the_snap_length_say_so() {
    let errors: Vec<_> = frames(SNAPPED)
        .iter()
        .map(|frame| frame.error.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(
        errors,
        [
            Some("truncated by the capture: 60 of 86 bytes".to_owned()),
            Some("truncated by the capture: 60 of 80 bytes".to_owned()),
            None
        ]
    );
}
