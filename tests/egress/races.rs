// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets while user space changes what they read.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::map::Update;

use crate::cpus::stay_on;
use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

const SWAPS: usize = 400;
const PACKETS: u64 = 120_000;
const SENDERS: usize = 4;

fn frame(number: u32) -> Vec<u8> {
    let source = Ipv6Addr::from(0x2001_0db8_aaaa_0000_0000_0000_0000_0000 + u128::from(number));
    let far = "2001:db8:2::1".parse().expect("an address");
    ipv6(source, far, UDP, &ports(1000, 53, 12))
}

/// Two groups of as many members, which differ in all that a packet takes from one.
fn sets(machine: &Machine) -> [Group; 2] {
    [0x10, 0x60].map(|first| {
        let shards: Vec<_> = (0..32).map(|n| (first + n, u32::from(first))).collect();
        let mut group = machine.group_of(&shards);
        for member in &mut group.members {
            member.next_hop.dmac = [2, first as u8, 0, 0, 0, 0];
            member.next_hop.smac = [2, 0, first as u8, 0, 0, 0];
        }
        group
    })
}

/// Packets of each set and of both at once, as long as `going`.
fn send(machine: &Machine, going: &AtomicBool, sent: &AtomicU64) -> [u64; 3] {
    let mut seen = [0; 3];
    let mut number = 0;
    while going.load(Ordering::Relaxed) {
        let out = machine.classify(&frame(number % 4096));
        assert_eq!(out.action, REDIRECT);
        let sid = u16::from_be_bytes([out.frame[38 + 6], out.frame[38 + 7]]);
        let first = if sid < 0x60 { 0x10 } else { 0x60 };
        let macs = [2, first, 0, 0, 0, 0, 2, 0, first, 0, 0, 0];
        let set = usize::from(first == 0x60);
        seen[if out.frame[..12] == macs { set } else { 2 }] += 1;
        number += 1;
        sent.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

/// Changes between the two sets beside packets; how many those had of each, and mixed.
fn beside_packets(machine: &Machine, mut change: impl FnMut(&Group)) -> [u64; 3] {
    let sets = sets(machine);
    machine.publish(0, &sets[0]);
    machine.default_routes(&machine.to_group(0, 1));
    let (going, sent) = (AtomicBool::new(true), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let (going, sent) = (&going, &sent);
                scope.spawn(move || {
                    stay_on(number);
                    send(machine, going, sent)
                })
            })
            .collect();
        let mut swaps = 0;
        while swaps < SWAPS || sent.load(Ordering::Relaxed) < PACKETS {
            change(&sets[swaps % 2]);
            swaps += 1;
            // One that has failed sends no more.
            if senders.iter().any(|sender| sender.is_finished()) {
                break;
            }
        }
        going.store(false, Ordering::Relaxed);
        let seen = senders
            .into_iter()
            .map(|sender| sender.join().expect("a sender"));
        seen.fold([0; 3], |sum, seen| {
            std::array::from_fn(|set| sum[set] + seen[set])
        })
    })
}

#[test]
fn a_packet_sees_one_snapshot() {
    isolated("egress::races::swap", || {
        let machine = Machine::new();
        let [first, second, mixed] = beside_packets(&machine, |set| machine.publish(0, set));
        println!("{first} of one set, {second} of the other, {mixed} mixed");
        assert_eq!(mixed, 0);
        assert!(first > 1000 && second > 1000);
    });
}

/// The same harness sees what comes of rewriting a group where packets read it.
#[test]
fn rewriting_in_place_tears() {
    isolated("egress::races::rewrite", || {
        let machine = Machine::new();
        let live = machine.publish_open(0, &sets(&machine)[0]);
        let round = || {
            let mut rewritten = false;
            beside_packets(&machine, |set| {
                if !std::mem::replace(&mut rewritten, true) {
                    machine.swap_open(0, &live);
                }
                live.fill(&machine.bytes_of(set)).expect("written");
            })
        };
        // Both processors have to be at it, which others may keep busy.
        let torn = (0..200).map(|_| round()).find(|[_, _, mixed]| *mixed > 0);
        let [first, second, mixed] = torn.expect("a packet of both");
        println!("{first} of one set, {second} of the other, {mixed} mixed");
    });
}

/// Sets it to false when it goes, also by a panic, so that nobody goes on for ever.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Runs packets while rows of many tenants, and that of theirs, are replaced all the time.
fn beside_row_updates(machine: &Machine, packets: impl FnOnce()) {
    for number in 0..64 {
        machine.add_tenant(100_000 + number, TABLE + 1 + number, 1 + number as u16);
    }
    let row = |ifindex: u32| {
        let row = machine.tenants.get(&ifindex).expect("read");
        row.expect("a row")
    };
    let mut rows: Vec<abi::Tenant> = (0..64).map(|number| row(100_000 + number)).collect();
    rows.push(row(machine.tenant));
    let going = AtomicBool::new(true);
    let updates = std::thread::scope(|scope| {
        let updater = scope.spawn(|| {
            let mut updates = 0_u64;
            while going.load(Ordering::Relaxed) {
                for row in &rows {
                    let updated = machine.tenants.update(&row.ifindex, row, Update::Any);
                    updated.expect("room");
                    updates += 1;
                }
            }
            updates
        });
        let stops = Stops(&going);
        packets();
        drop(stops);
        updater.join().expect("the updater")
    });
    assert!(updates > 10_000, "{updates}");
}

/// Each packet has its own tenant's Argument.
#[test]
fn row_updates_mix_no_tenants() {
    isolated("egress::races::rows", || {
        let machine = Machine::new();
        machine.default_routes(&machine.to_shard(0x10));
        let own: Ipv6Addr = FROM.parse().expect("a SID");
        beside_row_updates(&machine, || {
            for number in 0..100_000 {
                let out = machine.classify(&frame(number % 4096));
                assert_eq!(out.action, REDIRECT, "packet {number}");
                assert_eq!(out.frame[22..38], own.octets(), "packet {number}");
            }
        });
    });
}

/// Many packets more, all of which a route drops, and of which none is left to the next program, as for
/// want of a row or of a route, which others do not have. One look at the row would be enough for some
/// of them.
#[test]
fn row_updates_never_leak() {
    isolated("egress::races::leak", || {
        let machine = Machine::new();
        machine.default_routes(&abi::Route {
            kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
            ..Zeroable::zeroed()
        });
        let frame = frame(1);
        // As many as this machine runs in some seconds: an emulated one has fewer.
        let (most, times) = (200, 250_000);
        let mut runs = 0_u32;
        let began = Instant::now();
        beside_row_updates(&machine, || {
            while runs < most && began.elapsed() < Duration::from_secs(15) {
                let run = machine.from(machine.tenant, &frame);
                let ran = run.run_repeatedly(machine.program(), times);
                assert_eq!(ran.expect("a run").action, DROP);
                runs += 1;
            }
        });
        let counted: Vec<_> = (0_u32..)
            .zip(machine.counters())
            .filter(|(_, count)| *count > 0)
            .collect();
        let blocked = C::GW_EGRESS_DROP_BLOCKED.0;
        assert_eq!(counted, [(blocked, u64::from(runs * times))]);
    });
}
