// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real connections, long-lived and mostly quiet, through everything that an operator does.
//!
//! TCP, plain UDP, QUIC placed by its flow and QUIC whose connection IDs are learned, in services
//! of both ways of tracking. Backends are added, drained, removed and weighed anew by the tool,
//! while the process that collects is killed and started again. No connection may break but those
//! of a backend that dies. The same without memory of what was before breaks some: so it is flow
//! state that keeps them.

#[path = "common/e2e.rs"]
mod e2e;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use e2e::nat::Nat;
use e2e::net::{client4, Namespace, Network, EDGE};
use e2e::operator::{Collecting, Operator};
use e2e::plain::{Flow, PlainServer};
use e2e::quic::{Client, Ids, ServerOptions};
use e2e::spec::{document, service, Member, Routing, State};
use e2e::{all, local, vip, World, DEADLINE};
use serde_json::{json, Value};

const RANDOM_IDS: ServerOptions = ServerOptions {
    ids: Ids::Random,
    retry: false,
};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

/// The port of plain services.
const PORT: u16 = 7;

/// The backends of the network; not all of them serve at first.
const BACKENDS: u32 = 5;

/// What a backend is to the service: none leaves it out.
type Members = [Option<Member>; BACKENDS as usize];

fn with_weight(weight: u32) -> Option<Member> {
    Some(Member { weight, ..READY })
}

fn draining() -> Option<Member> {
    Some(Member {
        state: State::Draining,
        ..READY
    })
}

/// What the operator does, one after the other.
fn changes() -> Vec<(&'static str, Members)> {
    let on = Some(READY);
    vec![
        ("add backend 4", [on, on, on, on, None]),
        ("add backend 5", [on; 5]),
        ("drain backend 1", [draining(), on, on, on, on]),
        ("weigh backend 2", [draining(), with_weight(3), on, on, on]),
        ("remove backend 1", [None, with_weight(3), on, on, on]),
        (
            "weigh backend 3 with 0",
            [None, with_weight(3), with_weight(0), on, on],
        ),
        (
            "add backend 1 again",
            [on, with_weight(3), with_weight(0), on, on],
        ),
        ("weigh backend 3 again", [on, with_weight(3), on, on, on]),
        ("drain backend 5", [on, with_weight(3), on, on, draining()]),
        ("take it back", [on, on, on, on, on]),
    ]
}

/// The services, their kind, and how long their flows may be silent.
const SERVICES: [(&str, Routing, Option<&str>); 5] = [
    ("tcp4", Routing::Tcp, None),
    // Windows of this one end while the test runs.
    ("tcp6", Routing::Tcp, Some("8s")),
    ("udp4", Routing::Udp, None),
    ("tuple4", Routing::Tuple, None),
    ("learned6", Routing::Learned, None),
];

fn address(service: usize) -> SocketAddr {
    let (name, routing, _) = SERVICES[service];
    let at = vip(usize::from(name.ends_with('6')));
    match routing {
        Routing::Tcp | Routing::Udp => SocketAddr::new(at.ip(), PORT),
        _ => at,
    }
}

fn specification(world: &World, members: &Members) -> Value {
    let backends = &world.network.backends;
    let all: Vec<_> = members
        .iter()
        .map(|member| member.unwrap_or(READY))
        .collect();
    let services = SERVICES
        .iter()
        .enumerate()
        .map(|(n, &(name, routing, idle))| {
            let mut service = service(name, address(n), routing, backends, &all);
            let present = service["backends"].as_array_mut().expect("backends");
            let mut here = members.iter().map(Option::is_some);
            present.retain(|_| here.next() == Some(true));
            if let Some(idle) = idle {
                service["flow_idle"] = json!(idle);
            }
            service
        });
    document(services.collect())
}

/// One connection of a client and the backend that it began with.
struct Connection {
    service: &'static str,
    home: u32,
    kind: Kind,
}

enum Kind {
    Plain(Flow),
    Quic(Client),
}

