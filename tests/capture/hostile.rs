// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Any bytes give frames or an error, and never more frames than the bytes have room for.

use proptest::prelude::*;

use crate::frame;
use crate::write::{Writer, BOTH};
use guideway::capture::{from_hex, read, FrameError};

/// Reads to the end, and checks what holds for every file.
fn read_all(bytes: &[u8]) {
    let Ok(frames) = read(bytes) else {
        return;
    };
    // The smallest packet takes 16 bytes.
    let most = bytes.len() / 16 + 1;
    let mut count = 0;
    let mut total = 0;
    let mut damaged = false;
    for frame in frames {
        assert!(!damaged, "a frame after the damage");
        assert_eq!(frame.index, count);
        count += 1;
        total += frame.bytes.len();
        damaged = matches!(frame.error, Some(FrameError::Damaged { .. }));
        assert!(count as usize <= most, "more frames than packets");
    }
    assert!(total <= bytes.len(), "more bytes than the file has");
}

/// A file of each form in each byte order, with something of everything.
fn files() -> Vec<Vec<u8>> {
    let pcap = |order: Writer| {
        [
            order.pcap(0xa1b2_3c4d, 1),
            order.packet((1, 2), 60, &frame(60)),
            order.packet((3, 4), 1514, &frame(33)),
            order.packet((5, 6), 14, &frame(14)),
        ]
        .concat()
    };
    let pcapng = |order: Writer| {
        let options = [
            order.option(9, &[9]),
            order.option(14, &[0; 8]),
            order.option(0, &[]),
        ];
        [
            order.section(),
            order.interface(1, 64, &options.concat()),
            order.enhanced(0, 77, 60, &frame(60)),
            order.simple(60, &frame(60)),
            order.old_packet(0, 77, 61, &frame(61)),
            order.block(5, &[0; 20]),
        ]
        .concat()
    };
    let both = [pcapng(Writer::Big), pcapng(Writer::Little)].concat();
    BOTH.into_iter()
        .flat_map(|order| [pcap(order), pcapng(order)])
        .chain([both])
        .collect()
}

#[test]
fn every_cut_of_every_file() {
    for file in files() {
        for length in 0..=file.len() {
            read_all(&file[..length]);
        }
    }
}

#[test]
fn every_byte_of_every_file_changed() {
    for file in files() {
        for at in 0..file.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = file.clone();
                file[at] = byte;
                read_all(&file);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_header(
        which in 0..4_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let header = match which {
            0 => Writer::Big.pcap(0xa1b2_c3d4, 1),
            1 => Writer::Little.pcap(0xa1b2_c3d4, 1),
            2 => [Writer::Big.section(), Writer::Big.interface(1, 0, &[])].concat(),
            _ => [Writer::Little.section(), Writer::Little.interface(1, 0, &[])].concat(),
        };
        read_all(&[header, bytes].concat());
    }

    #[test]
    fn files_with_several_words_changed(
        which in 0..5_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..6),
    ) {
        let mut file = files().swap_remove(which);
        for (at, word) in changes {
            let at = at.index(file.len() - 3);
            // Small numbers pass for lengths and types more often.
            let word = if word % 2 == 0 { word >> 24 } else { word };
            file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        read_all(&file);
    }

    #[test]
    fn any_text(text in any::<String>()) {
        let _ = from_hex(&text);
    }

    #[test]
    fn text_of_bytes_leads_back(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        gaps in proptest::collection::vec("[ :\n\t]{0,2}", 128),
    ) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = digits.chars().zip(gaps).map(|(c, gap)| format!("{gap}{c}")).collect();
        prop_assert_eq!(from_hex(&text), Ok(bytes));
    }
}
