// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `watch`: rates of what happens while it looks, and repairs if it is asked to.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{json, Value};

use crate::harness::{
    assert_valid, command, draining, example, machine, poll, quiclb, quiclb_json, send_initials,
    Files, EXAMPLE, INSTANCE,
};
use crate::netns::{ip, isolated, veth};
use crate::run::quick;

#[test]
fn what_arrives_while_it_looks_is_a_rate() {
    isolated("tool::watch", || {
        machine();
        let files = Files::new("watch");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        let watching = command(&[
            "-o",
            "json",
            "watch",
            INSTANCE,
            "--interval",
            "2s",
            "--count",
            "2",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool");
        sleep(Duration::from_millis(700));
        send_initials(40);
        let output = watching.wait_with_output().expect("its end");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        let mut packets = 0.0;
        for line in &lines {
            assert_valid("watch", line);
            assert_eq!(line["schema"], "guideway.quiclb.watch/v1");
            let seconds = line["interval_seconds"].as_f64().expect("a number");
            assert!((2.0..10.0).contains(&seconds), "{line}");
            let service = &line["services"][0];
            assert_eq!(service["name"], "quic-api");
            let rate = service["packets_per_second"].as_f64().expect("a number");
            packets += rate * seconds;
            let backends = service["backends"].as_array().expect("backends");
            let shares: f64 = backends.iter().filter_map(|b| b["share"].as_f64()).sum();
            assert!((shares - 1.0).abs() < 1e-9 || rate == 0.0, "{line}");
        }
        assert_eq!(packets.round(), 40.0, "{text}");
        let text = quiclb(&["watch", INSTANCE, "--interval", "100ms", "--count", "1"]).exits(0);
        assert!(
            text.stdout.contains("not forwarded: none"),
            "{}",
            text.stdout
        );
    });
}

#[test]
fn an_interface_that_is_made_again_is_followed() {
    isolated("tool::watch_repair", || {
        machine();
        let files = Files::new("watch-repair");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        ip(&["link", "del", "vm-edge-a"]);
        veth("vm-edge-a", "peer-a");
        poll("peer-a");
        quiclb(&["status", INSTANCE]).exits(5);
        let watch = ["watch", INSTANCE, "--interval", "1500ms", "--count", "2"];
        let line = quiclb(&watch).exits(0);
        assert!(
            line.stdout.contains("vm-edge-a"),
            "looking repairs nothing: {}",
            line.stdout
        );
        quiclb(&["status", INSTANCE]).exits(5);
        quiclb(&[&watch[..], &["--repair"]].concat()).exits(0);
        quiclb(&["status", INSTANCE]).exits(0);
    });
}

#[test]
fn the_work_of_run_goes_on_between_its_lines() {
    isolated("tool::watch_collect", || {
        machine();
        let files = Files::new("watch-collect");
        let first = files.write("first.json", quick(example()).to_string());
        let second = files.write("second.json", quick(draining()).to_string());
        quiclb(&["apply", &first]).exits(0);
        quiclb(&["apply", &second]).exits(0);
        // Windows of three seconds; slots are released by a sweep of its own afterwards.
        let watch = [
            "watch",
            INSTANCE,
            "--repair",
            "--interval",
            "12s",
            "--count",
            "1",
        ];
        let line = quiclb_json(&watch).exits(0).document();
        assert_eq!(line["problem"], Value::Null);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        let flows = &status["affinity"]["flows"];
        let marks = (&flows["open_slots"], &flows["held_slots"]);
        assert_eq!(marks, (&json!(0), &json!(0)));
    });
}

#[test]
fn there_must_be_something_to_watch() {
    isolated("tool::watch_nothing", || {
        quiclb_json(&["watch", INSTANCE, "--count", "1"]).fails(1, "not-found");
        for wrong in ["0", "50ms", "soon"] {
            quiclb_json(&["watch", INSTANCE, "--interval", wrong]).fails(2, "usage");
        }
    });
}
