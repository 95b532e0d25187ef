// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `place`. Hashes are those of the vector files; owners of slots come from another implementation
//! of the table's rules.

use serde_json::{json, Value};

use crate::{egressd, egressd_json};

const SHARDS: [&str; 3] = [
    "2001:db8:ff09:10:e000::",
    "2001:db8:ff09:11:e000::",
    "2001:db8:ff09:12:e000::",
];

/// The arguments that a text names, and three shards.
fn arguments(text: &str) -> Vec<String> {
    let mut arguments = vec!["place".to_owned()];
    arguments.extend(text.split_whitespace().map(str::to_owned));
    if !text.contains("--shards") {
        arguments.extend(["--shards".to_owned(), SHARDS.join(",")]);
    }
    arguments
}

#[track_caller]
fn place(text: &str) -> Value {
    let arguments = arguments(text);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    egressd_json(&arguments).exits(0).object()
}

/// What the tool says against it, which it says in both forms.
#[track_caller]
fn refusal(text: &str) -> String {
    let arguments = arguments(text);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let error = egressd_json(&arguments).fails(2, "usage");
    let message = error["message"].as_str().expect("text").to_owned();
    let ran = egressd(&arguments).exits(2);
    assert_eq!(ran.stdout, "", "{text}");
    assert_eq!(ran.stderr, format!("egressd: {message}\n"), "{text}");
    message
}

#[test]
fn the_specifications_examples() {
    assert_eq!(
        place("--hash-table 42 --hash-group 0 --source 2001:db8:aaaa::7"),
        json!({ "hash": "0c29e964", "slot": 941, "shard": SHARDS[0] })
    );
    assert_eq!(
        place("--hash-table 42 --source 10.0.0.7"),
        json!({ "hash": "193a19b1", "slot": 893, "shard": SHARDS[0] })
    );
}

#[test]
fn text_has_the_same_in_three_lines() {
    let arguments = arguments("--hash-table 42 --source 2001:db8:aaaa::7");
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let ran = egressd(&arguments).exits(0);
    assert_eq!(
        ran.stdout,
        "hash   0c29e964\nslot   941\nshard  2001:db8:ff09:10:e000::\n"
    );
    assert_eq!(ran.stderr, "");
}

/// Every vector, through the command line.
#[test]
fn vectors() {
    let files = [
        include_str!("../vectors/egress.json"),
        include_str!("../vectors/egress_flows.json"),
    ];
    let mut count = 0;
    for file in files {
        let vectors: Value = serde_json::from_str(file).expect("the vector file");
        for vector in vectors["hash_vectors"].as_array().expect("a list") {
            let text = |name: &str| match &vector[name] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut arguments = format!(
                "--hash-table {} --hash-group {} --source {} --mode {}",
                text("table_id"),
                text("group"),
                text("source_address"),
                text("mode")
            );
            if vector["mode"] == "flow" {
                arguments.push_str(&format!(
                    " --destination {} --protocol {} --source-port {} --destination-port {}",
                    text("destination_address"),
                    text("protocol"),
                    text("source_port"),
                    text("destination_port"),
                ));
            }
            if vector["fragment"] == true {
                arguments.push_str(" --fragment");
            }
            let placed = place(&arguments);
            let hash = format!("0x{}", placed["hash"].as_str().expect("text"));
            assert_eq!(hash, text("hash"), "{arguments}");
            assert_eq!(placed["slot"], vector["slot"], "{arguments}");
            count += 1;
        }
    }
    assert_eq!(count, 19);
}

#[test]
fn what_a_fragment_does_not_show_makes_no_difference() {
    let ipv6 = "--hash-table 42 --source 2001:db8:aaaa::7 --mode flow --destination \
                2001:db8:ffff::1 --fragment";
    let first = place(&format!(
        "{ipv6} --protocol 17 --source-port 40000 --destination-port 53"
    ));
    assert_eq!(first["hash"], "fe26968f");
    for other in ["", "--protocol 6", "--protocol 44 --source-port 7"] {
        assert_eq!(place(&format!("{ipv6} {other}")), first, "{other}");
    }

    let ipv4 = "--hash-table 42 --source 10.0.0.7 --mode flow --destination 192.0.2.1 --fragment";
    let first = place(&format!(
        "{ipv4} --protocol 17 --source-port 40000 --destination-port 53"
    ));
    assert_eq!(first["hash"], "0f30f303");
    assert_eq!(place(&format!("{ipv4} --protocol 17")), first);
    assert_ne!(place(&format!("{ipv4} --protocol 6")), first);
}

/// What source mode does not hash may be said all the same: it makes no difference.
#[test]
fn source_mode_knows_addresses_alone() {
    let source = "--hash-table 42 --source 2001:db8:aaaa::7";
    let expected = place(source);
    for more in [
        "--mode source",
        "--fragment",
        "--destination 2001:db8:ffff::1 --protocol 6 --source-port 1 --destination-port 2",
    ] {
        assert_eq!(place(&format!("{source} {more}")), expected, "{more}");
    }
}

#[test]
fn protocols_without_ports_need_none_and_hash_none() {
    let icmp = "--hash-table 42 --source 2001:db8:aaaa::7 --mode flow --destination \
                2001:db8:ffff::1 --protocol 58";
    let expected = place(icmp);
    assert_eq!(expected["hash"], "f6d85d8d");
    let ports = "--source-port 40000 --destination-port 443";
    assert_eq!(place(&format!("{icmp} {ports}")), expected);
}

