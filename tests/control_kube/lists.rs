// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Nothing is known before a list is complete, and nothing is lost before the next one is.

use std::time::Duration;

use guideway::control::kube::{KubeSource, Listing};
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::Known;
use serde_json::json;

use crate::cluster::{event, status, Answer, Cluster, Order, Verb};
use crate::support::*;

#[test]
fn a_slow_list_is_unknown_until_it_is_there() {
    let cluster = Cluster::start("slow");
    cluster.apply("a", shard(1));
    cluster.once(Verb::List, Answer::Late(Duration::from_millis(1500)));
    let mut source = source(&cluster);
    within("the list is asked for", || {
        !cluster.asked(Verb::List).is_empty()
    });
    assert_eq!(source.latest(), Known::Unknown);
    assert!(!readable(&source, Duration::from_millis(500)));
    assert_eq!(source.latest(), Known::Unknown);
    assert!(readable(&source, LONG));
    assert_eq!(names(&source.latest()), ["a"]);
    assert!(source.latest().is_current());
    assert!(source.acknowledge() && !source.acknowledge());
    assert!(!readable(&source, Duration::ZERO));
}

#[test]
fn a_server_that_never_lists_leaves_it_unknown() {
    let cluster = Cluster::start("never");
    cluster.apply("a", shard(1));
    cluster.always(Verb::List, Answer::Silence);
    let mut settings = settings(&cluster);
    settings.answer_timeout = Duration::from_secs(1);
    let source = KubeSource::start(settings).expect("a source");
    within("two time-outs", || {
        count(&source, SourceErrorReason::Timeout) >= 2
    });
    assert_eq!(source.latest(), Known::Unknown);
    let why = source.failure().expect("a failure");
    assert!(
        why.contains("list") && why.contains("no answer within 1s"),
        "{why}"
    );
    cluster.behave(Verb::List);
    until_known(&source, &["a"]);
    assert_eq!(source.failure(), None);
}

#[test]
fn no_page_is_seen_before_the_last() {
    let cluster = Cluster::start("pages");
    for number in 0..500 {
        cluster.apply(&format!("shard-{number:03}"), shard(number));
    }
    for _ in 0..5 {
        cluster.once(Verb::List, Answer::Late(Duration::from_millis(200)));
    }
    let mut settings = settings(&cluster);
    settings.page = 100;
    let source = KubeSource::start(settings).expect("a source");
    let list = until(&source, "anything is seen", |list| list.value().is_some());
    assert_eq!(names(&list).len(), 500);
    let asked = cluster.asked(Verb::List);
    let limits: Vec<_> = asked
        .iter()
        .map(|asked| asked.query["limit"].as_str())
        .collect();
    assert_eq!(limits, ["100"; 5]);
    let tokens: Vec<_> = asked
        .iter()
        .map(|asked| asked.query.contains_key("continue"))
        .collect();
    assert_eq!(tokens, [false, true, true, true, true]);
}

#[test]
fn a_list_that_gets_too_old_between_pages_begins_anew() {
    let cluster = Cluster::start("token");
    for number in 0..4 {
        cluster.apply(&format!("s{number}"), shard(number));
    }
    cluster.once(Verb::List, Answer::Late(Duration::ZERO));
    cluster.once(Verb::List, Answer::refusal(410, "the token is too old"));
    let mut settings = settings(&cluster);
    settings.page = 2;
    let source = KubeSource::start(settings).expect("a source");
    within("the refusal is counted", || {
        count(&source, SourceErrorReason::Gone) == 1
    });
    assert_eq!(source.latest(), Known::Unknown);
    until_known(&source, &["s0", "s1", "s2", "s3"]);
    let asked = cluster.asked(Verb::List);
    assert!(!asked[2].query.contains_key("continue"), "{:?}", asked[2]);
}

/// The version of the watch is forgotten while the list changes; both ways in which servers say so.
#[test]
fn the_last_list_stays_until_the_next_is_complete() {
    for as_status in [false, true] {
        let cluster = Cluster::start(if as_status {
            "gone-status"
        } else {
            "gone-event"
        });
        cluster.apply("a", shard(1));
        cluster.apply("b", shard(2));
        let source = source(&cluster);
        until_known(&source, &["a", "b"]);
        within("it is watched", || cluster.watches() == 1);

        cluster.always(Verb::List, Answer::Silence);
        if as_status {
            cluster.once(
                Verb::Watch,
                Answer::refusal(410, "too old resource version"),
            );
        }
        cluster.order(Order::Cut);
        within("the watch is cut", || cluster.watches() == 0);
        cluster.delete("a");
        cluster.apply("c", shard(3));
        cluster.forget();
        within("it lists anew", || cluster.asked(Verb::List).len() == 2);
        let list = source.latest();
        assert!(is_stale(&list), "{list:?}");
        assert_eq!(names(&list), ["a", "b"]);
        let why = source.failure().expect("a failure");
        assert!(why.contains("410") && why.contains("too old"), "{why}");
        assert_eq!(count(&source, SourceErrorReason::Gone), 1);

        cluster.behave(Verb::List);
        cluster.stop_silence();
        until_known(&source, &["b", "c"]);
    }
}

#[test]
fn a_list_that_empties_is_known_to_be_empty() {
    let cluster = Cluster::start("empties");
    cluster.apply("a", shard(1));
    cluster.apply("b", shard(2));
    let source = source(&cluster);
    until_known(&source, &["a", "b"]);
    cluster.delete("a");
    until_known(&source, &["b"]);
    cluster.delete("b");
    until_known(&source, &[]);
    // The same by a new list.
    let again = self::source(&cluster);
    let list = until(&again, "it is listed", |list| list.value().is_some());
    assert!(list.is_current() && names(&list).is_empty());
}

