// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real connections, long-lived and mostly quiet, through everything that an operator does.
//!
//! TCP, plain UDP, QUIC placed by its flow and QUIC whose connection IDs are learned, in services
//! of both ways of tracking. Backends are added, drained, removed and weighed anew by the tool,
//! while the process that collects is killed and started again. No connection may break but those
//! of a backend that dies. The same without memory of what was before each change breaks some: so it
//! is flow state that keeps them.

#[path = "common/e2e.rs"]
mod e2e;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use e2e::forget::forget;
use e2e::operator::{Collecting, Operator};
use e2e::plain::{Flow, PlainServer};
use e2e::quic::{Client, Ids, ServerOptions};
use e2e::spec::{document, service, Member, Routing, State};
use e2e::{all, local, vip, World, DEADLINE};
use serde_json::{json, Value};
use tokio::time::timeout;

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

/// The same services for packets that are placed by the table alone.
fn stateless(world: &World, members: &Members) -> Value {
    let mut document = specification(world, members);
    for service in document["services"].as_array_mut().expect("services") {
        service["tracking"] = json!("exceptions");
        if service["quic"]["routing"] == "learned" {
            service["quic"]["routing"] = json!("tuple");
        }
    }
    document
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
    /// Connects and asks once: another backend may answer that than the one that it connected to.
    async fn open(world: &World, service: usize, n: usize) -> Result<Self, Broken> {
        let (name, routing, _) = SERVICES[service];
        let clients = &world.network.clients;
        let remote = address(service);
        let local = local(2 * n + usize::from(name.ends_with('6')));
        let kind = match routing {
            Routing::Tcp => Kind::Plain(Flow::tcp(clients, local, remote).await.expect("a flow")),
            Routing::Udp => Kind::Plain(Flow::udp(clients, local, remote).await.expect("a flow")),
            _ => {
                let client = Client::connect(clients, &world.identity, local, remote, DEADLINE);
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
            Kind::Plain(flow) => {
                let answer = flow.ask(DEADLINE).await;
                answer.map_err(|error| (name, 0, format!("{n}, first answer: {error}")))?
            }
            Kind::Quic(client) => client.backend,
        };
        Ok(connection)
    }

    /// One question; the reason if the backend it began with does not answer.
    async fn ask(&mut self, patience: Duration) -> Result<(), String> {
        let answer = match &mut self.kind {
            Kind::Plain(flow) => flow.ask(patience).await.map_err(|error| error.to_string()),
            Kind::Quic(client) => match timeout(patience, client.echo()).await {
                Ok(Ok(())) => Ok(client.backend),
                Ok(Err(broken)) => Err(broken.to_string()),
                Err(late) => Err(late.to_string()),
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
async fn open(world: &World, count: usize) -> Vec<Result<Connection, Broken>> {
    let mut opened = Vec::new();
    for service in 0..SERVICES.len() {
        // More handshakes at a time would repeat their first packets on a slow machine.
        for some in (0..count).collect::<Vec<_>>().chunks(20) {
            let opening = some.iter().map(|&n| Connection::open(world, service, n));
            opened.extend(all(opening).await);
        }
    }
    opened
}

/// All of them, where none may break.
fn whole(opened: Vec<Result<Connection, Broken>>) -> Vec<Connection> {
    let opened: Result<_, _> = opened.into_iter().collect();
    opened.expect("whole connections")
}

/// A connection that broke: its service, the backend that it began with, and what happened.
type Broken = (&'static str, u32, String);

/// Asks on every connection, and takes out those that break.
async fn ask(connections: &mut Vec<Connection>, patience: Duration, when: &str) -> Vec<Broken> {
    let answers = all(connections
        .iter_mut()
        .map(|connection| connection.ask(patience)))
    .await;
    let mut broken = Vec::new();
    let mut answers = answers.into_iter();
    connections.retain(|connection| match answers.next() {
        Some(Err(reason)) => {
            let reason = format!("{when}: {reason}");
            broken.push((connection.service, connection.home, reason));
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

/// A machine whose first three backends serve, with somebody who calls the tool and a process that
/// collects.
struct Scene {
    world: World,
    _servers: Vec<PlainServer>,
    operator: Operator,
    collecting: Collecting,
}

impl Scene {
    fn start(test: &str) -> Self {
        let (world, servers) = start();
        let operator = Operator::new(test);
        let on = Some(READY);
        let members = [on, on, on, None, None];
        operator.apply(&world.network.balancer, &specification(&world, &members));
        Self {
            collecting: Collecting::start(&world.network.balancer),
            world,
            _servers: servers,
            operator,
        }
    }

    fn apply(&self, members: &Members) {
        let document = specification(&self.world, members);
        self.operator.apply(&self.world.network.balancer, &document);
    }

    /// Makes all changes, with questions on every connection behind each, and gives those that
    /// broke. `then` is called behind each change, before anything else is sent.
    async fn change(
        &mut self,
        connections: &mut Vec<Connection>,
        patience: Duration,
        then: impl Fn(&World, &Members),
    ) -> Vec<Broken> {
        let mut broken = ask(connections, DEADLINE, "before").await;
        assert_eq!(broken, []);
        for (n, (change, members)) in changes().into_iter().enumerate() {
            // What a backend still serves when it is removed breaks with it: so not before the end.
            connections.retain(|connection| members[connection.home as usize - 1].is_some());
            self.apply(&members);
            then(&self.world, &members);
            if n % 2 == 1 {
                self.collecting.kill();
                self.collecting = Collecting::start(&self.world.network.balancer);
            }
            broken.extend(ask(connections, patience, change).await);
            for opened in open(&self.world, 8).await {
                match opened {
                    Ok(connection) => connections.push(connection),
                    Err(error) => broken.push(error),
                }
            }
            // Windows of the impatient service close, in the time of some changes.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let later = format!("after {change}");
            broken.extend(ask(connections, patience, &later).await);
        }
        broken
    }
}

#[test]
fn no_connection_breaks_through_ten_changes() {
    if !e2e::require_kernel("no_connection_breaks_through_ten_changes") {
        return;
    }
    let mut scene = Scene::start("ten-changes");
    e2e::block_on(async {
        let mut connections = whole(open(&scene.world, count()).await);
        let broken = scene.change(&mut connections, DEADLINE, |_, _| {}).await;
        assert_eq!(broken, []);
        let dead = 2;
        scene.world.servers[dead as usize - 1].kill();
        scene.world.network.backends[dead as usize - 1]
            .unplug()
            .expect("no power");
        let mut members = [Some(READY); BACKENDS as usize];
        members[dead as usize - 1] = Some(Member {
            state: State::Unhealthy,
            ..READY
        });
        scene.apply(&members);
        let lost = connections
            .iter()
            .filter(|connection| connection.home == dead)
            .count();
        assert!(lost > 0, "it served nobody");
        let broken = ask(&mut connections, Duration::from_secs(5), "a death").await;
        assert!(
            broken.iter().all(|(_, home, _)| *home == dead),
            "{broken:?}"
        );
        assert_eq!(broken.len(), lost);
    });
    let status = Operator::status(&scene.world.network.balancer);
    let flows = &status["affinity"]["flows"];
    assert!(flows["used"].as_u64() > Some(0), "{status}");
    assert_eq!(flows["refused"], 0, "{status}");
    assert!(status["affinity"]["last_sweep"].is_object(), "{status}");
    scene.collecting.kill();
}

/// The same changes by the same calls, but behind each the table forgets what was before it. It is
/// flow state and nothing else that keeps connections.
#[test]
fn without_flow_state_the_same_changes_break_connections() {
    if !e2e::require_kernel("without_flow_state_the_same_changes_break_connections") {
        return;
    }
    let mut scene = Scene::start("no-memory");
    e2e::block_on(async {
        let patience = Duration::from_secs(1);
        let mut connections = whole(open(&scene.world, 30).await);
        let broken = scene.change(&mut connections, patience, |world, members| {
            forget(&world.network.balancer, &stateless(world, members));
        });
        let broken = broken.await;
        println!("{} broke", broken.len());
        let services: BTreeSet<_> = broken.iter().map(|(service, ..)| *service).collect();
        assert_eq!(
            services,
            SERVICES.map(|(name, ..)| name).into(),
            "{broken:?}"
        );
    });
    scene.collecting.kill();
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
        let opening = (0..60).map(|n| Connection::open(&world, 1, n));
        let mut connections = whole(all(opening).await);
        let began = Instant::now();
        let published = operator.apply(&world.network.balancer, &only(&[on, on, on, on, None]));
        let predicted = published["disruption"][0]["slots_open"].as_u64();
        let (open, _) = marks();
        assert_eq!(Some(open), predicted, "{published}");
        assert!(open > 4093 / 5, "a quarter of the slots has another owner");
        while marks().0 > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", marks());
            assert_eq!(ask(&mut connections, DEADLINE, "open").await, []);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // Idle time and two seconds.
        assert!(
            began.elapsed() >= Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        assert!(
            marks().1 > 0,
            "flows that are elsewhere than the table says hold their slots"
        );
        assert_eq!(ask(&mut connections, DEADLINE, "held").await, []);
        drop(connections);
        let began = Instant::now();
        while marks() != (0, 0) {
            assert!(began.elapsed() < Duration::from_secs(90), "{:?}", marks());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    collecting.kill();
}
