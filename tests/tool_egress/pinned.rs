// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `pins`, and what plans say of them.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::machine::{assert_valid, document, machine, open, send, send_from, shard, sid, Files};
use crate::netns::isolated;
use crate::{egressd, egressd_json};

/// The pins that are listed, each on a line of its own.
#[track_caller]
fn listed(arguments: &[&str]) -> Vec<Value> {
    let ran = egressd_json(&[&["pins"], arguments].concat()).exits(0);
    let lines = ran.stdout.lines();
    let pins = lines.map(|line| serde_json::from_str(line).expect("an object"));
    let pins: Vec<Value> = pins.collect();
    pins.iter().for_each(|pin| assert_valid(&ran.what, pin));
    pins
}

#[track_caller]
fn swept(arguments: &[&str]) -> Value {
    egressd_json(&[&["pins"], arguments].concat())
        .exits(0)
        .document()
}

#[test]
fn pins_are_listed_and_removed_by_what_names_them() {
    isolated("tool_egress::pins", || {
        machine();
        let files = Files::new("pins");
        let mut flows = document();
        flows["classes"][1]["hash"] = json!("flow");
        egressd(&["apply", &files.write("spec.json", &flows)]).exits(0);
        assert_eq!(listed(&[]), [] as [Value; 0]);
        let went = send_from(20);
        send("tap0", "2001:db8:aaaa::1", "64:ff9b::1");
        send("tap1", "2001:db8:bbbb::1", "2001:db8:ffff::1");

        let pins = listed(&[]);
        assert_eq!(pins.len(), 22);
        let shards: BTreeMap<_, _> = pins
            .iter()
            .filter(|pin| pin["table"] == 42 && pin["group"] == 0)
            .map(|pin| (pin["source"].as_str().expect("text"), &pin["shard"]))
            .collect();
        for (host, went) in (1..).zip(&went) {
            let source = format!("2001:db8:aaaa::{host:x}");
            assert_eq!(shards[source.as_str()], &json!(sid(*went)), "{source}");
        }
        let flow = pins.iter().find(|pin| pin["group"] == 1).expect("a flow");
        assert_eq!(
            flow["flow"],
            json!({"protocol": 17, "source_port": 0x3039, "destination": "64:ff9b::1",
                "destination_port": 443})
        );
        assert_eq!(flow["standing"], "live");
        assert_eq!(flow["class"], "nat64:64:ff9b::/96");
        assert_eq!(listed(&["--limit", "7"]).len(), 7);
        assert_eq!(listed(&["--table", "43"]).len(), 1);
        assert_eq!(listed(&["--table", "42", "--group", "0"]).len(), 20);
        assert_eq!(
            listed(&["--table", "42", "--source", "2001:db8:aaaa::1"]).len(),
            2
        );
        let said = egressd(&["pins", "--group", "1"]).exits(0).stdout;
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(
            said.contains("port 12345 to 64:ff9b::1 port 443 protocol 17"),
            "{said}"
        );

        // Nothing is idle, and nobody is gone.
        let report = swept(&["--expire"]);
        assert_eq!(
            (&report["rule"], &report["found"]["live"]),
            (&json!("expire"), &json!(22))
        );
        assert_eq!(
            report["removed"],
            json!({"idle": 0, "stale": 0, "tenant": 0, "called": 0})
        );

        let one = [
            "--remove",
            "--table",
            "42",
            "--source",
            "2001:db8:aaaa::1",
            "--group",
            "0",
        ];
        assert_eq!(swept(&one)["removed"]["called"], 1);
        let pin = &listed(&["--table", "42", "--source", "2001:db8:aaaa::2"])[0];
        let [slot, generation] = ["slot", "generation"].map(|name| pin[name].to_string());
        let shard = pin["shard"].clone();
        let held = listed(&["--group", "0"]);
        let held = held.iter().filter(|pin| pin["shard"] == shard).count();
        let member = [
            "--remove",
            "--group",
            "0",
            "--slot",
            &slot,
            "--generation",
            &generation,
        ];
        assert_eq!(swept(&member)["removed"]["called"], held);
        assert!(listed(&["--group", "0"])
            .iter()
            .all(|pin| pin["shard"] != shard));
        assert_eq!(swept(&["--remove", "--group", "1"])["removed"]["called"], 1);
        let before = listed(&["--table", "42"]).len();
        assert_eq!(
            swept(&["--remove", "--table", "42"])["removed"]["called"],
            before
        );
        assert_eq!(listed(&[]).len(), listed(&["--table", "43"]).len());
        // The counts went with them.
        egressd(&["status"]).exits(0);
    });
}

