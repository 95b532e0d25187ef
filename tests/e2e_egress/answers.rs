// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What Linux makes of the answers that its packets get.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use bytemuck::Zeroable;
use guideway::abi;

use crate::machine::*;
use crate::net::Namespace;
use crate::netns;
use crate::world::*;

/// A link that carries less than the tenant's.
const LINK_MTU: u32 = 1400;

/// Who makes the checksums of what the tenant sends, and of what it gets: its own kernel has them made by
/// the device, which is none.
const CHECKSUMS: [&[(&str, &str)]; 3] = [
    &[],
    // The sender.
    &[
        ("gw-inside", "tx"),
        ("gw-inside", "tso"),
        ("gw-inside", "gso"),
    ],
    // The node's kernel when the answer leaves, so that the tenant's verifies it.
    &[("gw-tenant", "tx")],
];

fn small_link(world: &World, offloads: &[(&str, &str)]) {
    for &(interface, feature) in offloads {
        let inside = match interface {
            "gw-inside" => &world.tenant,
            _ => &world.node,
        };
        inside
            .offload(interface, feature, "off")
            .expect("a feature");
    }
    world.machine.want_answers(|_| ());
    world.machine.configure_answers(1000, 100);
    for (id, number) in [(GROUP6, SHARD6), (GROUP4, SHARD4)] {
        let mut group = world.machine.group_of(&[(number, 1)]);
        group.members[0].next_hop.mtu = LINK_MTU;
        world.machine.publish(id, &group);
    }
}

/// What the tenant's kernel knows of the way to a server.
fn route(tenant: &Namespace, server: &str) -> String {
    let get = || netns::ip(&["route", "get", server]);
    tenant.run(get).expect("inside")
}

fn learned(world: &World, server: &str) -> bool {
    let mtu = format!("mtu {}", LINK_MTU - 40);
    netns::within(Duration::from_secs(10), || {
        route(&world.tenant, server).contains(&mtu)
    })
}

/// A datagram is lost, and with its answer the tenant's kernel cuts up the next to what fits.
#[test]
fn a_sender_of_datagrams_learns_what_fits() {
    for offloads in CHECKSUMS {
        in_world("e2e_egress::udp_mtu", move |world| {
            small_link(world, offloads);
            for server in [SERVER6, SERVER4] {
                let at = address(server);
                let receiver = bind(&world.server, at);
                let client = bind(&world.tenant, any(at));
                let sent = bytes(1400);
                client.send_to(&sent, at).expect("sent");
                assert!(learned(world, server), "{}", route(&world.tenant, server));
                // In two fragments.
                client.send_to(&sent, at).expect("sent");
                let mut got = [0; 2000];
                let (length, _) = receiver.recv_from(&mut got).expect("received");
                assert!(got[..length] == sent);
            }
            assert_eq!(world.count(C::GW_EGRESS_ICMP_SENT), 2);
            let dropped: u64 = world.machine.counters()[32..64].iter().sum();
            assert_eq!(dropped, 0);
        });
    }
}

/// The segments of TCP become as long as the link carries, also where the device cuts them.
#[test]
fn tcp_goes_on_with_segments_that_fit() {
    for offloads in CHECKSUMS {
        in_world("e2e_egress::tcp_mtu", move |world| {
            small_link(world, offloads);
            for server in [SERVER6, SERVER4] {
                let before = world.count(C::GW_EGRESS_ICMP_SENT);
                world.transfer(server);
                assert!(world.count(C::GW_EGRESS_ICMP_SENT) > before);
                assert!(learned(world, server), "{}", route(&world.tenant, server));
            }
        });
    }
}

/// Whoever connects to what is blocked is told at once.
#[test]
fn what_is_blocked_is_unreachable() {
    for offloads in CHECKSUMS {
        in_world("e2e_egress::unreachable", move |world| {
            small_link(world, offloads);
            for (prefix, server) in [("::", SERVER6), ("0.0.0.0", SERVER4)] {
                let block = abi::Route {
                    kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
                    action: abi::BlockAction::GW_BLOCK_UNREACHABLE.0 as u8,
                    ..Zeroable::zeroed()
                };
                let prefix = prefix.parse().expect("an address");
                world.machine.route(TABLE, prefix, 0, &block);
                let limit = Duration::from_secs(20);
                let at = address(server);
                let tried = world.tenant.run(|| TcpStream::connect_timeout(&at, limit));
                let refused = tried.expect("inside").expect_err("nobody is there");
                assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable, "{refused}");
            }
        });
    }
}
