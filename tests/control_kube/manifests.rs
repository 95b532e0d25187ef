// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The manifests that are shipped, as far as they can be judged without a server.

use guideway::control::manifest;
use guideway::group::{Class, Nat64Prefix};

const CRD: &str = include_str!("../../examples/egressd/kube/crd.yaml");
const ROLE: &str = include_str!("../../examples/egressd/kube/role.yaml");
const SHARD: &str = include_str!("../../examples/egressd/kube/shard.json");
const DAEMON: &str = include_str!("../../examples/egressd/kube/daemonset.yaml");

/// The values of a key, wherever it stands.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().map(|line| line.trim_start_matches([' ', '-']));
    let values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    values.map(str::trim).collect()
}

#[test]
fn the_role_reads_shards_of_one_namespace_and_nothing_else() {
    assert_eq!(values(ROLE, "verbs"), ["[get, list, watch]"]);
    assert_eq!(values(ROLE, "resources"), ["[egressshards]"]);
    assert_eq!(values(ROLE, "apiGroups"), ["[network.datumapis.com]"]);
    assert!(!ROLE.contains("ClusterRole"));
}

#[test]
fn the_definition_has_each_field_that_is_read() {
    assert_eq!(values(CRD, "group"), ["network.datumapis.com"]);
    assert_eq!(values(CRD, "plural"), ["egressshards"]);
    assert_eq!(values(CRD, "scope"), ["Namespaced"]);
    for field in [
        "drain",
        "shardSID",
        "shardAddressIPv6",
        "shardAddressIPv4",
        "nat64Prefix",
        "translatesWellKnownPrefix",
        "conditions",
    ] {
        assert_eq!(values(CRD, field), [""], "{field}");
    }
}

#[test]
fn the_example_is_a_shard_that_translates_everything() {
    let list = manifest::parse(SHARD.as_bytes(), "shard.json").expect("a manifest");
    assert!(list.faults.is_empty(), "{:?}", list.faults);
    let [shard] = &list.shards[..] else {
        panic!("one shard, not {:?}", list.shards);
    };
    assert!(shard.candidate().is_some() && !shard.drain);
    let own = "2001:db8:64::".parse().expect("an address");
    let own = Nat64Prefix::new(own, 96).expect("a prefix");
    for class in [
        Class::Nat66,
        Class::Nat64(own),
        Class::Nat64(Nat64Prefix::WELL_KNOWN),
    ] {
        assert!(shard.translates(class), "{class:?}");
    }
}

#[test]
fn the_daemon_gets_two_capabilities_and_the_account_of_the_role() {
    assert_eq!(values(DAEMON, "add"), ["[BPF, NET_ADMIN]"]);
    assert_eq!(values(DAEMON, "drop"), ["[ALL]"]);
    assert!(!DAEMON.contains("privileged"));
    assert_eq!(values(DAEMON, "serviceAccountName"), ["egressd"]);
    assert!(ROLE.contains("kind: ServiceAccount\n    name: egressd\n    namespace: guideway"));
    assert!(DAEMON.contains("value: \"kube:guideway\""));
}
