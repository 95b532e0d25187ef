// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is around an instance: interfaces that go down, other modes and network namespaces, other
//! programs, missing rights, and what processes leave behind that die.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::Command;

use guideway::kernel::publish::Generation;
use guideway::quiclb::{Mode, StateRoot, Writer};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{json, Value};

use crate::harness::{
    applied, binary, coded, ethtool, example, machine, names_in, quiclb, quiclb_json, state,
    state_dir, Files, Ran, EXAMPLE, INSTANCE,
};
use crate::netns::{
    foreign_link, foreign_program, ifindex, ip, isolated, program_id, xdp_seen_by_ip, Kind, BPFFS,
};

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// The entry of this code about this object.
#[track_caller]
fn about<'a>(list: &'a Value, code: &str, object: &str) -> &'a Value {
    let mut entries = list.as_array().expect("a list").iter();
    entries
        .find(|entry| entry["code"] == code && entry["object"] == object)
        .unwrap_or_else(|| panic!("{code} {object}: {list:#}"))
}

#[test]
fn another_mode_than_the_specified_one_is_found_and_not_replaced() {
    isolated("tool::mode_drift", || {
        let (_files, spec) = applied("mode-drift");
        let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
        let mut writer = Writer::open(&dir).expect("free");
        writer.detach().expect("detached");
        let edge = "edge0".parse().expect("a name");
        writer.attach(&edge, Mode::Generic).expect("attached");
        drop(writer);
        let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        assert_eq!(
            (&status["health"], &status["mode"]),
            (&json!("degraded"), &json!("generic"))
        );
        let found = coded(&status["findings"], "mode-drift").expect("a finding");
        assert_eq!(
            (&found["severity"], &found["message"]),
            (
                &json!("error"),
                &json!("runs in generic mode, the specification says native")
            )
        );
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(5).document();
        assert_eq!(
            about(&diagnosis["checks"], "mode-drift", "edge0")["result"],
            "error"
        );
        let before = state();
        let error = quiclb_json(&["apply", &spec]).fails(4, "conflict");
        assert!(text(&error["message"]).contains("generic"), "{error}");
        assert_eq!(state(), before);

        quiclb(&["detach", INSTANCE]).exits(0);
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(xdp_seen_by_ip("edge0").expect("a program").0, "native");
    });
}

#[test]
fn missing_rights_are_not_a_missing_instance() {
    isolated("tool::rights", || {
        let (files, spec) = applied("rights");
        // Where everybody may run it.
        let tool = files.path("quiclb");
        // By another process: a descriptor open for writing, inherited by a child of another test,
        // would keep the file from being run.
        let copy = Command::new("cp").arg(binary()).arg(&tool).status();
        assert!(copy.expect("cp").success());
        for arguments in [
            &["plan", &spec][..],
            &["apply", &spec],
            &["status"],
            &["status", INSTANCE],
            &["doctor", INSTANCE],
            &["doctor", &spec],
            &["events", INSTANCE],
            &["diff", INSTANCE, &spec],
            &["trace", "--from", INSTANCE, "--hex", "00"],
            &["detach", INSTANCE],
        ] {
            let mut command = Command::new(&tool);
            let command = command.args(["-o", "json"]).args(arguments);
            let output = command.uid(65_534).gid(65_534).output().expect("it runs");
            let ran = Ran::of(output, format!("{arguments:?}"));
            let error = ran.fails(1, "permission");
            let message = text(&error["message"]);
            assert!(
                message.contains(&format!("{BPFFS}/guideway/quiclb"))
                    && message.contains("CAP_BPF and CAP_NET_ADMIN"),
                "{arguments:?}: {message}"
            );
        }
    });
}

#[test]
fn interfaces_that_are_down_are_found_before_and_after() {
    isolated("tool::down", || {
        let (_files, spec) = applied("down");
        quiclb(&["status", INSTANCE]).exits(0);
        ip(&["link", "set", "vm-edge-a", "down"]);
        ip(&["link", "set", "peer-b", "down"]);
        let expected = [
            ("vm-edge-a", "error", "ip link set vm-edge-a up"),
            ("vm-edge-b", "error", "ip link set peer-b up"),
        ];
        let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        assert_eq!(status["health"], "degraded");
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(5).document();
        for (interface, bad, remedy) in expected {
            let found = about(&status["findings"], "target-down", interface);
            assert_eq!(
                (&found["severity"], &found["remedy"]),
                (&json!(bad), &json!(remedy))
            );
            for list in [&plan["preflight"], &diagnosis["checks"]] {
                let check = about(list, "target-down", interface);
                assert_eq!(
                    (&check["result"], &check["remedy"]),
                    (&json!(bad), &json!(remedy))
                );
                let of_interface =
                    |check: &&Value| check["code"] == "target-down" && check["object"] == interface;
                let checks = list.as_array().expect("a list").iter();
                assert_eq!(checks.filter(of_interface).count(), 1, "told once");
            }
        }
        quiclb_json(&["apply", &spec]).fails(1, "preflight");

        ip(&["link", "set", "vm-edge-a", "up"]);
        ip(&["link", "set", "peer-b", "up"]);
        ip(&["link", "set", "client0", "down"]);
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        let check = about(&plan["preflight"], "target-down", "edge0");
        assert_eq!(
            (&check["result"], &check["remedy"]),
            (&json!("warning"), &json!("ip link set client0 up"))
        );
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        let found = about(&status["findings"], "target-down", "edge0");
        assert_eq!(found["severity"], "warning");
    });
}

