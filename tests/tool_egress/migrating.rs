// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `migrate` and `retire`.

use std::time::Duration;

use guideway::egress::{Egress, To};
use guideway::group::Class;
use guideway::kernel::statedir::Section;
use guideway::route::{Origin, TableId};
use guideway::srv6::Argument;
use guideway::tenant::Tenant;
use serde_json::{json, Value};

use crate::machine::{document, machine, open, send, send_from, state, Files};
use crate::netns::isolated;
use crate::{egressd, egressd_json};

fn applied(test: &str) -> (Files, String) {
    machine();
    let files = Files::new(test);
    let path = files.write("spec.json", &document());
    egressd(&["apply", &path]).exits(0);
    (files, path)
}

#[test]
fn limits_change_while_everything_is_kept() {
    isolated("tool_egress::migrate", || {
        let (files, path) = applied("migrate");
        let pins = send_from(20);
        // Another specification's limits are refused, and the error names the way.
        let mut more = document();
        more["limits"]["pins"] = json!(8192);
        let more = files.write("more.json", &more);
        let before = state();
        let error = egressd_json(&["apply", &more]).fails(4, "conflict");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("made for pins 4096, not 8192"),
            "{message}"
        );
        assert!(message.contains("egressd migrate"), "{message}");

        let planned = egressd_json(&["migrate", &more, "--dry-run"]);
        let planned = planned.exits(0).document();
        assert_eq!(planned["result"], "planned");
        let change = json!([{"limit": "pins", "before": 4096, "after": 8192, "used": 20}]);
        assert_eq!(planned["limits"], change);
        assert_eq!(state(), before);

        let migrated = egressd_json(&["migrate", &more]).exits(0).document();
        assert_eq!(migrated["result"], "migrated");
        assert_eq!(migrated["maps"], json!(["gw_pins"]));
        assert_eq!(migrated["copied"]["pins"], 20);
        assert_eq!(migrated["interrupted"], "sound");
        let names: Vec<_> = migrated["interfaces"]
            .as_array()
            .expect("a list")
            .iter()
            .collect();
        assert_eq!(names.len(), 2);
        assert_eq!(send_from(20), pins);
        let said = egressd(&["apply", &more]).exits(0).stdout;
        assert!(said.starts_with("nothing changed"), "{said}");
        let said = egressd(&["migrate", &more]).exits(0).stdout;
        assert_eq!(said, "nothing to do\n");

        let said = egressd(&["migrate", "--pins", "20", "--members", "4"])
            .exits(0)
            .stdout;
        assert!(said.contains("pins: 8192 -> 20, 20 in use"), "{said}");
        assert!(
            said.contains("the new program runs on tap0, tap1"),
            "{said}"
        );
        assert_eq!(send_from(20), pins);
        drop(path);
    });
}

#[test]
fn what_cannot_be_migrated_is_refused_and_nothing_is_changed() {
    isolated("tool_egress::migrate_refused", || {
        let said = egressd_json(&["migrate", "--pins", "8"]).fails(1, "not-found");
        assert!(said["message"]
            .as_str()
            .expect("text")
            .contains("there is no instance"));
        let (_files, _) = applied("migrate-refused");
        send_from(20);
        let before = state();
        for dry in [&["--dry-run"][..], &[]] {
            let arguments = [&["migrate", "--pins", "19", "--groups", "1"], dry].concat();
            let error = egressd_json(&arguments).fails(4, "conflict");
            assert_eq!(
                error["message"],
                "2 groups are in use, 1 are wanted; 20 pins are in use, 19 are wanted; want at least as \
                 many, or remove some first"
            );
        }
        egressd_json(&["migrate", "--pins", "0"]).fails(2, "usage");
        egressd_json(&["migrate", "--ring-bytes", "5000"]).fails(2, "usage");
        egressd_json(&["migrate", "--state-version", "2"]).fails(2, "usage");
        // Which older versions do not know is looked at before anything is changed.
        for version in ["1.9", "2.99", "3.0"] {
            let error = egressd_json(&["migrate", "--state-version", version]);
            let error = error.fails(4, "incompatible");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(&format!("state of version {version} cannot be made")));
        }
        let said = egressd(&["migrate", "--state-version", "2.0"])
            .exits(0)
            .stdout;
        assert_eq!(said, "nothing to do\n");
        let publisher = open().dir().publisher().expect("free");
        let error = egressd_json(&["migrate", "--pins", "8192"]).fails(4, "locked");
        assert!(error["message"]
            .as_str()
            .expect("text")
            .contains("has a publisher"));
        drop(publisher);
        let writer = guideway::egress::Writer::open(open().dir()).expect("free");
        egressd_json(&["migrate", "--pins", "8192", "--wait", "0"]).fails(4, "locked");
        drop(writer);
        assert_eq!(state(), before);
    });
}

