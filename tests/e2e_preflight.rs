// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Networks that lose redirected frames: said before anything is published, and seen when it was
//! published all the same.

#[path = "common/e2e.rs"]
mod e2e;

use std::time::Duration;

use e2e::netns::drivers_declare_xdp;
use e2e::quic::{Broken, Client, Ids, ServerOptions};
use e2e::spec::{Member, Routing, State, INSTANCE};
use e2e::{all, local, vip, World};
use guideway::plan::{CheckCode, CheckResult};
use guideway::quiclb::{
    apply, plan_here, Applied, ApplyError, ApplyOptions, Options, Plan, Spec, StateDir, StateRoot,
    Status, Wanted,
};

const SERVERS: ServerOptions = ServerOptions {
    ids: Ids::Plain,
    retry: false,
};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

/// Connections that a test tries.
const TRIES: usize = 20;

fn spec(world: &World) -> Spec {
    let document = world.document(Routing::ServerId, &[READY; 2]).to_string();
    Spec::from_json(document.as_bytes()).expect("a specification")
}

fn dir() -> StateDir {
    StateRoot::default().quiclb(INSTANCE.parse().expect("a UUID"))
}

fn plan(world: &World) -> Plan {
    let spec = spec(world);
    let plan = move || plan_here(&StateRoot::default(), &spec, Options::default());
    let plan = world.network.balancer.run(plan).expect("a namespace");
    plan.expect("a plan")
}

/// Code and object of the checks with this result.
fn checks(plan: &Plan, result: CheckResult) -> Vec<(CheckCode, String)> {
    let checks = plan.document().preflight.iter();
    checks
        .filter(|check| check.result == result)
        .map(|check| (check.code, check.object.to_string()))
        .collect()
}

fn try_apply(world: &World, force: &[CheckCode]) -> Result<Applied, ApplyError> {
    let wanted = Wanted::Spec {
        spec: spec(world),
        options: Options::default(),
    };
    let options = ApplyOptions {
        force: force.iter().copied().collect(),
        ..ApplyOptions::default()
    };
    let apply = move || apply(&StateRoot::default(), &wanted, &options);
    world.network.balancer.run(apply).expect("a namespace")
}

fn status(world: &World) -> Status {
    let status = || Status::of(&dir());
    let status = world.network.balancer.run(status).expect("a namespace");
    status.expect("a status")
}

/// Frames that the balancer counts as sent to backend `id`.
fn sent(status: &Status, id: u32) -> u64 {
    let backends = status.services.iter().flat_map(|service| &service.backends);
    let packets = backends.filter(|backend| backend.id == id);
    packets.map(|backend| backend.counters.packets).sum()
}

/// Tries to open connections, and returns the backend of each that came about.
fn connect(world: &World) -> Vec<Option<u32>> {
    let (clients, identity) = (&world.network.clients, &world.identity);
    let patience = Duration::from_secs(2);
    let opened = e2e::block_on(all((0..TRIES).map(|n| async move {
        Client::connect(clients, identity, local(n), vip(n), patience)
            .await
            .expect("a socket")
    })));
    opened
        .into_iter()
        .map(|client| match client {
            Ok(client) => Some(client.backend),
            Err(Broken::NotOpened(_)) => None,
            Err(broken) => panic!("{broken}"),
        })
        .collect()
}

#[test]
fn a_sound_network_passes_every_check() {
    if !e2e::require_kernel("a_sound_network_passes_every_check") {
        return;
    }
    let world = World::new(2, SERVERS);
    let plan = plan(&world);
    assert!(!plan.document().preflight.is_empty());
    for result in [CheckResult::Error, CheckResult::Warning] {
        assert_eq!(checks(&plan, result), []);
    }
    try_apply(&world, &[]).expect("an instance");
    assert!(connect(&world).iter().all(Option::is_some));
    assert_eq!(status(&world).redirect_errors.total, Some(0));
}

#[test]
fn a_peer_that_does_not_poll_loses_everything_visibly() {
    if !e2e::require_kernel("a_peer_that_does_not_poll_loses_everything_visibly") {
        return;
    }
    let world = World::new(2, SERVERS);
    let deaf = &world.network.backends[0].namespace;
    deaf.offload("lb", "gro", "off").expect("ethtool");
    let expected = (CheckCode::TargetNapi, "be-1".to_owned());
    if drivers_declare_xdp() {
        assert_eq!(checks(&plan(&world), CheckResult::Error), [expected]);
        match try_apply(&world, &[]) {
            Err(ApplyError::Preflight { checks, .. }) => {
                assert_eq!(checks[0].code, CheckCode::TargetNapi);
            }
            other => panic!("{other:?}"),
        }
        let exists = world.network.balancer.run(|| dir().exists());
        assert!(!exists.expect("a namespace").expect("a state directory"));
    } else {
        // The peer is in another namespace, and nobody tells of it.
        assert_eq!(checks(&plan(&world), CheckResult::Error), []);
        assert!(checks(&plan(&world), CheckResult::Unknown).contains(&expected));
    }

    try_apply(&world, &[CheckCode::TargetNapi]).expect("an instance, by force");
    let backends = connect(&world);
    assert!(backends.contains(&Some(2)) && backends.contains(&None));
    assert!(!backends.contains(&Some(1)));
    let seen = status(&world);
    let lost = seen.redirect_errors.total.expect("a count");
    assert!(sent(&seen, 1) > 0);
    assert_eq!(lost, sent(&seen, 1));

    deaf.offload("lb", "gro", "on").expect("ethtool");
    assert!(connect(&world).iter().all(Option::is_some));
    assert_eq!(status(&world).redirect_errors.total, Some(lost));
}

#[test]
fn checksums_left_to_a_veth_are_never_made() {
    if !e2e::require_kernel("checksums_left_to_a_veth_are_never_made") {
        return;
    }
    let world = World::new(2, SERVERS);
    let clients = &world.network.clients;
    clients.offload("c0", "tx", "on").expect("ethtool");
    // The sender is in another namespace: its settings cannot be seen from the balancer's, and
    // what is unknown never counts as good.
    let mut unknown = checks(&plan(&world), CheckResult::Unknown);
    if !drivers_declare_xdp() {
        let of_targets = [CheckCode::TargetXmit, CheckCode::TargetNapi];
        unknown.retain(|(code, _)| !of_targets.contains(code));
    }
    assert_eq!(unknown, [(CheckCode::TxChecksum, "edge0".to_owned())]);
    try_apply(&world, &[]).expect("what is unknown stands in nobody's way");
    assert_eq!(connect(&world), [None; TRIES]);

    clients.offload("c0", "tx", "off").expect("ethtool");
    assert!(connect(&world).iter().all(Option::is_some));
}

#[test]
fn a_target_with_a_small_mtu_is_refused() {
    if !e2e::require_kernel("a_target_with_a_small_mtu_is_refused") {
        return;
    }
    let world = World::new(2, SERVERS);
    let narrow = "link set be-2 mtu 1280\n";
    world.network.balancer.ip(narrow).expect("an MTU");
    let expected = (CheckCode::Mtu, "be-2".to_owned());
    assert_eq!(checks(&plan(&world), CheckResult::Error), [expected]);
    assert!(matches!(
        try_apply(&world, &[]),
        Err(ApplyError::Preflight { .. })
    ));
    try_apply(&world, &[CheckCode::Mtu]).expect("an instance, by force");
    // The first packets of QUIC have 1,200 bytes and fit; the probes of the path's MTU do not.
    assert!(connect(&world).contains(&Some(2)));
}
