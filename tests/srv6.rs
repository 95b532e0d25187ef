// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! SIDs, Arguments, MTUs and next hops: what is taken, what is refused and in which words.

use std::net::Ipv6Addr;

use guideway::addr::MacAddr;
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop, NodeSid, SidError};
use proptest::prelude::*;

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn refusal(text: &str) -> String {
    let error = text.parse::<BaseSid>().expect_err(text);
    // Both kinds follow one rule.
    assert_eq!(text.parse::<NodeSid>(), Err(error));
    error.to_string()
}

/// The vector of the wire form: a node's and a shard's SID with tenant 0x2a5.
#[test]
fn argument_completes_both_sids() {
    let argument = Argument::new(0x2a5).expect("in range");
    let source: NodeSid = "2001:db8:ff01:1:e000::".parse().expect("a SID");
    let destination: BaseSid = "2001:db8:ff09:10:e000::".parse().expect("a SID");
    let wire = |sid: Ipv6Addr| format!("{:032x}", sid.to_bits());
    assert_eq!(
        wire(source.with_argument(argument)),
        "20010db8ff010001e2a5000000000000"
    );
    assert_eq!(
        wire(destination.with_argument(argument)),
        "20010db8ff090010e2a5000000000000"
    );
}

#[test]
fn parts_are_where_the_form_has_them() {
    let sid: BaseSid = "2001:db8:ff09:dfff:7abc:1234::".parse().expect("a SID");
    assert_eq!(sid.block(), [0x20, 0x01, 0x0d, 0xb8, 0xff, 0x09]);
    assert_eq!(sid.node_id(), 0xdfff);
    assert_eq!(sid.function(), 7);
    assert_eq!(sid.locator(), address("2001:db8:ff09:dfff::"));
    assert_eq!(sid.address(), address("2001:db8:ff09:dfff:7000::"));
    assert_eq!(sid.octets(), sid.address().octets());
    assert_eq!(Ipv6Addr::from(sid), sid.address());
}

/// Shards announce SIDs with or without Argument and slot: all of them are one shard.
#[test]
fn argument_and_slot_do_not_tell_shards_apart() {
    let base: BaseSid = "fd00:1:2:3:e000::".parse().expect("a SID");
    for text in [
        "fd00:1:2:3:e001::",
        "fd00:1:2:3:efff::",
        "fd00:1:2:3:e000:ffff::",
        "fd00:1:2:3:eabc:1::",
    ] {
        assert_eq!(text.parse(), Ok(base), "{text}");
    }
    for text in ["fd00:1:2:3:f000::", "fd00:1:2:4:e000::", "fd00:1:2:3::"] {
        assert_ne!(text.parse(), Ok(base), "{text}");
    }
}

#[test]
fn refusals_name_the_field_and_the_value() {
    for (text, message) in [
        ("", "SID is not an IPv6 address"),
        ("2001:db8:ff09:10:e000::/80", "SID is not an IPv6 address"),
        ("10.0.0.1", "SID is not an IPv6 address"),
        ("::", "SID :: is the unspecified address"),
        (
            "::ffff:10.0.0.1",
            "SID ::ffff:10.0.0.1 is an IPv4-mapped address",
        ),
        ("ff0e:0:0:1::", "SID ff0e:0:0:1:: is a multicast address"),
        ("fe80:0:0:1::", "SID fe80:0:0:1:: is a link-local address"),
        (
            "febf:0:0:1:e000::",
            "SID febf:0:0:1:e000:: is a link-local address",
        ),
        (
            "2001:db8:ff09:0:e000::",
            "SID 2001:db8:ff09:0:e000:: has node ID 0x0000, not one from 0x0001 to 0xdfff",
        ),
        (
            "2001:db8:ff09:e000:e000::",
            "SID 2001:db8:ff09:e000:e000:: has node ID 0xe000, not one from 0x0001 to 0xdfff",
        ),
        (
            "2001:db8:ff09:10:e000::1",
            "SID 2001:db8:ff09:10:e000::1 has padding (bytes 12 to 15) 0x00000001, not 0",
        ),
        (
            "2001:db8:ff09:10:e000:0:8000:0",
            "SID 2001:db8:ff09:10:e000:0:8000:0 has padding (bytes 12 to 15) 0x80000000, not 0",
        ),
    ] {
        assert_eq!(refusal(text), message, "{text:?}");
    }
    let sid = address("ff02::1");
    assert_eq!(BaseSid::new(sid), Err(SidError::Multicast { sid }));
}

