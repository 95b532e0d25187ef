// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A watch that ends keeps the list, and the next one goes on where it was.

use std::time::{Duration, Instant};

use guideway::control::kube::KubeSource;
use guideway::control::source::{Source, SourceErrorReason};

use crate::cluster::{event, status, Answer, Cluster, Order, Verb};
use crate::support::*;

/// A source that knows `a` and `b` and watches.
fn watching(cluster: &Cluster) -> KubeSource {
    cluster.apply("a", shard(1));
    cluster.apply("b", shard(2));
    let source = source(cluster);
    until_known(&source, &["a", "b"]);
    within("it is watched", || cluster.watches() == 1);
    source
}

/// Whatever ends a watch early: stale with all members, then known again with what changed meanwhile,
/// and no new list.
fn ends(name: &str, orders: &[Order], reason: SourceErrorReason) -> String {
    let cluster = Cluster::start(name);
    let source = watching(&cluster);
    for order in orders {
        cluster.order(order.clone());
    }
    let why = until_stale(&source);
    assert_eq!(names(&source.latest()), ["a", "b"]);
    assert_eq!(count(&source, reason), 1);
    cluster.delete("a");
    cluster.apply("c", shard(3));
    until_known(&source, &["b", "c"]);
    assert_eq!(cluster.asked(Verb::List).len(), 1);
    assert_eq!(source.failure(), None);
    why
}

#[test]
fn a_server_that_ends_a_watch() {
    let why = ends("ended", &[Order::End], SourceErrorReason::Closed);
    assert!(why.contains("the server ended the watch"), "{why}");
}

#[test]
fn a_connection_that_breaks() {
    ends("cut", &[Order::Cut], SourceErrorReason::Closed);
}

#[test]
fn a_stream_that_is_truncated_within_an_event() {
    let half = Order::Send("{\"type\": \"MODIFIED\", \"object\": {\"metadata\": {\"na".to_owned());
    let why = ends(
        "truncated",
        &[half.clone(), Order::End],
        SourceErrorReason::Closed,
    );
    assert!(why.contains("in the middle of an event"), "{why}");
    ends(
        "truncated-cut",
        &[half, Order::Cut],
        SourceErrorReason::Closed,
    );
}

#[test]
fn a_line_that_is_no_event() {
    let nonsense = Order::Send("what?\n".to_owned());
    let why = ends("nonsense-line", &[nonsense], SourceErrorReason::Parse);
    assert!(why.contains("makes no sense"), "{why}");
}

#[test]
fn an_error_event() {
    let error = event("ERROR", &status(500, "etcdserver: leader changed"));
    let why = ends(
        "error-event",
        &[Order::Send(error)],
        SourceErrorReason::Unavailable,
    );
    assert!(why.contains("leader changed"), "{why}");
}

#[test]
fn a_server_that_ends_each_watch_at_once_is_not_asked_without_a_pause() {
    let cluster = Cluster::start("hangup");
    cluster.apply("a", shard(1));
    cluster.always(Verb::Watch, Answer::Hangup);
    let source = source(&cluster);
    within("three watches", || cluster.asked(Verb::Watch).len() == 3);
    let list = source.latest();
    assert_eq!(names(&list), ["a"]);
    let asked = cluster.asked(Verb::Watch);
    // 1 s at least, then 2.
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1));
    assert!(asked[2].at - asked[1].at >= Duration::from_secs(2));
    assert!(
        is_stale(&list),
        "accepting a watch is not yet to tell changes: {list:?}"
    );
    cluster.behave(Verb::Watch);
    until_known(&source, &["a"]);
}

#[test]
fn bookmarks_alone_move_the_version_and_nothing_else() {
    let cluster = Cluster::start("bookmarks");
    let mut source = watching(&cluster);
    source.acknowledge();
    let reached = cluster.advance();
    cluster.bookmark(reached - 500);
    cluster.bookmark(reached);
    assert!(!readable(&source, Duration::from_millis(500)));
    assert!(source.latest().is_current());
    cluster.order(Order::End);
    until_stale(&source);
    until_known(&source, &["a", "b"]);
    let asked = cluster.asked(Verb::Watch);
    assert_eq!(asked[1].query["resourceVersion"], reached.to_string());
    assert_eq!(asked[1].query["allowWatchBookmarks"], "true");
}

#[test]
fn what_changes_nothing_that_is_used_is_no_event() {
    let cluster = Cluster::start("heartbeat");
    let mut source = watching(&cluster);
    source.acknowledge();
    let mut beat = shard(1);
    beat["status"]["conditions"][1]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z".into();
    cluster.apply("a", beat);
    let reached = cluster.advance();
    cluster.bookmark(reached);
    assert!(!readable(&source, Duration::from_millis(500)));
    let mut drains = shard(1);
    drains["spec"]["drain"] = true.into();
    cluster.apply("a", drains);
    assert!(readable(&source, LONG));
    until(&source, "it drains", |list| {
        list.value().is_some_and(|list| list.shards[0].drain)
    });
}

#[test]
fn the_planned_end_of_a_watch_is_no_failure() {
    let cluster = Cluster::start("planned");
    cluster.apply("a", shard(1));
    let mut settings = settings(&cluster);
    settings.watch_timeout = Duration::from_secs(5);
    let source = KubeSource::start(settings).expect("a source");
    until_known(&source, &["a"]);
    within("it is watched a second time", || {
        assert!(source.latest().is_current());
        cluster.asked(Verb::Watch).len() == 2
    });
    let asked = cluster.asked(Verb::Watch);
    assert_eq!(asked[0].query["timeoutSeconds"], "5");
    cluster.apply("b", shard(2));
    until_known(&source, &["a", "b"]);
    assert_eq!(source.errors(), Default::default());
}

#[test]
fn a_server_that_does_not_end_a_watch_counts_as_dead() {
    let cluster = Cluster::start("endless");
    cluster.apply("a", shard(1));
    cluster.once(Verb::Watch, Answer::Endless);
    let mut settings = settings(&cluster);
    settings.watch_timeout = Duration::from_secs(5);
    let begun = Instant::now();
    let source = KubeSource::start(settings).expect("a source");
    let why = until_stale(&source);
    assert!(
        begun.elapsed() >= Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert!(why.contains("did not end the watch"), "{why}");
    assert_eq!(count(&source, SourceErrorReason::Timeout), 1);
    until_known(&source, &["a"]);
}
