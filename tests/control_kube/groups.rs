// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a server says, or does not, in the groups of a node: a list that is not known changes no
//! member, and one that is empty takes them all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel};
use guideway::control::kube::KubeSource;
use guideway::control::source::Source;
use guideway::control::sweep::sweep;
use guideway::control::{Deadline, Desired, Known, Mode, Policy, Reachability, ShardList};
use guideway::encap::Encap;
use guideway::group::{Classes, Limits, Settings};
use guideway::route::{Key, Route, TableId};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

use crate::cluster::{Answer, Cluster, Order, Verb};
use crate::support::*;

fn desired(shards: Known<ShardList>) -> Desired {
    Desired {
        mode: Mode::Hashed,
        classes: Classes::new([], Limits::default()).expect("NAT66"),
        settings: Settings::default(),
        encap: Encap::standard("2001:db8:ff01:1:e000::".parse().expect("a SID")),
        shards,
        static_sids: Vec::new(),
        policy: Policy::default(),
        overrides: BTreeMap::new(),
    }
}

/// A node with a tenant, and what its groups and routes are after two sweeps with what a source knows.
struct Node {
    fake: Fake,
    kernel: FakeKernel,
}

impl Node {
    fn new() -> Self {
        let fake = Fake::new(Limits::default());
        let tenant = Tenant::new(TableId::new(42), Argument::new(7).expect("in range"));
        fake.put_tenant(3, tenant);
        let kernel = fake.kernel();
        Self { fake, kernel }
    }

    /// Sweeps with what is known, whether the source likes it or not.
    fn sweep(&mut self, source: &KubeSource) -> (BTreeSet<BaseSid>, BTreeMap<Key, Route>) {
        let mac = |last| format!("02:00:00:00:00:{last:02x}").parse().expect("a MAC");
        let hop = NextHop::new(7, mac(1), mac(2), Mtu::UNCHECKED).expect("a way");
        let desired = desired(source.latest());
        for _ in 0..2 {
            let mut reach = |sids: &BTreeSet<BaseSid>, _| {
                Ok(Reachability(
                    sids.iter().map(|&sid| (sid, Ok(hop))).collect(),
                ))
            };
            let deadline = Deadline::at(Duration::MAX);
            let swept = sweep(&mut self.kernel, &desired, &mut reach, &deadline);
            assert!(swept.expect("a sweep").is_complete());
        }
        self.fake.world(|world| {
            let members = world.groups.values().flat_map(|group| &group.members);
            (
                members.map(|member| member.sid).collect(),
                world.routes.clone(),
            )
        })
    }
}

fn sids(numbers: &[u16]) -> BTreeSet<BaseSid> {
    let sid = |number: &u16| format!("2001:db8:ff09:{:x}:e000::", number + 1);
    let sids = numbers.iter().map(sid);
    sids.map(|text| text.parse().expect("a SID")).collect()
}

#[test]
fn members_stay_while_the_list_is_not_known_and_go_when_it_is_empty() {
    let cluster = Cluster::start("groups");
    cluster.apply("a", shard(1));
    cluster.apply("b", shard(2));
    let mut node = Node::new();

    // Nothing was ever listed: no group is published.
    cluster.always(Verb::List, Answer::Silence);
    let silent = source(&cluster);
    within("it lists", || cluster.asked(Verb::List).len() == 1);
    node.sweep(&silent);
    node.fake.world(|world| assert!(world.groups.is_empty()));
    drop(silent);

    cluster.behave(Verb::List);
    cluster.stop_silence();
    let first = source(&cluster);
    until_known(&first, &["a", "b"]);
    let (members, routes) = node.sweep(&first);
    assert_eq!(members, sids(&[1, 2]));
    assert_eq!(routes.len(), 1);
    drop(first);

    // A process that begins anew, and hears nothing.
    cluster.always(Verb::List, Answer::Silence);
    let before = cluster.asked(Verb::List).len();
    let source = source(&cluster);
    within("it lists", || cluster.asked(Verb::List).len() > before);
    assert_eq!(source.latest(), Known::Unknown);
    assert_eq!(node.sweep(&source), (sids(&[1, 2]), routes.clone()));

    cluster.behave(Verb::List);
    cluster.stop_silence();
    until_known(&source, &["a", "b"]);
    within("it is watched", || cluster.watches() == 1);

    // Cut, with a change that it cannot have heard of, and a list that does not come.
    cluster.always(Verb::List, Answer::Silence);
    cluster.order(Order::Cut);
    within("the watch is cut", || cluster.watches() == 0);
    cluster.delete("a");
    cluster.forget();
    until_stale(&source);
    assert_eq!(node.sweep(&source), (sids(&[1, 2]), routes.clone()));

    cluster.behave(Verb::List);
    cluster.stop_silence();
    until_known(&source, &["b"]);
    assert_eq!(node.sweep(&source), (sids(&[2]), routes.clone()));

    // Nobody is left: the route leads to the group still, which drops and counts.
    cluster.delete("b");
    until_known(&source, &[]);
    assert_eq!(node.sweep(&source), (BTreeSet::new(), routes));
}
