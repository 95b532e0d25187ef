// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connections that are somewhere else all of a sudden: their client behind another port of its NAT,
//! or their packets at another balancer.

#[path = "common/e2e.rs"]
mod e2e;

use std::net::Ipv4Addr;
use std::time::Duration;

use e2e::nat::Nat;
use e2e::net::{client4, Namespace, Network, EDGE};
use e2e::operator::Operator;
use e2e::quic::{Client, Ids, ServerOptions};
use e2e::spec::{document, service, Member, Routing, State};
use e2e::{all, vip, World, DEADLINE};

const RANDOM_IDS: ServerOptions = ServerOptions {
    ids: Ids::Random,
    retry: false,
};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

#[test]
fn learned_connections_survive_a_nat_that_forgets() {
    if !e2e::require_kernel("learned_connections_survive_a_nat_that_forgets") {
        return;
    }
    let mut world = World::new(4, RANDOM_IDS);
    world.publish(Routing::Learned, &[READY; 4]);
    e2e::block_on(async {
        let clients = &world.network.clients;
        let mut behind = Vec::new();
        for n in 0..16 {
            let nat = Nat::start(clients, client4(n), vip(0));
            let loopback = Ipv4Addr::LOCALHOST.into();
            let client =
                Client::connect(clients, &world.identity, loopback, nat.inside(), DEADLINE)
                    .await
                    .expect("a socket")
                    .expect("a connection");
            behind.push((nat, client));
        }
        for round in 1..=5 {
            for (n, (nat, _)) in behind.iter().enumerate() {
                nat.forget(clients, client4(n + round));
            }
            let echoes = all(behind.iter().map(|(_, client)| client.echo())).await;
            assert_eq!(echoes, vec![Ok(()); 16]);
        }
    });
    let rules = world.rules();
    assert!(rules.get("cid_learned") > Some(&16), "{rules:?}");
    let others = world.counters().others;
    assert!(others["rebind"] >= 16, "{others:?}");
}

/// A second way to the backends: a balancer of its own, with interfaces of its own.
fn second_balancer(network: &Network) -> Namespace {
    let balancer = Namespace::with_private_bpffs().expect("a namespace");
    let clients = &network.clients;
    let mac = "02:00:00:00:00:03";
    let mut setup = format!(
        "link add c1 type veth peer name {EDGE} address {mac} netns {}\nlink set c1 up\n",
        balancer.path()
    );
    for n in 0..2 {
        let vip = vip(n).ip();
        setup += &format!("neigh add {vip} lladdr {mac} dev c1 nud permanent\n");
    }
    clients.ip(&setup).expect("a second edge");
    clients.offload("c1", "tx", "off").expect("a second edge");
    let mut setup = format!("link set lo up\nlink set {EDGE} up\n");
    for backend in &network.backends {
        let (interface, mac) = (&backend.interface, &backend.mac);
        setup += &format!(
            "link add {interface} type veth peer name lb2 address {mac} netns {}\n\
             link set {interface} up\n",
            backend.namespace.path()
        );
    }
    balancer.ip(&setup).expect("ways to the backends");
    for backend in &network.backends {
        let ends = &backend.namespace;
        ends.ip("link set lb2 up\n").expect("a second way");
        ends.offload("lb2", "gro", "on").expect("a second way");
    }
    balancer
}

/// How many of the connections that one balancer knows live on behind another, which has another
/// table, and is given what the first one knows or not.
fn moved_to_another_balancer(hand_over: bool) -> (usize, usize) {
    let world = World::new(4, RANDOM_IDS);
    let backends = &world.network.backends;
    let learned = |members: &[Member]| {
        let service = service("learned", vip(0), Routing::Learned, backends, members);
        document(vec![service])
    };
    let operator = Operator::new(&format!("move-{hand_over}"));
    let first = &world.network.balancer;
    operator.apply(first, &learned(&[READY; 4]));
    let second = second_balancer(&world.network);
    let mut members = [READY; 4];
    members[3].weight = 5;
    operator.apply(&second, &learned(&members));
    e2e::block_on(async {
        let mut clients = Vec::new();
        let patience = Duration::from_secs(3);
        for n in 0..32 {
            let (at, from) = (vip(0), client4(n));
            let client =
                Client::connect(&world.network.clients, &world.identity, from, at, patience);
            clients.push(client.await.expect("a socket").expect("a connection"));
        }
        // Once more: the ID that the client uses for good is seen on a flow that is known.
        assert_eq!(
            all(clients.iter().map(Client::echo)).await,
            vec![Ok(()); 32]
        );
        if hand_over {
            let file = std::env::temp_dir().join(format!("guideway-{}.json", std::process::id()));
            let path = file.to_str().expect("text");
            let report = Operator::hand_over(first, &second, path);
            std::fs::remove_file(&file).expect("the file");
            assert!(report["accepted"].as_u64() >= Some(32), "{report}");
        }
        let route = format!("route replace {} dev c1\n", vip(0).ip());
        world.network.clients.ip(&route).expect("another way");
        let echoes = all(clients.iter().map(Client::echo)).await;
        (
            echoes.iter().filter(|echo| echo.is_ok()).count(),
            clients.len(),
        )
    })
}

#[test]
fn connections_go_on_behind_a_balancer_that_was_told_of_them() {
    if e2e::require_kernel("connections_go_on_behind_a_balancer_that_was_told_of_them") {
        assert_eq!(moved_to_another_balancer(true), (32, 32));
    }
}

#[test]
fn connections_break_behind_a_balancer_that_was_not_told_of_them() {
    if e2e::require_kernel("connections_break_behind_a_balancer_that_was_not_told_of_them") {
        let (alive, opened) = moved_to_another_balancer(false);
        assert!(alive < opened, "all {opened} live");
    }
}