#[test]
fn neighbours_of_what_is_refused_are_taken() {
    for text in [
        "fec0:0:0:1::",
        "fe7f:0:0:1:e000::",
        "2001:db8:ff09:1:e000::",
        "2001:db8:ff09:dfff:e000::",
        "2001:db8:ff09:10::",
        "2001:db8:ff09:10:f000::",
    ] {
        assert!(text.parse::<BaseSid>().is_ok(), "{text}");
    }
}

#[test]
fn arguments_are_twelve_bits_and_never_zero() {
    for value in [1, 0x2a5, 0xfff] {
        assert_eq!(Argument::new(value).map(Argument::get), Ok(value as u16));
    }
    for (value, message) in [
        (0, "Argument 0x0 is not from 0x1 to 0xfff"),
        (0x1000, "Argument 0x1000 is not from 0x1 to 0xfff"),
        (0x1_0001, "Argument 0x10001 is not from 0x1 to 0xfff"),
        (u32::MAX, "Argument 0xffffffff is not from 0x1 to 0xfff"),
    ] {
        assert_eq!(Argument::new(value).unwrap_err().to_string(), message);
    }
    assert_eq!(Argument::new(0x2a).unwrap().to_string(), "0x02a");
}

#[test]
fn an_mtu_leaves_what_ipv6_asks_for() {
    for (mtu, inner) in [(0, None), (1_320, Some(1_280)), (1_500, Some(1_460))] {
        assert_eq!(Mtu::new(mtu).map(Mtu::inner), Ok(inner));
    }
    assert_eq!(Mtu::new(0), Ok(Mtu::UNCHECKED));
    for mtu in [1, 40, 1_280, 1_319] {
        let message = format!(
            "MTU {mtu} is neither 0 (unchecked) nor at least 1320 (1280 and 40 of encapsulation)"
        );
        assert_eq!(Mtu::new(mtu).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_next_hop_has_an_interface_and_two_addresses() {
    let (a, b) = (
        MacAddr::new([2, 0, 0, 0, 0, 1]),
        MacAddr::new([2, 0, 0, 0, 0, 2]),
    );
    let none = MacAddr::new([0; 6]);
    let hop = NextHop::new(7, a, b, Mtu::UNCHECKED).expect("complete");
    assert_eq!(
        (hop.ifindex(), hop.source(), hop.destination(), hop.mtu()),
        (7, a, b, Mtu::UNCHECKED)
    );
    let refusal = |ifindex, source, destination| {
        let hop = NextHop::new(ifindex, source, destination, Mtu::UNCHECKED);
        hop.expect_err("incomplete").to_string()
    };
    assert_eq!(refusal(0, a, b), "ifindex 0 is no interface");
    assert_eq!(
        refusal(7, none, b),
        "source MAC 00:00:00:00:00:00 is no address"
    );
    assert_eq!(
        refusal(7, a, none),
        "destination MAC 00:00:00:00:00:00 is no address"
    );
}

/// The text of RFC 5952, written from its section 4: no leading zeros, lower case, the longest run
/// of at least two zero groups shortened, the first of equals.
fn rfc5952(groups: [u16; 8]) -> String {
    let run = |at: usize| groups[at..].iter().take_while(|&&group| group == 0).count();
    let longest = (0..8).map(run).max().unwrap_or(0);
    let hex = |groups: &[u16]| {
        let texts: Vec<_> = groups.iter().map(|group| format!("{group:x}")).collect();
        texts.join(":")
    };
    if longest < 2 {
        return hex(&groups);
    }
    let at = (0..8).find(|&at| run(at) == longest).expect("it is there");
    format!("{}::{}", hex(&groups[..at]), hex(&groups[at + longest..]))
}

proptest! {
    /// The text is the key of every node's tables, so it must be the one that all agree on.
    #[test]
    fn the_text_is_that_of_rfc_5952(
        block in prop::array::uniform3(prop_oneof![Just(0_u16), 1_u16..0x10, any::<u16>()]),
        node_id in 1_u16..=0xdfff,
        function in 0_u16..=0xf,
        argument in 0_u16..=0xfff,
        slot in any::<u16>(),
    ) {
        let [a, b, c] = block;
        let sid = Ipv6Addr::new(a, b, c, node_id, function << 12 | argument, slot, 0, 0);
        prop_assume!(!sid.is_multicast() && a & 0xffc0 != 0xfe80);
        let base = BaseSid::new(sid).expect("a SID");
        prop_assert_eq!(
            base.to_string(),
            rfc5952([a, b, c, node_id, function << 12, 0, 0, 0])
        );
        prop_assert_eq!(base.to_string().parse(), Ok(base));
        prop_assert_eq!(serde_json::to_value(base).expect("text"), base.to_string());
    }
}
