// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `upgrade` and `rollback`: of the program, and of the specification.

use std::fs;

use serde_json::Value;

use crate::harness::{
    coded, draining, example, machine, names_in, quiclb, quiclb_json, state, state_dir, Files,
    EXAMPLE, INSTANCE,
};
use crate::netns::{foreign_program, ip, isolated, netlink_attach, xdp_seen_by_ip, Kind};
use crate::run::quick;

/// An instance that runs a program of which nothing tells what build it is of.
fn older(files: &Files) -> String {
    machine();
    let spec = files.write("spec.json", EXAMPLE);
    quiclb(&["apply", &spec]).exits(0);
    let progs = state_dir().join("progs");
    let mut records = names_in(&progs).into_iter();
    let record = records.find(|name| name.starts_with("build-"));
    fs::remove_file(progs.join(record.expect("a record"))).expect("removed");
    spec
}

fn on_edge() -> u64 {
    xdp_seen_by_ip("edge0").expect("a program").1
}

#[test]
fn a_program_of_another_build_is_named_upgraded_and_brought_back() {
    isolated("tool::upgrade", || {
        let files = Files::new("upgrade");
        older(&files);
        let old = on_edge();
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        let finding = coded(&status["findings"], "other-build").expect("a finding");
        assert_eq!(finding["severity"], "warning");
        assert_eq!(status["program"]["build"], Value::Null);
        let doctor = quiclb_json(&["doctor", INSTANCE]).exits(0).valid("doctor");
        assert!(coded(&doctor["checks"], "other-build").is_some());
        assert_eq!(on_edge(), old, "looking changes nothing");

        let upgraded = quiclb_json(&["upgrade", INSTANCE])
            .exits(0)
            .valid("upgrade");
        assert_eq!(upgraded["kind"], "upgrade");
        assert_eq!(upgraded["instance_id"], INSTANCE);
        assert_eq!(upgraded["old_program_id"], old);
        assert_eq!(upgraded["new_program_id"], on_edge());
        assert_eq!(upgraded["interface"], "edge0");
        assert!(upgraded["swap_ms"].as_f64().expect("exchanged") > 0.0);
        assert_eq!(upgraded["abi"], status["program"]["abi"]);
        let new = on_edge();
        assert_ne!(new, old);

        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(coded(&status["findings"], "other-build"), None, "{status}");
        assert_eq!(status["program"]["build"], upgraded["new_build"]);
        assert_eq!(status["attachment"]["program_id"], new);
        assert_eq!(status["attachment"]["previous_program_id"], old);

        let text = quiclb(&["upgrade", INSTANCE]).exits(0);
        assert!(text.stdout.contains("unchanged"), "{}", text.stdout);
        assert_eq!(on_edge(), new);

        let back = quiclb(&["rollback", INSTANCE]).exits(0);
        for part in ["rolled back", "edge0: exchanged in", "kept no record"] {
            assert!(back.stdout.contains(part), "{part}: {}", back.stdout);
        }
        assert_eq!(on_edge(), old);
        let forth = quiclb_json(&["rollback", INSTANCE])
            .exits(0)
            .valid("upgrade");
        assert_eq!(forth["kind"], "rollback");
        assert_eq!(on_edge(), new);

        // Detached, it is exchanged for the next attachment.
        quiclb(&["detach", INSTANCE]).exits(0);
        let back = quiclb_json(&["rollback", INSTANCE])
            .exits(0)
            .valid("upgrade");
        runs_nowhere(&back, false);
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        assert_eq!(
            state(),
            [state_dir()
                .parent()
                .expect("a parent")
                .display()
                .to_string()]
        );
    });
}

#[track_caller]
fn runs_nowhere(exchanged: &Value, attached: bool) {
    assert_eq!(exchanged["attached"], attached);
    assert_eq!(exchanged["verification"], "detached");
    assert_eq!(exchanged["interface"], Value::Null);
    assert_eq!(exchanged["swap_ms"], Value::Null);
}

#[test]
fn an_upgrade_of_what_runs_nowhere_says_so() {
    isolated("tool::upgrade_nowhere", || {
        let files = Files::new("upgrade-nowhere");
        let spec = older(&files);
        // As somebody wanted it, or because what it was attached to is gone.
        let nowhere = |attached: bool| {
            let code = if attached { 3 } else { 0 };
            let upgraded = quiclb_json(&["upgrade", INSTANCE]).exits(code);
            runs_nowhere(&upgraded.valid("upgrade"), attached);
            let text = quiclb(&["upgrade", INSTANCE]).exits(code).stdout;
            let line = match attached {
                true => "RUNS NOWHERE, what it was attached to is gone: apply attaches it\n",
                false => "  detached: apply attaches it\n",
            };
            assert!(text.contains("unchanged") && text.contains(line), "{text}");
            assert_eq!(text.contains("RUNS NOWHERE"), attached, "{text}");
        };
        quiclb(&["detach", INSTANCE]).exits(0);
        // Of another build, and then of this one.
        nowhere(false);
        quiclb(&["apply", &spec]).exits(0);
        let upgraded = quiclb_json(&["upgrade", INSTANCE]).exits(0);
        assert_eq!(upgraded.valid("upgrade")["attached"], true);
        ip(&["link", "del", "edge0"]);
        nowhere(true);
    });
}

