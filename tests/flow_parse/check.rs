// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is asserted of a frame.

use std::net::IpAddr;

use guideway::flow::{parse, Flow, Parsed, L4};
use guideway::reason::Reason;
use guideway::service::Protocol;

use crate::build::*;

pub(crate) fn read(frame: &[u8]) -> Parsed {
    parse(frame).unwrap_or_else(|reason| panic!("{reason} of {frame:02x?}"))
}

#[track_caller]
pub(crate) fn refused(frame: &[u8], reason: Reason) {
    assert_eq!(parse(frame), Err(reason), "{frame:02x?}");
}

#[track_caller]
pub(crate) fn assert_request(frame: &[u8], l3_offset: usize, l4_offset: usize) {
    let parsed = read(frame);
    assert_eq!((parsed.l3_offset, parsed.l4_offset), (l3_offset, l4_offset));
    let (client, vip): (IpAddr, IpAddr) = match parsed.ethertype {
        0x0800 => (CLIENT4.into(), VIP4.into()),
        0x86dd => (CLIENT6.into(), VIP6.into()),
        other => panic!("EtherType {other:04x}"),
    };
    let flow = Flow {
        protocol: Protocol::Udp,
        client,
        client_port: 50000,
        vip,
        vip_port: 443,
    };
    assert_eq!(parsed.flow(), flow);
    assert_eq!(
        (parsed.source, parsed.destination, parsed.protocol),
        (client, vip, UDP)
    );
    match parsed.l4 {
        L4::Udp(udp) => assert_eq!(frame[udp.payload], *b"hello!"),
        other => panic!("{other:?}"),
    }
}
