// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sources of the test's cluster, and waiting for what they should know.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use guideway::control::kube::{Cluster as Place, KubeSource, Settings};
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::{Known, ShardList};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde_json::{json, Value};

use crate::cluster::{Cluster, NAMESPACE};

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn settings(cluster: &Cluster) -> Settings {
    let mut settings = Settings::new(NAMESPACE);
    settings.cluster = Place::Kubeconfig {
        path: cluster.kubeconfig(),
        context: None,
    };
    settings
}

pub(crate) fn source(cluster: &Cluster) -> KubeSource {
    KubeSource::start(settings(cluster)).expect("a source")
}

/// A shard that translates NAT66; `number` makes its SID.
pub(crate) fn shard(number: u16) -> Value {
    json!({
        "spec": {"drain": false},
        "status": {
            "shardSID": format!("2001:db8:ff09:{:x}:e000::", number + 1),
            "shardAddressIPv6": "2001:db8:ffff::1",
            "conditions": [
                {"type": "Programmed", "status": "True"},
                {"type": "Ready", "status": "True"},
            ],
        },
    })
}

/// The names of the shards, without the namespace.
pub(crate) fn names(known: &Known<ShardList>) -> Vec<String> {
    let shards = known.value().into_iter().flat_map(|list| &list.shards);
    let prefix = format!("{NAMESPACE}/");
    let names = shards.map(|shard| shard.name.strip_prefix(&prefix).expect("a name").to_owned());
    names.collect()
}

pub(crate) fn is_stale(known: &Known<ShardList>) -> bool {
    matches!(known, Known::Stale { .. })
}

pub(crate) fn count(source: &KubeSource, reason: SourceErrorReason) -> u64 {
    source.errors().get(reason)
}

/// Waits until it is so, and returns the list that was.
#[track_caller]
pub(crate) fn until(
    source: &KubeSource,
    what: &str,
    mut so: impl FnMut(&Known<ShardList>) -> bool,
) -> Known<ShardList> {
    let start = Instant::now();
    loop {
        let latest = source.latest();
        if so(&latest) {
            return latest;
        }
        let failure = source.failure();
        assert!(
            start.elapsed() < LONG,
            "waited in vain until {what}; {latest:?}; {failure:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the list is known, and of these names.
#[track_caller]
pub(crate) fn until_known(source: &KubeSource, expected: &[&str]) {
    let what = format!("{expected:?} is known");
    until(source, &what, |list| {
        list.is_current() && names(list) == expected
    });
}

/// Waits until the list is stale, and tells why.
#[track_caller]
pub(crate) fn until_stale(source: &KubeSource) -> String {
    match until(source, "it is stale", is_stale) {
        Known::Stale { why, .. } => why,
        other => panic!("{other:?} is not stale"),
    }
}

#[track_caller]
pub(crate) fn within(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LONG, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the source's descriptor becomes readable within the time.
pub(crate) fn readable(source: &KubeSource, time: Duration) -> bool {
    let events = source.events();
    let mut polled = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(time).expect("a time");
    poll(&mut polled, timeout).expect("poll") == 1
}
