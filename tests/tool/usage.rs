// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line itself. Nothing here needs a kernel.

use std::process::Stdio;

use crate::harness::{command, example, quiclb, quiclb_json, Files, Ran, EXAMPLE, INSTANCE};

#[test]
fn what_is_no_command_line_is_a_usage_error_in_both_forms() {
    for arguments in [
        &[][..],
        &["no-such-verb"],
        &["upgrade"],
        &["upgrade", INSTANCE, "--spec"],
        &["rollback"],
        &["rollback", INSTANCE, "more"],
        &["run"],
        &["run", "not-a-uuid"],
        &["watch"],
        &["watch", "not-a-uuid"],
        &["watch", INSTANCE, "--interval", "-1"],
        &["watch", INSTANCE, "--interval", "0"],
        &["watch", INSTANCE, "--interval", "2m"],
        &["watch", INSTANCE, "--count", "-1"],
        &["affinity-export", INSTANCE],
        &["affinity-export", INSTANCE, "file", "--flows"],
        &["affinity-export", "not-a-uuid", "file"],
        &["affinity-import", INSTANCE],
        &["affinity-import", INSTANCE, "file", "--conflict"],
        &[
            "affinity-import",
            INSTANCE,
            "file",
            "--conflict",
            "overwrite",
        ],
        &["plan"],
        &["plan", "--no-such-flag", "spec.json"],
        &["probe"],
        &["probe", "a/b"],
        &["probe", "sixteen-bytes-xy"],
        &["apply"],
        &["apply", "spec.json", "--keep", "-1"],
        &["apply", "spec.json", "--keep", "many"],
        &["apply", "spec.json", "--force", "no-such-check"],
        &["apply", "spec.json", "--force"],
        &["status", "not-a-uuid"],
        &["detach"],
        &["detach", "not-a-uuid"],
        &["events"],
        &["events", INSTANCE, "five"],
        &["events", INSTANCE, "-5"],
        &["events", INSTANCE, "1.5"],
        &["events", INSTANCE, "5", "4294967296"],
        &["events", INSTANCE, "5", "128", "more"],
        &["doctor"],
        &["diff", "one.json"],
        &["schema"],
        &["schema", "no-such-schema"],
        &["trace", "spec.json"],
        &["trace", "--hex", "00"],
        &["trace", "spec.json", "--hex", "0x00"],
        &["trace", "spec.json", "--hex", "000"],
        &["trace", "spec.json", "--payload", "00"],
        &["trace", "spec.json", "--hex", "00", "--pcap", "file"],
        &["trace", "spec.json", "--hex", "00", "--service", "quic-api"],
        &[
            "trace",
            "spec.json",
            "--payload",
            "00",
            "--service",
            "a",
            "--source",
            "198.51.100.1",
        ],
        &["trace", "spec.json", "--from", INSTANCE, "--hex", "00"],
        &["--state-root"],
        &["status", "-o", "yaml"],
    ] {
        let ran = quiclb(arguments).exits(2);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(ran.stderr.starts_with("quiclb: "), "{}", ran.stderr);
        if arguments.contains(&"-o") {
            continue;
        }
        let error = quiclb_json(arguments).fails(2, "usage");
        assert_eq!(error["faults"], serde_json::json!([]));
    }
}

#[test]
fn the_form_is_accepted_before_and_behind_the_verb() {
    for arguments in [
        &["-o", "json", "schema", "no-such"][..],
        &["schema", "no-such", "-o", "json"],
        &["schema", "-o", "json", "no-such"],
        &["-ojson", "schema", "no-such"],
        &["schema", "--output=json", "no-such"],
    ] {
        quiclb(arguments).fails(2, "usage");
    }
    let files = Files::new("form");
    let spec = files.write("spec.json", EXAMPLE);
    let before = quiclb(&["-o", "json", "plan", "--offline", &spec]).exits(0);
    let behind = quiclb(&["plan", "--offline", &spec, "-o", "json"]).exits(0);
    assert_eq!(before.document(), behind.document());
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["--version"], &["plan", "--help"]] {
        let ran = quiclb(arguments).exits(0);
        assert!(ran.stdout.contains("quiclb"), "{}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn help_lists_the_exit_codes() {
    let help = quiclb(&["--help"]).exits(0).stdout;
    let codes = help.split("Exit codes:").nth(1).expect("a list");
    for code in [
        "0  done",
        "1  error",
        "2  usage",
        "3  partial",
        "4  refused",
        "5  degraded",
    ] {
        assert!(codes.contains(code), "{code}: {help}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    for arguments in [&["schema", "plan"][..], &["--help"]] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let ran = Ran::of(output, format!("{arguments:?}")).exits(0);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let output = command(&["-o", "json", "schema", "plan"])
        .stdout(full)
        .output()
        .expect("the tool runs");
    Ran::of(output, "schema > /dev/full".into()).fails(1, "io");
}

#[test]
fn the_network_card_needs_a_word_before_anything_else() {
    let files = Files::new("offload");
    let mut offload = example();
    offload["mode"] = "offload".into();
    let spec = files.write("spec.json", offload.to_string());
    // A root that does not exist: it is not even looked at.
    let nowhere = ["--state-root", "/no/such/root"];
    let apply = |arguments: &[&str]| quiclb_json(&[&nowhere, arguments].concat());
    let error = apply(&["apply", &spec]).fails(2, "usage");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("--ack-hardware-offload"), "{message}");
    // Not even whether the rest is valid matters.
    offload["services"][0]["port"] = 0.into();
    let faulty = files.write("faulty.json", offload.to_string());
    apply(&["apply", &faulty]).fails(2, "usage");
    apply(&["apply", &faulty, "--ack-hardware-offload"]).fails(1, "invalid");
}

#[test]
fn schemas_are_printed_and_sound() {
    let documents = "spec plan status trace event apply list detach diff doctor probe error";
    for name in documents.split_whitespace() {
        for form in ["text", "json"] {
            let ran = quiclb(&["-o", form, "schema", name]).exits(0);
            let schema: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
            assert_eq!(schema["$id"], format!("urn:guideway:quiclb:{name}:v1"));
        }
    }
}

#[test]
fn the_binary_is_the_one_of_this_build() {
    crate::tool::assert_current("quiclb");
}
