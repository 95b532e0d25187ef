// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Names of interfaces become indexes, addresses and MTUs.

use std::collections::BTreeMap;

use guideway::addr::MacAddr;
use guideway::egress_spec::{InterfaceFacts, Resolved, RouteTarget, Spec};
use guideway::encap::Encap;
use guideway::group::{Candidate, Class, HashMode, Settings};
use guideway::id::InterfaceName;
use guideway::placement::{HashGroup, HashTable};
use guideway::route::{Block, Prefix, TableId};
use guideway::srv6::{Argument, Mtu, NextHop};
use guideway::tenant::{PinQuota, Tenant};
use serde_json::{json, Value};

use super::{accept, shard, small, two_tenants, with, EXAMPLE};

const UPLINK: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0xa0]);

/// A machine with these interfaces: name, index, address, MTU.
fn machine(
    interfaces: &[(&str, u32, MacAddr, u32)],
) -> impl Fn(&InterfaceName) -> Option<InterfaceFacts> {
    let facts: BTreeMap<String, InterfaceFacts> = interfaces
        .iter()
        .map(|&(name, ifindex, mac, mtu)| (name.to_owned(), InterfaceFacts { ifindex, mac, mtu }))
        .collect();
    move |name| facts.get(name.as_str()).copied()
}

/// `uplink0` to `uplink1` and `tap0` to `tap2`.
fn whole() -> impl Fn(&InterfaceName) -> Option<InterfaceFacts> {
    let tap = MacAddr::new([2, 0, 0, 0, 0, 0x70]);
    machine(&[
        ("uplink0", 7, UPLINK, 1500),
        ("uplink1", 8, MacAddr::new([2, 0, 0, 0, 0, 0xa1]), 9216),
        ("tap0", 20, tap, 1460),
        ("tap1", 21, tap, 1460),
        ("tap2", 22, tap, 1460),
    ])
}

fn resolved(document: &Value) -> Resolved {
    let spec = accept(document);
    spec.resolve(whole())
        .unwrap_or_else(|faults| panic!("{faults}"))
}

#[track_caller]
fn faults(spec: &Spec, facts: impl Fn(&InterfaceName) -> Option<InterfaceFacts>) -> Vec<String> {
    let faults = spec.resolve(facts).expect_err("faults");
    faults
        .iter()
        .map(|fault| format!("{} {}: {}", fault.pointer, fault.code, fault.message))
        .collect()
}

fn hop(ifindex: u32, source: MacAddr, destination: &str, mtu: u32) -> NextHop {
    NextHop::new(
        ifindex,
        source,
        destination.parse().unwrap(),
        Mtu::new(mtu).unwrap(),
    )
    .unwrap()
}

