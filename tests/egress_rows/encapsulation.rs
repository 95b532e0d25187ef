// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How packets are encapsulated.

use std::net::Ipv6Addr;

use bytemuck::{bytes_of, pod_read_unaligned};
use guideway::encap::{Dscp, DscpValue, Ecn, Encap, Mss, Rate};

use crate::{half, read_whole, row, word};

const NODE: [u8; 16] = [
    0x20, 0x01, 0x0d, 0xb8, 0xff, 0x01, 0, 1, 0xe0, 0, 0, 0, 0, 0, 0, 0,
];

fn encap() -> Encap {
    Encap {
        hop_limit: 17,
        dscp: Dscp::Fixed(DscpValue::new(46).expect("a DSCP")),
        ecn: Ecn::Normal,
        flow_label: true,
        too_big: true,
        mss: Some(Mss {
            ipv6: 1220,
            ipv4: 1240,
        }),
        icmp: Rate {
            per_second: 11,
            burst: 12,
        },
        events: Rate {
            per_second: 13,
            burst: 14,
        },
        ..Encap::compat(Ipv6Addr::from(NODE).try_into().expect("a SID"))
    }
}

#[test]
fn encapsulation() {
    // 2 FLOW_LABEL, 4 ECN_NORMAL, 8 ICMP_TOO_BIG, 16 MSS_CLAMP, 32 DSCP_FIXED.
    let bytes: [u8; 128] = row(&[
        (0, &NODE),
        (16, &word(2 | 4 | 8 | 16 | 32)),
        (20, &[17, 46]),
        (24, &half(1220)),
        (26, &half(1240)),
        (28, &word(11)),
        (32, &word(12)),
        (36, &word(13)),
        (40, &word(14)),
    ]);
    assert_eq!(bytes_of(&encap().to_row()), bytes);
    assert_eq!(Encap::from_row(&pod_read_unaligned(&bytes)), Ok(encap()));
    read_whole(
        &bytes,
        Encap::from_row,
        Encap::to_row,
        &[(22, 24), (44, 128)],
    );

    let profile = |encap: Encap| encap.to_row().profile;
    let plain = Encap {
        too_big: false,
        ..Encap::compat(encap().node_sid)
    };
    let copy = Encap {
        dscp: Dscp::Copy,
        ..plain
    };
    assert_eq!((profile(plain), profile(copy)), (0, 1));
    // The default profiles: 8 ICMP_TOO_BIG; 1 DSCP_COPY and 2 FLOW_LABEL.
    assert_eq!(profile(Encap::compat(encap().node_sid)), 8);
    assert_eq!(profile(Encap::standard(encap().node_sid)), 8 | 1 | 2);

    let with = |at: usize, part: &[u8]| {
        let mut bytes = bytes;
        bytes[at..at + part.len()].copy_from_slice(part);
        bytes
    };
    for (field, bytes) in [
        ("node_sid", with(0, &[0; 16])),
        ("node_sid", with(12, &[1])),
        // Copied and fixed at once, and a bit that means nothing.
        ("profile", with(16, &word(1 | 32))),
        ("zero", with(16, &word(2 | 4 | 8 | 16 | 32 | 64))),
        ("hop_limit", with(20, &[0])),
        ("dscp", with(21, &[64])),
        // Without the bits that they belong to.
        ("zero", with(16, &word(2 | 4 | 8 | 16))),
        ("zero", with(16, &word(2 | 4 | 8 | 32))),
    ] {
        let error = Encap::from_row(&pod_read_unaligned(&bytes)).expect_err(field);
        assert_eq!(error.field, field, "{error}");
    }
    assert!(DscpValue::new(63).is_ok() && DscpValue::new(64).is_err());
    assert!(Encap {
        hop_limit: 0,
        ..plain
    }
    .check()
    .is_err());
}
