// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the tests with real traffic share: the network and the QUIC stacks of the demo.

#![allow(dead_code)] // each test binary uses a part

#[path = "../../examples/demo/cid.rs"]
pub(crate) mod cid;
#[path = "../../examples/demo/net.rs"]
pub(crate) mod net;
#[path = "../../examples/demo/quic.rs"]
pub(crate) mod quic;

use std::future::Future;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use net::{client4, client6, Network, VIP4, VIP6};
use quic::{Broken, Client, Identity, Server, ServerOptions, PORT};

/// How long an answer may take on a loaded machine before the connection counts as broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Whether namespaces and BPF programs can be made here. Where they cannot, the test says so on
/// the terminal and passes; with `CI=true` it fails.
pub(crate) fn privileged(test: &str) -> bool {
    let missing = match nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS) {
        _ if !nix::unistd::geteuid().is_root() => "root".to_owned(),
        Err(error) => format!("the right to make namespaces ({error})"),
        Ok(()) => match std::thread::spawn(probe_namespaces).join() {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => format!("the right to make namespaces ({error})"),
            Err(_) => "a thread".to_owned(),
        },
    };
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} needs {missing}"
    );
    // Not `eprintln!`, which the test runner would swallow.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs {missing}");
    false
}

fn probe_namespaces() -> nix::Result<()> {
    use nix::sched::{unshare, CloneFlags};
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
}

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
        }
    }

    /// Opens the connections of clients `numbers`, all at once.
    pub(crate) async fn connect(
        &self,
        numbers: std::ops::Range<usize>,
    ) -> Vec<Result<Client, Broken>> {
        let opening = numbers.map(|n| async move {
            Client::connect(
                &self.network.clients,
                &self.identity,
                local(n),
                vip(n),
                DEADLINE,
            )
            .await
            .expect("a socket")
        });
        all(opening).await
    }

    /// Opens connections that must all come about.
    pub(crate) async fn connect_all(&self, numbers: std::ops::Range<usize>) -> Vec<Client> {
        let opened = self.connect(numbers).await;
        opened
            .into_iter()
            .map(|client| client.unwrap_or_else(|broken| panic!("{broken}")))
            .collect()
    }
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