impl Connection {
    async fn open(world: &World, service: usize, n: usize, patience: Duration) -> Self {
        let (name, routing, _) = SERVICES[service];
        let clients = &world.network.clients;
        let remote = address(service);
        let local = local(2 * n + usize::from(name.ends_with('6')));
        let kind = match routing {
            Routing::Tcp => Kind::Plain(Flow::tcp(clients, local, remote).await.expect("a flow")),
            Routing::Udp => Kind::Plain(Flow::udp(clients, local, remote).await.expect("a flow")),
            _ => {
                let client = Client::connect(clients, &world.identity, local, remote, patience);
                let client = client.await.expect("a socket");
                Kind::Quic(client.unwrap_or_else(|broken| panic!("{name} {n}: {broken}")))
            }
        };
        let mut connection = Self {
            service: name,
            home: 0,
            kind,
        };
        connection.home = match &mut connection.kind {
            Kind::Plain(flow) => flow.ask(DEADLINE).await.expect("a first answer"),
            Kind::Quic(client) => client.backend,
        };
        connection
    }

    /// One question; the reason if the backend it began with does not answer.
    async fn ask(&mut self, patience: Duration) -> Result<(), String> {
        let answer = match &mut self.kind {
            Kind::Plain(flow) => flow.ask(patience).await.map_err(|error| error.to_string()),
            Kind::Quic(client) => match client.echo().await {
                Ok(()) => Ok(client.backend),
                Err(broken) => Err(broken.to_string()),
            },
        };
        match answer {
            Ok(backend) if backend == self.home => Ok(()),
            Ok(backend) => Err(format!(
                "backend {backend} answers for backend {}",
                self.home
            )),
            Err(reason) => Err(reason),
        }
    }
}

/// A machine with all servers, of which the first three serve.
fn start() -> (World, Vec<PlainServer>) {
    let world = World::new(BACKENDS, RANDOM_IDS);
    let servers = world.network.backends.iter().map(|backend| {
        let addresses = [vip(0), vip(1)].map(|vip| SocketAddr::new(vip.ip(), PORT));
        PlainServer::start(&backend.namespace, backend.number, &addresses).expect("a server")
    });
    let servers = servers.collect();
    (world, servers)
}

/// `count` connections of each service.
async fn open(world: &World, count: usize, patience: Duration) -> Vec<Connection> {
    let mut opened = Vec::new();
    for service in 0..SERVICES.len() {
        // More handshakes at a time would repeat their first packets on a slow machine.
        for some in (0..count).collect::<Vec<_>>().chunks(20) {
            let opening = some
                .iter()
                .map(|&n| Connection::open(world, service, n, patience));
            opened.extend(all(opening).await);
        }
    }
    opened
}

/// Asks on every connection, and takes out those that break, with the reasons.
async fn ask(connections: &mut Vec<Connection>, patience: Duration) -> Vec<(u32, String)> {
    let answers = all(connections
        .iter_mut()
        .map(|connection| connection.ask(patience)))
    .await;
    let mut broken = Vec::new();
    let mut answers = answers.into_iter();
    connections.retain(|connection| match answers.next() {
        Some(Err(reason)) => {
            let reason = format!("{} at {}: {reason}", connection.service, connection.home);
            broken.push((connection.home, reason));
            false
        }
        _ => true,
    });
    broken
}

/// How many connections of each service are opened at first; later ones are fewer.
fn count() -> usize {
    if std::env::var_os("GW_LONG").is_some() {
        400
    } else {
        80
    }
}