#[test]
fn a_peer_that_no_longer_polls_is_found_by_status() {
    isolated("tool::deaf", || {
        let (_files, _) = applied("deaf");
        ethtool(&["-K", "peer-b", "gro", "off"]);
        let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        let found = about(&status["findings"], "target-napi", "vm-edge-b");
        assert_eq!(found["severity"], "error");
        assert!(text(&found["remedy"]).contains("ethtool -K peer-b gro on"));
    });
}

#[test]
fn a_plan_tells_of_the_program_in_the_way() {
    isolated("tool::occupied", || {
        machine();
        let files = Files::new("occupied");
        let spec = files.write("spec.json", EXAMPLE);
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        assert_eq!(
            about(&plan["preflight"], "occupied", "edge0")["result"],
            "ok"
        );
        let program = foreign_program("firewall", Kind::Xdp).expect("loaded");
        let _link = foreign_link(ifindex("edge0"), &program).expect("attached");
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        let check = about(&plan["preflight"], "occupied", "edge0");
        assert_eq!(check["result"], "error");
        let named = format!("program {} (firewall) in native mode", program_id(&program));
        assert!(text(&check["message"]).contains(&named), "{check}");
        assert!(check["remedy"].is_string());
        // Said first, and no word of the caller's helps.
        ip(&["link", "set", "vm-edge-a", "down"]);
        quiclb_json(&["apply", &spec, "--force", "occupied"]).fails(4, "occupied");
        quiclb_json(&["apply", &spec]).fails(4, "occupied");
        assert_eq!(state(), Vec::<String>::new());
    });
}

/// Runs the tool in a network namespace of its own, after this was done there.
fn elsewhere(preparation: &str, arguments: &str) -> Ran {
    let tool = binary();
    let script = format!("{preparation} exec {} -o json {arguments}", tool.display());
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .output();
    Ran::of(output.expect("unshare, of util-linux"), script)
}

#[test]
fn an_instance_of_another_network_namespace_is_said_to_be_there() {
    isolated("tool::elsewhere", || {
        let (_files, spec) = applied("elsewhere");
        let index = ifindex("edge0");
        // One of the same name and index is not the same interface either.
        let same = format!("ip link add edge0 index {index} type veth peer name client0;");
        for preparation in ["", &same] {
            let status = elsewhere(preparation, &format!("status {INSTANCE}"));
            let status = status.exits(0).valid("status");
            let codes = status["findings"].as_array().expect("a list").iter();
            let codes: Vec<_> = codes.map(|finding| text(&finding["code"])).collect();
            assert_eq!(codes, ["other-namespace"], "{status:#}");
            let found = &status["findings"][0];
            let message = text(&found["message"]);
            assert!(
                message.contains("another network namespace")
                    && message.contains(&index.to_string()),
                "{message}"
            );
            assert!(text(&found["remedy"]).contains("nsenter --net="), "{found}");
            assert_ne!(status["health"], "detached");
            assert_eq!(status["attachment"]["owner"], "ours");

            let diagnosis = elsewhere(preparation, &format!("doctor {INSTANCE}"));
            let diagnosis = diagnosis.exits(0).document();
            assert_eq!(diagnosis["result"], "warning");
            for code in [
                "no-interface",
                "ifindex-drift",
                "target-down",
                "other-program",
            ] {
                let check = coded(&diagnosis["checks"], code).expect("a check");
                assert_eq!(check["result"], "unknown", "{check}");
            }
        }
        let both = "ip link add edge0 type veth peer name client0;
            ip link add vm-edge-a type veth peer name peer-a;
            ip link add vm-edge-b type veth peer name peer-b;
            for i in edge0 client0 vm-edge-a peer-a vm-edge-b peer-b; do ip link set $i up; done;
            ethtool -K peer-a gro on; ethtool -K peer-b gro on;";
        let before = xdp_seen_by_ip("edge0");
        let error = elsewhere(both, &format!("apply {spec}")).fails(4, "conflict");
        assert!(
            text(&error["message"]).contains("another network namespace"),
            "{error}"
        );
        assert_eq!(xdp_seen_by_ip("edge0"), before);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        assert_eq!(status["findings"], json!([]));
    });
}