#[test]
fn shards_go_by_their_base_sids_in_any_order() {
    let packet = "--hash-table 42 --source 2001:db8:aaaa::7";
    let expected = place(packet);
    let [a, b, c] = SHARDS;
    for shards in [
        format!("--shards {c},{a},{b}"),
        format!("--shards {a} --shards {b} --shards {c}"),
        // One of them twice.
        format!("--shards {a},{b},{c},{a}"),
        // With an Argument, with a slot, and in another spelling.
        "--shards 2001:db8:ff09:10:e2a5::,2001:db8:ff09:11:e000:7::,2001:0DB8:FF09:12:E000:0:0:0"
            .to_owned(),
    ] {
        assert_eq!(place(&format!("{packet} {shards}")), expected, "{shards}");
    }
    let alone = place(&format!("{packet} --shards {b}"));
    assert_eq!(alone["shard"], b);
}

#[test]
fn tables_of_other_sizes() {
    let packet = "--hash-table 42 --source 2001:db8:aaaa::7";
    for (size, shard) in [(3, 0), (61, 1), (1009, 1), (4093, 1), (65537, 1)] {
        let placed = place(&format!("{packet} --table-size {size}"));
        assert_eq!(placed["hash"], "0c29e964");
        assert_eq!(placed["slot"], 0x0c29_e964_u32 % size);
        assert_eq!(placed["shard"], SHARDS[shard], "{size}");
    }
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let packet = "--hash-table 42 --source 2001:db8:aaaa::7";
    let flow = format!("{packet} --mode flow --destination 2001:db8:ffff::1");
    for (text, reason) in [
        ("--source 10.0.0.7".to_owned(), "--hash-table <N>"),
        ("--hash-table 42".to_owned(), "--source <ADDR>"),
        (
            "--hash-table 42 --source 10.0.0".to_owned(),
            "invalid IP address syntax",
        ),
        (
            "--hash-table 4294967296 --source 10.0.0.7".to_owned(),
            "'4294967296'",
        ),
        ("--hash-table -1 --source 10.0.0.7".to_owned(), "'-1'"),
        (
            format!("{packet} --hash-group 256"),
            "256 is not in 0..=255",
        ),
        (format!("{packet} --mode both"), "'both'"),
        (format!("{packet} --mode flow"), "--destination <ADDR>"),
        (flow.clone(), "mode flow needs --protocol"),
        (format!("{flow} --protocol 256"), "256 is not in 0..=255"),
        (
            format!("{flow} --protocol 6"),
            "mode flow needs --source-port and --destination-port with protocol 6, or --fragment",
        ),
        (
            format!("{flow} --protocol 17 --source-port 53"),
            "mode flow needs --source-port and --destination-port with protocol 17, or --fragment",
        ),
        (
            format!("{flow} --protocol 6 --source-port 1 --destination-port 65536"),
            "65536 is not in 0..=65535",
        ),
        (
            format!("{packet} --mode flow --destination 192.0.2.1 --protocol 6"),
            "source 2001:db8:aaaa::7 and destination 192.0.2.1 are not both IPv4 or both IPv6",
        ),
        (
            "--hash-table 42 --source 10.0.0.7 --mode flow --destination 192.0.2.1 --fragment"
                .to_owned(),
            "mode flow needs --protocol, except for a fragment of IPv6",
        ),
        (
            format!("{packet} --table-size 1000"),
            "table size 1000 is not prime; the nearest primes are 997 and 1009",
        ),
        (
            format!("{packet} --table-size 0"),
            "table size 0 is too small",
        ),
        (format!("{packet} --table-size many"), "invalid digit"),
        (
            format!("{packet} --table-size 65539"),
            "table size 65539 is too large for a group; the largest is 65537",
        ),
        (
            format!("{packet} --table-size 2"),
            "3 members with a weight need at least as many slots, but the table has 2",
        ),
        (format!("{packet} --shards"), "--shards <SID,...>"),
        (
            format!("{packet} --shards nonsense"),
            "SID is not an IPv6 address",
        ),
        (
            format!("{packet} --shards 192.0.2.1"),
            "SID is not an IPv6 address",
        ),
        (
            format!("{packet} --shards {},", SHARDS[0]),
            "SID is not an IPv6 address",
        ),
        (
            format!("{packet} --shards {},::", SHARDS[0]),
            "SID :: is the unspecified address",
        ),
        (
            format!("{packet} --shards 2001:db8:ff09:0:e000::"),
            "SID 2001:db8:ff09:0:e000:: has node ID 0x0000",
        ),
        (
            format!("{packet} --shards 2001:db8:ff09:10:e000::1"),
            "padding",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.contains(reason), "{text}: {message}");
    }
    // More than a group has.
    let sids: Vec<_> = (1..=257)
        .map(|node| format!("2001:db8:ff09:{node:x}:e000::"))
        .collect();
    let message = refusal(&format!("{packet} --shards {}", sids.join(",")));
    assert_eq!(message, "257 shards were given; a group has 256 at most");
    place(&format!("{packet} --shards {}", sids[1..].join(",")));
}
