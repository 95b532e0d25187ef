// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What each value may be.

use serde_json::{json, Value};

use crate::check;

/// Field, variable, its default (null: it must be said), values that are accepted, and those that
/// are not with a word of the message.
struct Row {
    field: &'static str,
    variable: &'static str,
    default: Value,
    accepted: &'static [&'static str],
    refused: &'static [(&'static str, &'static str)],
}

const SHARD: &str = "2001:db8:ff09:10:e000::";

/// A namespace of a cluster, where the build cannot ask one; else one more that is none.
const NO_CLUSTER: (&str, &str) = match cfg!(feature = "kube") {
    true => ("kube:-", "namespace"),
    false => ("kube:edge", "feature"),
};

/// The table of the documentation, written by hand.
fn rows() -> Vec<Row> {
    macro_rules! row {
        ($field:literal $variable:literal $default:expr, $accepted:expr, $refused:expr) => {
            Row {
                field: $field,
                variable: concat!("GUIDEWAY_EGRESS_", $variable),
                default: json!($default),
                accepted: $accepted,
                refused: $refused,
            }
        };
    }
    vec![
        row!("mode" "MODE" "ordered", &["ordered", "hashed"], &[("", ""), ("Hashed", "ordered")]),
        row!("hash" "HASH" "source", &["source", "flow"], &[("maglev", "source or flow")]),
        row!("pin_idle" "PIN_IDLE" "2h4m",
            &["2h4m", "2h 4m", "124m", "2h4m0s", "0", "1s", "30days", "7440s", "1.5h"],
            &[("", "empty"), ("-1s", ""), ("7440", "unit"), ("500ms", "part of a second"),
              ("30days 1s", "2592000 s"), ("soon", "30days")]),
        row!("pool_min_active" "POOL_MIN_ACTIVE" 1, &["0", "64"], &[("65", "0 to 64"), ("-1", ""), ("", "no number"), ("+1", "")]),
        row!("nat64_prefixes" "NAT64_PREFIXES" [""; 0],
            &["", "64:ff9b::/96", "64:ff9b::/96,2001:db8:64::/96=9",
              "1::/96,2::/96,3::/96,4::/96,5::/96,6::/96,7::/96"],
            &[("1::/96,2::/96,3::/96,4::/96,5::/96,6::/96,7::/96,8::/96", "9 classes"),
              ("64:ff9b::/96,64:ff9b::/96", "nat64:64:ff9b::/96 is there twice"),
              ("64:ff9b::/64", "has 64 bits, not 96"), ("64:ff9b::1/96", "host bits"),
              ("10.0.0.0/8", "IPv4"), ("64:ff9b::", "64:ff9b::"), ("1::/96,,2::/96", "\"\""),
              ("1::/96=0", "hash ID"), ("1::/96=256", "hash ID"), ("1::/96=", "hash ID"),
              ("1::/96=7,2::/96=7", "two have the hash ID 7")]),
        row!("shard_sids" "SHARD_SIDS" [""; 0], &["", SHARD, "2001:db8:ff09:10:e000::,2001:db8:ff09:11:e000::"],
            &[("2001:db8:ff09:10:e000::,2001:db8:ff09:10:e000::", "there twice"), ("fe80::1", "link-local"),
              ("here", "IPv6 address"), (",", "IPv6 address")]),
        row!("source" "SOURCE" "dir:/etc/guideway/shards", &["dir:/sys/kernel"],
            &[("/etc/guideway", "file:PATH"), ("dir:", ""), ("http://x", ""), ("kube:", ""), ("kube:Not_A_Name", "namespace"), NO_CLUSTER]),
        row!("uplinks" "UPLINKS" Value::Null, &["up0", "up0,up1"],
            &[("", "there is none"), ("up0,up0", "there twice"), ("a-name-that-is-too-long", "interface name"), ("a b", "")]),
        row!("node_sid" "NODE_SID" Value::Null, &["2001:db8:ff01:1:e000::"],
            &[("", "IPv6"), ("2001:db8:ff01:ffff:e000::", "node ID"), ("::", "unspecified")]),
        row!("encap" "ENCAP" "standard",
            &["standard", "compat", "dscp=46", "dscp=copy,ecn=normal,label=off", "label=on", "dscp=zero,ecn=compatibility"],
            &[("", ""), ("dscp=64", "0 to 63"), ("dscp=46,dscp=46", "there twice"), ("label=yes", "label=yes"), ("ttl=3", "ttl=3")]),
        row!("unserved" "UNSERVED" "drop", &["drop", "reject"], &[("answer", "drop or reject")]),
        row!("install_policy" "INSTALL_POLICY" "allow-empty", &["allow-empty", "ordered", "require-active"], &[("hashed", "require-active")]),
        row!("sweep" "SWEEP" "30s", &["5s", "10min", "1m 30s"], &[("4s", "5s to 10min"), ("10min 1s", ""), ("30", "unit"), ("0", "")]),
        row!("debounce" "DEBOUNCE" "250ms", &["0", "0s", "5s", "1us"], &[("5001ms", "0 to 5s"), ("250", "unit")]),
        row!("down_hold" "DOWN_HOLD" "1s", &["0", "60s", "1min"], &[("61s", "0 to 60s"), ("", "empty")]),
        row!("liveness_before_sync" "LIVENESS_BEFORE_SYNC" false, &["true", "false"], &[("yes", "true or false"), ("1", ""), ("", "")]),
        row!("state_dir" "STATE_DIR" "/sys/fs/bpf/guideway/egress", &["/sys/fs/bpf/node1", "/sys/fs/bpf/a/b/"],
            &[("relative/path", "absolute"), ("/sys/fs/bpf/v1.2", "\"v1.2\" has a dot"), ("/sys/../bpf", "dot"), ("/", "root")]),
        row!("groups" "LIMIT_GROUPS" 8, &["1", "64"], &[("0", "1 to 64"), ("65", ""), ("8.0", "")]),
        row!("members" "LIMIT_MEMBERS" 64, &["1", "256"], &[("0", "1 to 256"), ("257", "")]),
        row!("table_size" "LIMIT_TABLE_SIZE" 1021, &["2", "4093", "65537"], &[("1024", "1021"), ("65539", "65537"), ("1", "")]),
        row!("pins" "LIMIT_PINS" 65536, &["1", "4194304"], &[("0", ""), ("4194305", "4194304"), ("99999999999999999999", "")]),
        row!("metrics" "METRICS" "127.0.0.1:9477", &["off", "[::1]:1", "0.0.0.0:9477"], &[("9477", "address and port"), ("localhost:9477", ""), ("", "")]),
    ]
}

