// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hexadecimal text, and what is no capture at all.

use crate::error;
use guideway::capture::{from_hex, Frame};

#[test]
fn white_space_and_colons_stand_anywhere() {
    let expected = vec![0x02, 0x00, 0xab, 0xcd];
    for text in [
        "0200abcd",
        "0200ABCD",
        "02:00:ab:cd",
        "02 00\tab\ncd\r\n",
        " 0 2 0 0 a b c d ",
        "0:200abc:d::",
    ] {
        assert_eq!(from_hex(text), Ok(expected.clone()), "{text:?}");
    }
    assert_eq!(from_hex(" :\n"), Ok(vec![]));
}

#[test]
fn anything_else_is_refused_where_it_stands() {
    for (text, message) in [
        (
            "0x02",
            "character 1 is 'x': neither a hexadecimal digit nor white space nor ':'",
        ),
        (
            "02-00",
            "character 2 is '-': neither a hexadecimal digit nor white space nor ':'",
        ),
        (
            "+f",
            "character 0 is '+': neither a hexadecimal digit nor white space nor ':'",
        ),
        (
            "é0\u{ff10}",
            "character 0 is 'é': neither a hexadecimal digit nor white space nor ':'",
        ),
        ("02 0", "an odd number of hexadecimal digits: 3"),
        ("f", "an odd number of hexadecimal digits: 1"),
    ] {
        let error = from_hex(text).expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn frames_of_text_obey_the_same_limits() {
    let errors = [13, 14, 65_597, 65_598]
        .map(|length| Frame::new(7, vec![0; length]).error.map(|e| e.to_string()));
    assert_eq!(
        errors,
        [
            Some("13 bytes, below the 14 of an Ethernet header".to_owned()),
            None,
            None,
            Some("65598 bytes, above the 65597 that programs are run on".to_owned()),
        ]
    );
    let frame = Frame::new(7, &[1; 20][..]);
    assert_eq!(
        (frame.index, frame.timestamp_ns, frame.original_length),
        (7, None, 20)
    );
}

#[test]
fn other_files_are_named() {
    for (bytes, found) in [
        (&b""[..], "it has 0 bytes"),
        (b"\xa1\xb2\xc3", "it has 3 bytes"),
        (b"\x1f\x8b\x08\0\0\0", "gzip data, unpack it first"),
        (b"\x28\xb5\x2f\xfd\0\0", "zstd data, unpack it first"),
        (b"snoop\0\0\0\0\0\0\x02", "a snoop capture"),
        (
            b"\x34\xcd\xb2\xa1\0\0\0\0",
            "pcap with extended packet headers",
        ),
        (b"{ \"instance_id\"", "it begins with 7b 20 22 69"),
    ] {
        assert_eq!(
            error(bytes).to_string(),
            format!("not a pcap or pcapng file: {found}")
        );
    }
}
