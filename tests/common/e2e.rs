// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the tests with real traffic share: the network and the QUIC stacks of the demo.

#![allow(dead_code)] // each test binary uses a part

#[path = "../../examples/demo/cid.rs"]
pub(crate) mod cid;
#[path = "../../examples/demo/lb.rs"]
pub(crate) mod lb;
#[path = "../../examples/demo/net.rs"]
pub(crate) mod net;
#[path = "../../examples/demo/quic.rs"]
pub(crate) mod quic;
#[path = "../../examples/demo/spec.rs"]
pub(crate) mod spec;

pub(crate) mod forget;
pub(crate) mod nat;
pub(crate) mod netns;
pub(crate) mod operator;
pub(crate) mod plain;
pub(crate) mod relay;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guideway::kernel::statedir::Section;
use guideway::quiclb::{Build, StateRoot, Writer};

use lb::{Balancer, Counters, Published};
pub(crate) use netns::require_kernel;

use net::{client4, client6, Network, VIP4, VIP6};
use quic::{Client, Identity, Server, ServerOptions, PORT};
use serde_json::Value;
use spec::{Member, Routing};

/// How long an answer may take on a loaded machine before the connection counts as broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Handshakes at a time: more would repeat their first packets on a slow machine.
const HANDSHAKES: usize = 25;

/// Runs a test's steps.
pub(crate) fn block_on<T>(steps: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(steps)
}

/// A network with a QUIC server on every backend.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) servers: Vec<Server>,
    pub(crate) identity: Identity,
    /// There is none before the first publication.
    balancer: Option<Balancer>,
    /// What the last publication made true.
    published: Option<Published>,
}

/// The address of the service for the `n`th client: IPv4 and IPv6 take turns.
pub(crate) fn vip(n: usize) -> SocketAddr {
    let address = if n % 2 == 0 {
        IpAddr::V4(VIP4)
    } else {
        IpAddr::V6(VIP6)
    };
    SocketAddr::new(address, PORT)
}

/// A client address of the same family as [`vip`] of `n`.
pub(crate) fn local(n: usize) -> IpAddr {
    if n % 2 == 0 {
        client4(n / 2)
    } else {
        client6(n / 2)
    }
}

impl World {
    pub(crate) fn new(backends: u32, options: ServerOptions) -> World {
        let network = Network::build(backends).expect("a network of namespaces");
        let identity = Identity::new();
        let servers = network
            .backends
            .iter()
            .map(|backend| {
                Server::start(
                    &backend.namespace,
                    backend.number,
                    &[IpAddr::V4(VIP4), IpAddr::V6(VIP6)],
                    &identity,
                    options,
                )
                .expect("a server")
            })
            .collect();
        World {
            network,
            servers,
            identity,
            balancer: None,
            published: None,
        }
    }

    /// The same without servers.
    pub(crate) fn bare(backends: u32) -> World {
        World {
            network: Network::build(backends).expect("a network of namespaces"),
            servers: Vec::new(),
            identity: Identity::new(),
            balancer: None,
            published: None,
        }
    }

    /// The specification of the service on both addresses, with an entry of `members` for each
    /// backend.
    pub(crate) fn document(&self, routing: Routing, members: &[Member]) -> Value {
        let services = [0, 1].map(|n| {
            let name = ["v4", "v6"][n];
            spec::service(name, vip(n), routing, &self.network.backends, members)
        });
        spec::document(services.to_vec())
    }

    /// Makes this specification the one that packets see; the first one attaches the program.
    pub(crate) fn publish(&mut self, routing: Routing, members: &[Member]) {
        self.publish_document(&self.document(routing, members));
    }

    /// The same without backend `number`.
    pub(crate) fn publish_without(&mut self, routing: Routing, members: &[Member], number: u32) {
        let mut document = self.document(routing, members);
        for service in document["services"].as_array_mut().expect("services") {
            service["backends"]
                .as_array_mut()
                .expect("backends")
                .retain(|backend| backend["id"] != number);
        }
        self.publish_document(&document);
    }

