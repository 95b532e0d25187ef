// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use super::*;
use proptest::prelude::*;

fn long(payload: &[u8]) -> LongHeader<'_> {
    match parse(payload, 8) {
        Packet::Long(header) => header,
        packet => panic!("{packet:?} of {payload:02x?}"),
    }
}

fn short(payload: &[u8], short_dcid_len: u8) -> ShortHeader<'_> {
    match parse(payload, short_dcid_len) {
        Packet::Short(header) => header,
        packet => panic!("{packet:?} of {payload:02x?}"),
    }
}

/// A long header of version 1 with these connection IDs, and then some.
fn long_payload(dcid: &[u8], scid: &[u8], more: &[u8]) -> Vec<u8> {
    let mut payload = vec![0xc0, 0, 0, 0, 1, dcid.len() as u8];
    payload.extend(dcid);
    payload.push(scid.len() as u8);
    payload.extend(scid);
    payload.extend(more);
    payload
}

#[test]
fn types_depend_on_the_version() {
    use PacketType::*;
    for (version, types) in [
        (0x0000_0001, [Initial, ZeroRtt, Handshake, Retry]),
        (0x6b33_43cf, [Retry, Initial, ZeroRtt, Handshake]),
        (0, [VersionNegotiation; 4]),
        (0xff00_001d, [Unknown; 4]),
        (0x1a2a_3a4a, [Unknown; 4]),
    ] {
        for (bits, expected) in (0u8..).zip(types) {
            let mut payload = vec![0x80 | bits << 4];
            payload.extend(u32::to_be_bytes(version));
            payload.extend([0, 0]);
            let header = long(&payload);
            assert_eq!(header.version, version);
            assert_eq!(header.packet_type(), expected, "{version:08x}, bits {bits}");
            let starts = matches!(expected, Initial | ZeroRtt);
            assert_eq!(header.packet_type().starts_flow(), starts);
        }
    }
}

#[test]
fn every_dcid_length_is_legal_in_a_long_header() {
    for len in 0..=255 {
        let dcid: Vec<u8> = (0..len).collect();
        let payload = long_payload(&dcid, &[7; 3], &[1, 2]);
        let header = long(&payload);
        assert_eq!(header.dcid, dcid);
        assert_eq!(header.scid, Some(&[7, 7, 7][..]));
    }
}

#[test]
fn a_long_header_is_routable_once_its_dcid_is_complete() {
    let payload = long_payload(&[1, 2, 3, 4, 5, 6, 7, 8], &[9; 5], &[]);
    for len in 0..=payload.len() {
        let cut = parse(&payload[..len], 8);
        match len {
            // First byte, version, length, and 8 bytes of connection ID.
            0..14 => assert_eq!(cut, Packet::Malformed, "{len} bytes"),
            // Length and 5 bytes of source connection ID.
            14..20 => assert_eq!(long(&payload[..len]).scid, None, "{len} bytes"),
            _ => assert_eq!(long(&payload[..len]).scid, Some(&[9; 5][..])),
        }
    }
}

#[test]
fn a_short_header_has_a_dcid_where_the_payload_has_enough_bytes() {
    let payload = [0x41, 1, 2, 3, 4];
    assert_eq!(short(&payload, 0).dcid(), Some(&[][..]));
    assert_eq!(short(&payload, 4).dcid(), Some(&[1, 2, 3, 4][..]));
    assert_eq!(short(&payload, 5).dcid(), None);
    assert_eq!(short(&payload, 5).rest, [1, 2, 3, 4]);
    assert_eq!(short(&payload, 5).dcid_of_len(2), Some(&[1, 2][..]));
    assert_eq!(short(&payload, 0).dcid_of_len(5), None);
    assert_eq!(short(&[0x41], 0).dcid(), Some(&[][..]));
}

#[test]
fn the_fixed_bit_is_reported() {
    assert!(short(&[0x40], 0).fixed_bit());
    assert!(!short(&[0x00], 0).fixed_bit());
    assert!(long(&long_payload(&[], &[], &[])).fixed_bit());
    assert!(!long(&[0x80, 0, 0, 0, 1, 0, 0]).fixed_bit());
}

/// A STUN binding request with a message of `len` bytes.
fn stun(len: u8) -> Vec<u8> {
    let mut payload = vec![0, 1, 0, len, 0x21, 0x12, 0xa4, 0x42];
    payload.extend(vec![0x55; 12 + usize::from(len)]);
    payload
}

#[test]
fn stun_is_told_by_all_its_marks_together() {
    for len in [0, 8, 200] {
        let payload = stun(len);
        assert_eq!(parse(&payload, 8), Packet::NotQuic(NotQuic::Stun));
        assert_eq!(read_header(&payload, 8), Packet::NotQuic(NotQuic::Stun));

        short(&payload[..payload.len() - 1], 8);
        let mut longer = payload.clone();
        longer.push(0);
        short(&longer, 8);
        // Either top bit, every bit of the cookie, every bit of the length.
        let marks = [6].into_iter().chain(2 * 8..8 * 8);
        for bit in marks {
            let mut other = payload.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            short(&other, 8);
        }
        let mut form = payload;
        form[0] |= 0x80;
        assert!(!is_stun(&form));
    }
}

