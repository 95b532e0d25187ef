// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Times and sizes that cannot be: each is refused with what could be, and nothing is changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use guideway::kernel::map::Map;
use nix::mount::{mount, MsFlags};
use serde_json::{json, Value};

use crate::harness::*;
use crate::netns::isolated;

/// All that an instance has.
#[derive(Debug, PartialEq)]
struct Instance {
    pins: Vec<String>,
    /// Entries of the maps of flow state.
    entries: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
    /// Number and digest.
    live: Value,
}

fn all() -> Instance {
    let entries = ["gw_ql_flow", "gw_ql_cid"].map(|name| {
        let map = Map::open_any(&state_dir().join("maps").join(name)).expect("a map");
        let (key_size, value_size) = (map.shape().key_size, map.shape().value_size);
        let mut all = BTreeMap::new();
        map.batches(1024, |keys, values| {
            let keys = keys.chunks(key_size as usize);
            let values = values.chunks(value_size as usize);
            all.extend(
                keys.zip(values)
                    .map(|(key, value)| (key.into(), value.into())),
            );
            ControlFlow::Continue(())
        })
        .expect("read");
        all
    });
    let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
    let generation = &status["generation"];
    Instance {
        pins: state(),
        entries,
        live: json!([generation["number"], generation["digest"]]),
    }
}

fn with(member: &str, value: &Value) -> Value {
    let mut spec = example();
    spec["services"][0][member] = value.clone();
    spec
}

#[test]
fn idle_times_that_cannot_be_change_nothing() {
    isolated("tool::idle_times", || {
        let files = Files::new("idle-times");
        machine();
        quiclb(&["apply", &files.write("spec.json", EXAMPLE)]).exits(0);
        // A service that learns has an entry for each flow.
        send_initials(3);
        let before = all();
        assert_eq!(before.entries[0].len(), 3);
        for member in ["flow_idle", "cid_idle"] {
            for value in [
                json!(0),
                json!("0s"),
                json!(-1),
                json!("-1s"),
                json!(604_801),
                json!("8d"),
                json!(u64::MAX),
                json!("18446744073709551616s"),
                json!("1e3s"),
            ] {
                let path = files.write("changed.json", with(member, &value).to_string());
                for verb in ["plan", "apply"] {
                    let error = quiclb_json(&[verb, &path]).fails(1, "invalid");
                    let fault = &error["faults"][0];
                    let pointer = format!("/services/0/{member}");
                    assert_eq!(
                        (&fault["pointer"], &fault["code"]),
                        (&json!(pointer), &json!("duration"))
                    );
                    let message = fault["message"].as_str().expect("text");
                    assert!(message.contains("from 1s to 7d"), "{message}");
                    assert_eq!(all(), before, "{verb} {member} {value}");
                }
            }
        }
    });
}

/// A machine that says it has so many MiB left.
fn has_left(files: &Files, mib: u64) {
    let text = format!("MemTotal: 16777216 kB\nMemAvailable: {} kB\n", mib << 10);
    let file = files.write("meminfo", text);
    let (file, at) = (Some(file.as_str()), "/proc/meminfo");
    mount(file, at, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("in its place");
}

/// The number in front of these words.
fn number_before(message: &str, words: &str) -> u64 {
    let before = &message[..message.find(words).unwrap_or_else(|| panic!("{message}"))];
    let digits = before.rsplit(' ').next().expect("a word");
    digits.parse().unwrap_or_else(|_| panic!("{message}"))
}

#[test]
fn tables_that_the_machine_cannot_hold_are_refused_with_what_it_can() {
    isolated("tool::limits", || {
        let files = Files::new("limits");
        machine();
        has_left(&files, 48);
        let apply = |limits: Value| {
            let mut spec = example();
            spec["limits"] = limits;
            quiclb_json(&["apply", &files.write("spec.json", spec.to_string())])
        };
        let refused = |limits: Value, pointer: &str, words: &str| {
            let error = apply(limits).fails(1, "invalid");
            let mut faults = error["faults"].as_array().expect("a list").iter();
            let fault = faults.find(|fault| fault["pointer"] == pointer);
            let fault = fault.unwrap_or_else(|| panic!("{error}"));
            assert_eq!(fault["code"], "capacity");
            assert_eq!(state(), Vec::<String>::new());
            number_before(fault["message"].as_str().expect("text"), words)
        };
        let limits =
            |flows: u64, cids: u64| json!({"flows": flows, "cids": cids, "memory_mib": 64});
        let (few, many) = (1024, 16_777_216);
        // What the machine has is less than what was set as the limit.
        let (set, has) = ("/limits/memory_mib", "/limits/flows");
        let (flows, cids) = (" flows would fit", " cids would fit");
        let fit = refused(limits(many, few), has, flows);
        assert!(fit < refused(limits(many, few), set, flows));
        // One more than what fits does not fit.
        assert_eq!(refused(limits(fit + 1, few), has, flows), fit);
        let fit_cids = refused(limits(few, many), has, cids);
        assert_eq!(refused(limits(few, fit_cids + 1), has, cids), fit_cids);
        apply(limits(fit, few)).exits(0);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        assert_eq!(status["affinity"]["flows"]["capacity"], fit);
    });
}
