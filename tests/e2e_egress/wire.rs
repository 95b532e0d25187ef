// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames as only a wire brings them: tagged, too long, cut off, shared with others or in pieces, and a
//! tenant's own tunnels.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use bytemuck::Zeroable;
use guideway::abi;

use crate::frames::*;
use crate::machine::*;
use crate::netns;
use crate::raw::Raw;
use crate::world::*;

/// The tenant's address that a server of the same family sees.
fn tenant(server: &str) -> IpAddr {
    let address = if server == SERVER4 { TENANT4 } else { TENANT6 };
    address.parse().expect("an address")
}

/// A whole frame of the tenant with a datagram.
fn datagram(server: &str, payload: &[u8]) -> Vec<u8> {
    let mut transport = ports(7, PORT, 8);
    transport[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    transport.extend(payload);
    with_checksums(match (tenant(server), address(server).ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, UDP, 0x4000, &transport),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(from, to, UDP, &transport),
        _ => unreachable!("of one family"),
    })
}

fn received(server: &UdpSocket) -> Vec<u8> {
    let mut got = vec![0; 65_536];
    let (length, _) = server.recv_from(&mut got).expect("received");
    got.truncate(length);
    got
}

/// The kernel has taken the tag off when the program sees the frame: only its metadata tells.
#[test]
fn a_tagged_frame_is_left_alone() {
    in_world("e2e_egress::vlan", |world| {
        let plain = datagram(SERVER6, &bytes(20));
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let before = world.count(C::GW_EGRESS_GROUP);
        let raw = Raw::sender(&world.tenant, "gw-inside");
        raw.send(&tagged);
        raw.send(&plain);
        let arrived = || world.count(C::GW_EGRESS_GROUP) > before;
        assert!(netns::within(Duration::from_secs(10), arrived));
        // They came in this order.
        assert_eq!(world.count(C::GW_EGRESS_GROUP), before + 1);
    });
}

/// Shorter than its headers: not ours to judge.
#[test]
fn a_frame_that_is_cut_off_is_left_alone() {
    in_world("e2e_egress::short", |world| {
        let raw = Raw::sender(&world.tenant, "gw-inside");
        for (server, headers) in [(SERVER6, 40), (SERVER4, 20)] {
            let whole = datagram(server, &bytes(20));
            let short = world.count(C::GW_EGRESS_SKIP_SHORT);
            let sent = world.count(C::GW_EGRESS_GROUP);
            let cut = world.count(C::GW_EGRESS_DROP_PARSE);
            for bytes in [
                15,
                14 + headers - 1,
                14 + headers,
                whole.len() - 1,
                whole.len(),
            ] {
                raw.send(&whole[..bytes]);
            }
            let arrived = || world.count(C::GW_EGRESS_GROUP) == sent + 1;
            assert!(netns::within(Duration::from_secs(10), arrived));
            assert_eq!(world.count(C::GW_EGRESS_SKIP_SHORT), short + 2);
            // Longer than that, but not as long as they say.
            assert_eq!(world.count(C::GW_EGRESS_DROP_PARSE), cut + 2);
        }
    });
}

/// Somebody who captures has the very bytes that the program gets: it writes into copies of its own.
#[test]
fn what_others_hold_stays_as_it_is() {
    in_world("e2e_egress::shared", |world| {
        let capture = Raw::listener(&world.node, "gw-tenant");
        for server in [SERVER6, SERVER4] {
            let at = address(server);
            let receiver = bind(&world.server, at);
            let client = bind(&world.tenant, any(at));
            for count in [60, 100, 1400] {
                let sent = bytes(count);
                client.send_to(&sent, at).expect("sent");
                assert!(received(&receiver) == sent, "{count} bytes came as others");
                let headers = if at.is_ipv4() { 28 } else { 48 };
                // Taken when the program had run already.
                let frame = capture
                    .receive(|frame| frame.len() == 14 + headers + count && frame.ends_with(&sent));
                assert_ne!(frame[..6], DMAC);
                assert_eq!(frame[14] >> 4, if at.is_ipv4() { 4 } else { 6 });
            }
        }
    });
}

