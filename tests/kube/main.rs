// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The Kubernetes source and the shipped manifests against a real API server: `make test-kube`, which
//! builds one. Each test has a server and a store of its own.

#[path = "../control_reconcile/fixture.rs"]
#[allow(dead_code)] // the tests of plans use all of it
mod fixture;
mod gone;
mod life;
mod rights;
mod server;
#[path = "../control_reconcile/world.rs"]
#[allow(dead_code)] // like the fixture
mod world;

use std::time::{Duration, Instant};

use guideway::control::kube::{Cluster, KubeSource, Settings};
use guideway::control::source::Source;
use guideway::control::{Known, Shard, ShardList};
use serde_json::{json, Value};

use server::Server;

/// The namespace of the manifests.
const NAMESPACE: &str = "guideway";
const SHARDS: &str = "/apis/network.datumapis.com/v1alpha1/namespaces/guideway/egressshards";
const EXAMPLE: &str = include_str!("../../examples/egressd/kube/shard.json");

fn settings(server: &Server, user: &str) -> Settings {
    let mut settings = Settings::new(NAMESPACE);
    settings.cluster = Cluster::Kubeconfig {
        path: server.kubeconfig(),
        context: Some(user.to_owned()),
    };
    settings
}

/// A source with the rights of the shipped role.
fn source(server: &Server) -> KubeSource {
    KubeSource::start(settings(server, "egressd")).expect("a source")
}

/// Creates the example under another name, with its status.
fn create(server: &Server, name: &str, number: u16) {
    let mut shard: Value = serde_json::from_str(EXAMPLE).expect("the example is JSON");
    shard["metadata"]["name"] = json!(name);
    shard["status"]["shardSID"] = json!(format!("2001:db8:ff09:{:x}:e000::", number + 1));
    server.must("POST", SHARDS, &shard);
    patch(server, name, "/status", json!({"status": shard["status"]}));
}

fn patch(server: &Server, name: &str, part: &str, change: Value) {
    server.must("PATCH", &format!("{SHARDS}/{name}{part}"), &change);
}

fn delete(server: &Server, name: &str) {
    server.must("DELETE", &format!("{SHARDS}/{name}"), &json!({}));
}

fn shards(known: &Known<ShardList>) -> &[Shard] {
    known.value().map_or(&[], |list| &list.shards)
}

/// The names of those that can be members.
fn candidates(known: &Known<ShardList>) -> Vec<&str> {
    let able = shards(known)
        .iter()
        .filter(|shard| shard.candidate().is_some());
    able.map(|shard| shard.name.split_once('/').expect("a namespace").1)
        .collect()
}

/// Waits until it is so, and returns the list that was.
#[track_caller]
fn until(
    source: &KubeSource,
    what: &str,
    so: impl Fn(&Known<ShardList>) -> bool,
) -> Known<ShardList> {
    let start = Instant::now();
    loop {
        let latest = source.latest();
        if so(&latest) {
            return latest;
        }
        let failure = source.failure();
        let passed = start.elapsed();
        assert!(
            passed < Duration::from_secs(120),
            "waited in vain until {what}; {latest:?}; {failure:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn until_known(source: &KubeSource, expected: &[&str]) {
    let what = format!("{expected:?} is known");
    until(source, &what, |list| {
        list.is_current() && candidates(list) == expected
    });
}

fn is_stale(known: &Known<ShardList>) -> bool {
    matches!(known, Known::Stale { .. })
}
