// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real QUIC over wires that change the frames: VLAN tags, IPv4 options, IPv6 extension headers,
//! and a NAT that forgets its binding.

#[path = "common/e2e.rs"]
mod e2e;

use std::net::Ipv4Addr;

use e2e::nat::Nat;
use e2e::net::{client4, Namespace, EDGE};
use e2e::quic::{Client, Ids, ServerOptions};
use e2e::relay::Relay;
use e2e::spec::{Member, Routing, State};
use e2e::{all, local, vip, World, DEADLINE};

const SERVERS: ServerOptions = ServerOptions {
    ids: Ids::Plain,
    retry: false,
};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

/// Bytes before the network header.
const ETHERNET: usize = 14;

/// A network whose clients reach the balancer through `change`.
fn wired(change: impl FnMut(&mut Vec<u8>) + Send + 'static) -> (World, Relay) {
    let mut change = change;
    let mut world = World::new(3, SERVERS);
    // Room for what the wire adds.
    let network = &world.network;
    let mut wider = format!("link set {EDGE} mtu 1600\n");
    for backend in &network.backends {
        wider += &format!("link set {} mtu 1600\n", backend.interface);
        backend
            .namespace
            .ip("link set lb mtu 1600")
            .expect("a wider interface");
    }
    network.balancer.ip(&wider).expect("wider interfaces");
    network.clients.divert().expect("the wire's ends");
    let wire = Relay::start(&network.clients, "w1", &["c0"], move |frame| {
        change(frame);
        Some(0)
    })
    .expect("a wire");
    world.publish(Routing::ServerId, &[READY; 3]);
    (world, wire)
}

impl Namespace {
    /// Leads the clients' packets to the interface `w1`, from where a wire must carry them on.
    fn divert(&self) -> std::io::Result<()> {
        let mut setup = "link set c0 mtu 1600\nlink add w0 type veth peer name w1\n\
                         link set w0 up\nlink set w1 up\n"
            .to_owned();
        for n in 0..2 {
            let vip = vip(n).ip();
            setup += &format!(
                "route replace {vip} dev w0\n\
                 neigh add {vip} lladdr 02:00:00:00:00:01 dev w0 nud permanent\n"
            );
        }
        self.ip(&setup)?;
        self.offload("w0", "tx", "off")
    }
}

/// Connections of both families through `change`, with migrations.
fn survives(change: impl FnMut(&mut Vec<u8>) + Send + 'static) {
    let (world, _wire) = wired(change);
    e2e::block_on(async {
        let clients = world.connect_all(0..20).await;
        for round in 1..=3 {
            for (n, client) in clients.iter().enumerate() {
                client
                    .migrate(&world.network.clients, local(n + 2 * round))
                    .expect("a socket");
            }
            let echoes = all(clients.iter().map(Client::echo)).await;
            assert_eq!(echoes, vec![Ok(()); 20]);
        }
    });
    let rules = world.rules();
    assert!((20..=60).contains(&rules["table"]), "{rules:?}");
    assert!(rules["server_id"] > 100, "{rules:?}");
}

/// Puts a VLAN tag in front of the network header. The receivers know no VLAN, but every stack
/// takes a tag with ID 0, which carries a priority only.
fn tag(frame: &mut Vec<u8>, protocol: u16) {
    let [high, low] = protocol.to_be_bytes();
    frame.splice(12..12, [high, low, 0x20, 0]);
}

#[test]
fn one_vlan_tag() {
    if e2e::require_kernel("one_vlan_tag") {
        survives(|frame| tag(frame, 0x8100));
    }
}

#[test]
fn two_vlan_tags() {
    if e2e::require_kernel("two_vlan_tags") {
        survives(|frame| {
            tag(frame, 0x8100);
            tag(frame, 0x88a8);
        });
    }
}

#[test]
fn ipv4_options_and_ipv6_extension_headers() {
    if e2e::require_kernel("ipv4_options_and_ipv6_extension_headers") {
        survives(|frame| match frame[12..ETHERNET] {
            [0x08, 0x00] => add_ipv4_options(frame),
            [0x86, 0xdd] => {
                // The last added comes first; hop-by-hop options must.
                add_ipv6_options(frame, 60);
                add_ipv6_options(frame, 0);
            }
            _ => {}
        });
    }
}

/// Two words of IPv4 options that say nothing.
fn add_ipv4_options(frame: &mut Vec<u8>) {
    let header = ETHERNET..ETHERNET + 28;
    frame.splice(ETHERNET + 20..ETHERNET + 20, [1, 1, 1, 1, 1, 1, 1, 0]);
    frame[ETHERNET] = 0x47;
    let length = u16::from_be_bytes([frame[ETHERNET + 2], frame[ETHERNET + 3]]) + 8;
    frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&length.to_be_bytes());
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let words = frame[header].chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
}

/// An extension header of type `kind` with six bytes of padding.
fn add_ipv6_options(frame: &mut Vec<u8>, kind: u8) {
    let next = std::mem::replace(&mut frame[ETHERNET + 6], kind);
    frame.splice(ETHERNET + 40..ETHERNET + 40, [next, 0, 1, 4, 0, 0, 0, 0]);
    let length = u16::from_be_bytes([frame[ETHERNET + 4], frame[ETHERNET + 5]]) + 8;
    frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
}

#[test]
fn a_nat_that_forgets() {
    if !e2e::require_kernel("a_nat_that_forgets") {
        return;
    }
    let mut world = World::new(4, SERVERS);
    world.publish(Routing::ServerId, &[READY; 4]);
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
    assert!((16..=48).contains(&rules["table"]), "{rules:?}");
}
