// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop of `egressd` is told: flags, variables, a file and defaults. Needs no root.

#[path = "../common/tool.rs"]
mod tool;

mod check;
mod order;
mod readme;
mod values;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{json, Value};

use crate::tool::{binary, Ran};

/// What must be said.
const NEEDED: [(&str, &str); 2] = [
    ("uplinks", "up0,up1"),
    ("node-sid", "2001:db8:ff01:1:e000::"),
];

/// Runs `egressd check` with an empty source, what must be said, and these flags and variables.
fn check(flags: &[(&str, &str)], variables: &[(&str, &str)]) -> Ran {
    let directory = Directory::new("empty");
    let source = format!("dir:{}", directory.0.display());
    let mut all = vec![("source", source.as_str())];
    let said = |name: &str| {
        let variable = name.replace('-', "_").to_uppercase();
        let by_flag = flags.iter().any(|(flag, _)| *flag == name);
        by_flag
            || variables
                .iter()
                .any(|(other, _)| other.ends_with(&variable))
    };
    all.extend(NEEDED);
    all.retain(|(name, _)| !said(name));
    all.extend(flags);
    let flags: Vec<_> = all
        .iter()
        .map(|(flag, value)| format!("--{flag}={value}"))
        .collect();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    run(&flags, variables)
}

/// Runs `egressd -o json check --print-config` with these arguments and variables.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(binary("egressd"));
    command
        .args(["-o", "json", "check", "--print-config"])
        .args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GUIDEWAY_EGRESS_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied());
    let what = format!("check {arguments:?} {variables:?}");
    Ran::of(command.output().expect("the tool runs"), what)
}

impl Ran {
    /// Insists on a configuration that is accepted, be it one that serves nobody.
    #[track_caller]
    fn accepted(self) -> Self {
        match self.code {
            5 => self,
            _ => self.exits(0),
        }
    }

    /// The value that is in force for a field, and who said it.
    #[track_caller]
    fn value(self, field: &str) -> (Value, String) {
        let document = self.accepted().object();
        assert_eq!(document["schema"], "guideway.egress.check/v1");
        assert_eq!(document["config"]["schema"], "guideway.egress.config/v1");
        let entry = &document["config"]["values"][field];
        let origin = entry["origin"].as_str().expect("an origin").to_owned();
        (entry["value"].clone(), origin)
    }

    /// The faults of what is refused: place and message.
    #[track_caller]
    fn faults(self) -> Vec<(String, String)> {
        let error = self.fails(2, "usage");
        let faults = error["faults"].as_array().expect("a list").clone();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let faults = faults.iter();
        faults
            .map(|fault| (text(&fault["pointer"]), text(&fault["message"])))
            .collect()
    }

    /// The message of the only fault, which is at this place.
    #[track_caller]
    fn fault(self, place: &str) -> String {
        let what = self.what.clone();
        let faults = self.faults();
        let [(at, message)] = &faults[..] else {
            panic!("{what}: {faults:?}");
        };
        assert_eq!(at, place, "{what}");
        message.clone()
    }
}

/// A directory of a test's own, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("guideway-config-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// Writes a file and gives its path.
    fn write(&self, name: &str, text: impl ToString) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text.to_string()).expect("written");
        path.to_str().expect("text").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shard(name: &str, sid: &str) -> Value {
    json!({
        "apiVersion": "network.datumapis.com/v1alpha1", "kind": "EgressShard",
        "metadata": {"name": name, "namespace": "edge"}, "status": {"shardSID": sid},
    })
}
