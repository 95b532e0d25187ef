// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random worlds, and packets that have something to find in them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::addr::MacAddr;
use guideway::encap::{Dscp, DscpValue, Ecn, Encap, Mss, Rate};
use guideway::group::{
    Class, Counters, Generation, GroupId, HashMode, Incarnation, Limits, Member, PinIdle,
    Publication, Settings, Slot, Snapshot, State,
};
use guideway::oracle::egress::{Pin, PinUse, Pins, World};
use guideway::pin::{Flow, Holder};
use guideway::placement::{Family, Fnv12, Fnv5, HashGroup, HashTable, Scope};
use guideway::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::{PinQuota, Tenant};

use crate::chance::Random;
use crate::frames::*;
use crate::machine::{shard, NODE};

/// Groups that are published; those behind them are absent, and those from the limit on do not exist.
pub(crate) const GROUPS: u32 = 5;
/// Room for pins of each kind.
pub(crate) const PINS: usize = 64;
const TABLES: [u32; 3] = [42, 43, 0xffff_ffff];
const PORTS: [u16; 4] = [0, 53, 443, 0xfffe];

fn source6(random: &mut Random) -> Ipv6Addr {
    if random.percent(4) {
        // Nobody's, or many's.
        return *random.pick(&[
            Ipv6Addr::UNSPECIFIED,
            Ipv6Addr::LOCALHOST,
            Ipv6Addr::from(2),
            Ipv6Addr::from(0xff02 << 112),
        ]);
    }
    let last = random.below(4) as u16;
    Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0xff00, last)
}

fn source4(random: &mut Random) -> Ipv4Addr {
    if random.percent(4) {
        return Ipv4Addr::new(*random.pick(&[0, 1, 126, 127, 128, 223, 224, 255]), 0, 0, 1);
    }
    Ipv4Addr::new(10, 0, 0, random.below(4) as u8)
}

/// Few enough that prefixes meet them, and some that stay on the link.
fn destination6(random: &mut Random) -> Ipv6Addr {
    let bit = |random: &mut Random| random.below(2) as u16;
    let first = *random.pick(&[
        0x2001, 0x2001, 0x2001, 0x2001, 0x64, 0x64, 0x64, 0, 0xff02, 0xfebf, 0xfec0, 0xfe7f,
    ]);
    let mut segments = [first, 0xdb8, 0, 0, 0, 0, 0, 0];
    for at in [2, 3, 7] {
        segments[at] = bit(random);
    }
    Ipv6Addr::from(segments)
}

fn destination4(random: &mut Random) -> Ipv4Addr {
    let first = *random.pick(&[198, 198, 198, 169, 169, 223, 223, 239, 240, 255]);
    let rest = *random.pick(&[[51, 100, 1], [51, 100, 2], [254, 169, 254], [255; 3]]);
    Ipv4Addr::new(first, rest[0], rest[1], rest[2])
}

fn prefix(random: &mut Random, family: Family) -> Prefix {
    let short = random.percent(40);
    match family {
        Family::Ipv6 => {
            let bits = if short { 0 } else { random.below(129) as u32 };
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let address = destination6(random).to_bits() & mask;
            Prefix::new(Ipv6Addr::from_bits(address).into(), bits)
        }
        Family::Ipv4 => {
            let bits = if short { 0 } else { random.below(33) as u32 };
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let address = destination4(random).to_bits() & mask;
            Prefix::new(Ipv4Addr::from_bits(address).into(), bits)
        }
    }
    .expect("a prefix")
}

fn next_hop(random: &mut Random) -> NextHop {
    let mac = |random: &mut Random| {
        let mut octets = [2; 6];
        octets[5] = random.byte();
        MacAddr::new(octets)
    };
    let mtu = if random.percent(50) {
        0
    } else {
        1320 + random.below(400) as u32
    };
    let mtu = Mtu::new(mtu).expect("an MTU");
    let (source, destination) = (mac(random), mac(random));
    NextHop::new(1 + random.below(9) as u32, source, destination, mtu).expect("a next hop")
}

fn argument(random: &mut Random) -> Argument {
    Argument::new(1 + random.below(0xfff) as u32).expect("an Argument")
}

fn sid(number: u16) -> BaseSid {
    BaseSid::new(shard(number)).expect("a SID")
}

