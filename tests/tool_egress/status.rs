// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `status`.

use guideway::kernel::map::{Map, Update};
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::Trie;
use guideway::route::{TableId, Target};
use serde_json::{json, Value};

use crate::machine::{document, machine, open, send, send_from, shard, sid, state, Files};
use crate::netns::{ip, isolated};
use crate::{egressd, egressd_json};

#[track_caller]
fn status(code: i32) -> Value {
    egressd_json(&["status"]).exits(code).document()
}

/// The codes of what is found, once each.
fn found(status: &Value) -> Vec<&str> {
    let findings = status["findings"].as_array().expect("a list").iter();
    let mut codes: Vec<_> = findings
        .map(|one| one["code"].as_str().expect("text"))
        .collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

#[test]
fn it_tells_groups_tenants_packets_and_pins_and_changes_nothing() {
    isolated("tool_egress::status", || {
        machine();
        let files = Files::new("status");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let went = send_from(30);
        send("tap0", "2001:db8:aaaa::1", "64:ff9b::1");
        // No tenant has this one.
        assert_eq!(send("uplink0", "2001:db8::1", "2001:db8::2"), None);
        let before = state();
        let status = status(0);
        let said = egressd(&["status"]).exits(0).stdout;
        assert_eq!(state(), before);
        assert_eq!(status["health"], "sound");
        assert_eq!(status["findings"], json!([]));
        assert_eq!(
            status["configuration"]["node_sid"],
            "2001:db8:ff01:1:e000::"
        );

        let group = &status["groups"][0];
        assert_eq!(
            (&group["class"], &group["state"]),
            (&json!("nat66"), &json!("open"))
        );
        assert_eq!(group["routes"], 2);
        assert_eq!(group["pins"]["live"], 30);
        let members = group["members"].as_array().expect("a list");
        assert_eq!(members.len(), 2);
        for member in members {
            let number = if member["sid"] == sid(0x10) {
                0x10
            } else {
                0x11
            };
            let packets = went.iter().filter(|went| **went == number).count();
            assert_eq!(member["packets"], packets, "{member}");
            assert_eq!(member["pins"], packets, "{member}");
            // IPv6, UDP and eight bytes.
            assert_eq!(member["bytes"], packets * (14 + 40 + 8 + 8), "{member}");
            assert_eq!(member["interface"]["name"], "uplink0");
        }
        let tenants = status["tenants"].as_array().expect("a list");
        assert_eq!(tenants[0]["table"], 42);
        assert_eq!(tenants[0]["argument"], 0x2a5);
        assert_eq!(tenants[0]["interfaces"][0]["name"], "tap0");
        assert_eq!(tenants[0]["pins_counted"], 31);
        assert_eq!(tenants[0]["pin_quota"], 1024);
        assert_eq!(
            status["routes"]["by_class"],
            json!({"nat66": 2, "nat64:64:ff9b::/96": 2})
        );
        assert_eq!(status["routes"]["total"], 5);
        // The other end of a link that comes up sends some of its own, which stay on the link.
        let number = |value: &Value| value.as_u64().expect("a number");
        let own = number(&status["packets"]["skips"]["local"]);
        assert_eq!(number(&status["packets"]["total"]) - own, 32);
        assert_eq!(status["packets"]["outcomes"]["group"], 31);
        assert_eq!(status["packets"]["skips"]["no_tenant"], 1);
        assert_eq!(status["packets"]["drops"]["group_empty"], 0);
        assert_eq!(status["selection"]["pin_new"], 31);
        assert_eq!(status["pins"]["standing"]["live"], 31);
        assert_eq!(status["pins"]["source_capacity"], 4096);
        assert_eq!(status["pins"]["drift"], json!({}));
        let attachments = status["attachments"].as_array().expect("a list");
        assert_eq!(attachments.len(), 2);
        assert!(attachments.iter().all(|one| one["alive"] == true));
        for words in [
            "sound",
            "nat66 (group 0): open",
            "No enabled tenant has the interface.",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    });
}

#[test]
fn a_class_that_nobody_serves_is_degraded() {
    isolated("tool_egress::empty", || {
        machine();
        let files = Files::new("empty");
        let mut empty = document();
        let mut drained = shard(0x12);
        drained["draining"] = json!(true);
        let unreachable = json!({"sid": sid(0x13), "next_hop": null});
        empty["classes"][1]["shards"] = json!([drained, unreachable]);
        egressd(&["apply", &files.write("spec.json", &empty)]).exits(0);
        let status = status(5);
        assert_eq!(status["health"], "degraded");
        assert_eq!(found(&status), ["nobody-active", "unreachable-shard"]);
        let first = &status["findings"][0];
        assert_eq!(first["object"], "nat64:64:ff9b::/96");
        assert_eq!(first["severity"], "error");
        let said = egressd(&["status"]).exits(5).stdout;
        assert!(said.starts_with("DEGRADED\n"), "{said}");
        assert!(said.contains("ERROR    nobody-active"), "{said}");
    });
}

#[test]
fn what_others_did_to_interfaces_is_found() {
    isolated("tool_egress::interfaces", || {
        machine();
        let files = Files::new("interfaces");
        let path = files.write("spec.json", &document());
        egressd(&["apply", &path]).exits(0);
        // Packets to shards are lost there without a trace.
        for end in ["uplink0", "peer0"] {
            ip(&["link", "set", end, "down"]);
            assert_eq!(found(&status(5)), ["uplink-down"]);
            ip(&["link", "set", end, "up"]);
        }
        // A tenant that is switched off is worth knowing, and no fault.
        ip(&["link", "set", "tap0", "down"]);
        assert_eq!(found(&status(0)), ["interface-down"]);
        ip(&["link", "set", "tap0", "up"]);
        egressd(&["detach", "--interface", "tap1", "--keep-tenant"]).exits(0);
        let status = status(5);
        assert_eq!(found(&status), ["not-attached"]);
        assert_eq!(status["findings"][0]["object"], "tap1");
        egressd(&["apply", &path]).exits(0);
        ip(&["link", "delete", "tap1"]);
        ip(&["link", "delete", "uplink0"]);
        let status = self::status(5);
        assert_eq!(found(&status), ["no-interface"]);
        assert_eq!(status["attachments"][1]["alive"], false);
        assert_eq!(status["attachments"][1]["interface"]["name"], Value::Null);
    });
}

#[test]
fn routes_and_counts_that_do_not_agree_are_found() {
    isolated("tool_egress::drift", || {
        machine();
        let files = Files::new("drift");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        send_from(5);
        let egress = open();
        let path = egress
            .dir()
            .pin(guideway::kernel::statedir::Section::Maps, "gw_pin_use");
        let map = guideway::kernel::map::Map::open_any(&path).expect("a map");
        let mut row = vec![0; 16];
        let key = 42_u32.to_ne_bytes();
        assert!(map.lookup(&key, &mut row).expect("readable"));
        row[..8].copy_from_slice(&9_u64.to_ne_bytes());
        map.update(&key, &row, Update::Replace).expect("written");
        let status = status(5);
        assert_eq!(found(&status), ["pin-drift"]);
        assert_eq!(status["pins"]["drift"], json!({"42": 4}));
        let expire = ["pins", "--expire", "-o", "json"];
        let swept = egressd(&expire).exits(0).object();
        assert_eq!(swept["recounted"], json!({"42": -4}));
        assert_eq!(found(&self::status(0)), Vec::<String>::new());
        let again = egressd(&expire).exits(0).object();
        assert_eq!(again["recounted"], json!({}));
    });
}

#[test]
fn what_is_left_over_is_found() {
    isolated("tool_egress::left_over", || {
        machine();
        let files = Files::new("left-over");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let egress = open();
        let guard = egress
            .write_routes(std::time::Duration::ZERO)
            .expect("free");
        let tap1 = crate::netns::ifindex("tap1");
        guard.remove_interface(tap1).expect("removed");
        drop(guard);
        let status = status(0);
        assert_eq!(found(&status), ["abandoned-tenant", "attached-for-nobody"]);

        // A program that keeps no barrier wrote a route for another tenure of the group.
        let routes = egress.routes(TableId::new(42)).expect("readable");
        let (key, mut route) = routes
            .into_iter()
            .find(|(_, route)| route.group().is_some())
            .expect("a route to a group");
        if let Target::Group { incarnation, .. } = &mut route.target {
            *incarnation = incarnation.next();
        }
        let path = egress.dir().pin(Section::Maps, "gw_routes");
        let map = Trie::new(Map::open_any(&path).expect("a map")).expect("its shape");
        map.update(&key.to_row(), &route.to_row(), Update::Any)
            .expect("written");
        let status = self::status(5);
        assert_eq!(status["routes"]["dead"], 1);
        assert!(found(&status).contains(&"dead-routes"));
    });
}

#[test]
fn without_an_instance_every_verb_that_needs_one_says_so() {
    isolated("tool_egress::absent", || {
        for arguments in [
            &["status"][..],
            &["pins"],
            &["pins", "--expire"],
            &["pins", "--remove", "--table", "1"],
            &["detach"],
            &["detach", "--purge"],
        ] {
            let error = egressd_json(arguments).fails(1, "not-found");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("no instance egress"), "{message}");
            assert_eq!(state(), "", "{arguments:?}");
        }
        let elsewhere = ["status", "--state-root", "/proc"];
        assert_eq!(
            egressd_json(&elsewhere).exits(1).error()["faults"],
            json!([])
        );
    });
}
