// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a source begins and ends.

use std::time::{Duration, Instant};

use guideway::control::kube::{Cluster as Place, KubeError, KubeSource, Settings};
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::Known;
use guideway::error::ErrorKind;

use crate::cluster::{Answer, Cluster, Verb};
use crate::support::*;

/// Drops a source and says how long that took.
fn dropped(source: KubeSource) -> Duration {
    let begun = Instant::now();
    drop(source);
    begun.elapsed()
}

/// What a stop may take on a machine that is busy; waits here would be 15 s and more.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_source_that_is_dropped_ends_its_watch() {
    let cluster = Cluster::start("drop-watch");
    cluster.apply("a", shard(1));
    let source = source(&cluster);
    within("it is watched", || cluster.watches() == 1);
    assert!(dropped(source) < SOON);
    within("the watch is gone", || cluster.watches() == 0);
}

#[test]
fn a_source_that_is_dropped_waits_for_no_answer_and_no_pause() {
    let cluster = Cluster::start("drop-list");
    cluster.always(Verb::List, Answer::Silence);
    let silent = source(&cluster);
    within("it is asked", || cluster.asked(Verb::List).len() == 1);
    assert!(dropped(silent) < SOON);

    let busy = Answer::Status(429, "Retry-After: 30\r\n", String::new());
    cluster.always(Verb::List, busy);
    let pausing = source(&cluster);
    within("it waits", || {
        count(&pausing, SourceErrorReason::Throttled) == 1
    });
    assert!(dropped(pausing) < SOON);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_starts() {
    let error = KubeSource::start(Settings::new("a/../b")).expect_err("no namespace");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let mut settings = Settings::new("a");
    settings.cluster = Place::Kubeconfig {
        path: "/nonexistent/kubeconfig".into(),
        context: None,
    };
    let error = KubeSource::start(settings).expect_err("no kubeconfig");
    assert!(matches!(error, KubeError::Config(_)), "{error}");
    assert!(
        error.to_string().contains("/nonexistent/kubeconfig"),
        "{error}"
    );
    let cluster = Cluster::start("context");
    let mut settings = crate::support::settings(&cluster);
    settings.cluster = Place::Kubeconfig {
        path: cluster.kubeconfig(),
        context: Some("missing".to_owned()),
    };
    let error = KubeSource::start(settings).expect_err("no such context");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_server_that_is_down_from_the_beginning_is_waited_for() {
    let mut cluster = Cluster::start("down");
    cluster.apply("a", shard(1));
    cluster.stop();
    let source = source(&cluster);
    within("it is asked in vain", || {
        count(&source, SourceErrorReason::Unavailable) >= 1
    });
    assert_eq!(source.latest(), Known::Unknown);
    assert!(source.failure().is_some());
    cluster.listen();
    until_known(&source, &["a"]);
}