fn tenant(random: &mut Random, table: u32) -> Tenant {
    Tenant {
        hash_table: HashTable(random.next() as u32),
        enabled: random.percent(95),
        icmp: random.percent(75),
        mss: random.percent(75),
        gateway6: random
            .percent(90)
            .then(|| Ipv6Addr::from(u128::from(random.next() | 1) << 64 | 1)),
        gateway4: random.percent(90).then(|| Ipv4Addr::new(10, 0, 0, 254)),
        pin_quota: *random.pick(&[
            PinQuota::NONE,
            PinQuota(4),
            PinQuota(30),
            PinQuota::UNLIMITED,
        ]),
        ..Tenant::new(TableId::new(table), argument(random))
    }
}

const UNLIMITED: Rate = Rate {
    per_second: u32::MAX,
    burst: u32::MAX,
};

fn encap(random: &mut Random) -> Encap {
    Encap {
        node_sid: NODE.parse().expect("a SID"),
        hop_limit: 1 + random.below(255) as u8,
        dscp: match random.below(3) {
            0 => Dscp::Zero,
            1 => Dscp::Copy,
            _ => Dscp::Fixed(DscpValue::new(random.below(64) as u8).expect("a DSCP")),
        },
        ecn: *random.pick(&[Ecn::Compatibility, Ecn::Normal]),
        flow_label: random.percent(50),
        too_big: random.percent(50),
        mss: random.percent(50).then_some(Mss {
            ipv6: *random.pick(&[0, 1220, 1220]),
            ipv4: *random.pick(&[0, 1240, 1240]),
        }),
        // None, or as many as there are packets.
        icmp: *random.pick(&[
            Rate {
                per_second: 0,
                burst: 100,
            },
            UNLIMITED,
            UNLIMITED,
            UNLIMITED,
        ]),
        events: Rate {
            per_second: 100,
            burst: 100,
        },
    }
}

/// A group whose table, now and then, names who should not be there.
fn group(random: &mut Random, id: GroupId, limits: Limits) -> Snapshot {
    let state = *random.pick(&[
        State::Open,
        State::Open,
        State::Open,
        State::Closing,
        State::Disabled,
    ]);
    let mut members = Vec::new();
    for slot in 0..8 {
        if state == State::Disabled || random.percent(40) {
            continue;
        }
        members.push(Member {
            slot: Slot::new(slot).expect("a slot"),
            generation: Generation::new(random.next() as u32 | 1).expect("a number"),
            sid: sid(0x10 + slot as u16),
            weight: 1,
            draining: random.percent(20),
            next_hop: random.percent(80).then(|| next_hop(random)),
            base: Counters::default(),
        });
    }
    let active: Vec<u16> = members
        .iter()
        .filter(|member| member.is_active())
        .map(|member| member.slot.get())
        .collect();
    let odd = random.percent(10);
    let word = |random: &mut Random| match random.below(4) {
        0 if odd => *random.pick(&[8, 9, limits.members() - 1, limits.members(), 0xfffe, 0xffff]),
        _ => random.pick_any(&active).copied().unwrap_or(0xffff),
    };
    Snapshot {
        group: id,
        class: Class::Nat66,
        hash_group: HashGroup(random.byte()),
        state,
        incarnation: Incarnation::new(7).expect("a number"),
        publication: Publication::FIRST,
        published_ns: 0,
        next_slot_generation: Generation::FIRST,
        settings: match state {
            State::Disabled => Settings::default(),
            _ => Settings {
                hash_mode: *random.pick(&[HashMode::Source, HashMode::Flow]),
                pin_idle: PinIdle::from_secs(*random.pick(&[0, 1, 100, 7440])).expect("a time"),
                reject: random.percent(50),
                ecn_normal: random.percent(50),
            },
        },
        ineligible: 0,
        members,
        table: (0..limits.table_size().slots())
            .map(|_| word(random))
            .collect(),
        digest: 0.into(),
    }
}

fn route(
    random: &mut Random,
    family: Family,
    tenants: &BTreeMap<u32, Tenant>,
    groups: &BTreeMap<GroupId, Snapshot>,
) -> Route {
    let target = match random.below(10) {
        0 => Target::Pass,
        1 => Target::Block(*random.pick(&[Block::Drop, Block::Unreachable])),
        2 => Target::Shard {
            argument: argument(random),
            sid: sid(0x99),
            next_hop: next_hop(random),
        },
        _ => {
            let known = random.percent(90);
            let id = if known {
                random.below(GROUPS as usize)
            } else {
                random.below(12)
            };
            let group = GroupId::new(id as u32).expect("a group");
            let hash_group = groups
                .get(&group)
                .map_or(HashGroup(0), |group| group.hash_group);
            let table = tenants
                .values()
                .next()
                .map_or(HashTable(1), |tenant| tenant.hash_table);
            let scope = Scope {
                table,
                group: hash_group,
            };
            Target::Group {
                argument: argument(random),
                group,
                incarnation: Incarnation::new(if random.percent(95) { 7 } else { 8 })
                    .expect("a number"),
                fnv5: Fnv5::new(table, family),
                fnv12: Fnv12::new(scope, family),
            }
        }
    };
    Route {
        origin: Origin(random.below(2) as u16),
        target,
    }
}

