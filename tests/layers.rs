// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The layers of the crate: who may use whom. Reads the sources and fails on a wrong arrow.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Plain data and names, which everybody may use.
const BASE: &[&str] = &["abi", "id"];
/// No kernel, clock, file or randomness of their own.
const PURE: &[&str] = &[
    "addr",
    "affinity",
    "capture",
    "document",
    "egress_spec",
    "encap",
    "flow",
    "flow_label",
    "group",
    "hash",
    "hex",
    "image_hash",
    "maglev",
    "oracle",
    "pin",
    "placement",
    "plan",
    "quic",
    "reason",
    "route",
    "service",
    "srv6",
    "tenant",
];
/// The files of the control loop that are as pure, by the first name below `control`.
const PURE_CONTROL: &[&str] = &[
    "desired",
    "effect",
    "eligible",
    "hold",
    "known",
    "machine",
    "manifest",
    "observed",
    "plan",
    "problem",
    "reconcile",
    "shard",
    "source_errors",
];
/// Single files of the control loop that are as pure, below `control`.
const PURE_CONTROL_FILES: &[&str] = &[
    "metrics/counters.rs",
    "metrics/counts.rs",
    "metrics/label.rs",
    "metrics/registry.rs",
    "metrics/text.rs",
];
/// What a pure module must not name.
const IMPURE: &[&str] = &[
    "libbpf_rs",
    "libbpf_sys",
    "nix::",
    "std::env",
    "std::fs",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "std::io::",
    "println!",
];

fn allowed(module: &str) -> Option<BTreeSet<&'static str>> {
    let mut allowed: BTreeSet<_> = BASE.iter().copied().collect();
    match module {
        "abi" | "error" | "guide" => return Some(BTreeSet::new()),
        "id" => return Some(BTreeSet::from(["hex"])),
        "kernel" => allowed.insert("error"),
        "egress" | "quiclb" => {
            allowed.extend(PURE);
            allowed.insert("error");
            allowed.insert("kernel")
        }
        "control" => {
            allowed.extend(PURE);
            allowed.extend(["error", "kernel"]);
            allowed.insert("egress")
        }
        "lib" => return None,
        pure if PURE.contains(&pure) => {
            allowed.extend(PURE);
            true
        }
        other => panic!("module {other} belongs to no layer: say here to which"),
    };
    Some(allowed)
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text without comments and without what stands in quotes.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.split_once("//").map_or(line, |(code, _)| code);
        line.split('"').step_by(2).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The top-level modules that `code` names behind `crate::`.
fn named(code: &str) -> BTreeSet<&str> {
    named_behind(code, "crate::")
}

/// The first names behind `root`.
fn named_behind<'c>(code: &'c str, root: &str) -> BTreeSet<&'c str> {
    let word = |text: &str| -> usize {
        text.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    let mut names = BTreeSet::new();
    for rest in code.split(root).skip(1) {
        match rest.strip_prefix('{') {
            None => drop(names.insert(&rest[..word(rest)])),
            Some(group) => {
                // The first words at depth one of a group.
                let (mut depth, mut start) = (0, true);
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && (c.is_alphanumeric() || c == '_') => {
                            names.insert(&group[at..at + word(&group[at..])]);
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    // `*` is no name.
    names.remove("");
    names
}

#[test]
fn every_arrow_points_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "the sources are here");
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).expect("below the root");
        let first = inside
            .iter()
            .next()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let module = first.trim_end_matches(".rs");
        let Some(mut allowed) = allowed(module) else {
            continue;
        };
        let part = inside.iter().nth(1).map(|part| part.to_string_lossy());
        let part = part.as_deref().map(|part| part.trim_end_matches(".rs"));
        let below = inside.strip_prefix("control").ok().and_then(Path::to_str);
        let pure_file = below.is_some_and(|file| PURE_CONTROL_FILES.contains(&file));
        let pure_part = part.filter(|part| module == "control" && PURE_CONTROL.contains(part));
        let pure_part = pure_part.or(part.filter(|_| pure_file));
        if pure_part.is_some() {
            allowed.extend(PURE);
            allowed.retain(|name| PURE.contains(name) || BASE.contains(name));
        }
        let text = fs::read_to_string(&file).expect("text");
        let code = code(&text);
        for name in named(&code) {
            if name != module && !allowed.contains(name) {
                wrong.push(format!("{}: {module} uses {name}", inside.display()));
            }
        }
        if let Some(part) = pure_part {
            // What another file of the control loop makes of a clock or a kernel is not pure either.
            let control = root.join("control");
            let beside = named_behind(&code, "super::").into_iter();
            for name in beside.chain(named_behind(&code, "crate::control::")) {
                let file = control.join(format!("{name}.rs"));
                let exists = file.exists() || (!name.is_empty() && control.join(name).is_dir());
                if exists && !PURE_CONTROL.contains(&name) {
                    wrong.push(format!("{}: {part} uses {name}", inside.display()));
                }
            }
        }
        if PURE.contains(&module) || BASE.contains(&module) || pure_part.is_some() {
            for name in IMPURE.iter().filter(|name| code.contains(*name)) {
                wrong.push(format!("{}: {module} names {name}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_arrows_are_seen() {
    let code =
        code("use crate::kernel::map; // crate::quiclb\nuse crate::{abi, plan::{a, b}, id};");
    assert_eq!(
        named(&code),
        BTreeSet::from(["abi", "id", "kernel", "plan"])
    );
    assert!(!allowed("plan").expect("a layer").contains("kernel"));
    assert!(!allowed("kernel").expect("a layer").contains("plan"));
}
