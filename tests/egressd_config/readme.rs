// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The table of the README is what the tool knows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{check, Directory, NEEDED};
use crate::tool::Ran;

/// Flag, variable, default and what is accepted.
fn table() -> Vec<[String; 4]> {
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `--"));
    let rows = rows.map(|line| {
        let cells = line.trim_matches('|').replace("\\|", "\0");
        let cells: Vec<_> = cells
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').replace('\0', "|"))
            .collect();
        <[String; 4]>::try_from(cells).expect("four cells")
    });
    rows.collect()
}

/// A value as somebody would say it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[test]
fn the_readme_has_every_value_with_its_default() {
    let directory = Directory::new("listed");
    let document = check(&[], &[]).accepted().object();
    let values = document["config"]["values"].as_object().expect("values");
    let help = Ran::with("egressd", &["check", "--help"]).exits(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut known: BTreeSet<_> = values.keys().cloned().collect();
    for [flag, variable, default, accepted] in table() {
        let field = flag.trim_start_matches('-').replace('-', "_");
        assert!(known.remove(&field), "{flag}");
        let value = &values[&field]["value"];
        let needed = NEEDED.iter().any(|(name, _)| flag == format!("--{name}"));
        match default.as_str() {
            "must be given" => assert!(needed, "{flag}"),
            "none" => assert_eq!(text(value), "", "{flag}"),
            // The test has a source of its own.
            default if flag == "--source" => {
                assert!(help.contains(&format!("[default: {default}]")))
            }
            default => assert_eq!(text(value), default, "{flag}"),
        }
        if flag != "--state-dir" {
            assert!(
                help.contains(&format!(": {accepted} [default: ")),
                "{flag}: {accepted}"
            );
        }
        let said = match flag.as_str() {
            "--source" => format!("dir:{}", directory.0.display()),
            _ => text(value),
        };
        let variable = format!("GUIDEWAY_EGRESS_{variable}");
        let (_, origin) = check(&[], &[(&variable, &said)]).value(&field);
        assert_eq!(origin, "environment", "{variable}");
    }
    assert_eq!(known, BTreeSet::new());
}
