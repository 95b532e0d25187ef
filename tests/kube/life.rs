// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards that come, change, drain and go, and a server that does.

use guideway::control::kube::{KubeSource, Listing};
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::{manifest, reconcile, Known, Unreached};
use guideway::group::{Class, MemberState};
use serde_json::{json, Value};

use crate::fixture::{hashed, observed, sid};
use crate::server::Server;
use crate::world::settled;
use crate::*;

#[test]
#[ignore = "needs an API server: make test-kube"]
fn shards_come_change_drain_and_go() {
    let mut server = Server::start("changes");
    server.stop_api();
    let source = source(&server);
    until(&source, "the server is missed", |_| {
        source.failure().is_some()
    });
    assert_eq!(source.latest(), Known::Unknown);
    server.start_api();
    until_known(&source, &[]);

    create(&server, "shard-a", 0x10);
    until_known(&source, &["shard-a"]);
    let known = source.latest();
    // What the server gives back means the same as the file.
    let mut expected = manifest::parse(EXAMPLE.as_bytes(), "shard.json")
        .expect("a manifest")
        .shards;
    expected[0].sid = Some("2001:db8:ff09:11:e000::".parse().expect("a SID"));
    assert_eq!(shards(&known), expected);
    create(&server, "shard-b", 0x20);
    until_known(&source, &["shard-a", "shard-b"]);

    patch(&server, "shard-a", "", json!({"spec": {"drain": true}}));
    until(&source, "it drains", |list| shards(list)[0].drain);
    patch(&server, "shard-a", "", json!({"spec": {"drain": null}}));
    until(&source, "it drains no more", |list| !shards(list)[0].drain);

    let ready = |status: &str| {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        json!({"status": {"conditions": [condition("Programmed", "True"), condition("Ready", status)]}})
    };
    patch(&server, "shard-b", "/status", ready("False"));
    until_known(&source, &["shard-a"]);
    patch(&server, "shard-b", "/status", ready("True"));
    until_known(&source, &["shard-a", "shard-b"]);

    // With a finalizer it is there until that is taken off, and no candidate from the start.
    patch(
        &server,
        "shard-a",
        "",
        json!({"metadata": {"finalizers": ["example.com/datapath"]}}),
    );
    delete(&server, "shard-a");
    until_known(&source, &["shard-b"]);
    assert!(shards(&source.latest())[0].terminating);
    patch(
        &server,
        "shard-a",
        "",
        json!({"metadata": {"finalizers": null}}),
    );
    until(&source, "it is gone", |list| shards(list).len() == 1);
    delete(&server, "shard-b");
    until_known(&source, &[]);
    // A server that has just started does not know yet what it may grant.
    let errors = source.errors();
    for (reason, count) in errors.iter() {
        use SourceErrorReason::{Forbidden, Unavailable};
        assert!(
            count == 0 || [Forbidden, Unavailable].contains(&reason),
            "{errors:?}"
        );
    }
}

#[test]
#[ignore = "needs an API server: make test-kube"]
fn members_outlive_their_server() {
    let mut server = Server::start("stops");
    create(&server, "shard-a", 0x10);
    create(&server, "shard-b", 0x11);
    let source = source(&server);
    until_known(&source, &["shard-a", "shard-b"]);
    let mut node = settled(observed([1]), &hashed(source.latest()));
    server.stop_api();
    let stale = until(&source, "it is stale", is_stale);
    assert_eq!(candidates(&stale), ["shard-a", "shard-b"]);

    // A node keeps both as members, and one that it gets to no more leaves its table.
    let desired = hashed(stale);
    let plan = reconcile(&node.0, &desired);
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    node.0.reach.0.insert(sid(1), Err(Unreached::NoRoute));
    node.sweep(&desired);
    let group = node.of(Class::Nat66).expect("a group");
    let state = |number| group.member_by_sid(sid(number)).expect("a member").state();
    assert_eq!(
        [state(1), state(2)],
        [MemberState::Unreachable, MemberState::Active]
    );
    let dead = group.member_by_sid(sid(1)).expect("a member").slot;
    assert!(!group.table.is_empty() && !group.table.contains(&dead.get()));

    until(&source, "it is asked in vain", |_| {
        source.errors().get(SourceErrorReason::Unavailable) >= 2
    });
    assert_eq!(candidates(&source.latest()), ["shard-a", "shard-b"]);
    server.start_api();
    until_known(&source, &["shard-a", "shard-b"]);
    patch(&server, "shard-b", "", json!({"spec": {"drain": true}}));
    until(&source, "it drains", |list| shards(list)[1].drain);
}

#[test]
#[ignore = "needs an API server: make test-kube"]
fn five_hundred_shards_are_listed_in_pages() {
    let server = Server::start("pages");
    for number in 0..500 {
        create(&server, &format!("shard-{number:03}"), number);
    }
    let first: Value = server.ask("GET", &format!("{SHARDS}?limit=100"), None).1;
    assert!(
        first["metadata"]["continue"].is_string(),
        "the server has pages"
    );
    for listing in [Listing::Pages, Listing::Stream] {
        let mut settings = settings(&server, "egressd");
        settings.page = 100;
        settings.listing = listing;
        let source = KubeSource::start(settings).expect("a source");
        let list = until(&source, "anything is known", |list| list.value().is_some());
        assert_eq!(candidates(&list).len(), 500);
        // This server is older than lists as streams.
        assert_eq!(source.listing(), Listing::Pages);
    }
}
