// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keys of pins.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytemuck::bytes_of;
use guideway::group::GroupId;
use guideway::pin::{Flow, Holder};
use guideway::route::TableId;

use crate::{read_whole, row, word};

#[test]
fn keys_of_pins() {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let (from, to) = (address("2001:db8:aaaa::7"), address("2001:db8:2::1"));
    let by_source = Holder {
        table: TableId::new(42),
        group: GroupId::new(5).expect("a group"),
        source: from.into(),
        flow: None,
    };
    let bytes: [u8; 24] = row(&[(0, &word(42)), (5, &[5]), (8, &from.octets())]);
    assert_eq!(bytes_of(&by_source.source_key()), bytes);
    read_whole(&bytes, Holder::of_source, Holder::source_key, &[(6, 8)]);
    let by_source4 = Holder {
        source: Ipv4Addr::new(10, 0, 0, 7).into(),
        ..by_source
    };
    let bytes: [u8; 24] = row(&[(0, &word(42)), (4, &[1, 5]), (8, &[10, 0, 0, 7])]);
    assert_eq!(bytes_of(&by_source4.source_key()), bytes);
    read_whole(
        &bytes,
        Holder::of_source,
        Holder::source_key,
        &[(6, 8), (12, 24)],
    );

    let flow = Flow {
        protocol: 17,
        source_port: 0x1234,
        destination: to.into(),
        destination_port: 53,
    };
    let flow_key = |holder: &Holder| {
        let flow = holder.flow.as_ref().expect("a flow");
        holder.flow_key(flow).expect("one family")
    };
    let by_flow = Holder {
        flow: Some(flow),
        ..by_source
    };
    let bytes: [u8; 44] = row(&[
        (0, &word(42)),
        (5, &[17, 5]),
        (8, &[0x12, 0x34, 0, 53]),
        (12, &from.octets()),
        (28, &to.octets()),
    ]);
    assert_eq!(bytes_of(&flow_key(&by_flow)), bytes);
    read_whole(&bytes, Holder::of_flow, flow_key, &[(7, 8)]);
    assert!(by_source4.flow_key(&flow).is_none(), "of two families");
    // Whose a pin is differs with each part.
    let others = [
        by_source4,
        by_flow,
        Holder {
            table: TableId::new(43),
            ..by_source
        },
        Holder {
            group: GroupId::new(4).expect("a group"),
            ..by_source
        },
        Holder {
            source: to.into(),
            ..by_source
        },
    ];
    for other in others {
        assert_ne!(other.tag(), by_source.tag(), "{other}");
    }
}
