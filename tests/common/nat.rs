// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Address translation between a client and the balancer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

use super::net::Namespace;
use super::quic::bind;

/// A NAT for one client, whose outer port can change under the client's feet. A client of quinn
/// that moves by itself also changes its connection ID; behind this one it cannot know.
pub(crate) struct Nat {
    inside: Arc<UdpSocket>,
    outside: Mutex<Arc<UdpSocket>>,
    client: Mutex<Option<SocketAddr>>,
    remote: SocketAddr,
}

impl Nat {
    pub(crate) fn start(namespace: &Namespace, local: IpAddr, remote: SocketAddr) -> Arc<Nat> {
        let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let nat = Arc::new(Nat {
            inside: socket(namespace, loopback),
            outside: Mutex::new(socket(namespace, SocketAddr::new(local, 0))),
            client: Mutex::new(None),
            remote,
        });
        nat.clone().answer();
        let carrier = nat.clone();
        tokio::spawn(async move {
            let mut datagram = [0; 2048];
            while let Ok((length, client)) = carrier.inside.recv_from(&mut datagram).await {
                *carrier.client.lock().expect("a lock") = Some(client);
                let outside = carrier.outside.lock().expect("a lock").clone();
                let _ = outside.send_to(&datagram[..length], carrier.remote).await;
            }
        });
        nat
    }

    /// Where the client sends to.
    pub(crate) fn inside(&self) -> SocketAddr {
        self.inside.local_addr().expect("a bound socket")
    }

    /// Takes a new outer port; answers to the old one are lost.
    pub(crate) fn forget(self: &Arc<Nat>, namespace: &Namespace, local: IpAddr) {
        *self.outside.lock().expect("a lock") = socket(namespace, SocketAddr::new(local, 0));
        self.clone().answer();
    }

    /// Carries answers in from the present outer port, while it is that.
    fn answer(self: Arc<Nat>) {
        let outside = self.outside.lock().expect("a lock").clone();
        tokio::spawn(async move {
            let mut datagram = [0; 2048];
            while let Ok((length, _)) = outside.recv_from(&mut datagram).await {
                if !Arc::ptr_eq(&outside, &self.outside.lock().expect("a lock")) {
                    return;
                }
                let client = *self.client.lock().expect("a lock");
                if let Some(client) = client {
                    let _ = self.inside.send_to(&datagram[..length], client).await;
                }
            }
        });
    }
}

fn socket(namespace: &Namespace, address: SocketAddr) -> Arc<UdpSocket> {
    let socket = bind(namespace, address).expect("a socket");
    socket.set_nonblocking(true).expect("a socket");
    Arc::new(UdpSocket::from_std(socket).expect("a socket"))
}
