// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a text says of shards.

use guideway::control::manifest::{self, parse};
use guideway::control::{Shard, ShardList};
use serde_json::{json, Value};

use crate::{list, shard};

fn read(document: &Value) -> ShardList {
    parse(document.to_string().as_bytes(), "shards.json").expect("a manifest")
}

/// The only shard of an object after `change`.
fn changed(change: impl FnOnce(&mut Value)) -> Shard {
    let mut object = shard("a", 0x10);
    change(&mut object);
    let list = read(&object);
    assert_eq!(list.faults, []);
    list.shards.into_iter().next().expect("a shard")
}

/// The only fault of an object after `change`, without its name and place.
fn fault(change: impl FnOnce(&mut Value)) -> String {
    let mut object = shard("a", 0x10);
    change(&mut object);
    // Others are not worse for it, on either side.
    let list = read(&list(&[shard("b", 0x11), object, shard("c", 0x12)]));
    let names: Vec<_> = list
        .shards
        .iter()
        .map(|shard| shard.name.as_str())
        .collect();
    assert_eq!(names, ["edge/b", "edge/c"]);
    let [fault] = &list.faults[..] else {
        panic!("{:?}", list.faults);
    };
    fault.text.clone()
}

#[test]
fn every_field_that_counts_is_read() {
    let plain = Shard {
        name: "edge/a".to_owned(),
        sid: Some("2001:db8:ff09:10:e000::".parse().expect("a SID")),
        programmed: true,
        ready: true,
        terminating: false,
        drain: false,
        ipv6: true,
        ipv4: false,
        nat64_prefix: None,
        well_known_prefix: false,
    };
    assert_eq!(changed(|_| {}), plain);
    let all = changed(|object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["spec"]["drain"] = json!(true);
        object["status"] = json!({
            "shardSID": "2001:db8:ff09:11:e2a5::", "shardAddressIPv4": "192.0.2.1",
            "nat64Prefix": "2001:db8:64::c000:201/96", "translatesWellKnownPrefix": true,
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": 7}],
        });
    });
    let wanted = Shard {
        sid: Some("2001:db8:ff09:11:e000::".parse().expect("a SID")),
        programmed: false,
        ready: false,
        terminating: true,
        drain: true,
        ipv6: false,
        ipv4: true,
        nat64_prefix: Some("2001:db8:64::/96".parse().expect("a prefix")),
        well_known_prefix: true,
        ..plain.clone()
    };
    assert_eq!(all, wanted);
    let none = changed(|object| {
        object.as_object_mut().expect("an object").remove("spec");
        object["status"] = Value::Null;
        object["metadata"] = json!({"name": "a"});
    });
    assert_eq!(none.name, "a");
    assert_eq!(
        (none.sid, none.drain, none.terminating),
        (None, false, false)
    );
    assert_eq!(
        (none.programmed, none.ready, none.ipv6),
        (false, false, false)
    );
}

#[test]
fn a_condition_is_met_only_where_it_is_the_text_true() {
    for (status, met) in [
        ("True", true),
        ("true", false),
        ("False", false),
        ("Unknown", false),
    ] {
        let read = changed(|object| object["status"]["conditions"][0]["status"] = json!(status));
        assert_eq!((read.programmed, read.ready), (met, true), "{status}");
    }
    let twice = changed(|object| {
        let conditions = object["status"]["conditions"]
            .as_array_mut()
            .expect("a list");
        conditions.insert(0, json!({"type": "Ready", "status": "False"}));
    });
    assert!(!twice.ready);
}

#[test]
fn nothing_is_set_by_null_or_an_empty_text() {
    for empty in [Value::Null, json!("")] {
        let read = changed(|object| {
            for field in ["shardSID", "shardAddressIPv6", "nat64Prefix"] {
                object["status"][field] = empty.clone();
            }
            object["metadata"]["deletionTimestamp"] = empty.clone();
        });
        assert_eq!(
            (read.sid, read.ipv6, read.nat64_prefix),
            (None, false, None)
        );
        assert!(!read.terminating);
    }
}

