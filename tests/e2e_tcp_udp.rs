// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! TCP connections and plain UDP flows through publications, a drain, and a control plane that
//! goes away and comes back.

#[path = "common/e2e.rs"]
mod e2e;

use std::net::SocketAddr;
use std::time::Duration;

use e2e::plain::{Flow, PlainServer};
use e2e::spec::{document, service, Member, Routing, State};
use e2e::{all, local, vip, World, DEADLINE};
use serde_json::Value;

/// The port of all four services: TCP and UDP, each over IPv4 and IPv6.
const PORT: u16 = 7;

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

const NAMES: [&str; 4] = ["tcp4", "tcp6", "udp4", "udp6"];

fn address(n: usize) -> SocketAddr {
    SocketAddr::new(vip(n).ip(), PORT)
}

/// The four services, and as many more of other ports as `others` says.
fn services(world: &World, members: &[Member], others: u16) -> Value {
    let backends = &world.network.backends;
    let mut services: Vec<Value> = (0..4)
        .map(|n| {
            let routing = [Routing::Tcp, Routing::Udp][n / 2];
            service(NAMES[n], address(n), routing, backends, members)
        })
        .collect();
    services.extend((0..others).map(|n| {
        let other = SocketAddr::new(vip(0).ip(), 1000 + n);
        service(
            &format!("other-{n}"),
            other,
            Routing::Udp,
            backends,
            members,
        )
    }));
    document(services)
}

/// Backends that serve, and a balancer that leads to them.
fn start(members: &[Member]) -> (World, Vec<PlainServer>) {
    let mut world = World::bare(members.len() as u32);
    let servers = world
        .network
        .backends
        .iter()
        .map(|backend| {
            let addresses = [address(0), address(1)];
            PlainServer::start(&backend.namespace, backend.number, &addresses).expect("a server")
        })
        .collect();
    world.publish_document(&services(&world, members, 0));
    (world, servers)
}

/// `count` flows, a quarter of them of each service.
async fn open(world: &World, count: usize) -> Vec<Flow> {
    let clients = &world.network.clients;
    let opening = (0..count).map(|n| async move {
        let (local, remote) = (local(n), address(n));
        match n / 2 % 2 {
            0 => Flow::tcp(clients, local, remote).await,
            _ => Flow::udp(clients, local, remote).await,
        }
        .expect("a flow")
    });
    all(opening).await
}

/// One answer on every flow, or the reason that there was none.
async fn ask(flows: &mut [Flow], patience: Duration) -> Vec<std::io::Result<u32>> {
    all(flows.iter_mut().map(|flow| flow.ask(patience))).await
}

/// One answer on every flow, which none may fail to give.
async fn must_ask(flows: &mut [Flow]) -> Vec<u32> {
    let answers = ask(flows, DEADLINE).await;
    let numbered = answers.into_iter().enumerate();
    numbered
        .map(|(n, answer)| answer.unwrap_or_else(|error| panic!("flow {n}: {error}")))
        .collect()
}

/// How many flows a test opens.
fn flows() -> usize {
    if std::env::var_os("GW_LONG").is_some() {
        2000
    } else {
        400
    }
}

#[test]
fn flows_stay_where_they_are_while_other_things_change() {
    if !e2e::require_kernel("flows_stay_where_they_are_while_other_things_change") {
        return;
    }
    let (mut world, _servers) = start(&[READY; 3]);
    e2e::block_on(async {
        let mut flows = open(&world, flows()).await;
        let homes = must_ask(&mut flows).await;
        assert!((1..=3).all(|backend| homes.contains(&backend)));
        for round in 1..=10 {
            // Weights in the same proportion, and other services that come and go.
            let member = Member {
                weight: round,
                ..READY
            };
            let document = services(&world, &[member; 3], (round % 3) as u16);
            world.publish_document(&document);
            assert_eq!(must_ask(&mut flows).await, homes);
        }
    });
}

#[test]
fn flows_stay_where_they_are_while_the_program_is_exchanged() {
    if !e2e::require_kernel("flows_stay_where_they_are_while_the_program_is_exchanged") {
        return;
    }
    let (mut world, _servers) = start(&[READY; 3]);
    let (rounds, exchanges) = world.exchanging(|world| {
        e2e::block_on(async {
            // Half of them TCP.
            let mut flows = open(world, flows()).await;
            let homes = must_ask(&mut flows).await;
            for _ in 0..20 {
                assert_eq!(must_ask(&mut flows).await, homes);
            }
            20
        })
    });
    println!(
        "{rounds} answers on each of {} flows through {exchanges} exchanges",
        flows()
    );
}

#[test]
fn flows_survive_a_control_plane_that_goes_and_comes_back() {
    if !e2e::require_kernel("flows_survive_a_control_plane_that_goes_and_comes_back") {
        return;
    }
    let (mut world, _servers) = start(&[READY; 3]);
    e2e::block_on(async {
        let mut flows = open(&world, flows()).await;
        let homes = must_ask(&mut flows).await;
        for others in [1, 0, 2] {
            drop(world.take_balancer());
            assert_eq!(must_ask(&mut flows).await, homes);
            // Opens what is there and goes on from it.
            let document = services(&world, &[READY; 3], others);
            world.publish_document(&document);
            assert_eq!(must_ask(&mut flows).await, homes);
        }
    });
}

#[test]
fn a_drain_moves_the_slots_that_the_plan_says_and_no_flow() {
    if !e2e::require_kernel("a_drain_moves_the_slots_that_the_plan_says_and_no_flow") {
        return;
    }
    let draining = Member {
        state: State::Draining,
        ..READY
    };
    let (mut world, _servers) = start(&[READY; 4]);
    let planned = |world: &World, flows: &[Flow]| -> Vec<u32> {
        let plan = world.plan();
        let numbered = flows.iter().enumerate();
        numbered
            .map(|(n, flow)| {
                let name = NAMES[n % 4];
                plan.owner(name, flow.local).expect("a backend")
            })
            .collect()
    };
    e2e::block_on(async {
        let mut flows = open(&world, flows()).await;
        let homes = must_ask(&mut flows).await;
        assert_eq!(homes, planned(&world, &flows));

        let document = services(&world, &[READY, draining, READY, READY], 0);
        world.publish_document(&document);
        let later = planned(&world, &flows);
        assert!(homes.contains(&2) && !later.contains(&2));
        // Slots of the drained backend must go, and few others do.
        let moved = (0..flows.len()).filter(|&n| homes[n] != later[n]).count();
        let drained = homes.iter().filter(|&&backend| backend == 2).count();
        assert!(
            moved < drained + flows.len() / 10,
            "{moved} of {}",
            flows.len()
        );
        assert_eq!(must_ask(&mut flows).await, homes);
        // Flows that begin now are where their slots are.
        let mut newcomers = open(&world, 40).await;
        let answers = must_ask(&mut newcomers).await;
        assert_eq!(answers, planned(&world, &newcomers));
    });
}