/// A value as the document shows it.
fn shown(row: &Row, text: &str) -> Value {
    match row.default {
        Value::Number(_) => json!(text.parse::<u64>().expect("a number")),
        Value::Bool(_) => json!(text == "true"),
        _ if matches!(row.field, "uplinks" | "nat64_prefixes" | "shard_sids") => {
            json!(text
                .split(',')
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>())
        }
        _ => json!(text),
    }
}

#[test]
fn each_value_has_its_default_and_is_accepted_or_refused() {
    for row in rows() {
        let flag = row.field.replace('_', "-");
        if !row.default.is_null() && row.field != "source" {
            let (value, origin) = check(&[], &[]).value(row.field);
            assert_eq!(
                (value, origin.as_str()),
                (row.default.clone(), "default"),
                "{flag}"
            );
        }
        for &text in row.accepted {
            // What stands in the way of these is not their own fault.
            let mut others: Vec<(&str, &str)> = Vec::new();
            match row.field {
                "groups" if text == "1" => others.push(("nat64-prefixes", "")),
                "members" if text == "1" => others.push(("pool-min-active", "1")),
                _ => {}
            }
            others.push((&flag, text));
            let (value, origin) = check(&others, &[]).value(row.field);
            assert_eq!(
                (value, origin.as_str()),
                (shown(&row, text), "flag"),
                "{flag} {text}"
            );
        }
        for (text, words) in row.refused {
            let place = format!("--{flag}");
            let message = check(&[(&flag, text)], &[]).fault(&place);
            assert!(message.contains(words), "{flag} {text:?}: {message}");
            assert!(
                message.contains(&format!("got {text:?}")),
                "{flag} {text:?}: {message}"
            );
            let message = check(&[], &[(row.variable, text)]).fault(row.variable);
            assert!(message.contains(words), "{flag} {text:?}: {message}");
        }
        let text = row.accepted[0];
        let (value, origin) = check(&[], &[(row.variable, text)]).value(row.field);
        assert_eq!(
            (value, origin.as_str()),
            (shown(&row, text), "environment"),
            "{flag}"
        );
    }
}

#[test]
fn limits_bound_what_depends_on_them() {
    let message = check(&[("groups", "2"), ("nat64-prefixes", "1::/96,2::/96")], &[])
        .fault("--nat64-prefixes");
    assert!(
        message.contains("3 classes") && message.contains("room for 2"),
        "{message}"
    );
    let message =
        check(&[("members", "8"), ("pool-min-active", "9")], &[]).fault("--pool-min-active");
    assert!(message.contains("is not from 0 to 8"), "{message}");
    // A limit at fault makes no other.
    check(&[("groups", "0"), ("nat64-prefixes", "1::/96,2::/96")], &[]).fault("--groups");
}

#[test]
fn what_must_be_said_is_missing_by_all_its_names() {
    let faults = crate::run(&["--source=dir:/sys/kernel"], &[]).faults();
    let places: Vec<_> = faults.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(places, ["--uplinks", "--node-sid"]);
    let (_, message) = &faults[0];
    for words in [
        "is missing",
        "GUIDEWAY_EGRESS_UPLINKS",
        "field uplinks",
        "names of interfaces",
    ] {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn yes_needs_no_value() {
    let ran = crate::run(
        &[
            "--source=dir:/sys/kernel",
            "--uplinks=a",
            "--node-sid=2001:db8:ff01:1:e000::",
            "--liveness-before-sync",
        ],
        &[],
    );
    assert_eq!(ran.value("liveness_before_sync").0, json!(true));
}