#[test]
fn no_connection_breaks_through_ten_changes() {
    if !e2e::require_kernel("no_connection_breaks_through_ten_changes") {
        return;
    }
    let (mut world, _servers) = start();
    let operator = Operator::new("ten-changes");
    let on = Some(READY);
    operator.apply(
        &world.network.balancer,
        &specification(&world, &[on, on, on, None, None]),
    );
    let mut collecting = Collecting::start(&world.network.balancer);
    e2e::block_on(async {
        let mut connections = open(&world, count(), DEADLINE).await;
        assert_eq!(ask(&mut connections, DEADLINE).await, []);
        for (n, (change, members)) in changes().into_iter().enumerate() {
            // What a backend still serves when it is removed breaks with it: so not before the end.
            connections.retain(|connection| members[connection.home as usize - 1].is_some());
            operator.apply(&world.network.balancer, &specification(&world, &members));
            if n % 2 == 1 {
                collecting.kill();
                collecting = Collecting::start(&world.network.balancer);
            }
            assert_eq!(ask(&mut connections, DEADLINE).await, [], "{change}");
            connections.extend(open(&world, 8, DEADLINE).await);
            // Windows of the impatient service close, in the time of some changes.
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(ask(&mut connections, DEADLINE).await, [], "later: {change}");
        }
        let dead = 2;
        world.servers[dead as usize - 1].kill();
        world.network.backends[dead as usize - 1]
            .unplug()
            .expect("no power");
        let mut members = [on; BACKENDS as usize];
        members[dead as usize - 1] = Some(Member {
            state: State::Unhealthy,
            ..READY
        });
        operator.apply(&world.network.balancer, &specification(&world, &members));
        let lost = connections
            .iter()
            .filter(|connection| connection.home == dead)
            .count();
        assert!(lost > 0, "it served nobody");
        let broken = ask(&mut connections, Duration::from_secs(5)).await;
        assert!(broken.iter().all(|(home, _)| *home == dead), "{broken:?}");
        assert_eq!(broken.len(), lost);
    });
    let status = Operator::status(&world.network.balancer);
    let flows = &status["affinity"]["flows"];
    assert!(flows["used"].as_u64() > Some(0), "{status}");
    assert_eq!(flows["refused"], 0, "{status}");
    assert!(status["affinity"]["last_sweep"].is_object(), "{status}");
    collecting.kill();
}

#[test]
fn without_memory_of_what_was_before_connections_break() {
    if !e2e::require_kernel("without_memory_of_what_was_before_connections_break") {
        return;
    }
    let (world, _servers) = start();
    let operator = Operator::new("no-memory");
    let on = Some(READY);
    operator.apply(
        &world.network.balancer,
        &specification(&world, &[on, on, on, None, None]),
    );
    e2e::block_on(async {
        let patience = Duration::from_secs(3);
        let mut connections = open(&world, 30, patience).await;
        let opened = connections.len();
        for (_, members) in changes().into_iter().take(2) {
            Operator::purge(&world.network.balancer);
            operator.apply(&world.network.balancer, &specification(&world, &members));
            ask(&mut connections, patience).await;
        }
        assert!(connections.len() < opened, "every connection survived");
    });
}

#[test]
fn windows_close_and_slots_become_plain_again_beside_live_flows() {
    if !e2e::require_kernel("windows_close_and_slots_become_plain_again_beside_live_flows") {
        return;
    }
    let (world, _servers) = start();
    let operator = Operator::new("windows");
    let on = Some(READY);
    // TCP over IPv6 alone, which is the service with short windows.
    let only = |members: &Members| {
        let mut document = specification(&world, members);
        let services = document["services"].as_array_mut().expect("services");
        services.retain(|service| service["name"] == "tcp6");
        document
    };
    operator.apply(&world.network.balancer, &only(&[on, on, on, None, None]));
    let mut collecting = Collecting::start(&world.network.balancer);
    let marks = || {
        let status = Operator::status(&world.network.balancer);
        let flows = &status["affinity"]["flows"];
        let number = |name: &str| flows[name].as_u64().unwrap_or_else(|| panic!("{status}"));
        (number("open_slots"), number("held_slots"))
    };
    e2e::block_on(async {
        let opening = (0..60).map(|n| Connection::open(&world, 1, n, DEADLINE));
        let mut connections = all(opening).await;
        let published = operator.apply(&world.network.balancer, &only(&[on, on, on, on, None]));
        let predicted = published["disruption"][0]["slots_open"].as_u64();
        let (open, _) = marks();
        assert_eq!(Some(open), predicted, "{published}");
        assert!(open > 4093 / 5, "a quarter of the slots has another owner");
        let began = Instant::now();
        let mut held = 0;
        while marks().0 > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", marks());
            assert_eq!(ask(&mut connections, DEADLINE).await, []);
            tokio::time::sleep(Duration::from_millis(500)).await;
            held = held.max(marks().1);
        }
        // Idle time and two seconds.
        assert!(
            began.elapsed() >= Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        assert!(
            held > 0,
            "flows that are elsewhere than the table says hold their slots"
        );
        assert_eq!(ask(&mut connections, DEADLINE).await, []);
        drop(connections);
        let began = Instant::now();
        while marks() != (0, 0) {
            assert!(began.elapsed() < Duration::from_secs(90), "{:?}", marks());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    collecting.kill();
}

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
