// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A server that refuses, is busy or down is told of by reason, and never empties the list.

use std::time::Duration;

use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::Known;

use crate::cluster::{Answer, Cluster, Order, Verb};
use crate::support::*;

#[test]
fn a_busy_server_is_left_alone_as_long_as_it_asks() {
    let busy = || Answer::Status(429, "Retry-After: 4\r\n", "Too many requests\n".to_owned());
    let cluster = Cluster::start("busy");
    cluster.apply("a", shard(1));
    cluster.once(Verb::List, busy());
    let source = source(&cluster);
    within("it is counted", || {
        count(&source, SourceErrorReason::Throttled) == 1
    });
    assert_eq!(source.latest(), Known::Unknown);
    until_known(&source, &["a"]);
    let asked = cluster.asked(Verb::List);
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(4));

    within("it is watched", || cluster.watches() == 1);
    cluster.once(Verb::Watch, busy());
    cluster.order(Order::End);
    within("it is counted", || {
        count(&source, SourceErrorReason::Throttled) == 2
    });
    let list = source.latest();
    assert!(is_stale(&list) && names(&list) == ["a"], "{list:?}");
    until_known(&source, &["a"]);
    let asked = cluster.asked(Verb::Watch);
    assert!(asked[2].at - asked[1].at >= Duration::from_secs(4));
}

#[test]
fn a_missing_right_to_list_is_named() {
    let cluster = Cluster::start("no-list");
    cluster.apply("a", shard(1));
    cluster.always(Verb::List, Answer::refusal(403, "no, says the server"));
    let source = source(&cluster);
    within("it is counted", || {
        count(&source, SourceErrorReason::Forbidden) == 1
    });
    assert_eq!(source.latest(), Known::Unknown);
    let why = source.failure().expect("a failure");
    for part in [
        "the verb list on egressshards.network.datumapis.com in namespace galactic is missing",
        "no, says the server",
    ] {
        assert!(why.contains(part), "{why}");
    }
    cluster.behave(Verb::List);
    until_known(&source, &["a"]);
}

#[test]
fn a_missing_right_to_watch_is_named_and_the_list_kept() {
    let cluster = Cluster::start("no-watch");
    cluster.apply("a", shard(1));
    cluster.always(Verb::Watch, Answer::refusal(403, "no"));
    let source = source(&cluster);
    let why = until_stale(&source);
    assert!(why.contains("the verb watch on egressshards"), "{why}");
    assert_eq!(names(&source.latest()), ["a"]);
    cluster.behave(Verb::Watch);
    until_known(&source, &["a"]);
    assert_eq!(cluster.asked(Verb::List).len(), 1);
}

#[test]
fn each_refusal_keeps_the_list_and_has_its_reason() {
    let refusals = [
        ("401", 401, SourceErrorReason::Forbidden, "credentials"),
        ("404", 404, SourceErrorReason::Gone, "no such resource"),
        ("500", 500, SourceErrorReason::Unavailable, "fails"),
        ("504", 504, SourceErrorReason::Timeout, "too slow"),
    ];
    for (name, code, reason, part) in refusals {
        let cluster = Cluster::start(name);
        cluster.apply("a", shard(1));
        cluster.once(Verb::Watch, Answer::refusal(code, ""));
        let source = source(&cluster);
        let why = until_stale(&source);
        assert!(why.contains(part) && why.contains(name), "{why}");
        assert_eq!(names(&source.latest()), ["a"]);
        assert_eq!(count(&source, reason), 1, "{code}");
        until_known(&source, &["a"]);
    }
}

#[test]
fn a_server_that_goes_and_comes_back() {
    let mut cluster = Cluster::start("restart");
    cluster.apply("a", shard(1));
    cluster.apply("b", shard(2));
    let source = source(&cluster);
    until_known(&source, &["a", "b"]);
    within("it is watched", || cluster.watches() == 1);
    cluster.stop();
    let Known::Stale { since, .. } = until(&source, "it is stale", is_stale) else {
        panic!("it was stale");
    };
    within("it is asked in vain", || {
        count(&source, SourceErrorReason::Unavailable) >= 2
    });
    let list = source.latest();
    assert_eq!(names(&list), ["a", "b"]);
    assert!(
        matches!(list, Known::Stale { since: now, .. } if now == since),
        "{list:?}"
    );
    let why = source.failure().expect("a failure");
    assert!(why.contains("refused"), "{why}");
    cluster.delete("b");
    cluster.listen();
    until_known(&source, &["a"]);
    assert_eq!(
        cluster.asked(Verb::List).len(),
        1,
        "the server remembers what it told"
    );
}

#[test]
fn a_server_that_comes_back_without_its_memory() {
    let mut cluster = Cluster::start("amnesia");
    cluster.apply("a", shard(1));
    let source = source(&cluster);
    until_known(&source, &["a"]);
    within("it is watched", || cluster.watches() == 1);
    cluster.stop();
    until_stale(&source);
    cluster.delete("a");
    cluster.apply("b", shard(2));
    cluster.forget();
    cluster.listen();
    within("it lists anew", || cluster.asked(Verb::List).len() == 2);
    until_known(&source, &["b"]);
}
