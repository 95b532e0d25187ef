// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `egressd run` on a node whose shards a cluster lists.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use guideway::group::MemberState;
use nix::sys::signal::Signal;
use serde_json::{json, Value};

use crate::cluster::{Answer, Cluster, Verb};
use crate::daemon::*;
use crate::netns::within;
use crate::scrape::{get, scraped, series, sweep};
use crate::tool::{assert_current, Ran};

const SOURCE: &str = "--source=kube:galactic";
/// Each node has it to itself.
const ADDRESS: &str = "127.0.0.1:19490";
const METRICS: &str = "--metrics=127.0.0.1:19490";
const SYNCED: &str = "guideway_egress_shard_watch_synced";
const UNAVAILABLE: &str =
    "guideway_egress_source_errors_total{source=\"kube\",reason=\"unavailable\"}";
/// A server that is back is asked within 30 s, and every test here lets it go for a while.
const BACK: Duration = Duration::from_secs(120);

/// A node with a tool that knows clusters, and a cluster that lists these shards.
fn on_node_of(
    name: &'static str,
    shards: &'static [u16],
    test: impl FnOnce(&Node, &mut Cluster) + Send + 'static,
) {
    on_node(name, move |node| {
        assert_current("egressd");
        let said = node.ran(&["check"], &[SOURCE]).stderr;
        assert!(
            !said.contains("feature"),
            "{said}: cargo build --features kube --example egressd"
        );
        let mut cluster = Cluster::start(name);
        for &number in shards {
            put(&cluster, shard(number));
        }
        test(node, &mut cluster);
    });
}

/// Has the cluster list a shard so from now on.
fn put(cluster: &Cluster, shard: Value) {
    let name = shard["metadata"]["name"].as_str().expect("a name");
    cluster.apply(name, shard.clone());
}

/// Starts the daemon, told by the kubeconfig of the environment where the cluster is.
fn start(node: &Node, kubeconfig: &Path, more: &[&str]) -> Daemon {
    Daemon::start(node, &[&[METRICS], more].concat(), |command| {
        command.env("KUBECONFIG", kubeconfig);
    })
}

/// Why the shards are not known, as `status` tells it; null if they are.
fn unsynced() -> Value {
    let status = Ran::with("egressd", &["-o", "json", "status"]);
    status.object()["loop"]["unsynced"].clone()
}

/// Waits until the list is known as the cluster has it, after it was away.
#[track_caller]
fn is_back(daemon: &Daemon) {
    let last = || series(&get(ADDRESS, "/metrics")?.1, SYNCED);
    let synced = within(BACK, || last() == Some(1.0));
    assert!(synced, "{:?}\n{}", last(), daemon.log());
    assert!(within(PATIENCE, || unsynced().is_null()), "{}", unsynced());
}

/// Waits until a sweep knew that the list is not that of the cluster.
#[track_caller]
fn is_missed(daemon: &Daemon) {
    scraped(ADDRESS, SYNCED, Some(0.0));
    assert!(
        within(PATIENCE, || unsynced().is_string()),
        "{}",
        daemon.log()
    );
}