#[test]
fn a_diagnosis_of_a_detached_instance_says_so() {
    isolated("tool::detached", || {
        let (_files, _) = applied("detached");
        let attached = |diagnosis: &Value| {
            let check = about(&diagnosis["checks"], "attached", INSTANCE);
            text(&check["result"]).to_owned()
        };
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(0).document();
        assert_eq!(attached(&diagnosis), "ok");
        quiclb(&["detach", INSTANCE]).exits(0);
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(0).document();
        assert_eq!(attached(&diagnosis), "warning");
        assert_eq!(diagnosis["result"], "warning");
        for code in ["other-program", "mode-drift"] {
            let check = coded(&diagnosis["checks"], code).expect("a check");
            assert_eq!(check["result"], "unknown", "{check}");
        }
        let told = quiclb(&["doctor", INSTANCE]).exits(0).stdout;
        assert!(
            told.contains("detached") && !told.contains("what runs is"),
            "{told}"
        );
    });
}

#[test]
fn what_a_lost_record_leaves_unknown_is_not_stated() {
    isolated("tool::unknown_parts", || {
        let (_files, _) = applied("unknown-parts");
        crate::harness::send_initials(3);
        let status = || quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        let told = || quiclb(&["status", INSTANCE]).exits(5).stdout;
        fs::remove_file(state_dir().join("gen/1-record")).expect("removed");
        let found = status();
        assert_eq!(
            found["generation"],
            json!({"number": 1, "digest": null, "age_seconds": null, "high_water": 1})
        );
        assert_eq!(found["reasons"]["forwarded"], 3, "{found:#}");
        assert_eq!(found["mode"], "native", "the interface itself tells");
        let text = told();
        assert!(
            text.contains("digest unknown") && text.contains("services unknown"),
            "{text}"
        );
        fs::remove_file(state_dir().join("gen/1-cells")).expect("removed");
        assert_eq!(status()["generation"], Value::Null);
        let text = told();
        assert!(
            text.contains("generation unknown") && !text.contains("no generation"),
            "{text}"
        );

        fs::remove_file(state_dir().join("maps/gw_ql_reason")).expect("removed");
        assert_eq!(status()["events"], Value::Null);
        let text = told();
        assert!(
            text.contains("packets unknown") && text.contains("events unknown"),
            "{text}"
        );
    });
}

#[test]
fn what_a_killed_first_creation_leaves_is_named_and_removed() {
    isolated("tool::killed", || {
        machine();
        let files = Files::new("killed");
        let spec = files.write("spec.json", example().to_string());
        let parent = state_dir().parent().expect("a directory").to_owned();
        let draft = parent.join(format!("new-{INSTANCE}-0"));
        let other = parent.join("new-1d9016f2-8957-42bc-9dd7-000000000000-0");
        let make = || {
            for section in ["maps", "gen"] {
                fs::create_dir_all(draft.join(section)).expect("made");
            }
            let unfinished = Generation::create("gw_ql_cells", 4096).expect("a map");
            unfinished
                .map()
                .pin(&draft.join("gen/1-cells"))
                .expect("pinned");
        };
        make();
        fs::create_dir_all(&other).expect("made");
        let path = draft.to_str().expect("text").to_owned();

        // A process that lives is still at it.
        let directory = File::open(&draft).expect("opened");
        let held = Flock::lock(directory, FlockArg::LockExclusiveNonblock).expect("free");
        quiclb_json(&["doctor", INSTANCE]).fails(1, "not-found");
        quiclb_json(&["detach", INSTANCE, "--purge"]).fails(1, "not-found");
        drop(held);

        for object in [INSTANCE, &spec] {
            let diagnosis = quiclb_json(&["doctor", object]).exits(0).document();
            let check = about(&diagnosis["checks"], "leftover", &path);
            assert_eq!(check["result"], "warning");
            assert_eq!(check["remedy"], format!("detach {INSTANCE} --purge"));
        }
        quiclb_json(&["detach", INSTANCE]).fails(1, "not-found");
        assert!(draft.exists());
        let detached = quiclb_json(&["detach", INSTANCE, "--purge"])
            .exits(0)
            .document();
        assert_eq!(detached["detached"], false);
        let removed = detached["removed"].as_array().expect("a list");
        assert!(
            removed.contains(&json!(format!("new-{INSTANCE}-0"))),
            "{detached}"
        );
        assert_eq!(names_in(&parent).len(), 1, "another instance's is left");

        fs::remove_dir(&other).expect("removed");
        quiclb(&["apply", &spec]).exits(0);
        make();
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(0).document();
        about(&diagnosis["checks"], "leftover", &path);
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        assert_eq!(names_in(&parent), Vec::<String>::new());
    });
}