/// What user space hands over as pages, and the kernel as a header in one piece of memory and all
/// else, the inner headers too, in others.
#[test]
fn headers_in_pages_are_found_and_pages_forwarded() {
    in_world("e2e_egress::pages", |world| {
        world.jumbo();
        let raw = Raw::sender(&world.tenant, "gw-inside");
        for (server, number) in [(SERVER6, SHARD6), (SERVER4, SHARD4)] {
            let at = address(server);
            let receiver = bind(&world.server, at);
            for count in [4100, 8000] {
                let sent = bytes(count);
                raw.send_in_pages(&datagram(server, &sent));
                assert!(received(&receiver) == sent, "{count} bytes came as others");
            }
            // Also where nothing but the inner header says how to go on.
            let prefix = if at.is_ipv4() { "0.0.0.0" } else { "::" };
            let route = world.machine.to_shard(number);
            let prefix = prefix.parse().expect("an address");
            world.machine.route(TABLE, prefix, 0, &route);
            let sent = bytes(5000);
            raw.send_in_pages(&datagram(server, &sent));
            assert!(received(&receiver) == sent);
        }
        let dropped: u64 = world.machine.counters()[32..64].iter().sum();
        assert_eq!(dropped, 0);
    });
}

/// The kernel refuses to mark as encapsulated what is that already; it goes out all the same. Nor does it
/// let that become an answer: it ends as it would without.
#[test]
fn a_tenants_own_tunnel_goes_through() {
    in_world("e2e_egress::tunnel", |world| {
        for (server, number) in [(SERVER6, 5), (SERVER4, 6)] {
            let name = format!("gw-vx{number}");
            let add = |local: IpAddr, remote: IpAddr, own: u8, peer: u8| {
                format!(
                    "link add {name} address 02:00:00:00:0{number}:0{own} type vxlan id {number} \
                     local {local} remote {remote} dstport {PORT}\n\
                     addr add 192.168.{number}.{own}/24 dev {name}\n\
                     link set {name} mtu 1300 up\n\
                     neigh add 192.168.{number}.{peer} lladdr 02:00:00:00:0{number}:0{peer} dev {name}\n"
                )
            };
            let (near, far) = (tenant(server), address(server).ip());
            if let Err(error) = world.tenant.ip(&add(near, far, 1, 2)) {
                println!("no tunnels of this kernel to test with: {error}");
                return;
            }
            world
                .server
                .ip(&add(far, near, 2, 1))
                .expect("the other end");
            let at = format!("192.168.{number}.2:9").parse().expect("an address");
            let receiver = bind(&world.server, at);
            let client = bind(&world.tenant, any(at));
            let before = world.count(C::GW_EGRESS_GROUP);
            for count in [1, 1000] {
                let sent = bytes(count);
                client.send_to(&sent, at).expect("sent");
                assert!(received(&receiver) == sent);
            }
            assert!(world.count(C::GW_EGRESS_GROUP) >= before + 2);
            let dropped = || world.machine.counters()[32..64].iter().sum::<u64>();
            let (before, blocked) = (dropped(), world.count(C::GW_EGRESS_DROP_BLOCKED));
            assert_eq!(before, blocked);
            world.machine.want_answers(|_| ());
            world.machine.configure_answers(1000, 1000);
            let block = abi::Route {
                kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
                action: abi::BlockAction::GW_BLOCK_UNREACHABLE.0 as u8,
                ..Zeroable::zeroed()
            };
            world
                .machine
                .route(TABLE, far, if far.is_ipv4() { 32 } else { 128 }, &block);
            client.send_to(&bytes(1000), at).expect("sent");
            let ended = || dropped() > before;
            assert!(netns::within(Duration::from_secs(10), ended));
            assert_eq!(dropped(), world.count(C::GW_EGRESS_DROP_BLOCKED));
        }
    });
}

/// One byte less on the link, and nothing vanishes there: it is dropped and counted.
#[test]
fn what_is_too_big_for_the_link_is_counted() {
    in_world("e2e_egress::too_big", |world| {
        for (prefix, number) in [("::", SHARD6), ("0.0.0.0", SHARD4)] {
            let mut route = world.machine.to_shard(number);
            route.next_hop.mtu = UPLINK_MTU - 1;
            let prefix = prefix.parse().expect("an address");
            world.machine.route(TABLE, prefix, 0, &route);
        }
        for (server, headers) in [(SERVER6, 48), (SERVER4, 28)] {
            let at = address(server);
            let client = bind(&world.tenant, any(at));
            let before = world.count(C::GW_EGRESS_DROP_TOO_BIG);
            let sent = world.count(C::GW_EGRESS_SHARD);
            let largest = TENANT_MTU as usize - headers;
            client.send_to(&bytes(largest), at).expect("sent");
            client.send_to(&bytes(largest - 1), at).expect("sent");
            let arrived = || {
                world.count(C::GW_EGRESS_DROP_TOO_BIG) == before + 1
                    && world.count(C::GW_EGRESS_SHARD) == sent + 1
            };
            assert!(netns::within(Duration::from_secs(10), arrived));
        }
    });
}