#[test]
fn groups_follow_the_cluster_and_stand_while_it_is_away() {
    on_node_of("kube_away", &[0x10, 0x11], |node, cluster| {
        // It takes its time with the first list.
        cluster.always(Verb::List, Answer::Silence);
        let daemon = start(node, &cluster.kubeconfig(), &[SOURCE]);
        daemon.tells("problem", "no complete list of shards yet");
        is_missed(&daemon);
        assert!(open_group().is_none());
        assert_eq!(daemon.messages("ready").len(), 0);
        cluster.behave(Verb::List);
        cluster.stop_silence();
        is_back(&daemon);
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.says("ready");
        node.attach();
        assert_eq!(shards(&send_from(1..65)), BTreeSet::from([0x10, 0x11]));

        let is_watched = || cluster.watches() == 1;
        assert!(within(PATIENCE, is_watched), "{}", daemon.log());
        let lists = cluster.asked(Verb::List).len();
        put(cluster, shard(0x12));
        node.has_active(&[0x10, 0x11, 0x12], &daemon);
        assert_eq!(
            shards(&send_from(65..193)),
            BTreeSet::from([0x10, 0x11, 0x12])
        );
        put(cluster, draining(0x12));
        node.has_active(&[0x10, 0x11], &daemon);
        assert_eq!(Node::members(MemberState::Draining), BTreeSet::from([0x12]));
        cluster.delete("s12");
        let gone = || Node::members(MemberState::Draining).is_empty();
        assert!(within(PATIENCE, gone), "{}", daemon.log());
        assert_eq!(shards(&send_from(1..193)), BTreeSet::from([0x10, 0x11]));
        let asked = cluster.asked(Verb::List).len();
        assert_eq!(asked, lists, "it is told of changes");

        // Nothing is withdrawn because nobody answers, and nothing is kept that is not reached.
        let (before, homes) = (group(), send_from(1..193));
        cluster.stop();
        is_missed(&daemon);
        assert_eq!(group(), before);
        assert_eq!(send_from(1..193), homes);
        Ran::with("egressd", &["status"]).exits(5);
        let (_, body) = get(ADDRESS, "/metrics").expect("an answer");
        assert!(series(&body, UNAVAILABLE) >= Some(1.0), "{body}");
        Node::unroute(0x11);
        node.has_active(&[0x10], &daemon);
        Node::route(0x11);
        node.has_active(&[0x10, 0x11], &daemon);
        // Nobody can tell it of this.
        cluster.delete("s10");
        put(cluster, shard(0x13));
        sweep(ADDRESS, &daemon);
        assert_eq!(Node::members(MemberState::Active), [0x10, 0x11].into());

        cluster.listen();
        is_back(&daemon);
        node.has_active(&[0x11, 0x13], &daemon);
        assert_eq!(shards(&send_from(193..257)), BTreeSet::from([0x11, 0x13]));
        Ran::with("egressd", &["status"]).exits(0);
        daemon.stop();
    });
}

#[test]
fn a_daemon_that_begins_while_the_cluster_is_away_leaves_everything_as_it_is() {
    on_node_of("kube_begin", &[0x10, 0x11], |node, cluster| {
        let kubeconfig = cluster.kubeconfig();
        let daemon = start(node, &kubeconfig, &[SOURCE]);
        daemon.says("ready");
        node.attach();
        daemon.stop();
        let (before, homes) = (group(), send_from(1..65));
        cluster.stop();
        let daemon = start(node, &kubeconfig, &[SOURCE]);
        daemon.tells("problem", "no complete list of shards yet");
        is_missed(&daemon);
        assert_eq!(get(ADDRESS, "/readyz").expect("an answer").0, 503);
        assert_eq!(group(), before);
        assert_eq!(send_from(1..65), homes);
        cluster.listen();
        is_back(&daemon);
        daemon.says("ready");
        assert_eq!(group(), before, "nothing was published");
        assert_eq!(send_from(1..65), homes);
        daemon.stop();
    });
}

#[test]
fn a_cluster_that_cannot_be_found_is_told_at_once_and_costs_a_running_daemon_nothing() {
    on_node_of("kube_found", &[0x11], |node, cluster| {
        let nowhere = node.path("nowhere");
        let daemon = start(node, &nowhere, &[SOURCE]);
        let told = || {
            let log = daemon.log();
            log.contains("no usable configuration of a cluster") && log.contains("nowhere")
        };
        assert!(within(PATIENCE, told), "{}", daemon.log());
        assert_eq!(daemon.end(), Some(1));

        // From files to the cluster; the second time there is one.
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let write = |source: String| {
            std::fs::write(&config, json!({"source": source}).to_string()).expect("written");
        };
        write(format!("dir:{}", node.path("shards").display()));
        let file = format!("--config={}", config.display());
        let daemon = start(node, &nowhere, &["no:--source", &file]);
        node.has_active(&[0x10], &daemon);
        write("kube:galactic".to_owned());
        daemon.signal(Signal::SIGHUP);
        daemon.tells("configuration", "no usable configuration of a cluster");
        node.manifest("b.json", shard(0x12));
        node.has_active(&[0x10, 0x12], &daemon);
        scraped(ADDRESS, SYNCED, Some(1.0));
        std::fs::copy(cluster.kubeconfig(), &nowhere).expect("written");
        daemon.signal(Signal::SIGHUP);
        node.has_active(&[0x11], &daemon);
        scraped(ADDRESS, SYNCED, Some(1.0));
        daemon.stop();
        let is_left = || cluster.watches() == 0;
        assert!(within(PATIENCE, is_left), "the watch goes on");
    });
}
