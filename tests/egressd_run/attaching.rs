// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `attach` refuses, and that nothing is left of it then.

use guideway::egress::{Egress, Limits, Loader};
use guideway::kernel::statedir::StateRoot;
use guideway::tenant::Tenant;
use serde_json::Value;

use crate::daemon::*;
use crate::netns::{ifindex, BPFFS};
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
