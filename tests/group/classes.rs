// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Classes: what identifies them, and which routes are theirs.

use std::net::IpAddr;

use guideway::group::{Class, Classes, ConfiguredClass, Limits, Nat64Prefix};
use guideway::placement::HashGroup;
use proptest::prelude::*;

use crate::support::*;

fn configured(prefixes: &[&str]) -> Classes {
    let classes = prefixes.iter().map(|prefix| nat64(prefix).into());
    Classes::new(classes, Limits::default()).expect("no contradiction")
}

fn class_of(classes: &Classes, route: &str) -> Option<Class> {
    let (address, bits) = route.split_once('/').expect("a prefix");
    let address: IpAddr = address.parse().expect("an address");
    classes.of_route(address, bits.parse().expect("a length"))
}

#[test]
fn class_for_route() {
    let classes = configured(&["64:ff9b::/96", "2001:db8:64::/96"]);
    assert_eq!(class_of(&classes, "::/0"), Some(Class::Nat66));
    for prefix in ["64:ff9b::/96", "2001:db8:64::/96"] {
        assert_eq!(class_of(&classes, prefix), Some(nat64(prefix)));
    }
    for other in [
        "64:ff9b:1::/96",
        "64:ff9b::/64",
        "64:ff9b::/95",
        "64:ff9b::/97",
        "64:ff9b::/128",
        "::/96",
        "::/1",
        "2000::/3",
        "0.0.0.0/0",
        "10.0.0.0/8",
    ] {
        assert_eq!(class_of(&classes, other), None, "{other}");
    }
}

#[test]
fn classes_have_texts() {
    assert_eq!(Class::Nat66.to_string(), "nat66");
    let class = Class::Nat64(Nat64Prefix::WELL_KNOWN);
    assert_eq!(class.to_string(), "nat64:64:ff9b::/96");
    assert_eq!(
        serde_json::to_value(class).expect("text"),
        "nat64:64:ff9b::/96"
    );
    assert_eq!(nat64("64:ff9b::/96"), class);
    assert_eq!(nat64("64:FF9B:0::/96"), class);
}

#[test]
fn other_prefixes_are_refused() {
    for (text, message) in [
        ("", "NAT64 prefix is not an IPv6 address, '/' and a length"),
        (
            "64:ff9b::",
            "NAT64 prefix is not an IPv6 address, '/' and a length",
        ),
        (
            "64:ff9b::/+96",
            "NAT64 prefix is not an IPv6 address, '/' and a length",
        ),
        (
            "64:ff9b::/",
            "NAT64 prefix is not an IPv6 address, '/' and a length",
        ),
        ("10.0.0.0/8", "NAT64 prefix 10.0.0.0/8 is an IPv4 prefix"),
        (
            "64:ff9b::/64",
            "NAT64 prefix 64:ff9b::/64 has 64 bits, not 96",
        ),
        (
            "64:ff9b::1/96",
            "NAT64 prefix 64:ff9b::1/96 has host bits 0x00000001, not 0",
        ),
        (
            "64:ff9b::8000:0/96",
            "NAT64 prefix 64:ff9b::8000:0/96 has host bits 0x80000000, not 0",
        ),
    ] {
        let refused = text.parse::<Nat64Prefix>().expect_err(text);
        assert_eq!(refused.to_string(), message);
    }
}

#[test]
fn nat66_always_is_a_class() {
    let listed = |classes: &Classes| -> Vec<_> {
        classes
            .iter()
            .map(|entry| entry.class.to_string())
            .collect()
    };
    assert_eq!(listed(&configured(&[])), ["nat66"]);
    assert_eq!(
        listed(&configured(&["64:ff9b::/96"])),
        ["nat66", "nat64:64:ff9b::/96"]
    );
    let explicit = ConfiguredClass {
        class: Class::Nat66,
        hash_group: Some(HashGroup(9)),
    };
    let list = [nat64("64:ff9b::/96").into(), explicit];
    let classes = Classes::new(list, Limits::default()).expect("no contradiction");
    assert_eq!(listed(&classes), ["nat64:64:ff9b::/96", "nat66"]);
    assert!(classes.contains(Class::Nat66) && !classes.contains(nat64("1::/96")));
}

#[test]
fn a_class_twice_and_more_classes_than_groups_are_refused() {
    let refusal = |prefixes: &[&str], groups| {
        let classes = prefixes.iter().map(|prefix| nat64(prefix).into());
        let refused = Classes::new(classes, limits(groups, 64, 1021));
        refused.expect_err("a refusal").to_string()
    };
    assert_eq!(
        refusal(&["64:ff9b::/96", "1::/96", "64:ff9b:0:0::/96"], 8),
        "entries 0 and 2 are both nat64:64:ff9b::/96"
    );
    assert_eq!(
        refusal(&["1::/96", "2::/96"], 2),
        "3 classes are configured, NAT66 included, but there is room for 2"
    );
}

proptest! {
    /// A configured prefix is its own class's and nobody else's, whatever the order of the list.
    #[test]
    fn the_class_of_a_configured_prefix_is_its_own(
        prefixes in prop::collection::btree_set(any::<u32>(), 0..8),
        seed in any::<usize>(),
    ) {
        let mut texts: Vec<_> = prefixes
            .iter()
            .map(|prefix| format!("2001:db8:{:x}:{:x}::/96", prefix >> 16, prefix & 0xffff))
            .collect();
        texts.truncate(7);
        let places = texts.len().max(1);
        texts.rotate_left(seed % places);
        let classes = configured(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for text in &texts {
            let class = class_of(&classes, text);
            prop_assert_eq!(class, Some(nat64(text)));
            let (address, bits) = nat64(text).prefix();
            prop_assert_eq!(classes.of_route(address.into(), bits), class);
        }
        prop_assert_eq!(class_of(&classes, "::/0"), Some(Class::Nat66));
    }
}