/// A DTLS record of `len` bytes.
fn dtls(record_type: u8, version: u8, len: u8) -> Vec<u8> {
    let mut payload = vec![record_type, 0xfe, version, 0, 0, 0, 0, 0, 0, 0, 0, 0, len];
    payload.extend(vec![0x55; usize::from(len)]);
    payload
}

#[test]
fn dtls_is_told_by_type_version_and_length() {
    for record_type in 0..=255 {
        for version in [0xfc, 0xfd, 0xfe, 0xff] {
            let payload = dtls(record_type, version, 40);
            let expected = (20..=25).contains(&record_type) && matches!(version, 0xfd | 0xff);
            assert_eq!(
                is_dtls(&payload),
                expected,
                "type {record_type}, version {version:x}"
            );
        }
    }
    let mut payload = dtls(22, 0xfd, 40);
    assert_eq!(parse(&payload, 8), Packet::NotQuic(NotQuic::Dtls));
    // Records may follow each other in one datagram.
    payload.extend(dtls(23, 0xfd, 8));
    assert_eq!(parse(&payload, 8), Packet::NotQuic(NotQuic::Dtls));
    short(&payload[..52], 8);
    payload[1] = 0xff;
    short(&payload, 8);
    assert!(!is_dtls(&[]));
    assert!(is_dtls(&dtls(22, 0xfd, 0)));
}

#[test]
fn a_router_sees_dtls_as_a_short_header_first() {
    let payload = dtls(22, 0xfd, 40);
    match read_header(&payload, 8) {
        Packet::Short(header) => assert_eq!(header.dcid(), Some(&payload[1..9])),
        packet => panic!("{packet:?}"),
    }
}

#[test]
fn connection_ids_have_1_to_20_bytes() {
    for len in 0..=30 {
        let bytes: Vec<u8> = (1..=len).collect();
        let cid = Cid::new(&bytes);
        if (1..=20).contains(&len) {
            let cid = cid.unwrap();
            assert_eq!(*cid, *bytes);
            assert_eq!(cid.to_string().parse(), Ok(cid));
        } else {
            let len = usize::from(len);
            assert_eq!(cid, Err(CidLengthError { min: 1, len }));
        }
    }
    let cid: Cid = "00C4ff".parse().unwrap();
    assert_eq!(
        (cid.to_string(), format!("{cid:?}")),
        ("00c4ff".into(), "Cid(00c4ff)".into())
    );
    assert!("".parse::<Cid>().is_err());
    assert!("+f".parse::<Cid>().is_err());
}

/// Everything of a packet but the fixed bit.
fn without_fixed_bit(packet: Packet<'_>) -> String {
    let packet = match packet {
        Packet::Long(header) => Packet::Long(LongHeader {
            first: header.first & 0x30,
            ..header
        }),
        Packet::Short(header) => Packet::Short(ShortHeader { first: 0, ..header }),
        packet => packet,
    };
    format!("{packet:?}")
}

proptest! {
    /// STUN and DTLS have bit 6 among their marks; whatever is QUIC, with it set or clear, stays
    /// the same QUIC packet.
    #[test]
    fn the_fixed_bit_decides_nothing(
        mut payload in prop::collection::vec(any::<u8>(), 1..64), short_dcid_len in 0u8..=20,
    ) {
        let before = without_fixed_bit(read_header(&payload, short_dcid_len));
        prop_assume!(!before.starts_with("NotQuic"));
        let mut flipped = payload.clone();
        flipped[0] ^= 0x40;
        prop_assert_eq!(before, without_fixed_bit(read_header(&flipped, short_dcid_len)));
        payload[0] |= 0x80;
        flipped[0] |= 0x80;
        prop_assert_eq!(
            without_fixed_bit(parse(&payload, short_dcid_len)),
            without_fixed_bit(parse(&flipped, short_dcid_len))
        );
    }

    #[test]
    fn what_is_read_stands_in_the_payload(
        payload in prop::collection::vec(any::<u8>(), 0..600), short_dcid_len: u8,
    ) {
        match parse(&payload, short_dcid_len) {
            Packet::Long(header) => {
                let dcid_end = 6 + header.dcid.len();
                prop_assert_eq!(usize::from(payload[5]), header.dcid.len());
                prop_assert_eq!(header.dcid, &payload[6..dcid_end]);
                if let Some(scid) = header.scid {
                    prop_assert_eq!(usize::from(payload[dcid_end]), scid.len());
                    prop_assert_eq!(scid, &payload[dcid_end + 1..dcid_end + 1 + scid.len()]);
                }
            }
            Packet::Short(header) => {
                prop_assert_eq!(header.rest, &payload[1..]);
                let enough = payload.len() > usize::from(short_dcid_len);
                prop_assert_eq!(header.dcid().is_some(), enough);
            }
            Packet::NotQuic(_) => prop_assert!(payload[0] < 0x40),
            Packet::Malformed => prop_assert!(payload.is_empty() || payload[0] >= 0x80),
        }
    }
}
