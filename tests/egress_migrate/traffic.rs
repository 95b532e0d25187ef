// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets between interfaces while limits go up and down: none is lost, none goes elsewhere.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use guideway::egress::pins::Tick;
use guideway::egress::Loader;
use guideway::group::{Class, Snapshot};
use guideway::placement::{HashKey, Scope};
use nix::sys::socket::{
    bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag, SockProtocol,
    SockType,
};
use nix::sys::time::TimeVal;

use crate::netns::{ifindex, ip, isolated, packet_address, veth, within, without_ipv6};
use crate::scene::*;
use crate::stops::Stops;
use crate::support::*;

/// Packets on their way at a time: fewer than the queue of a veth takes.
const BURST: u32 = 32;
const PACKETS: u32 = 100_000;
/// One in so many packets is of an address that had none before.
const NEW: u32 = 97;
const MIGRATIONS: usize = 6;

/// A socket that sends and receives frames of an interface.
fn frames(interface: &str) -> OwnedFd {
    let all = SockProtocol::EthAll;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), all);
    let socket = socket.expect("a socket");
    bind(socket.as_raw_fd(), &packet_address(ifindex(interface))).expect("bound");
    // What does not come in this time does not come.
    let limit = TimeVal::new(10, 0);
    setsockopt(&socket, sockopt::ReceiveTimeout, &limit).expect("a time-out");
    socket
}

/// Number of a packet that comes out of the uplink, and its shard.
fn received(socket: &OwnedFd) -> (u32, u16) {
    let mut buffer = [0; 256];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
        let frame = &buffer[..length.expect("a packet in time")];
        // Ethernet, the outer header, the inner one, UDP; others are of the kernel's own.
        if frame.len() != 14 + 40 + 40 + 8 + 8 || frame[20] != 41 {
            continue;
        }
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four"));
        let shard = u16::from_be_bytes([frame[44], frame[45]]);
        return (word(14 + 40 + 40 + 8), shard);
    }
}

fn packet(number: u32, source: u32) -> Vec<u8> {
    let source = format!("2001:db8:aaaa::{:x}:{:x}", source >> 16, source & 0xffff);
    let mut frame = frame(&source, "2001:db8:1::1");
    let payload = 14 + 40 + 8;
    frame[payload..payload + 4].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn no_packet_is_lost_or_misplaced_and_pins_are_kept() {
    isolated("egress_migrate::traffic", || {
        without_ipv6();
        let (uplink, _) = veth("gw-uplink", "gw-shards");
        ip(&["link", "set", "gw-shards", "promisc", "on"]);
        let narrow = small().with_pins(8192).expect("in range");
        let wide = large().with_pins(16384).expect("in range");
        let scene = scene(narrow, uplink);
        let shards = shards_of(&scene);
        let group = open().groups().expect("read");
        let group = group.into_iter().find(|group| group.class == Class::Nat66);
        let group = group.expect("published");
        let table = by_table(&group);
        let before = shard_counts(&open());

        let (stop, sent) = (AtomicBool::new(false), AtomicU32::new(0));
        let (inside, outside) = (
            ["gw-tenant0", "gw-tenant1"].map(frames),
            frames("gw-shards"),
        );
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            let sender = scope.spawn(|| {
                let (mut number, mut fresh) = (0_u32, ADDRESSES);
                while number < PACKETS || !stop.load(Ordering::Relaxed) {
                    let mut on_their_way = BTreeMap::new();
                    for number in number..number + BURST {
                        let source = match number % NEW {
                            0 => {
                                fresh += 1;
                                fresh
                            }
                            _ => number % ADDRESSES,
                        };
                        on_their_way.insert(number, source);
                        // The two interfaces meet the new program at different times.
                        let by = &inside[(number / 7) as usize % 2];
                        let flags = MsgFlags::empty();
                        send(by.as_raw_fd(), &packet(number, source), flags).expect("sent");
                    }
                    number += BURST;
                    sent.store(number, Ordering::Relaxed);
                    while !on_their_way.is_empty() {
                        let (number, shard) = received(&outside);
                        let source = on_their_way.remove(&number).expect("one that was sent");
                        let expected = shards.get(&source).copied();
                        let expected = expected.unwrap_or_else(|| table(source));
                        assert_eq!(shard, expected, "packet {number} of address {source}");
                    }
                }
            });
            for migration in 0..MIGRATIONS {
                let limits = if migration % 2 == 0 { wide } else { narrow };
                let migrated = Loader::new(&dir()).limits(limits).migrate();
                let migrated = migrated.expect("migrated");
                assert_eq!(migrated.copied.refused_pins, 0);
                // Packets meet each of the programs, also where migrations are quick.
                let before = sent.load(Ordering::Relaxed);
                let enough = || sent.load(Ordering::Relaxed) >= before + 8 * BURST;
                within(Duration::from_secs(60), || sender.is_finished() || enough());
                assert!(enough(), "nobody sends any more");
            }
        });
        let sent = u64::from(sent.into_inner());
        assert!(sent >= PACKETS.into());
        let egress = open();
        let counted: u64 = shard_counts(&egress).values().sum();
        let counted = counted - before.values().sum::<u64>();
        assert_eq!(counted, sent, "no counter of shards is lost");
        let group = counter(guideway::abi::EgressCounter::GW_EGRESS_GROUP);
        let runs = before.values().sum::<u64>();
        assert_eq!(group, sent + runs, "no counter of outcomes is lost");
        let status = egress.pin_status(Tick::now()).expect("read");
        let pins = status.by_source;
        assert_eq!(pins, u64::from(ADDRESSES) + sent.div_ceil(NEW.into()));
    });
}

/// The shard of an address without a pin, by this library's own reckoning.
fn by_table(group: &Snapshot) -> impl Fn(u32) -> u16 + '_ {
    let scope = Scope {
        table: tenant(7).hash_table,
        group: group.hash_group,
    };
    move |source: u32| {
        let [high, low] = [(source >> 16) as u16, source as u16];
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, high, low);
        let key = HashKey::source(scope, address.into());
        let member = group.place(key.hash32()).expect("a member");
        member.sid.address().segments()[3]
    }
}
