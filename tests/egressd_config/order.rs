// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Who overrules whom, and what is refused wherever it stands.

use serde_json::json;

use crate::{check, run, Directory};

#[test]
fn flags_overrule_variables_and_those_the_file_and_that_the_defaults() {
    let directory = Directory::new("order");
    let file = directory.write(
        "egressd.json",
        json!({"sweep": "5s", "pins": 7, "mode": "hashed"}),
    );
    // The configuration is no manifest, so its directory is not the source.
    let manifests = Directory::new("manifests");
    let source = format!("--source=dir:{}", manifests.0.display());
    let node = "--node-sid=2001:db8:ff01:1:e000::";
    let config = format!("--config={file}");
    let value = |field: &str, more: &[&str], variables: &[(&str, &str)]| {
        let mut arguments = vec!["--uplinks=up0", node, source.as_str()];
        arguments.extend(more);
        run(&arguments, variables).value(field)
    };
    let variable = ("GUIDEWAY_EGRESS_SWEEP", "6s");
    let by = |text: &str, origin: &str| (json!(text), origin.to_owned());
    let all = value("sweep", &[&config, "--sweep=7s"], &[variable]);
    assert_eq!(all, by("7s", "flag"));
    let no_flag = value("sweep", &[&config], &[variable]);
    assert_eq!(no_flag, by("6s", "environment"));
    assert_eq!(value("sweep", &[&config], &[]), by("5s", "file"));
    assert_eq!(value("sweep", &[], &[]), by("30s", "default"));
    // The file itself is named by flag or variable.
    let named = ("GUIDEWAY_EGRESS_CONFIG", file.as_str());
    assert_eq!(value("sweep", &[], &[named]), by("5s", "file"));
    assert_eq!(value("pins", &[], &[named]).0, json!(7));
    let other = directory.write("other.json", json!({"sweep": "8s"}));
    let other = format!("--config={other}");
    assert_eq!(value("sweep", &[&other], &[named]), by("8s", "file"));
}

#[test]
fn values_of_a_file_are_json_or_texts() {
    let directory = Directory::new("types");
    for (name, written, shown) in [
        ("uplinks", json!(["up0", "up1"]), json!(["up0", "up1"])),
        ("uplinks", json!("up0"), json!(["up0"])),
        ("pins", json!("17"), json!(17)),
        ("liveness_before_sync", json!(true), json!(true)),
        ("liveness_before_sync", json!("true"), json!(true)),
        ("nat64_prefixes", json!([]), json!([])),
        ("pin_idle", json!(0), json!("0")),
    ] {
        let file = directory.write("x.json", json!({name: written}));
        let mut flags = vec![("config", file.as_str())];
        if name != "uplinks" {
            flags.push(("uplinks", "up0"));
        }
        let manifests = Directory::new("manifests");
        let source = format!("dir:{}", manifests.0.display());
        flags.extend([
            ("source", source.as_str()),
            ("node-sid", "2001:db8:ff01:1:e000::"),
        ]);
        let flags: Vec<_> = flags
            .iter()
            .map(|(flag, value)| format!("--{flag}={value}"))
            .collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        assert_eq!(
            run(&flags, &[]).value(name),
            (shown, "file".to_owned()),
            "{name} {written}"
        );
    }
}

