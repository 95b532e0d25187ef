// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `plan` and `apply`.

use guideway::egress::To;
use guideway::kernel::tc;
use guideway::route::{Block, Origin, TableId};
use guideway::srv6::Argument;
use guideway::tenant::Tenant;
use serde_json::{json, Value};

use crate::machine::{document, machine, open, shard, sid, state, Files};
use crate::netns::{foreign_program, isolated, Kind};
use crate::{egressd, egressd_json};

#[track_caller]
fn plan(path: &str) -> Value {
    egressd_json(&["plan", path]).exits(0).document()
}

#[track_caller]
fn apply(path: &str) -> Value {
    egressd_json(&["apply", path]).exits(0).document()
}

fn names(list: &Value) -> Vec<&str> {
    let names = list.as_array().expect("a list").iter();
    names
        .map(|one| one["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn a_plan_changes_nothing_and_says_what_an_apply_then_does() {
    isolated("tool_egress::apply", || {
        machine();
        let files = Files::new("apply");
        let path = files.write("spec.json", &document());
        let planned = plan(&path);
        assert_eq!(state(), "", "a plan makes no instance");
        assert_eq!(planned["result"], "create");
        assert_eq!(names(&planned["attached"]), ["tap0", "tap1"]);
        let classes = planned["classes"].as_array().expect("a list");
        assert_eq!(classes.len(), 2);
        assert_eq!(classes[0]["class"], "nat66");
        assert_eq!(classes[0]["change"], "open");
        assert_eq!(classes[1]["class"], "nat64:64:ff9b::/96");
        let members = classes[0]["members"].as_array().expect("a list");
        assert_eq!(members.len(), 2);
        assert_eq!(members[0]["sid"], sid(0x10));
        assert_eq!(members[0]["was"], Value::Null);
        assert_eq!(members[0]["is"], "active");
        // Of 1,021 slots, 511 and 510.
        let shares: u64 = members
            .iter()
            .map(|one| one["slots_after"].as_u64().unwrap())
            .sum();
        assert_eq!(shares, 1021);
        let tenants = planned["tenants"].as_array().expect("a list");
        assert_eq!(
            tenants[0]["routes"],
            json!([
                {"prefix": "::/0", "from": null, "to": "nat66"},
                {"prefix": "64:ff9b::/96", "from": null, "to": "nat64:64:ff9b::/96"},
                {"prefix": "10.0.0.0/8", "from": null, "to": "block"},
            ])
        );
        assert_eq!(tenants[0]["interfaces"][0]["interface"]["name"], "tap0");
        assert_eq!(tenants[0]["interfaces"][0]["change"], "added");
        assert!(planned["memory_total_bytes"].as_u64().expect("a number") > 4096 * 88);

        let applied = apply(&path);
        assert_eq!(applied["result"], "created");
        assert_eq!(applied["digest"], planned["digest"]);
        assert_eq!(applied["groups"].as_array().expect("a list").len(), 2);
        assert_eq!(applied["routes_written"], 5);
        assert_eq!(names(&applied["attached"]), ["tap0", "tap1"]);
        let egress = open();
        assert_eq!(egress.tenants().expect("readable").len(), 2);
        assert_eq!(egress.routes(TableId::new(42)).expect("readable").len(), 3);

        // A second time there is nothing to do, and both say so.
        let before = state();
        assert_eq!(plan(&path)["result"], "unchanged");
        assert_eq!(apply(&path)["result"], "unchanged");
        assert_eq!(state(), before);
        let said = egressd(&["plan", &path]).exits(0).stdout;
        assert!(said.starts_with("changes nothing\n"), "{said}");
        let said = egressd(&["apply", &path]).exits(0).stdout;
        assert!(said.starts_with("nothing changed\n"), "{said}");
    });
}

#[test]
fn a_change_is_told_by_class_tenant_and_route_before_it_is_made() {
    isolated("tool_egress::change", || {
        machine();
        let files = Files::new("change");
        apply(&files.write("first.json", &document()));
        let mut changed = document();
        changed["encap"] = json!({"hop_limit": 17});
        changed["classes"] = json!([{"class": "nat66", "shards": [shard(0x10), shard(0x13)]}]);
        changed["tenants"] = json!([{"table": 42, "argument": "0x2a5", "pin_quota": 1024,
            "interfaces": [{"name": "tap1", "gateway6": "fe80::1"}],
            "routes": [{"prefix": "10.0.0.0/8", "to": "pass"}]}]);
        let path = files.write("second.json", &changed);
        let before = state();
        let planned = plan(&path);
        let said = egressd(&["plan", &path]).exits(0).stdout;
        assert_eq!(state(), before);
        assert_eq!(
            planned["configuration"],
            json!([{"member": "hop_limit", "from": 64, "to": 17}])
        );
        let class = &planned["classes"][0];
        assert_eq!(class["change"], "update");
        let members: Vec<_> = class["members"]
            .as_array()
            .expect("a list")
            .iter()
            .collect();
        let told = |one: &&Value| (one["sid"].clone(), one["change"].clone());
        let told: Vec<_> = members.iter().map(told).collect();
        assert_eq!(
            told,
            [(0x10, "stays"), (0x11, "leaves"), (0x13, "joins")]
                .map(|(number, change)| (json!(sid(number)), json!(change)))
        );
        // What the one who leaves had is forced to move, and nothing of the others needs to.
        assert_eq!(class["forced"], members[1]["slots_before"]);
        assert_eq!(planned["retired"][0]["class"], "nat64:64:ff9b::/96");
        assert_eq!(planned["tenants"][0]["interfaces"][0]["taken_from"], 43);
        assert_eq!(
            planned["tenants"][0]["routes"],
            json!([
                {"prefix": "64:ff9b::/96", "from": "nat64:64:ff9b::/96", "to": null},
                {"prefix": "10.0.0.0/8", "from": "block", "to": "pass"},
            ])
        );
        assert_eq!(planned["tenants_removed"][0]["table"], 43);
        assert_eq!(names(&planned["interfaces_removed"]), ["tap0"]);
        assert_eq!(names(&planned["detached"]), ["tap0"]);
        for words in [
            "LEAVES",
            "taken from tenant 43",
            "led to block",
            "tenant 43: removed",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }

        let applied = apply(&path);
        assert_eq!(applied["result"], "changed");
        assert_eq!(applied["retired"], json!([1]));
        assert_eq!(applied["tenants_removed"], json!([43]));
        assert_eq!(plan(&path)["result"], "unchanged");
    });
}

/// The document that the help shows, and the one beside the tool, to the letter.
#[test]
fn the_documents_that_are_shown_work() {
    isolated("tool_egress::shown", || {
        machine();
        let help = egressd(&["--help"]).exits(0).stdout;
        let (begin, end) = (help.find("  {\"schema\""), help.find("[\"tap0\"]}]}"));
        let shown = &help[begin.expect("a document")..end.expect("its end") + 12];
        let shown: Value = serde_json::from_str(shown).expect("JSON");
        let files = Files::new("shown");
        let path = files.write("spec.json", &shown);
        assert_eq!(
            egressd_json(&["plan", &path]).exits(0).document()["warnings"][0]["code"],
            "no-gateway"
        );
        apply(&path);
        let went = crate::machine::send("tap0", "2001:db8:aaaa::7", "2001:db8:ffff::1");
        assert_eq!(
            went,
            Some(0x10),
            "the first example of the specification of placement"
        );
        egressd(&["status"]).exits(0);
        egressd(&["detach", "--purge"]).exits(0);

        crate::netns::veth("tap2", "vm2");
        crate::netns::veth("uplink1", "peer1");
        crate::netns::ip(&["link", "set", "uplink1", "mtu", "9000"]);
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/egressd/example.json");
        assert_eq!(plan(example)["warnings"], json!([]));
        assert_eq!(apply(example)["result"], "created");
        egressd(&["status"]).exits(0);
    });
}

#[test]
fn every_fault_has_its_pointer_and_nothing_is_made() {
    isolated("tool_egress::faults", || {
        machine();
        let files = Files::new("faults");
        let mut wrong = document();
        wrong["tenants"][0]["argument"] = json!("0x1000");
        wrong["classes"][0]["shards"][0]["weight"] = json!(-1);
        let mut absent = document();
        absent["tenants"][0]["interfaces"][0]["name"] = json!("tap9");
        absent["classes"][1]["shards"][0]["next_hop"]["interface"] = json!("uplink9");
        let cases = [
            (wrong, ["/classes/0/shards/0/weight", "/tenants/0/argument"]),
            (
                absent,
                [
                    "/classes/1/shards/0/next_hop/interface",
                    "/tenants/0/interfaces/0",
                ],
            ),
        ];
        for (document, pointers) in cases {
            let path = files.write("spec.json", &document);
            for verb in ["plan", "apply"] {
                let error = egressd_json(&[verb, &path]).fails(1, "invalid");
                let faults = error["faults"].as_array().expect("a list").iter();
                let found: Vec<_> = faults.map(|fault| fault["pointer"].clone()).collect();
                assert_eq!(found, pointers, "{verb}");
                let said = egressd(&[verb, &path]).exits(1).stderr;
                assert!(pointers.iter().all(|at| said.contains(at)), "{said}");
            }
        }
        egressd_json(&["plan", "/nonexistent.json"]).fails(1, "io");
        assert_eq!(state(), "");
    });
}

#[test]
fn an_interface_that_takes_what_cannot_be_encapsulated_is_named() {
    isolated("tool_egress::big", || {
        machine();
        crate::netns::ip(&["link", "set", "tap1", "gso_max_size", "65536"]);
        let files = Files::new("big");
        let path = files.write("spec.json", &document());
        assert_eq!(plan(&path)["interface_warnings"], json!([]));
        let applied = egressd_json(&["apply", &path]).exits(0).document();
        assert_eq!(applied["interface_warnings"], json!([]));
        let status = || egressd_json(&["status"]).exits(0).document();
        assert_eq!(status()["findings"], json!([]));
        // Kernels before 6.3 have no more.
        if !guideway::kernel::probe::release().at_least(6, 3) {
            return;
        }
        crate::netns::ip(&["link", "set", "tap1", "gso_max_size", "130000"]);
        let planned = plan(&path);
        let applied = egressd_json(&["apply", &path]).exits(0).document();
        let control = [
            "plan",
            "--loop",
            "--mode=hashed",
            "--uplinks=uplink0",
            "--node-sid=2001:db8:ff01:1:e000::",
            "--source=file:/nonexistent.json",
            "--pins=4096",
        ];
        let looped = egressd_json(&control).exits(0).object();
        for document in [planned, applied, looped] {
            let advice = &document["interface_warnings"];
            assert_eq!(advice[0]["interface"]["name"], "tap1", "{document}");
            let message = advice[0]["message"].as_str().expect("text");
            assert!(message.contains("gso_max_size 65536"), "{message}");
            assert_eq!(advice[1], Value::Null);
        }
        let found = &status()["findings"];
        assert_eq!(found[0]["code"], "large-segments", "{found}");
        assert_eq!(found[0]["object"], "tap1");
        assert_eq!(found[0]["severity"], "warning");
        for verb in [&["plan", &path][..], &["apply", &path], &["status"]] {
            let said = egressd(verb).exits(0).stdout;
            assert!(said.contains("gso_max_size 65536"), "{said}");
        }
    });
}

#[test]
fn other_limits_are_refused_with_both_numbers() {
    isolated("tool_egress::limits", || {
        machine();
        let files = Files::new("limits");
        apply(&files.write("first.json", &document()));
        let mut more = document();
        more["limits"]["pins"] = json!(8192);
        let path = files.write("more.json", &more);
        let before = state();
        for verb in ["plan", "apply"] {
            let error = egressd_json(&[verb, &path]).fails(4, "conflict");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("pins 4096, not 8192"), "{message}");
            assert!(message.contains("egressd migrate"), "{message}");
        }
        assert_eq!(state(), before);
    });
}

#[test]
fn another_writer_is_waited_for_as_long_as_asked() {
    isolated("tool_egress::locked", || {
        machine();
        let files = Files::new("locked");
        let path = files.write("spec.json", &document());
        apply(&path);
        let writer = guideway::egress::Writer::open(open().dir()).expect("free");
        egressd_json(&["apply", &path, "--wait", "0"]).fails(4, "locked");
        // Looking takes no lock.
        assert_eq!(plan(&path)["result"], "unchanged");
        drop(writer);
        apply(&path);
    });
}

#[test]
fn routes_of_others_hold_a_class_and_the_rest_is_done() {
    isolated("tool_egress::partial", || {
        machine();
        let files = Files::new("partial");
        apply(&files.write("first.json", &document()));
        let egress = open();
        let tenant = Tenant {
            pin_quota: guideway::tenant::PinQuota(1024),
            ..Tenant::new(TableId::new(42), Argument::new(0x2a5).expect("an Argument"))
        };
        let prefix = "2001:db8:77::/48".parse().expect("a prefix");
        let guard = egress
            .write_routes(std::time::Duration::ZERO)
            .expect("free");
        guard.set_origin(Origin(7));
        let class = "64:ff9b::/96".parse().expect("a prefix");
        let ticket = guard
            .ticket(guideway::group::Class::Nat64(class))
            .expect("open");
        guard
            .put(&tenant, prefix, To::Group(&ticket))
            .expect("room");
        drop(guard);

        let mut less = document();
        less["classes"].as_array_mut().expect("a list").pop();
        let path = files.write("less.json", &less);
        let ran = egressd_json(&["apply", &path]).exits(3);
        let applied = ran.document();
        assert_eq!(applied["result"], "partial");
        assert_eq!(applied["not_applied"]["kind"], "conflict");
        let message = applied["not_applied"]["message"].as_str().expect("text");
        assert!(message.contains("1 of them of other writers"), "{message}");
        assert_eq!(applied["groups"][0]["change"], "close");
        assert_eq!(applied["routes_removed"], 2);
        // Nothing else is left to do, and it fails in the same place.
        egressd_json(&["apply", &path]).fails(4, "conflict");

        let guard = egress
            .write_routes(std::time::Duration::ZERO)
            .expect("free");
        guard.set_origin(Origin(7));
        guard
            .put(&tenant, prefix, To::Block(Block::Drop))
            .expect("room");
        drop(guard);
        assert_eq!(apply(&path)["retired"], json!([1]));
    });
}

#[test]
fn the_place_on_the_hook_is_the_one_asked_for_and_nobody_elses() {
    isolated("tool_egress::place", || {
        machine();
        let files = Files::new("place");
        let path = files.write("spec.json", &document());
        let program = foreign_program("foreign", Kind::Classifier).expect("a program");
        let pin = format!("{}/foreign", crate::netns::BPFFS);
        crate::netns::pin(&program, pin.as_ref());
        let program = guideway::kernel::program::Program::open(pin.as_ref()).expect("a program");
        let tap0 = crate::netns::ifindex("tap0");
        let options = tc::Options {
            way: tc::Way::Clsact,
            ..tc::Options::default()
        };
        let _filter = tc::Attachment::new(&program, tap0, &options).expect("attached");
        let ran = egressd_json(&["apply", &path, "--attach", "clsact"]).exits(3);
        let applied = ran.document();
        assert_eq!(applied["not_applied"]["kind"], "occupied");
        let id = program.id().to_string();
        let message = applied["not_applied"]["message"].as_str().expect("text");
        assert!(message.contains(&id), "{message}");
        // The instance is there by now, and only the place is missing.
        egressd_json(&["apply", &path, "--attach", "clsact"]).fails(4, "occupied");

        let after = format!("after:prog:{id}");
        let place = ["--attach", "clsact", "--priority", "9", "--handle", "3"];
        let arguments = [&["apply", path.as_str()][..], &place, &["--anchor", &after]].concat();
        // The other interface has it already: one that is refused keeps nothing else from being done.
        egressd_json(&arguments).exits(0);
        let hook = tc::hook(tap0).expect("a hook").occupants;
        assert_eq!(hook.len(), 2);
        assert_eq!(hook[0].program_id, Some(program.id()));
        assert_eq!(hook[1].program_id, Some(open().program().id()));
        for wrong in [
            "middle",
            "before",
            "before:prog",
            "before:map:3",
            "after:prog:x",
        ] {
            egressd_json(&["apply", &path, "--anchor", wrong]).fails(2, "usage");
        }
    });
}