    pub(crate) fn publish_document(&mut self, document: &Value) {
        let published = match &mut self.balancer {
            Some(balancer) => balancer
                .publish(&self.network, document)
                .expect("a publication"),
            None => {
                let (balancer, published) =
                    Balancer::start(&self.network, document).expect("a balancer");
                self.balancer = Some(balancer);
                published
            }
        };
        self.published = Some(published);
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> &Published {
        self.published.as_ref().expect("a first publication")
    }

    /// Exchanges the program for another one of the same kind and back, over and over, while `work` is
    /// done; how often. What the control plane was is over.
    pub(crate) fn exchanging<T>(&mut self, work: impl FnOnce(&Self) -> T) -> (T, u32) {
        drop(self.take_balancer());
        let stop = AtomicBool::new(false);
        let (network, stop) = (&self.network.balancer, &stop);
        std::thread::scope(|scope| {
            let exchanger = scope.spawn(move || {
                network
                    .run(|| exchange_until(stop))
                    .expect("the balancer's namespace")
            });
            let done = work(self);
            stop.store(true, Ordering::Relaxed);
            (done, exchanger.join().expect("exchanged"))
        })
    }

    /// Hands the balancer over, to be kept by a thread of its own.
    pub(crate) fn take_balancer(&mut self) -> Balancer {
        self.balancer.take().expect("a first publication")
    }

    /// Forwarded packets by rule, without the rules that placed none.
    pub(crate) fn rules(&self) -> BTreeMap<&'static str, u64> {
        let mut rules = self.counters().rules;
        rules.retain(|_, count| *count > 0);
        rules
    }

    pub(crate) fn counters(&self) -> Counters {
        let balancer = self.balancer.as_ref().expect("a first publication");
        balancer.counters(&self.network).expect("counters")
    }

    /// Opens the connections of clients `numbers`; none may fail.
    pub(crate) async fn connect_all(&self, numbers: Range<usize>) -> Vec<Client> {
        self.connect_within(numbers, DEADLINE).await
    }

    /// The same with a deadline of their own, for connections that are expected to break.
    pub(crate) async fn connect_within(
        &self,
        numbers: Range<usize>,
        deadline: Duration,
    ) -> Vec<Client> {
        let (clients, identity) = (&self.network.clients, &self.identity);
        let mut opened = Vec::with_capacity(numbers.len());
        let numbers: Vec<_> = numbers.collect();
        for some in numbers.chunks(HANDSHAKES) {
            let opening = some.iter().map(|&n| async move {
                Client::connect(clients, identity, local(n), vip(n), deadline)
                    .await
                    .expect("a socket")
                    .unwrap_or_else(|broken| panic!("client {n}: {broken}"))
            });
            opened.extend(all(opening).await);
        }
        opened
    }
}

/// Exchanges the program of the only instance here until it is told to stop, and at least so often.
fn exchange_until(stop: &AtomicBool) -> u32 {
    let root = StateRoot::default();
    let instance = root.quiclb_instances().expect("readable")[0];
    let dir = root.quiclb(instance);
    let mut writer = Writer::open(&dir).expect("an instance");
    // A program of which nothing tells what build it is counts as another build's.
    let known = Build::pin(writer.program().id());
    std::fs::remove_file(dir.pin(Section::Programs, &known)).expect("removed");
    writer.upgrade().expect("upgraded");
    let mut exchanges = 1;
    while !stop.load(Ordering::Relaxed) || exchanges < 20 {
        writer
            .rollback_observed(Duration::ZERO, |_| Ok(()))
            .expect("exchanged");
        exchanges += 1;
    }
    exchanges
}

/// Waits for all of `futures` on this thread, and returns their results in order.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, result) in &mut pending {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    pending
        .into_iter()
        .map(|(_, result)| result.expect("every future is ready"))
        .collect()
}
