// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `status` of what keeps an instance in line: its loop, other writers, and the kernel.

use std::collections::BTreeSet;
use std::time::Duration;

use guideway::control::metrics::{Label, Optional};
use guideway::egress::{Loader, LoopMode, LoopReport, To, Writer};
use guideway::group::Class;
use guideway::kernel::statedir::{Section, StateRoot};
use guideway::kernel::{clock, record};
use guideway::route::{Origin, Prefix, TableId};
use guideway::srv6::Argument;
use guideway::tenant::{PinQuota, Tenant};
use serde_json::{json, Value};

use crate::machine::{document, machine, shard, sid, state, Files};
use crate::netns::{isolated, BPFFS};
use crate::{egressd, egressd_json};

fn writer() -> Writer {
    let dir = StateRoot::new(BPFFS).egress();
    Loader::new(&dir).open().expect("an instance")
}

#[track_caller]
fn status(code: i32) -> Value {
    egressd_json(&["status"]).exits(code).document()
}

/// Code, object and severity of each finding.
fn found(status: &Value) -> Vec<[&str; 3]> {
    let findings = status["findings"].as_array().expect("a list").iter();
    findings
        .map(|one| ["code", "object", "severity"].map(|key| one[key].as_str().expect("text")))
        .collect()
}

/// A loop that swept a moment ago, as it should, and is told to have one active member of NAT66.
fn sound() -> LoopReport {
    let now = clock::monotonic_ns();
    let mut report = LoopReport::new(LoopMode::Hashed, now);
    report.classes = vec!["nat66".to_owned()];
    report.pool_min_active = 1;
    report.interval_ns = Some(Duration::from_secs(30).as_nanos() as u64);
    report.swept(now, []);
    report
}

#[test]
fn routes_of_others_to_groups_are_listed_and_the_text_has_an_end() {
    isolated("tool_egress::foreign", || {
        machine();
        let files = Files::new("foreign");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let before = status(0);
        assert_eq!(before["routes"]["foreign_to_groups"], json!([]));
        let tenant = Tenant {
            pin_quota: PinQuota(1024),
            ..Tenant::new(TableId::new(43), Argument::new(0x2a6).expect("in range"))
        };
        let prefix = |number: u16| -> Prefix {
            let text = format!("2001:db8:{number:x}::/48");
            text.parse().expect("a prefix")
        };
        {
            let writer = writer();
            let guard = writer.write_routes(Duration::ZERO).expect("free");
            guard.set_origin(Origin(7));
            let ticket = guard.ticket(Class::Nat66).expect("open");
            for number in 1..=23 {
                let to = To::Group(&ticket);
                guard.put(&tenant, prefix(number), to).expect("room");
            }
            // One that names no group is counted, and not listed.
            guard.put(&tenant, prefix(24), To::Pass).expect("room");
        }
        let status = status(0);
        assert_eq!(status["routes"]["foreign"], 24);
        let group = &status["groups"][0];
        assert_eq!(
            (&group["routes"], &group["foreign_routes"]),
            (&json!(25), &json!(23))
        );
        assert_eq!(status["groups"][1]["foreign_routes"], 0);
        let listed = status["routes"]["foreign_to_groups"]
            .as_array()
            .expect("a list");
        let wanted = |number: u16| {
            json!({
                "table": 43, "prefix": prefix(number).to_string(), "group": 0, "class": "nat66",
                "incarnation": group["incarnation"], "origin": 7,
            })
        };
        assert_eq!(*listed, (1..=23).map(wanted).collect::<Vec<_>>());

        let said = egressd(&["status"]).exits(0).stdout;
        let lines = said.lines().filter(|line| line.contains("2001:db8:"));
        let lines: Vec<_> = lines.filter(|line| line.contains("/48")).collect();
        assert_eq!(lines.len(), 20, "{said}");
        let words: Vec<_> = lines[0].split_whitespace().collect();
        let incarnation = group["incarnation"].to_string();
        let first = prefix(1).to_string();
        assert_eq!(
            words,
            ["43", &first, "0", "nat66", &incarnation, "7"],
            "{said}"
        );
        assert!(said.contains("and 3 more"), "{said}");
        assert!(said.contains("routes 25 (23 of others)"), "{said}");
    });
}

