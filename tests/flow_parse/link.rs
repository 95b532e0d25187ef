// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Ethernet and VLAN tags.

use guideway::reason::Reason;

use crate::build::*;
use crate::check::*;

#[test]
fn up_to_two_vlan_tags() {
    let packet = ipv4_options(UDP, 0, &request());
    for tags in [
        &[][..],
        &[(0x8100, 0x0064)],
        &[(0x88a8, 0xf064)],
        &[(0x88a8, 0x0065), (0x8100, 0xe064)],
        &[(0x8100, 0x0065), (0x8100, 0x0fff)],
    ] {
        let frame = ethernet(tags, 0x0800, &packet);
        let at = 14 + 4 * tags.len();
        assert_request(&frame, at, at + 20);
        let ids: Vec<u16> = tags.iter().map(|(_, control)| control & 0xfff).collect();
        assert_eq!(read(&frame).vlans.ids(), ids);
        for len in 0..at {
            refused(&frame[..len], Reason::ShortFrame);
        }
    }
    let three = [(0x88a8, 1), (0x8100, 2), (0x8100, 3)];
    let frame = ethernet(&three, 0x0800, &packet);
    refused(&frame, Reason::VlanDepth);
    // The third tag is named by what stands before it, and need not be there.
    refused(&frame[..22], Reason::VlanDepth);
    refused(&frame[..21], Reason::ShortFrame);
}

#[test]
fn other_ethertypes_are_not_ip() {
    let packet = ipv4_options(UDP, 0, &request());
    // ARP, MPLS, the old double tag, lengths of IEEE 802.3.
    for ethertype in [0x0806, 0x8847, 0x9100, 0x0000, 0x002a, 0x05dc, 0xffff] {
        refused(&ethernet(&[], ethertype, &packet), Reason::NotIp);
        refused(&ethernet(&[], ethertype, &[]), Reason::NotIp);
        refused(&ethernet(&[(0x8100, 1)], ethertype, &packet), Reason::NotIp);
    }
    // The version must be the EtherType's.
    refused(&ethernet(&[], 0x86dd, &packet), Reason::BadIpv6);
    let packet = ipv6_between(CLIENT6, VIP6, &[], UDP, &request());
    refused(&ethernet(&[], 0x0800, &packet), Reason::BadIpv4);
}