/// Tenants at some of these interfaces, and what they may find.
pub(crate) fn world(random: &mut Random, limits: Limits, interfaces: &[u32]) -> World {
    let mut tenants = BTreeMap::new();
    for &ifindex in interfaces {
        if random.percent(95) {
            let table = *random.pick(&TABLES);
            tenants.insert(ifindex, tenant(random, table));
        }
    }
    let groups: BTreeMap<_, _> = (0..GROUPS)
        .map(|id| GroupId::new(id).expect("a group"))
        .map(|id| (id, group(random, id, limits)))
        .collect();
    let mut routes = BTreeMap::new();
    for _ in 0..24 {
        let family = *random.pick(&[Family::Ipv6, Family::Ipv4]);
        let table = TableId::new(*random.pick(&TABLES));
        let key = Key::new(table, prefix(random, family));
        routes.insert(key, route(random, family, &tenants, &groups));
    }
    World {
        limits,
        tenants,
        routes,
        groups,
        encap: random.percent(95).then(|| encap(random)),
    }
}

/// Up to so many pins that earlier packets could have left, and some that they could not.
pub(crate) fn pins(random: &mut Random, world: &World, count: usize, now_tick: u32) -> Pins {
    let mut pins = Pins::with_capacity(PINS, PINS);
    for table in TABLES {
        if random.percent(90) {
            let used = PinUse {
                pins: random.below(8) as u64,
                refused: random.below(3) as u64,
            };
            pins.used.insert(TableId::new(table), used);
        }
    }
    for _ in 0..count {
        let Some(group) = random
            .pick_any(&Vec::from_iter(world.groups.values()))
            .copied()
        else {
            break;
        };
        let table = TableId::new(*random.pick(&TABLES));
        let by_source = Holder {
            table,
            group: group.group,
            source: match random.below(2) {
                0 => source6(random).into(),
                _ => source4(random).into(),
            },
            flow: None,
        };
        let holder = match group.settings.hash_mode {
            HashMode::Source => by_source,
            HashMode::Flow => {
                let protocol = *random.pick(&[TCP, UDP, 0, 44]);
                let has_ports = [TCP, UDP].contains(&protocol);
                let port = |random: &mut Random| if has_ports { *random.pick(&PORTS) } else { 0 };
                Holder {
                    flow: Some(Flow {
                        protocol,
                        source_port: port(random),
                        destination: match by_source.source {
                            IpAddr::V6(_) => destination6(random).into(),
                            IpAddr::V4(_) => destination4(random).into(),
                        },
                        destination_port: port(random),
                    }),
                    ..by_source
                }
            }
        };
        let idle = group.settings.pin_idle;
        let (idle, refresh) = (idle.ticks(), idle.refresh_ticks());
        let ago = [
            0,
            1,
            refresh.wrapping_sub(2),
            refresh + 2,
            idle + refresh - refresh.min(2),
            idle + refresh + 2,
            u32::MAX - 5,
        ];
        let member = random.pick_any(&group.members).copied();
        let mut pin = Pin {
            slot: member.map_or(63, |member| member.slot.get()),
            generation: member.map_or(0, |member| member.generation.get()),
            dead: random.percent(8),
            sequence: random.byte(),
            last_seen_tick: now_tick.wrapping_sub(*random.pick(&ago)),
            tag: holder.tag(),
        };
        match random.below(20) {
            0 => pin.tag ^= 1 << random.below(32),
            1 => pin.generation = random.next() as u32,
            2 => pin.slot = random.next() as u16,
            3 => pin.generation = 0,
            _ => {}
        }
        let kind = |one: &&Holder| one.flow.is_some() == holder.flow.is_some();
        if pins.pins.keys().filter(kind).count() < PINS {
            pins.pins.insert(holder, pin);
        }
    }
    pins
}

