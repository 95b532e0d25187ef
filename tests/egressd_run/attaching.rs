// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `attach` refuses, and that nothing is left of it then.

use guideway::egress::{schema, Egress, Limits, Loader};
use guideway::kernel::statedir::StateRoot;
use guideway::tenant::{PinQuota, Tenant};
use serde_json::{json, Value};

use crate::daemon::*;
use crate::netns::{ifindex, ip, veth, BPFFS};
use crate::tool::Ran;

fn attach(node: &Node, interface: &str, more: &[&str]) -> Ran {
    let verb = [&["-o", "json", "attach", interface], more].concat();
    node.ran(&verb, &[])
}

/// All that `attach` writes: rows of interfaces, numbers of routes, interfaces with the program.
fn all(egress: &Egress) -> (Vec<(u32, Tenant)>, usize, Vec<u32>) {
    let rows = egress.tenants().expect("readable").into_iter().collect();
    let mut routes = 0;
    let counted = egress.for_each_route(|_| {
        routes += 1;
        std::ops::ControlFlow::Continue(())
    });
    counted.expect("readable");
    let attached = egress.attachments().expect("readable").into_iter();
    (rows, routes, attached.map(|view| view.ifindex).collect())
}

#[track_caller]
fn says(error: &Value, words: &str) {
    let message = error["message"].as_str().expect("text");
    assert!(message.contains(words), "{message}");
}

#[test]
fn what_contradicts_a_tenant_that_is_there_changes_nothing() {
    on_node("contradicts", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        node.attach();
        let before = all(&egress());

        let error = attach(node, "tap0", &["--table=43", "--argument=0x2a6"]);
        says(&error.fails(4, "conflict"), "an interface of table 42");
        assert_eq!(all(&egress()), before);

        let error = attach(node, "tap1", &["--table=42", "--argument=0x2a6"]);
        says(&error.fails(4, "conflict"), "argument 678 of table 42");
        assert_eq!(all(&egress()), before);

        // Replies to both would come to one of them; a specification may not say so either.
        let error = attach(node, "tap1", &["--table=43", "--argument=0x2a5"]);
        let error = error.fails(1, "invalid");
        says(&error, "argument 0x2a5 is already used by table 42");
        assert_eq!(all(&egress()), before);

        attach(node, "tap1", &["--table=43", "--argument=0x2a6"]).exits(0);
        // The same again is no contradiction.
        attach(node, "tap1", &["--table=43", "--argument=0x2a6"]).exits(0);
        node.attach();
    });
}

#[test]
fn a_tenant_that_there_is_no_room_for_leaves_nothing() {
    on_node("no_room", |node| {
        let dir = StateRoot::new(BPFFS).egress();
        let limits = Limits::default().with_pins(4096).expect("few pins");
        let limits = limits.with_tenants(1).expect("one tenant");
        drop(Loader::new(&dir).limits(limits).load().expect("a state"));
        node.attach();
        let before = all(&egress());
        let error = attach(node, "tap1", &["--table=43", "--argument=0x2a6"]);
        says(&error.fails(1, "kernel"), "no room for more than 1");
        assert_eq!(all(&egress()), before);
        // One that has its place may have it again.
        node.attach();
        assert_eq!(all(&egress()), before);

        // The pins of a tenant that is gone take up room until they are removed, which is found out
        // when the routes are there.
        let egress = egress();
        let guard = egress.write_routes(PATIENCE).expect("nobody retires");
        guard.remove_interface(ifindex("tap0")).expect("removed");
        drop(guard);
        let before = all(&egress);
        let error = attach(node, "tap1", &["--table=43", "--argument=0x2a6"]);
        says(&error.fails(1, "kernel"), "no room for more than 1");
        assert_eq!(all(&egress), before);
    });
}

#[test]
fn routes_that_there_is_no_room_for_leave_no_program_at_the_interface() {
    on_node("no_routes", |node| {
        let dir = StateRoot::new(BPFFS).egress();
        let limits = Limits::default().with_pins(4096).expect("few pins");
        let limits = limits.with_routes(1).expect("one route");
        drop(Loader::new(&dir).limits(limits).load().expect("a state"));
        node.attach();
        let before = all(&egress());
        let error = attach(node, "tap1", &["--table=43", "--argument=0x2a6"]);
        says(&error.fails(1, "kernel"), "no room for more than 1 routes");
        assert_eq!(all(&egress()), before);
    });
}