#[test]
fn the_example_as_the_datapath_has_it() {
    let resolved = resolved(&serde_json::from_str(EXAMPLE).unwrap());
    let sid = "2001:db8:ff01:1:e000::".parse().unwrap();
    let mut encap = Encap::standard(sid);
    encap.mss = Some(guideway::encap::Mss {
        ipv6: 1220,
        ipv4: 1240,
    });
    assert_eq!(resolved.encap, encap);

    let nat64 = Class::Nat64("64:ff9b::/96".parse().unwrap());
    let classes: Vec<_> = resolved.classes.iter().map(|entry| entry.class).collect();
    assert_eq!(classes, [Class::Nat66, nat64]);
    let [(first, nat66_group), (second, nat64_group)] = &resolved.groups[..] else {
        panic!("{:?}", resolved.groups)
    };
    assert_eq!([*first, *second], [Class::Nat66, nat64]);
    let shard = |node: &str, next_hop| Candidate {
        sid: format!("2001:db8:ff09:{node}:e000::").parse().unwrap(),
        weight: 1,
        draining: false,
        next_hop,
    };
    let uplink1 = MacAddr::new([2, 0, 0, 0, 0, 0xa1]);
    assert_eq!(nat66_group.settings, Settings::default());
    assert_eq!(
        nat66_group.candidates,
        [
            shard("10", Some(hop(7, UPLINK, "02:00:00:00:09:10", 1500))),
            shard("11", Some(hop(7, UPLINK, "02:00:00:00:09:11", 1500))),
            Candidate {
                weight: 2,
                ..shard("12", Some(hop(8, uplink1, "02:00:00:00:09:12", 9000)))
            },
        ]
    );
    assert_eq!(nat64_group.settings.hash_mode, HashMode::Flow);
    assert_eq!(nat64_group.settings.pin_idle.as_secs(), 300);
    assert!(nat64_group.settings.reject);
    assert_eq!(
        nat64_group.candidates,
        [
            shard("10", Some(hop(7, UPLINK, "02:00:00:00:09:10", 1500))),
            Candidate {
                draining: true,
                ..shard("11", Some(hop(7, UPLINK, "02:00:00:00:09:11", 1500)))
            },
            shard("12", None),
        ]
    );

    let [one, two] = &resolved.tenants[..] else {
        panic!("{:?}", resolved.tenants)
    };
    let row = Tenant {
        icmp: true,
        mss: true,
        pin_quota: PinQuota(4096),
        gateway6: Some("fe80::1".parse().unwrap()),
        ..Tenant::new(TableId::new(42), Argument::new(0x2a5).unwrap())
    };
    let with_ipv4 = Tenant {
        gateway4: Some("192.0.2.1".parse().unwrap()),
        ..row
    };
    assert_eq!(one.interfaces, BTreeMap::from([(20, with_ipv4), (21, row)]));
    let prefix = |text: &str| text.parse::<Prefix>().unwrap();
    assert_eq!(
        one.routes,
        BTreeMap::from([
            (prefix("10.0.0.0/8"), RouteTarget::Block(Block::Drop)),
            (prefix("2001:db8:42::/48"), RouteTarget::Pass),
            (prefix("0.0.0.0/0"), RouteTarget::Class(nat64)),
        ])
    );
    let row = Tenant {
        pin_quota: PinQuota(8192),
        ..Tenant::new(TableId::new(43), Argument::new(0x2a6).unwrap())
    };
    assert_eq!(
        (two.tenant.table, two.tenant.argument),
        (row.table, row.argument)
    );
    assert_eq!(two.interfaces, BTreeMap::from([(22, row)]));
    let sid = "2001:db8:ff09:20:e000::".parse().unwrap();
    let next_hop = hop(8, uplink1, "02:00:00:00:09:20", 9216);
    assert_eq!(
        two.routes,
        BTreeMap::from([(
            prefix("2001:db8:43::/48"),
            RouteTarget::Shard { sid, next_hop }
        )])
    );
}

#[test]
fn every_table_has_every_class() {
    let prefix = |text: &str| text.parse::<Prefix>().unwrap();
    let nat64 = Class::Nat64("64:ff9b::/96".parse().unwrap());
    let plain = resolved(&small());
    let routes = plain.tenants[0].with_classes(&plain.classes);
    let expected = BTreeMap::from([
        (prefix("::/0"), RouteTarget::Class(Class::Nat66)),
        (prefix("64:ff9b::/96"), RouteTarget::Class(nat64)),
        (prefix("10.0.0.0/8"), RouteTarget::Block(Block::Drop)),
    ]);
    assert_eq!(routes, expected);
    // With no shard at all, and with nat66 not named.
    let document = with(
        small(),
        "/classes",
        json!([{"class": "64:ff9b::/96", "shards": []}]),
    );
    let empty = resolved(&document);
    assert_eq!(empty.tenants[0].with_classes(&empty.classes), expected);
    // A route of its own stands in place.
    let own = json!([{"prefix": "64:ff9b::/96", "to": "unreachable"}]);
    let own = resolved(&with(small(), "/tenants/0/routes", own));
    assert_eq!(
        own.tenants[0].with_classes(&own.classes),
        BTreeMap::from([
            (prefix("::/0"), RouteTarget::Class(Class::Nat66)),
            (
                prefix("64:ff9b::/96"),
                RouteTarget::Block(Block::Unreachable)
            ),
        ])
    );
}

#[test]
fn numbers_to_hash_are_handed_on() {
    let document = with(small(), "/classes/1/hash_group", json!(9));
    let document = with(document, "/tenants/0/hash_table", json!(7));
    let resolved = resolved(&document);
    let numbers: Vec<_> = resolved
        .classes
        .iter()
        .map(|entry| entry.hash_group)
        .collect();
    assert_eq!(numbers, [None, Some(HashGroup(9))]);
    assert_eq!(resolved.tenants[0].interfaces[&20].hash_table, HashTable(7));
}