#[test]
fn a_loop_that_does_its_work_is_shown_and_no_fault() {
    isolated("tool_egress::loop", || {
        machine();
        let files = Files::new("loop");
        let path = files.write("spec.json", &document());
        egressd(&["apply", &path]).exits(0);
        assert_eq!(status(0)["loop"], Value::Null);
        writer().report_loop(&sound()).expect("told");
        let before = state();
        let status = status(0);
        let shown = &status["loop"];
        assert_eq!(shown["mode"], "hashed");
        assert_eq!(shown["classes"], json!(["nat66"]));
        assert_eq!(shown["pool_min_active"], 1);
        assert_eq!(shown["interval_seconds"], 30.0);
        assert_eq!(shown["unsynced"], Value::Null);
        for ago in ["swept_seconds_ago", "succeeded_seconds_ago"] {
            let ago = shown[ago].as_f64().expect("a number");
            assert!((0.0..100.0).contains(&ago), "{shown}");
        }
        let said = egressd(&["status"]).exits(0).stdout;
        assert!(
            said.contains("loop: hashed, sweeps every 30 s; swept "),
            "{said}"
        );
        assert_eq!(state(), before, "it was looked at alone");
        // Who applies a specification takes over: nothing is judged by what the loop was told.
        egressd(&["apply", &path]).exits(0);
        assert_eq!(self::status(0)["loop"], Value::Null);
    });
}

#[test]
fn a_loop_that_does_not_do_its_work_is_degraded() {
    isolated("tool_egress::bad_loop", || {
        machine();
        let files = Files::new("bad-loop");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let told = |report: &LoopReport| {
            writer().report_loop(report).expect("told");
        };
        // Four intervals and more since it did something.
        let mut report = sound();
        report.interval_ns = Some(1_000_000);
        report.swept(clock::monotonic_ns(), []);
        told(&report);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(found(&status(5)), [["stale-sweep", "loop", "error"]]);
        // One sweep alone is not followed by another one.
        report.interval_ns = None;
        told(&report);
        assert_eq!(found(&status(0)), [[""; 3]; 0]);

        // It tries, and has not failed for long.
        let mut report = sound();
        let failures = (0..20).map(|number| format!("census: route {number}"));
        report.swept(clock::monotonic_ns(), failures);
        told(&report);
        let status = status(0);
        assert_eq!(found(&status), [["failing-sweep", "loop", "warning"]; 8]);
        assert_eq!(status["findings"][0]["message"], "census: route 0");

        let mut report = sound();
        report.unsynced = Some("b.json: is not JSON".to_owned());
        told(&report);
        let status = self::status(5);
        assert_eq!(found(&status), [["unsynced", "loop", "error"]]);
        assert_eq!(status["findings"][0]["message"], "b.json: is not JSON");

        // Two of two are active, and nobody has a group of this prefix.
        let mut report = sound();
        report.pool_min_active = 3;
        report.classes.push("nat64:64:ff9b:1::/96".to_owned());
        told(&report);
        assert_eq!(
            found(&self::status(5)),
            [
                ["below-minimum", "nat66", "error"],
                ["unserved-class", "nat64:64:ff9b:1::/96", "error"],
            ]
        );
        report.pool_min_active = 2;
        report.classes.pop();
        told(&report);
        assert_eq!(found(&self::status(0)), [[""; 3]; 0]);
        // Ordered mode has no groups.
        report.mode = LoopMode::Ordered;
        report.pool_min_active = 3;
        told(&report);
        assert_eq!(found(&self::status(0)), [[""; 3]; 0]);
    });
}

