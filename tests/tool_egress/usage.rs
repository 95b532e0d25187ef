// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line itself.

use std::process::{Command, Stdio};

use crate::tool::{assert_current, binary, Ran};
use crate::{egressd, egressd_json};

#[test]
fn what_is_no_command_line_is_a_usage_error_in_both_forms() {
    for arguments in [
        &[][..],
        &["no-such-verb"],
        &["place"],
        &["place", "--no-such-flag"],
        &["place", "more"],
    ] {
        let ran = egressd(arguments).exits(2);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(ran.stderr.starts_with("egressd: "), "{}", ran.stderr);
        let error = egressd_json(arguments).fails(2, "usage");
        assert_eq!(error["faults"], serde_json::json!([]));
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["--version"], &["place", "--help"]] {
        let ran = egressd(arguments).exits(0);
        assert!(ran.stdout.contains("egressd"), "{}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
    let help = egressd(&["--help"]).exits(0).stdout;
    let codes = help.split("Exit codes:").nth(1).expect("a list");
    for code in ["0  done", "1  error", "2  usage", "4  refused"] {
        assert!(codes.contains(code), "{code}: {help}");
    }
}

#[test]
fn lines_of_json_are_asked_for_by_either_name() {
    for form in [
        &["-o", "jsonl"][..],
        &["--output=jsonl"],
        &["-ojson"],
        &["-o=jsonl"],
    ] {
        let place = "place --hash-table 42 --source 10.0.0.7 --shards 2001:db8:ff09:10:e000::";
        let place: Vec<_> = place.split_whitespace().collect();
        egressd(&[form, &place].concat()).exits(0).object();
        egressd(&[form, &["no-such-verb"]].concat()).fails(2, "usage");
    }
}

#[test]
fn schemas_are_printed() {
    for name in [
        "spec",
        "plan",
        "control-plan",
        "apply",
        "status",
        "attach",
        "detach",
        "pin",
        "sweep",
        "error",
    ] {
        let printed = egressd(&["schema", name]).exits(0).stdout;
        let schema: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        assert!(schema["$id"]
            .as_str()
            .expect("text")
            .ends_with(&format!("{name}:v1")));
    }
    egressd_json(&["schema", "other"]).fails(2, "usage");
}

#[test]
fn a_reader_that_has_enough_is_no_error_and_a_full_disk_is_one() {
    let place = "place --hash-table 42 --source 10.0.0.7 --shards 2001:db8:ff09:10:e000::";
    let command = || {
        let mut command = Command::new(binary("egressd"));
        command.args(place.split_whitespace());
        command
    };
    let mut child = command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(Ran::of(output, place.into()).exits(0).stderr, "");

    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = command()
        .args(["-o", "json"])
        .stdout(full.expect("a device"))
        .output()
        .expect("the tool runs");
    Ran::of(output, "place > /dev/full".into()).fails(1, "io");
}

#[test]
fn the_binary_is_the_one_of_this_build() {
    assert_current("egressd");
}