#[test]
fn a_document_has_the_last_word_on_source_and_mtu() {
    let next_hop = "/classes/0/shards/0/next_hop";
    let document = with(
        small(),
        &format!("{next_hop}/source"),
        json!("02:00:00:00:00:99"),
    );
    let document = with(document, &format!("{next_hop}/mtu"), json!(0));
    let spec = accept(&document);
    // Of an interface without an address, and with a small MTU.
    let odd = machine(&[
        ("uplink0", 7, MacAddr::new([0; 6]), 1280),
        ("tap0", 20, UPLINK, 1500),
    ]);
    let expected = [
        "/classes/1/shards/0/next_hop/interface mac: interface uplink0 has no link-layer address: \
         source must say one",
        "/classes/1/shards/0/next_hop/interface range: interface uplink0 has an MTU of 1280, less \
         than 1320 (1280 and 40 of encapsulation)",
    ];
    let mut found = faults(&spec, &odd);
    found.sort();
    assert_eq!(found, expected);
    let alone = with(document, "/classes/1/shards", json!([]));
    let resolved = accept(&alone).resolve(odd).unwrap();
    let source = MacAddr::new([2, 0, 0, 0, 0, 0x99]);
    let next_hop = hop(7, source, "02:00:00:00:00:10", 0);
    assert_eq!(resolved.groups[0].1.candidates[0].next_hop, Some(next_hop));
}

#[test]
fn every_interface_that_is_missing_is_reported() {
    let to = with(shard(0x20), "/next_hop/interface", json!("uplink9"));
    let document = with(two_tenants(), "/tenants/0/routes/0/to", to);
    assert_eq!(
        faults(&accept(&document), |_| None),
        [
            "/classes/0/shards/0/next_hop/interface no-interface: interface uplink0 does not exist",
            "/classes/1/shards/0/next_hop/interface no-interface: interface uplink0 does not exist",
            "/tenants/0/interfaces/0 no-interface: interface tap0 does not exist",
            "/tenants/0/routes/0/to/next_hop/interface no-interface: interface uplink9 does not \
             exist",
            "/tenants/1/interfaces/0 no-interface: interface tap1 does not exist",
        ]
    );
    // In the order of the document, whatever that of their names or numbers.
    let document = json!({
        "schema": "guideway.egress.spec/v1",
        "tenants": [
            {"table": 9, "argument": 9, "interfaces": ["z", "a"]},
            {"table": 1, "argument": 1, "interfaces": ["m"]},
        ],
        "node_sid": "2001:db8:ff01:1:e000::",
        "classes": [{"class": "nat66", "shards": [shard(0x12), shard(0x10)]}],
    });
    // The text keeps the order that the value may lose.
    let text =
        r#"{"schema": "guideway.egress.spec/v1", "tenants": T, "node_sid": N, "classes": C}"#;
    let text = text
        .replace('T', &document["tenants"].to_string())
        .replace('N', &document["node_sid"].to_string())
        .replace('C', &document["classes"].to_string());
    let spec = Spec::from_json(text.as_bytes()).unwrap();
    let pointers: Vec<_> = faults(&spec, |_| None)
        .iter()
        .map(|fault| fault.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        pointers,
        [
            "/tenants/0/interfaces/0",
            "/tenants/0/interfaces/1",
            "/tenants/1/interfaces/0",
            "/classes/0/shards/0/next_hop/interface",
            "/classes/0/shards/1/next_hop/interface",
        ]
    );
}

#[test]
fn two_names_of_one_interface_are_one_interface() {
    let machine = machine(&[
        ("uplink0", 7, UPLINK, 1500),
        ("tap0", 20, UPLINK, 1500),
        ("tap1", 20, UPLINK, 1500),
    ]);
    assert_eq!(
        faults(&accept(&two_tenants()), machine),
        ["/tenants/1/interfaces/0 duplicate: interface tap1 is the one of /tenants/0/interfaces/0 \
          (ifindex 20)"]
    );
}

#[test]
fn one_name_is_asked_for_once() {
    let asked = std::cell::RefCell::new(Vec::new());
    let facts = whole();
    let counted = |name: &InterfaceName| {
        asked.borrow_mut().push(name.to_string());
        facts(name)
    };
    // Both classes lead through uplink0.
    accept(&small()).resolve(counted).unwrap();
    assert_eq!(*asked.borrow(), ["uplink0", "tap0"]);
}

#[test]
fn index_0_is_no_interface() {
    let machine = machine(&[("uplink0", 0, UPLINK, 1500), ("tap0", 20, UPLINK, 1500)]);
    let document = with(small(), "/classes/1/shards", json!([]));
    assert_eq!(
        faults(&accept(&document), machine),
        ["/classes/0/shards/0/next_hop/interface no-interface: interface uplink0 does not exist"]
    );
}