#[test]
fn a_malformed_object_affects_no_other() {
    let cluster = Cluster::start("malformed");
    let mut bad = shard(1);
    bad["status"]["shardSID"] = json!("not a SID");
    cluster.apply("a", bad.clone());
    cluster.apply("b", shard(2));
    let source = source(&cluster);
    until_known(&source, &["b"]);
    let faults = |source: &KubeSource| -> Vec<String> {
        let list = source.latest();
        let faults = list.value().expect("a list").faults.iter();
        faults.map(ToString::to_string).collect()
    };
    let told = faults(&source);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("galactic/a") && told[0].contains("shardSID"),
        "{told:?}"
    );
    assert_eq!(count(&source, SourceErrorReason::Parse), 1);

    cluster.apply("a", shard(1));
    until_known(&source, &["a", "b"]);
    assert!(faults(&source).is_empty());
    cluster.apply("b", bad);
    until_known(&source, &["a"]);
    assert!(faults(&source)[0].contains("galactic/b"));
    assert_eq!(count(&source, SourceErrorReason::Parse), 2);
    // What cannot be read may be deleted, too.
    cluster.delete("b");
    until(&source, "the fault is gone", |list| {
        list.value().is_some_and(|list| list.faults.is_empty())
    });
}

#[test]
fn a_list_that_makes_no_sense_is_no_list() {
    for (name, text) in [
        ("nonsense", "{\"items\": [".to_owned()),
        (
            "versionless",
            "{\"metadata\": {}, \"items\": []}".to_owned(),
        ),
        (
            "wrong-type",
            "{\"metadata\": {\"resourceVersion\": \"7\"}, \"items\": 3}".to_owned(),
        ),
    ] {
        let cluster = Cluster::start(name);
        cluster.apply("a", shard(1));
        cluster.once(Verb::List, Answer::Text(text));
        let source = source(&cluster);
        within("it is counted", || {
            count(&source, SourceErrorReason::Parse) == 1
        });
        assert_eq!(source.latest(), Known::Unknown, "{name}");
        until_known(&source, &["a"]);
    }
}

fn streaming(cluster: &Cluster, answer_timeout: Duration) -> KubeSource {
    let mut settings = settings(cluster);
    settings.listing = Listing::Stream;
    settings.answer_timeout = answer_timeout;
    KubeSource::start(settings).expect("a source")
}

#[test]
fn a_streamed_list_is_known_at_its_end() {
    let cluster = Cluster::start("streamed");
    cluster.streams_lists();
    cluster.apply("a", shard(1));
    cluster.apply("b", shard(2));
    let source = streaming(&cluster, LONG);
    let list = until(&source, "anything is seen", |list| list.value().is_some());
    assert_eq!(names(&list), ["a", "b"]);
    cluster.delete("a");
    until_known(&source, &["b"]);
    assert_eq!(source.listing(), Listing::Stream);
    assert!(cluster.asked(Verb::List).is_empty());
    // A later watch goes on from where this one was.
    cluster.order(Order::End);
    until_stale(&source);
    cluster.apply("c", shard(3));
    until_known(&source, &["b", "c"]);
    let asked = cluster.asked(Verb::Watch);
    assert!(
        !asked[1].query.contains_key("sendInitialEvents"),
        "{:?}",
        asked[1]
    );
}

#[test]
fn a_server_that_refuses_to_stream_lists_is_asked_for_pages() {
    let cluster = Cluster::start("refuses-stream");
    cluster.apply("a", shard(1));
    let source = streaming(&cluster, LONG);
    until_known(&source, &["a"]);
    assert_eq!(source.listing(), Listing::Pages);
    assert_eq!(cluster.asked(Verb::List).len(), 1);
}

/// An old server that does not look at the parameter watches, and never says that this was the list.
#[test]
fn a_server_that_ignores_the_wish_to_stream_is_asked_for_pages() {
    let cluster = Cluster::start("ignores-stream");
    cluster.apply("a", shard(1));
    let object =
        json!({"metadata": {"name": "half", "namespace": "galactic", "resourceVersion": "7"}});
    let text = event("ADDED", &object);
    cluster.once(Verb::Watch, Answer::Unfinished(text));
    let source = streaming(&cluster, Duration::from_secs(1));
    within("it waits for the rest", || {
        cluster.asked(Verb::Watch).len() == 1
    });
    assert_eq!(source.latest(), Known::Unknown);
    let list = until(&source, "anything is seen", |list| list.value().is_some());
    assert_eq!(names(&list), ["a"]);
    assert_eq!(source.listing(), Listing::Pages);
}

#[test]
fn a_refusal_for_other_reasons_is_no_reason_for_pages() {
    let cluster = Cluster::start("busy-stream");
    cluster.streams_lists();
    cluster.apply("a", shard(1));
    cluster.once(Verb::Watch, Answer::Status(429, "", "busy".to_owned()));
    cluster.once(
        Verb::Watch,
        Answer::Text(event("ERROR", &status(503, "down"))),
    );
    let source = streaming(&cluster, LONG);
    until_known(&source, &["a"]);
    assert_eq!(source.listing(), Listing::Stream);
    let counts = [SourceErrorReason::Throttled, SourceErrorReason::Unavailable];
    assert_eq!(counts.map(|reason| count(&source, reason)), [1, 1]);
}