#[test]
fn pins_of_a_tenant_that_there_is_not_are_not_found() {
    isolated("tool_egress::no_tenant", || {
        machine();
        let files = Files::new("no-tenant");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        // One without pins is no fault.
        assert_eq!(listed(&["--table", "42"]), [] as [Value; 0]);
        let error = egressd_json(&["pins", "--table", "99"]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(message.starts_with("tenant 99 has neither"), "{message}");
        let said = egressd(&["pins", "--table", "99"]).exits(1).stdout;
        assert_eq!(said, "");
    });
}

#[test]
fn a_removal_must_say_what_and_have_the_lock() {
    isolated("tool_egress::removal", || {
        machine();
        let files = Files::new("removal");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        send_from(3);
        for wrong in [
            &["--remove"][..],
            &["--remove", "--source", "2001:db8:aaaa::1"],
            &["--remove", "--group", "64"],
            &["--remove", "--group", "0", "--slot", "0"],
            &["--group", "0", "--slot", "0", "--generation", "1"],
            &["--expire", "--table", "42"],
            &["--expire", "--remove"],
        ] {
            egressd_json(&[&["pins"], wrong].concat()).fails(2, "usage");
        }
        let writer = guideway::egress::Writer::open(open().dir()).expect("free");
        for verb in [&["--expire"][..], &["--remove", "--table", "42"]] {
            egressd_json(&[&["pins", "--wait", "0"], verb].concat()).fails(4, "locked");
        }
        assert_eq!(listed(&[]).len(), 3);
        drop(writer);
    });
}

#[test]
fn a_plan_says_whose_pins_move_and_who_would_without_them() {
    isolated("tool_egress::risk", || {
        machine();
        let files = Files::new("risk");
        let apply = |shards: &[u16]| {
            let mut document = document();
            let shards: Vec<_> = shards.iter().map(|&number| shard(number)).collect();
            document["classes"][0]["shards"] = json!(shards);
            files.write("spec.json", &document)
        };
        egressd(&["apply", &apply(&[0x10, 0x11])]).exits(0);
        let before = send_from(60);
        let plan = |path: &str| egressd_json(&["plan", path]).exits(0).document();

        // A third shard takes slots, and nobody who is pinned.
        let three = apply(&[0x10, 0x11, 0x13]);
        let foreseen = plan(&three)["classes"][0]["pins"].clone();
        egressd(&["apply", &three]).exits(0);
        assert_eq!(send_from(60), before);
        assert_eq!(
            (&foreseen["live"], &foreseen["stay"]),
            (&json!(60), &json!(60))
        );
        let off_table = plan(&three)["classes"][0]["pins"]["off_table"].clone();
        assert_eq!(off_table, foreseen["off_table"]);
        // The kernel's own answer: without pins so many go elsewhere.
        egressd(&["pins", "--remove", "--table", "42"]).exits(0);
        let after = send_from(60);
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(one, other)| one != other);
        let moved = moved.count();
        assert!(moved > 0);
        assert_eq!(off_table, moved);

        // One leaves, and nothing reaches another.
        let mut less = document();
        less["classes"][0]["shards"] = json!([shard(0x10), {"sid": sid(0x13), "next_hop": null}]);
        let path = files.write("less.json", &less);
        let planned = plan(&path);
        let pins = &planned["classes"][0]["pins"];
        let held = |number: u16| after.iter().filter(|went| **went == number).count();
        assert_eq!(pins["leaving"], held(0x11));
        assert_eq!(pins["unreachable"], held(0x13));
        assert_eq!(pins["stay"], held(0x10));
        let members = planned["classes"][0]["members"].as_array().expect("a list");
        let of = |number| {
            members
                .iter()
                .find(|one| one["sid"] == sid(number))
                .expect("there")
        };
        assert_eq!(of(0x11)["pins"], held(0x11));
        assert_eq!(of(0x11)["change"], "leaves");
        assert_eq!(of(0x13)["is"], "unreachable");

        // Hashed by something else nobody's pin is looked at, and a tenant takes its own with it.
        let mut other = document();
        other["classes"][0]["hash"] = json!("flow");
        let released = plan(&files.write("flow.json", &other));
        assert_eq!(released["classes"][0]["pins"]["released"], 60);
        let mut gone = document();
        gone["tenants"].as_array_mut().expect("a list").remove(0);
        let gone = plan(&files.write("gone.json", &gone));
        assert_eq!(gone["classes"][0]["pins"]["removed"], 60);
        assert_eq!(gone["tenants_removed"], json!([{"table": 42, "pins": 60}]));
    });
}