#[test]
fn a_field_that_makes_no_sense_excludes_its_object_and_no_other() {
    for (pointer, value, words) in [
        (
            "/status/shardSID",
            json!("somewhere"),
            "status.shardSID: is no SID",
        ),
        ("/status/shardSID", json!("fe80::1"), "link-local"),
        (
            "/status/shardSID",
            json!(7),
            "status.shardSID: must be a string, got a number",
        ),
        (
            "/status/nat64Prefix",
            json!("64:ff9b::/64"),
            "has 64 bits, not 96",
        ),
        ("/status/nat64Prefix", json!("10.0.0.0/96"), "IPv4"),
        (
            "/status/nat64Prefix",
            json!("64:ff9b::"),
            "must be an IPv6 prefix of 96 bits, got",
        ),
        (
            "/status/nat64Prefix",
            json!("64:ff9b::/+96"),
            "must be an IPv6 prefix of 96 bits",
        ),
        (
            "/status/translatesWellKnownPrefix",
            json!("yes"),
            "must be true or false, got a string",
        ),
        (
            "/status/shardAddressIPv6",
            json!(["::1"]),
            "must be a string, got an array",
        ),
        (
            "/status/shardAddressIPv4",
            json!({}),
            "must be a string, got an object",
        ),
        (
            "/status/conditions",
            json!({}),
            "status.conditions: must be an array, got an object",
        ),
        (
            "/status/conditions",
            json!(["Ready"]),
            "status.conditions[0]: must be an object",
        ),
        (
            "/status/conditions/1/status",
            json!(true),
            "status.conditions[1].status: must be a",
        ),
        (
            "/status",
            json!("Ready"),
            "status: must be an object, got a string",
        ),
        ("/spec", json!([]), "spec: must be an object, got an array"),
        (
            "/spec/drain",
            json!("false"),
            "spec.drain: must be true or false, got a string",
        ),
        (
            "/spec/drain",
            json!(1),
            "spec.drain: must be true or false, got a number",
        ),
        (
            "/metadata/deletionTimestamp",
            json!(0),
            "metadata.deletionTimestamp: must be a string",
        ),
        ("/metadata", json!({}), "metadata.name: is missing"),
        (
            "/metadata/name",
            json!(1),
            "metadata.name: must be a string, got a number",
        ),
        ("/kind", json!("Pod"), "kind: must be EgressShard, got Pod"),
        (
            "/kind",
            json!(null),
            "kind: is missing, must be EgressShard",
        ),
        (
            "/apiVersion",
            json!("network.datumapis.com/v1"),
            "apiVersion: must be network.",
        ),
    ] {
        let found = fault(|object| {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            match object.pointer_mut(pointer) {
                Some(place) => *place = value.clone(),
                None => object.pointer_mut(parent).expect("there")[name] = value.clone(),
            }
        });
        assert!(found.contains(words), "{pointer} {value}: {found}");
    }
}

#[test]
fn all_that_is_wrong_with_an_object_is_said_at_once() {
    let found = fault(|object| {
        object["status"]["shardSID"] = json!("x");
        object["spec"]["drain"] = json!("x");
    });
    for words in ["status.shardSID: ", "; ", "spec.drain: "] {
        assert!(found.contains(words), "{found}");
    }
}

#[test]
fn a_fault_names_file_line_and_object() {
    // Written by hand: the line of the bad value counts, not that of the object.
    let text = r#"{"kind": "List", "items": [
  {"apiVersion": "network.datumapis.com/v1alpha1", "kind": "EgressShard",
   "metadata": {"name": "a", "namespace": "edge"},
   "status": {
     "shardSID": "nonsense"}},
  17,
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
]}"#;
    let list = parse(text.as_bytes(), "/etc/x.json").expect("a list");
    assert_eq!(list.shards, []);
    let shown: Vec<_> = list.faults.iter().map(ToString::to_string).collect();
    assert!(
        shown[0].starts_with("/etc/x.json:5: shard edge/a: status.shardSID: is no SID"),
        "{shown:?}"
    );
    assert_eq!(
        shown[1],
        "/etc/x.json:6: shard without a name: must be an object, got a number"
    );
    let words = "/etc/x.json:7: shard n1: apiVersion: must be network.datumapis";
    assert!(shown[2].starts_with(words), "{}", shown[2]);
    assert!(
        shown[2].ends_with("kind: must be EgressShard, got Node"),
        "{}",
        shown[2]
    );
    assert_eq!(shown.len(), 3);
}

#[test]
fn lists_of_both_kinds_are_read() {
    let mut bare = shard("b", 0x11);
    let members = bare.as_object_mut().expect("an object");
    members.remove("kind");
    members.remove("apiVersion");
    let typed = json!({
        "apiVersion": "network.datumapis.com/v1alpha1", "kind": "EgressShardList",
        "metadata": {"resourceVersion": "5"}, "items": [shard("a", 0x10), bare],
    });
    assert_eq!(read(&typed).shards.len(), 2);
    // Only a typed list says what its items are.
    let untyped = read(&list(&[bare]));
    assert_eq!((untyped.shards.len(), untyped.faults.len()), (0, 1));
    for items in [json!([]), Value::Null] {
        let empty = read(&json!({"kind": "List", "items": items}));
        assert_eq!(empty, ShardList::default());
    }
}

#[test]
fn what_is_no_manifest_is_an_error_with_its_line() {
    for (text, line, words) in [
        ("", 1, "is not JSON"),
        ("{\n\n", 3, "is not JSON"),
        ("{}\n{}", 2, "is not JSON: trailing characters"),
        ("[]", 1, "must be an object, got an array"),
        ("\n\n7", 3, "must be an object, got a number"),
        ("{\"kind\": \"List\"}", 1, "items: is missing"),
        (
            "{\"kind\": \"List\",\n \"items\": {}}",
            2,
            "items: must be an array, got an object",
        ),
    ] {
        let error = parse(text.as_bytes(), "x").expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.message.contains(words), "{text:?}: {error}");
    }
    let error = parse(b"{\n\"a\": \"\xff\"}", "x").expect_err("no UTF-8");
    assert_eq!(
        (error.line, error.message.as_str()),
        (2, "is not JSON: not UTF-8")
    );
}

#[test]
fn an_api_answers_with_one_object_at_a_time() {
    let mut object = shard("a", 0x10);
    object.as_object_mut().expect("an object").remove("kind");
    let read = manifest::shard(&object.to_string()).expect("a shard");
    assert_eq!(read.name, "edge/a");
    object["status"]["shardSID"] = json!("x");
    let fault = manifest::shard(&object.to_string()).expect_err("no SID");
    assert_eq!((fault.name.as_str(), fault.at), ("edge/a", None));
    object["kind"] = json!("Pod");
    manifest::shard(&object.to_string()).expect_err("another kind");
    manifest::shard("{").expect_err("no JSON");
}
