// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whatever a file holds: no panic, and every object is a shard or a fault.

use std::time::{Duration, Instant};

use guideway::control::manifest::parse;
use proptest::prelude::*;
use serde_json::{json, Value};

use crate::{list, shard};

/// Values that are near to right, or as far away as can be.
fn value() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "\u{0}",
        "é",
        "List",
        "EgressShard",
        "EgressShardList",
        "True",
        "Ready",
        "Programmed",
        "network.datumapis.com/v1alpha1",
        "::",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b::1/97",
        "2001:db8:ff09:10:e000::",
        "2001:db8:ff09:ffff:e000::",
        "ff02::1",
        "10.0.0.1",
        "/",
        "/96",
        "2001:db8::/99999999999999999999",
        "::ffff:10.0.0.1/96",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "deletionTimestamp",
        "spec",
        "drain",
        "status",
        "shardSID",
        "conditions",
        "type",
        "shardAddressIPv6",
        "shardAddressIPv4",
        "nat64Prefix",
        "translatesWellKnownPrefix",
        "items",
        "other",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

/// Every place in a document.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                pointers(value, &format!("{at}/{name}"), all);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                pointers(value, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, "x");
    }

    #[test]
    fn any_change_of_a_text(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut: bool) {
        let mut text = format!("{:#}", list(&[shard("a", 0x10), shard("b", 0x11)])).into_bytes();
        let at = at.index(text.len());
        match cut {
            true => text.truncate(at),
            false => text[at] = byte,
        }
        let _ = parse(&text, "x");
    }

    #[test]
    fn an_object_is_a_shard_or_a_fault_and_affects_no_other(
        at in any::<prop::sample::Index>(), value in value(),
    ) {
        let mut object = shard("a", 0x10);
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        let at = &all[at.index(all.len())];
        *object.pointer_mut(at).expect("a place") = value;
        let text = list(&[shard("b", 0x11), object, shard("c", 0x12)]).to_string();
        let read = parse(text.as_bytes(), "x").expect("a list");
        prop_assert_eq!(read.shards.len() + read.faults.len(), 3);
        let others = read.shards.iter().filter(|shard| shard.name != "edge/a");
        let before = parse(list(&[shard("b", 0x11), shard("c", 0x12)]).to_string().as_bytes(), "x");
        for (other, before) in others.zip(before.expect("a list").shards) {
            prop_assert!(other == &before || other.sid.is_some_and(|_| read.faults.is_empty()));
        }
    }

    #[test]
    fn any_document(document in value()) {
        if let Ok(read) = parse(document.to_string().as_bytes(), "x") {
            let items = document.get("items").and_then(Value::as_array).map_or(1, Vec::len);
            prop_assert!(read.shards.len() + read.faults.len() <= items.max(1));
        }
    }
}

#[test]
fn depth_and_number_are_no_trouble() {
    let start = Instant::now();
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let _ = parse(deep.as_bytes(), "x");
    let inside = format!("{{\"kind\": \"List\", \"items\": [{{\"other\": {deep}}}]}}");
    let _ = parse(inside.as_bytes(), "x");
    // Each on a line of its own, and each a fault whose line is looked for.
    let many = vec![json!(7); 200_000];
    let text = format!("{:#}", list(&many));
    let read = parse(text.as_bytes(), "x").expect("a list");
    let last = read.faults.last().expect("faults");
    assert_eq!(read.faults.len(), many.len());
    let lines: Vec<_> = text.lines().collect();
    let (_, line) = last.at.as_ref().expect("a place");
    assert_eq!(lines[line - 1].trim(), "7");
    assert_eq!(lines[*line].trim(), "],");
    // One pass over the text for each fault would take minutes.
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
}
