// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `check` says of a source.

use serde_json::json;

use crate::tool::Ran;
use crate::{check, shard, Directory};

const SID: &str = "2001:db8:ff09:10:e000::";

#[test]
fn shards_are_counted_and_objects_at_fault_are_told() {
    let directory = Directory::new("source");
    let source = format!("dir:{}", directory.0.display());
    directory.write("a.json", shard("a", SID));
    let hashed = [("source", source.as_str()), ("mode", "hashed")];
    let document = check(&hashed, &[]).exits(0).object();
    assert_eq!(
        (&document["shards"], &document["faults"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(document["warnings"], json!([]));
    let bad = directory.write("b.json", format!("{:#}", shard("b", "nonsense")));
    let ran = check(&hashed, &[]).exits(5);
    let document = ran.object();
    assert_eq!(document["shards"], 1);
    let fault = document["faults"][0].as_str().expect("a fault");
    let line = std::fs::read_to_string(&bad).expect("a file");
    let line = line
        .lines()
        .position(|line| line.contains("nonsense"))
        .expect("there")
        + 1;
    assert!(
        fault.starts_with(&format!("{bad}:{line}: shard edge/b: ")),
        "{fault}"
    );
}

#[test]
fn files_that_are_passed_over_are_named() {
    let directory = Directory::new("others");
    let source = format!("dir:{}", directory.0.display());
    let hashed = [("source", source.as_str()), ("mode", "hashed")];
    directory.write("a.json", shard("a", SID));
    for passing in [".hidden.yaml", "a.json~", "b.json.tmp"] {
        directory.write(passing, "");
    }
    std::fs::create_dir(directory.0.join("old.JSON")).expect("a directory");
    let document = check(&hashed, &[]).exits(0).object();
    assert_eq!(document["warnings"], json!([]));
    let others = ["b.JSON", "c.YAML", "d.yml"];
    let paths = others.map(|name| directory.write(name, shard("b", SID)));
    let document = check(&hashed, &[]).exits(0).object();
    assert_eq!(document["shards"], 1);
    let wanted =
        paths.map(|path| format!("{path} is not read: only files whose names end in .json are"));
    assert_eq!(document["warnings"], json!(wanted));
    for name in ["e", "f"] {
        directory.write(name, "");
    }
    let document = check(&hashed, &[]).exits(0).object();
    let more = document["warnings"][4].as_str().expect("text");
    assert!(more.starts_with("1 more files in "), "{document}");
}

#[test]
fn a_source_that_is_not_known_is_an_error_with_file_and_line() {
    let directory = Directory::new("broken");
    let source = format!("dir:{}", directory.0.display());
    let broken = directory.write("a.json", "{\n\"kind\":");
    let error = check(&[("source", &source)], &[]).fails(1, "invalid");
    let message = error["message"].as_str().expect("text");
    assert!(
        message.contains(&format!("{broken}:2: is not JSON")),
        "{message}"
    );
    let missing = format!("dir:{}/missing", directory.0.display());
    let error = check(&[("source", &missing)], &[]).fails(1, "invalid");
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("cannot list it"),
        "{error}"
    );
}

#[test]
fn people_see_values_and_where_they_were_said() {
    let directory = Directory::new("text");
    let source = format!("--source=dir:{}", directory.0.display());
    let node = "--node-sid=2001:db8:ff01:1:e000::";
    let shard = format!("--shard-sids={SID}");
    let needed = ["--uplinks=up0", node, &shard, &source];
    let arguments = [&["check", "--print-config"], &needed[..]].concat();
    let text = Ran::with("egressd", &arguments).exits(0).stdout;
    let line = |name: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        lines
            .next()
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .to_owned()
    };
    assert!(line("uplinks ").contains("up0") && line("uplinks ").ends_with("--uplinks"));
    assert!(line("pin-idle ").contains("2h4m") && line("pin-idle ").ends_with("default"));
    assert!(
        text.ends_with("accepted; 0 shards, 0 objects left out\n"),
        "{text}"
    );
    let quiet = Ran::with("egressd", &[&["check"], &needed[..]].concat()).exits(0);
    assert_eq!(quiet.stdout.lines().count(), 1);
}

#[test]
fn ordered_mode_without_a_shard_of_its_list_is_told_to_serve_nobody() {
    let document = check(&[], &[]).exits(5).object();
    let warnings = document["warnings"].as_array().expect("a list");
    let [warning] = &warnings[..] else {
        panic!("{document}");
    };
    let words = "--mode ordered without --shard-sids";
    assert!(
        warning.as_str().is_some_and(|text| text.contains(words)),
        "{warning}"
    );
    for served in [("shard-sids", SID), ("mode", "hashed")] {
        let document = check(&[served], &[]).exits(0).object();
        assert_eq!(document["warnings"], json!([]), "{served:?}");
    }
    let directory = Directory::new("nobody");
    let source = format!("--source=dir:{}", directory.0.display());
    let node = "--node-sid=2001:db8:ff01:1:e000::";
    let ran = Ran::with("egressd", &["check", "--uplinks=up0", node, &source]).exits(5);
    assert!(
        ran.stdout.contains(&format!("  warning: {words}")),
        "{}",
        ran.stdout
    );
}