#[test]
fn what_is_wrong_in_a_file_names_file_and_field() {
    let directory = Directory::new("faults");
    for (name, written, words) in [
        ("mode", json!(7), "ordered or hashed"),
        ("mode", json!("both"), "ordered or hashed"),
        ("mode", json!(null), "ordered or hashed"),
        ("pins", json!([1]), "got [1]"),
        ("pins", json!(1.5), "got \"1.5\""),
        ("pins", json!(-1), "got \"-1\""),
        ("shard_sids", json!([""]), "SIDs of shards"),
        ("shard_sids", json!([7]), "SIDs of shards"),
        ("sweep", json!(30), "unit"),
        ("liveness_before_sync", json!(1), "true or false"),
        ("mod", json!("hashed"), "is mode meant?"),
        ("state-dir", json!("/sys/fs/bpf/x"), "is state_dir meant?"),
        ("config", json!("x"), "is no field"),
    ] {
        let file = directory.write("x.json", json!({name: written}));
        let message = check(&[("config", &file)], &[]).fault(&format!("{file}: {name}"));
        assert!(message.contains(words), "{name} {written}: {message}");
    }
    let file = directory.write("x.json", "{\"mode\": \"hashed\", \"mode\": \"hashed\"}");
    assert_eq!(
        check(&[("config", &file)], &[]).fault(&format!("{file}: mode")),
        "is there twice"
    );
    for text in ["", "[]", "{} {}", "mode=hashed"] {
        let file = directory.write("x.json", text);
        let message = check(&[("config", &file)], &[]).fault(&file);
        assert!(
            message.contains("is not one JSON object"),
            "{text}: {message}"
        );
    }
    let missing = directory.0.join("missing").display().to_string();
    let message = check(&[("config", &missing)], &[]).fault(&missing);
    assert!(message.contains("cannot read it"), "{message}");
}

#[test]
fn a_variable_with_our_prefix_that_means_nothing_is_refused() {
    let message =
        check(&[], &[("GUIDEWAY_EGRESS_PIN_IDEL", "1h")]).fault("GUIDEWAY_EGRESS_PIN_IDEL");
    assert!(
        message.contains("is GUIDEWAY_EGRESS_PIN_IDLE meant?"),
        "{message}"
    );
    // The limits' variables are not called as their flags.
    check(&[], &[("GUIDEWAY_EGRESS_PINS", "1")]).fault("GUIDEWAY_EGRESS_PINS");
    check(&[], &[("GUIDEWAY_EGRESS_", "")]).fault("GUIDEWAY_EGRESS_");
    check(&[], &[("GUIDEWAY_OTHER", "x"), ("EGRESS_MODE", "x")]).accepted();
}

#[test]
fn all_faults_are_told_at_once_each_where_it_was_said() {
    let directory = Directory::new("all");
    let file = directory.write("x.json", json!({"sweep": "1s", "nonsense": 1, "hash": "x"}));
    let variables = [
        ("GUIDEWAY_EGRESS_MODE", "x"),
        ("GUIDEWAY_EGRESS_NONSENSE", "x"),
        ("GUIDEWAY_EGRESS_CONFIG", file.as_str()),
    ];
    let faults = check(&[("pins", "0"), ("metrics", "x")], &variables).faults();
    let mut places: Vec<_> = faults.iter().map(|(place, _)| place.clone()).collect();
    places.sort();
    let at = |field: &str| format!("{file}: {field}");
    let mut wanted = vec![
        "--pins".to_owned(),
        "--metrics".to_owned(),
        "GUIDEWAY_EGRESS_MODE".to_owned(),
        "GUIDEWAY_EGRESS_NONSENSE".to_owned(),
        at("sweep"),
        at("nonsense"),
        at("hash"),
    ];
    wanted.sort();
    assert_eq!(places, wanted);
    // People see the same.
    let ran = crate::tool::Ran::with("egressd", &["check", "--mode=x", "--hash=y"]).exits(2);
    for words in [
        "4 faults",
        "--mode: must be ordered or hashed, got \"x\" [value]",
        "--hash: ",
    ] {
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn the_state_is_where_the_flag_of_all_verbs_says() {
    let (value, _) = check(&[("state-root", "/mnt/bpf")], &[]).value("state_dir");
    assert_eq!(value, json!("/mnt/bpf/guideway/egress"));
    check(
        &[("state-root", "/mnt/bpf"), ("state-dir", "/mnt/bpf/x")],
        &[],
    )
    .fails(2, "usage");
}