#[test]
fn what_the_loop_said_is_kept_by_a_migration() {
    isolated("tool_egress::kept_loop", || {
        machine();
        let files = Files::new("kept-loop");
        let mut spec = document();
        egressd(&["apply", &files.write("spec.json", &spec)]).exits(0);
        let mut report = sound();
        report.interval_ns = Some(1_000_000);
        report.swept(clock::monotonic_ns(), []);
        writer().report_loop(&report).expect("told");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(found(&status(5)), [["stale-sweep", "loop", "error"]]);
        spec["limits"]["pins"] = json!(8192);
        let more = files.write("more.json", &spec);
        egressd(&["migrate", &more]).exits(0);
        assert_eq!(found(&status(5)), [["stale-sweep", "loop", "error"]]);
        // The next one takes over from it.
        let mut writer = writer();
        assert_eq!(writer.loop_report().expect("readable"), Some(report));
        writer.report_loop(&sound()).expect("told");
        drop(writer);
        assert_eq!(found(&status(0)), [[""; 3]; 0]);
    });
}

#[test]
fn successes_of_the_loop_before_count_and_its_beginning() {
    let mut first = LoopReport::new(LoopMode::Hashed, 1_000);
    first.interval_ns = Some(100);
    assert_eq!(first.stale(1_400), None);
    assert_eq!(first.stale(1_401), Some(Duration::from_nanos(401)));
    // One that starts again and again, and always fails.
    let mut second = LoopReport::new(LoopMode::Hashed, 1_350);
    second.interval_ns = Some(100);
    second.succeeds(&first);
    second.swept(1_380, ["no".to_owned()]);
    assert!(second.stale(1_401).is_some());
    second.swept(1_400, []);
    assert_eq!(second.stale(1_800), None);
    let mut third = LoopReport::new(LoopMode::Hashed, 1_900);
    third.interval_ns = Some(100);
    third.succeeds(&second);
    assert_eq!(third.stale(1_900), Some(Duration::from_nanos(500)));
}

#[test]
fn what_the_loop_said_in_another_version_is_no_reason_to_see_nothing() {
    isolated("tool_egress::odd_loop", || {
        machine();
        let files = Files::new("odd-loop");
        let mut spec = document();
        spec["classes"][0]["shards"] = json!([shard(0x10)]);
        egressd(&["apply", &files.write("spec.json", &spec)]).exits(0);
        let pin = StateRoot::new(BPFFS)
            .egress()
            .pin(Section::Generations, "loop");
        for text in ["{\"form\": \"guideway.egress.loop/v9\"}", "oops"] {
            let _ = std::fs::remove_file(&pin);
            let map = record::write("gw_eg_loop", text.as_bytes()).expect("a record");
            map.pin(&pin).expect("pinned");
            let status = status(5);
            assert_eq!(found(&status), [["unknown-rows", "loop", "error"]]);
            assert_eq!(status["groups"][0]["members"][0]["sid"], sid(0x10));
        }
        // The next one says it anew.
        writer().report_loop(&sound()).expect("told");
        assert_eq!(found(&status(0)), [[""; 3]; 0]);
    });
}

#[test]
fn what_the_kernel_can_do_is_shown() {
    isolated("tool_egress::kernel", || {
        machine();
        let files = Files::new("kernel");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let status = status(0);
        let checks = status["preflight"].as_array().expect("a list");
        let check = |name: &str| {
            checks
                .iter()
                .find(|check| check["name"] == name)
                .expect("tried")
        };
        let tcx = guideway::kernel::probe::features().tcx.expect("known");
        for (name, there) in [("tcx", tcx), ("updates in batches", true)] {
            assert_eq!(check(name)["needed"], false, "{name}");
            assert_eq!(check(name)["missing"].is_null(), there, "{name}");
        }
        // Those that scrapes know by other names.
        let optional = checks.iter().filter(|check| check["needed"] == false);
        let optional: BTreeSet<_> = optional.map(|check| check["name"].as_str()).collect();
        let known = Optional::ALL.iter().map(|one| Some(one.check())).collect();
        assert_eq!(optional, known);
        let needed = checks.iter().filter(|check| check["needed"] == true);
        let missing: Vec<_> = needed.filter(|check| !check["missing"].is_null()).collect();
        assert_eq!(missing, [&Value::Null; 0]);
        let said = egressd(&["status"]).exits(0).stdout;
        let tcx = if tcx { "tcx" } else { "no tcx" };
        assert!(
            said.contains(&format!("kernel: updates in batches, {tcx}\n")),
            "{said}"
        );
    });
}