/// The names of what was warned of.
fn warned(ran: &Ran) -> Vec<String> {
    let document: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let warnings = document["warnings"].as_array().expect("a list").iter();
    let code = |warning: &Value| warning["code"].as_str().expect("text").to_owned();
    warnings.map(code).collect()
}

#[test]
fn what_may_not_be_what_was_meant_is_warned_of() {
    on_node("warned", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        let answered = ["--table=42", "--argument=0x2a5", "--gateway6=fe80::1"];
        assert!(warned(&attach(node, "tap0", &answered).exits(0)).is_empty());
        let own = ["--table=43", "--argument=0x2a6"];
        let ran = attach(node, "tap1", &own).exits(0);
        assert_eq!(warned(&ran), ["no-gateway"]);
        let own = ["--table=44", "--argument=0x2a7", "--gateway4=192.0.2.1"];
        let ran = attach(node, "lo", &own).exits(0);
        assert_eq!(warned(&ran), ["loopback"]);
        // Members of the group are reached by it, whatever the uplinks are said to be.
        let own = ["--table=45", "--argument=0x2a8", "--gateway4=192.0.2.1"];
        let verb = [&["-o", "json", "attach", "uplink0"], &own[..]].concat();
        for more in [&[][..], &["--uplinks=peer0"]] {
            assert_eq!(warned(&node.ran(&verb, more).exits(0)), ["tenant-uplink"]);
        }
        let text = node.ran(&verb[2..], &[]).exits(0).stdout;
        assert!(text.contains("warning: tenant-uplink: "), "{text}");
    });
}

#[test]
fn a_tenant_has_its_share_of_the_pins_unless_something_else_is_said() {
    on_node("quota", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&["--pins=32768"]).exits(0);
        let quota = |interface: &str| {
            let rows = egress().tenants().expect("readable");
            rows[&ifindex(interface)].pin_quota
        };
        attach(node, "tap0", &["--table=42", "--argument=0x2a5"]).exits(0);
        assert_eq!(quota("tap0"), PinQuota::share_of(32768));
        let own = ["--table=43", "--argument=0x2a6", "--pin-quota=unlimited"];
        attach(node, "tap1", &own).exits(0);
        assert_eq!(quota("tap1"), PinQuota::UNLIMITED);
        // Another interface of the tenant takes what it has.
        attach(node, "lo", &own[..2]).exits(0);
        assert_eq!(quota("lo"), PinQuota::UNLIMITED);
        let other = ["--table=42", "--argument=0x2a5", "--pin-quota=7"];
        let error = attach(node, "tap0", &other).fails(4, "conflict");
        says(&error, "pin_quota 7 of table 42 is 2048");
    });
}

#[test]
fn its_document_satisfies_its_schema() {
    on_node("attach_document", |node| {
        let schema: Value = serde_json::from_str(schema::ATTACH).expect("JSON");
        let validator = jsonschema::draft202012::new(&schema).expect("a schema");
        let document = |interface: &str, more: &[&str]| {
            let ran = attach(node, interface, more).exits(0);
            let document: Value = serde_json::from_str(&ran.stdout).expect("JSON");
            let errors: Vec<_> = validator.iter_errors(&document).collect();
            assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
            assert_eq!(document["schema"], "guideway.egress.attach/v1");
            document
        };
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        let own = ["--table=42", "--argument=0x2a5", "--attach=clsact"];
        let first = document("tap0", &own);
        assert_eq!(first["attachment"]["way"], "clsact");
        assert!(first["attachment"]["handle"].is_number());
        assert_eq!(first["routes"]["nat66"], "to the group of nat66");
        assert_eq!(first["warnings"][0]["code"], "no-gateway");
        assert_eq!(first["replaced"], json!([]));
        let before = ifindex("tap0");
        ip(&["link", "delete", "tap0"]);
        veth("tap0", "vm0");
        let second = document("tap0", &own[..2]);
        assert_eq!(second["replaced"], json!([before]));
        assert_eq!(
            (&second["interface"], &second["table"]),
            (&json!("tap0"), &json!(42))
        );
    });
}