/// Writes a route of tenant 42 to the group of NAT66, as another writer than the loop.
fn write_foreign(egress: &Egress) {
    let guard = egress.write_routes(Duration::from_secs(5)).expect("free");
    guard.set_origin(Origin(7));
    let ticket = guard.ticket(Class::Nat66).expect("open");
    let argument = Argument::new(0x2a5).expect("an Argument");
    let tenant = Tenant::new(TableId::new(42), argument);
    let there = egress.tenants().expect("rows");
    let tenant = there.values().find(|row| row.table == tenant.table);
    let prefix = "2001:db8:5::/48".parse().expect("a prefix");
    let to = To::Group(&ticket);
    guard.put(tenant.expect("a row"), prefix, to).expect("room");
}

#[test]
fn a_class_is_retired_when_no_route_leads_to_it() {
    isolated("tool_egress::retire", || {
        let (_files, path) = applied("retire");
        let before = state();
        egressd_json(&["retire", "nat67"]).fails(2, "usage");
        egressd_json(&["retire", "nat64:2001:db8::/96"]).fails(1, "not-found");
        // Those that apply keeps are to be blocked if somebody says so.
        let error = egressd_json(&["retire", "nat66"]).fails(4, "conflict");
        let message = error["message"].as_str().expect("text");
        assert!(message.starts_with("2 routes lead to nat66: "), "{message}");
        assert!(
            message.contains("::/0 of table 42, kept by the control loop"),
            "{message}"
        );
        assert!(
            message.contains("::/0 of table 43, kept by the control loop"),
            "{message}"
        );
        assert!(message.contains("--block"), "{message}");
        assert_eq!(state(), before);

        // Those of others never are.
        write_foreign(&open());
        let before = state();
        let error = egressd_json(&["retire", "nat66", "--block"]).fails(4, "conflict");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("1 routes lead to nat66: 2001:db8:5::/48 of table 42, of writer 7"),
            "{message}"
        );
        assert_eq!(state(), before);
        let publisher = open().dir().publisher().expect("free");
        egressd_json(&["retire", "nat66", "--block"]).fails(4, "locked");
        drop(publisher);

        let egress = open();
        let guard = egress.write_routes(Duration::from_secs(5)).expect("free");
        let prefix = "2001:db8:5::/48".parse().expect("a prefix");
        assert!(guard.remove(TableId::new(42), prefix).expect("removed"));
        drop(guard);
        let retired = egressd_json(&["retire", "nat66", "--block"])
            .exits(0)
            .document();
        assert_eq!(retired["class"], "nat66");
        let groups = retired["groups"].as_array().expect("a list");
        let group = |member: &str| -> &Value { &groups[0][member] };
        assert_eq!(
            (group("blocked"), group("was_closing")),
            (&json!(2), &json!(false))
        );
        assert_eq!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1"), None);
        // The other class forwards.
        let there = send("tap0", "2001:db8:aaaa::1", "64:ff9b::1");
        assert_eq!(there, Some(0x12));
        egressd_json(&["retire", "nat66"]).fails(1, "not-found");
        // It comes back with the specification.
        egressd(&["apply", &path]).exits(0);
        assert!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1").is_some());
    });
}

#[test]
fn a_group_that_is_damaged_keeps_nobody_from_retiring_another_class() {
    isolated("tool_egress::retire_damaged", || {
        let (_files, _path) = applied("retire-damaged");
        let groups = open().groups().expect("read");
        let hashed = groups.iter().find(|group| group.class == Class::Nat66);
        let lost = groups.iter().find(|group| group.class != Class::Nat66);
        let (hashed, lost) = (hashed.expect("a group"), lost.expect("another one"));
        let pin = format!("g{}", lost.group);
        // Nobody can read it any more, and packets go on by it.
        std::fs::remove_file(open().dir().pin(Section::Generations, &pin)).expect("a pin");
        let class = lost.class.to_string();
        egressd_json(&["retire", &class]).fails(4, "incompatible");
        let retired = egressd_json(&["retire", "nat66", "--block"])
            .exits(0)
            .document();
        assert_eq!(retired["groups"][0]["group"], hashed.group.get());
        assert_eq!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1"), None);
        let there = send("tap0", "2001:db8:aaaa::1", "64:ff9b::1");
        assert_eq!(there, Some(0x12));
    });
}