/// A segment that begins a connection, with options.
fn syn(random: &mut Random) -> Vec<u8> {
    let mut segment = ports(1000, 443, 20);
    while segment.len() < 56 {
        let size = 1200 + random.below(80) as u16;
        match random.below(12) {
            0..=4 => segment.push(1),
            5 => segment.extend([3, 3, 7]),
            6 => segment.extend([4, 2]),
            7 => segment.extend([random.byte(), random.below(6) as u8]),
            8 => segment.extend([2, 3, 5]),
            9 if random.percent(20) => segment.push(0),
            _ => segment.extend([&[2, 4][..], &size.to_be_bytes()].concat()),
        }
    }
    segment[12] = (random.below(12) as u8 + 4) << 4;
    segment[13] = if random.percent(90) { 0x02 } else { 0x10 };
    segment
}

/// A payload behind some extension headers, and the number of the first.
fn extended(random: &mut Random, mut next: u8, mut payload: Vec<u8>) -> (u8, Vec<u8>) {
    for _ in 0..random.below(8) {
        let header = *random.pick(&[0, 43, 44, 51, 60]);
        let length = random.below(3) as u8;
        let bytes = match header {
            44 => 8,
            51 => 8 + 4 * usize::from(length),
            _ => 8 + 8 * usize::from(length),
        };
        let mut extension = vec![0; bytes];
        extension[..2].copy_from_slice(&[next, length]);
        // The offset of a fragment, now and then.
        extension[3] = if random.percent(10) { 8 } else { 1 };
        extension.append(&mut payload);
        (next, payload) = (header, extension);
    }
    (next, payload)
}

/// Leaves the checksum of a TCP or UDP header to a device: the field has the sum of the pseudo header.
fn leave_checksum(frame: &mut [u8]) {
    let (at, addresses, protocol) = match frame[12] {
        0x08 => (34, 26..34, frame[23]),
        _ => (54, 22..54, frame[20]),
    };
    let field = at + if protocol == TCP { 16 } else { 6 };
    let words = frame[addresses].chunks(2);
    let words = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = words.sum::<u32>() + (frame.len() - at) as u32 + u32::from(protocol);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if let Some(field) = frame.get_mut(field..field + 2) {
        field.copy_from_slice(&(sum as u16).to_be_bytes());
    }
}

/// A frame that a tenant could send, or a broken one.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let protocol = *random.pick(&[TCP, UDP, TCP, UDP, 1, ICMPV6, 0, 44, 50, 132]);
    let bytes = match random.below(16) {
        0 => random.below(4),
        1 | 2 => 1240 + random.below(500),
        _ => 4 + random.below(60),
    };
    let mut payload = ports(*random.pick(&PORTS), *random.pick(&PORTS), bytes);
    payload.truncate(bytes);
    if protocol == ICMPV6 {
        if let Some(kind) = payload.first_mut() {
            *kind = *random.pick(&[1, 128, 132, 133, 135, 137, 138]);
        }
    }
    if protocol == TCP && random.percent(40) {
        payload = syn(random);
    }
    let mut frame = if random.percent(60) {
        let (next, payload) = match random.percent(10) {
            true => extended(random, protocol, payload),
            false => (protocol, payload),
        };
        let mut frame = ipv6(source6(random), destination6(random), next, &payload);
        // Half without a flow label.
        if random.percent(50) {
            frame[15] &= 0xf0;
            frame[16..18].fill(0);
        }
        frame
    } else {
        let fragment = *random.pick(&[0, 0, 0x4000, 0x2000, 0x8000, 1, 0x1fff]);
        ipv4(
            source4(random),
            destination4(random),
            protocol,
            fragment,
            &payload,
        )
    };
    if random.percent(4) {
        frame[0] |= 1;
    }
    if random.percent(25) {
        leave_checksum(&mut frame);
    }
    // The traffic class.
    if frame[12] == 0x08 {
        frame[15] = random.byte();
    } else {
        frame[15] = frame[15] & 0x0f | random.byte() & 0xf0;
    }
    if random.percent(20) {
        let at = 12 + random.below(50);
        if let Some(byte) = frame.get_mut(at) {
            *byte = random.byte();
        }
    }
    if random.percent(8) {
        // The kernel runs no frame that ends within a header.
        let header = if frame[12] == 0x08 { 34 } else { 54 };
        frame.truncate(header + random.below(24));
    }
    if frame[12] == 0x86 && random.percent(2) {
        // What its header says, around the longest that the outer one can say.
        let bytes = 65_535 - 40 + random.below(3) as u16;
        frame[18..20].copy_from_slice(&bytes.to_be_bytes());
    }
    if random.percent(5) {
        frame.extend(random.bytes(18));
    }
    frame
}