#[test]
fn the_specification_before_is_published_again() {
    isolated("tool::rollback_spec", || {
        machine();
        let files = Files::new("rollback-spec");
        let first = files.write("spec.json", EXAMPLE);
        let second = files.write("draining.json", draining().to_string());
        quiclb(&["apply", &first]).exits(0);
        let rollback = ["rollback", INSTANCE, "--spec"];
        let error = quiclb_json(&rollback).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("nothing to go back to"), "{message}");

        quiclb(&["apply", &second]).exits(0);
        let program = on_edge();
        let applied = quiclb_json(&rollback).exits(0).valid("apply");
        assert_eq!(
            (&applied["result"], &applied["generation"]),
            (&"changed".into(), &3.into())
        );
        let differs = quiclb_json(&["diff", INSTANCE, &first]).exits(0).document();
        assert_eq!(differs["identical"], true, "{differs}");
        let applied = quiclb_json(&rollback).exits(0).valid("apply");
        assert_eq!(applied["generation"], 4);
        let differs = quiclb_json(&["diff", INSTANCE, &second])
            .exits(0)
            .document();
        assert_eq!(differs["identical"], true, "{differs}");
        assert_eq!(on_edge(), program, "the program stays");

        // None is kept.
        quiclb(&["apply", "--keep", "0", &first]).exits(0);
        quiclb_json(&rollback).fails(1, "not-found");
    });
}

/// The end of a transition is a generation of its own, and no specification.
#[test]
fn the_specification_before_is_found_behind_the_end_of_its_transition() {
    isolated("tool::rollback_spec_behind", || {
        machine();
        let files = Files::new("rollback-spec-behind");
        let [first, second, third, fourth] = [1, 2, 3, 4].map(|weight| {
            let mut spec = quick(example());
            spec["services"][0]["backends"][0]["weight"] = weight.into();
            files.write(&format!("{weight}.json"), spec.to_string())
        });
        let settled = || {
            let watch = ["watch", INSTANCE, "--repair"];
            quiclb(&[&watch[..], &["--interval", "12s", "--count", "1"]].concat()).exits(0);
            let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
            assert_eq!(status["affinity"]["flows"]["held_slots"], 0, "{status:#}");
            status["generation"]["number"].as_u64().expect("a number")
        };
        let is_live = |spec: &str| {
            let differs = quiclb_json(&["diff", INSTANCE, spec]).exits(0).document();
            assert_eq!(differs["identical"], true, "{differs}");
        };
        quiclb(&["apply", &first]).exits(0);
        quiclb(&["apply", "--keep", "3", &second]).exits(0);
        assert!(settled() > 2, "windows were closed");
        for spec in [&third, &fourth] {
            quiclb(&["apply", "--keep", "3", spec]).exits(0);
        }
        settled();
        // More than who is not asked would keep.
        let names = names_in(&state_dir().join("gen"));
        let records = names.iter().filter(|name| name.ends_with("record"));
        assert_eq!(records.count(), 4, "{names:?}");

        let rollback = ["rollback", INSTANCE, "--spec", "--disruptive"];
        let applied = quiclb_json(&rollback).exits(0).valid("apply");
        assert_eq!(applied["result"], "changed", "{applied}");
        is_live(&third);
        settled();
        quiclb(&rollback).exits(0);
        is_live(&fourth);
    });
}

#[test]
fn what_cannot_be_exchanged_is_refused_and_nothing_is_changed() {
    isolated("tool::upgrade_refused", || {
        let files = Files::new("upgrade-refused");
        let absent = quiclb_json(&["upgrade", INSTANCE]).fails(1, "not-found");
        assert_eq!(absent["object"], INSTANCE);
        quiclb_json(&["rollback", INSTANCE]).fails(1, "not-found");
        quiclb_json(&["rollback", INSTANCE, "--spec"]).fails(1, "not-found");
        older(&files);
        let (before, program) = (state(), on_edge());

        let error = quiclb_json(&["rollback", INSTANCE]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("nothing to go back to"), "{message}");
        quiclb_json(&["rollback", INSTANCE, "--keep", "1"]).fails(2, "usage");
        quiclb_json(&["rollback", INSTANCE, "--disruptive"]).fails(2, "usage");
        let lock = fs::File::open(state_dir()).expect("a directory");
        lock.lock().expect("locked");
        quiclb_json(&["upgrade", INSTANCE]).fails(4, "locked");
        quiclb_json(&["rollback", INSTANCE]).fails(4, "locked");
        drop(lock);
        assert_eq!((state(), on_edge()), (before, program));

        // Somebody else has the interface.
        quiclb(&["detach", INSTANCE]).exits(0);
        let before = state();
        let theirs = foreign_program("theirs", Kind::Xdp).expect("loaded");
        netlink_attach(crate::netns::ifindex("edge0"), &theirs, 0).expect("free");
        quiclb_json(&["upgrade", INSTANCE]).fails(4, "occupied");
        assert_eq!(state(), before);
        ip(&["link", "set", "edge0", "xdp", "off"]);
    });
}

#[test]
fn an_upgrade_of_a_broken_instance_says_what_is_wrong() {
    isolated("tool::upgrade_broken", || {
        let files = Files::new("upgrade-broken");
        let spec = older(&files);
        // Something else in the place of the program to come.
        let next = state_dir().join("progs/gw_quiclb-next");
        fs::rename(state_dir().join("links/xdp"), &next).expect("moved");
        quiclb_json(&["upgrade", INSTANCE]).fails(4, "incompatible");
        fs::rename(&next, state_dir().join("links/xdp")).expect("moved back");
        fs::remove_file(state_dir().join("progs/gw_quiclb")).expect("removed");
        let error = quiclb_json(&["upgrade", INSTANCE]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("apply the specification again"),
            "{message}"
        );
        quiclb(&["apply", &spec]).exits(0);
        let upgraded = quiclb_json(&["upgrade", INSTANCE])
            .exits(0)
            .valid("upgrade");
        assert_eq!(upgraded["verification"], "unchanged");
    });
}
