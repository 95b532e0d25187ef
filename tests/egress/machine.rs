// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loaded program between a tenant's interface and an uplink, in a namespace of the test's own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytemuck::{bytes_of, Zeroable};
use guideway::abi;
use guideway::kernel::egress_object::{Options, Sizes};
use guideway::kernel::map::{Map, MapShape, Update};
use guideway::kernel::object::Object;
use guideway::kernel::program::Program;
use guideway::kernel::run::{Classified, ClassifierRun};
use guideway::kernel::snapshot::{Slots, Snapshot};
use guideway::kernel::typed::{Hash, PerCpuArray};

use crate::netns;
use crate::reference::{fnv32, maglev, Placed};

pub(crate) const TABLE: u32 = 42;
pub(crate) const ARGUMENT: u16 = 0x2a5;
pub(crate) const NODE: &str = "2001:db8:ff01:1:e000::";
/// The node's SID with the Argument.
pub(crate) const FROM: &str = "2001:db8:ff01:1:e2a5::";
pub(crate) const DMAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
pub(crate) const SMAC: [u8; 6] = [2, 0, 0, 0, 8, 8];

/// Who answers the tenant.
pub(crate) const GATEWAY6: &str = "2001:db8:aaaa::1";
pub(crate) const GATEWAY4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

pub(crate) const SKIP: i32 = -1;
pub(crate) const DROP: i32 = 2;
pub(crate) const REDIRECT: i32 = 7;

pub(crate) use abi::EgressCounter as C;

/// The SID of a shard.
pub(crate) fn shard(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xff09, number, 0xe000, 0, 0, 0)
}

/// The same with an Argument.
pub(crate) fn completed(sid: Ipv6Addr, argument: u16) -> String {
    let mut segments = sid.segments();
    segments[4] |= argument;
    Ipv6Addr::from(segments).to_string()
}

pub(crate) struct Machine {
    object: Object,
    sizes: Sizes,
    pub(crate) tenants: Hash<u32, abi::Tenant>,
    pub(crate) routes: Map,
    groups: Slots,
    config: Slots,
    pub(crate) pins: Hash<abi::PinKey, abi::Pin>,
    pub(crate) flow_pins: Hash<abi::FlowPinKey, abi::Pin>,
    pub(crate) pin_use: Hash<u32, abi::PinUse>,
    shards: PerCpuArray<abi::ShardStats>,
    stats: PerCpuArray<u64>,
    pub(crate) tenant: u32,
    pub(crate) uplink: u32,
}

/// A group as a test describes it; members by slot.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) header: abi::GroupHeader,
    pub(crate) members: Vec<abi::Member>,
    /// Slots of the members that own the table's entries; all none if empty.
    pub(crate) table: Vec<u16>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(&[("gw_pins", 4096), ("gw_flow_pins", 4096)])
    }

    pub(crate) fn with(entries: &[(&str, u32)]) -> Self {
        let (tenant, _) = netns::veth("gw-tenant", "gw-inside");
        let (uplink, _) = netns::veth("gw-uplink", "gw-outside");
        let options = Options {
            entries,
            ..Options::default()
        };
        let mut object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| object.take_map(name).expect("a map");
        let machine = Self {
            tenants: Hash::new(map("gw_tenants")).expect("tenants"),
            routes: map("gw_routes"),
            groups: Slots::new(map("gw_groups")).expect("groups"),
            config: Slots::new(map("gw_eg_config")).expect("a slot"),
            pins: Hash::new(map("gw_pins")).expect("pins"),
            flow_pins: Hash::new(map("gw_flow_pins")).expect("pins"),
            pin_use: Hash::new(map("gw_pin_use")).expect("use"),
            shards: PerCpuArray::new(map("gw_shardstat")).expect("counters"),
            stats: PerCpuArray::new(map("gw_eg_stat")).expect("counters"),
            sizes: options.sizes,
            object,
            tenant,
            uplink,
        };
        machine.add_tenant(tenant, TABLE, ARGUMENT);
        machine.configure(0);
        machine
    }

    pub(crate) fn add_tenant(&self, ifindex: u32, table_id: u32, argument: u16) {
        let tenant = abi::Tenant {
            ifindex,
            table_id,
            hash_table: table_id,
            argument,
            flags: abi::TenantFlag::GW_TENANT_ENABLED.0 as u16,
            pin_quota: u32::MAX,
            ..Zeroable::zeroed()
        };
        let added = self.tenants.update(&ifindex, &tenant, Update::Any);
        added.expect("room");
        let pins = abi::PinUse::zeroed();
        self.pin_use
            .update(&table_id, &pins, Update::Any)
            .expect("room");
    }

    /// Makes the tenant's row one that wants answers, with a change.
    pub(crate) fn want_answers(&self, change: impl FnOnce(&mut abi::Tenant)) {
        let row = self.tenants.get(&self.tenant).expect("read");
        let mut row = row.expect("a row");
        let (enabled, icmp) = (
            abi::TenantFlag::GW_TENANT_ENABLED,
            abi::TenantFlag::GW_TENANT_ICMP,
        );
        row.flags = (enabled.0 | icmp.0) as u16;
        row.gateway6 = GATEWAY6.parse::<Ipv6Addr>().expect("an address").octets();
        row.gateway4 = GATEWAY4.octets();
        change(&mut row);
        let changed = self.tenants.update(&row.ifindex, &row, Update::Any);
        changed.expect("room");
    }

    /// Tells senders of packets that are too big, at most so often in a second and at once.
    pub(crate) fn configure_answers(&self, icmp_rate: u32, icmp_burst: u32) {
        self.set_config(&abi::EgressConfig {
            node_sid: NODE.parse::<Ipv6Addr>().expect("a SID").octets(),
            profile: abi::EgressProfile::GW_PROFILE_ICMP_TOO_BIG.0,
            hop_limit: 64,
            icmp_rate,
            icmp_burst,
            ..Zeroable::zeroed()
        });
    }

    pub(crate) fn configure(&self, profile: u32) {
        let node = NODE.parse::<Ipv6Addr>().expect("a SID").octets();
        self.set_config(&abi::EgressConfig {
            node_sid: node,
            profile,
            hop_limit: 64,
            ..Zeroable::zeroed()
        });
    }

    pub(crate) fn set_config(&self, config: &abi::EgressConfig) {
        swap(&self.config, 0, &self.config_shape(), bytes_of(config));
    }

    /// Publishes a configuration that can still be written.
    pub(crate) fn configure_open(&self, config: &abi::EgressConfig) -> Snapshot {
        let snapshot = Snapshot::create(&self.config_shape()).expect("create");
        snapshot.fill(bytes_of(config)).expect("fill");
        self.config.swap(0, &snapshot).expect("swap");
        snapshot
    }

    fn config_shape(&self) -> MapShape {
        MapShape {
            value_size: size_of::<abi::EgressConfig>() as u32,
            name: "gw_eg_conf".into(),
            ..self.sizes.snapshot_shape()
        }
    }

    pub(crate) fn route(&self, table_id: u32, prefix: IpAddr, length: u32, route: &abi::Route) {
        let mut key = abi::RouteKey {
            prefixlen: abi::RouteKeyBits::GW_ROUTE_KEY_BITS.0 + length,
            table_id,
            ..Zeroable::zeroed()
        };
        match prefix {
            IpAddr::V4(address) => {
                key.family = 1;
                key.address[..4].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => key.address = address.octets(),
        }
        self.routes
            .update(bytes_of(&key), bytes_of(route), Update::Any)
            .expect("room");
    }

    /// Sends a prefix of both families, all there is, one way.
    pub(crate) fn default_routes(&self, route: &abi::Route) {
        for (prefix, family) in [("::", 0), ("0.0.0.0", 1)] {
            // What the hash comes to after the bytes that are the route's own.
            let mut key = Placed {
                table: TABLE,
                group: 0,
                source: prefix.parse().expect("an address"),
                flow: None,
            }
            .bytes();
            key[4] = family;
            let route = abi::Route {
                fnv12: fnv32(&key[..12]),
                fnv5: fnv32(&key[..5]),
                ..*route
            };
            self.route(TABLE, prefix.parse().expect("an address"), 0, &route);
        }
    }

    pub(crate) fn to_shard(&self, number: u16) -> abi::Route {
        abi::Route {
            kind: abi::RouteKind::GW_ROUTE_SHARD.0 as u8,
            argument: ARGUMENT,
            next_hop: self.next_hop(),
            sid: shard(number).octets(),
            ..Zeroable::zeroed()
        }
    }

    pub(crate) fn to_group(&self, id: u32, incarnation: u32) -> abi::Route {
        abi::Route {
            kind: abi::RouteKind::GW_ROUTE_GROUP.0 as u8,
            argument: ARGUMENT,
            group_id: id,
            incarnation,
            ..Zeroable::zeroed()
        }
    }

    pub(crate) fn next_hop(&self) -> abi::NextHop {
        abi::NextHop {
            ifindex: self.uplink,
            mtu: 0,
            dmac: DMAC,
            smac: SMAC,
        }
    }

    /// A group of these shards, by slot, each of the generation beside it.
    pub(crate) fn group_of(&self, shards: &[(u16, u32)]) -> Group {
        let members: Vec<_> = shards
            .iter()
            .map(|&(number, generation)| abi::Member {
                sid: shard(number).octets(),
                flags: abi::MemberFlag::GW_MEMBER_ALIVE.0,
                generation,
                next_hop: self.next_hop(),
                weight: 1,
                ..Zeroable::zeroed()
            })
            .collect();
        let mut group = Group {
            header: abi::GroupHeader {
                layout: abi::GroupLayout::GW_GROUP_LAYOUT.0,
                flags: abi::GroupFlag::GW_GROUP_ENABLED.0,
                incarnation: 1,
                table_size: self.sizes.table,
                slots_used: members.len() as u16,
                ..Zeroable::zeroed()
            },
            members,
            table: Vec::new(),
        };
        group.fill_table(self.sizes.table);
        group
    }

    pub(crate) fn publish(&self, id: u32, group: &Group) {
        self.publish_bytes(id, &self.bytes_of(group));
    }

    pub(crate) fn publish_bytes(&self, id: u32, bytes: &[u8]) {
        swap(&self.groups, id, &self.sizes.snapshot_shape(), bytes);
    }

    /// Publishes a group that can still be written.
    pub(crate) fn publish_open(&self, id: u32, group: &Group) -> Snapshot {
        let snapshot = Snapshot::create(&self.sizes.snapshot_shape()).expect("create");
        snapshot.fill(&self.bytes_of(group)).expect("fill");
        self.swap_open(id, &snapshot);
        snapshot
    }

    pub(crate) fn swap_open(&self, id: u32, snapshot: &Snapshot) {
        self.groups.swap(id, snapshot).expect("swap");
    }

    /// What a group is published as.
    pub(crate) fn bytes_of(&self, group: &Group) -> Vec<u8> {
        let mut bytes = vec![0; self.sizes.snapshot_bytes()];
        let header = size_of::<abi::GroupHeader>();
        bytes[..header].copy_from_slice(bytes_of(&group.header));
        let members: &[u8] = bytemuck::cast_slice(&group.members);
        bytes[header..header + members.len()].copy_from_slice(members);
        let at = header + self.sizes.members as usize * size_of::<abi::Member>();
        let table: &[u8] = bytemuck::cast_slice(&group.table);
        bytes[at..at + table.len()].copy_from_slice(table);
        bytes
    }

    /// Sends a frame out of the tenant. What became of it, and what was counted, in order of the
    /// counters.
    pub(crate) fn run(&self, frame: &[u8]) -> (Classified, Vec<(C, u64)>) {
        self.run_from(self.tenant, frame)
    }

    pub(crate) fn run_from(&self, ifindex: u32, frame: &[u8]) -> (Classified, Vec<(C, u64)>) {
        self.run_as(self.from(ifindex, frame))
    }

    /// The same with a frame that is to be cut up into segments of so many bytes of payload.
    pub(crate) fn run_segmented(&self, frame: &[u8], bytes: u32) -> (Classified, Vec<(C, u64)>) {
        self.run_as(ClassifierRun {
            gso_bytes: bytes,
            ..self.from(self.tenant, frame)
        })
    }

    pub(crate) fn run_as(&self, run: ClassifierRun<'_>) -> (Classified, Vec<(C, u64)>) {
        let before = self.counters();
        let classified = run
            .run(&self.object.program)
            .unwrap_or_else(|error| panic!("{error}: {run:x?}"));
        let after = self.counters();
        let counted = (0_u32..).zip(before.iter().zip(&after));
        let counted = counted.filter(|(_, (before, after))| before != after);
        let counted = counted.map(|(number, (before, after))| (C(number), after - before));
        (classified, counted.collect())
    }

    /// Sends a frame out of the tenant.
    pub(crate) fn classify(&self, frame: &[u8]) -> Classified {
        self.classify_from(self.tenant, frame)
    }

    #[allow(dead_code)] // not every test binary does
    pub(crate) fn classify_from(&self, ifindex: u32, frame: &[u8]) -> Classified {
        let run = self.from(ifindex, frame);
        run.run(&self.object.program).expect("a run")
    }

    /// One run of a frame that comes in from an interface.
    pub(crate) fn from<'a>(&self, ifindex: u32, frame: &'a [u8]) -> ClassifierRun<'a> {
        ClassifierRun {
            frame,
            ifindex,
            gso_bytes: 0,
            mark: 0,
            priority: 0,
        }
    }

    /// Sends a frame that must reach a shard, and says which: its SID without the Argument.
    pub(crate) fn shard_of(&self, frame: &[u8]) -> Ipv6Addr {
        let (classified, counted) = self.run(frame);
        assert_eq!(classified.action, REDIRECT, "{counted:?}");
        let sid: [u8; 16] = classified.frame[38..54].try_into().expect("an address");
        let mut segments = Ipv6Addr::from(sid).segments();
        assert_eq!(segments[4], 0xe000 | ARGUMENT);
        segments[4] = 0xe000;
        Ipv6Addr::from(segments)
    }

    /// Takes a map that the tests of one subject alone use.
    #[allow(dead_code)] // not every test binary does
    pub(crate) fn take_map(&mut self, name: &str) -> Map {
        self.object.take_map(name).expect("a map")
    }

    pub(crate) fn counters(&self) -> [u64; C::GW_EGRESS_COUNTERS.0 as usize] {
        let mut sums = [0; C::GW_EGRESS_COUNTERS.0 as usize];
        let read = self.stats.for_each(|counter, counts| {
            sums[counter as usize] = counts.iter().sum();
        });
        read.expect("readable");
        sums
    }

    /// Packets and bytes of a slot of a group.
    pub(crate) fn slot_counters(&self, id: u32, slot: u32) -> (u64, u64) {
        let index = id * self.sizes.members + slot;
        let all = self.shards.get(index).expect("readable");
        all.iter()
            .fold((0, 0), |sum, of| (sum.0 + of.packets, sum.1 + of.bytes))
    }

    /// What removes pins works on.
    #[allow(dead_code)] // not every test binary does
    pub(crate) fn pin_maps(&self) -> guideway::egress::pins::Maps {
        let handle = |map: &Map| map.try_clone().expect("a handle");
        guideway::egress::pins::Maps {
            groups: handle(self.groups.map()),
            sources: handle(self.pins.map()),
            flows: handle(self.flow_pins.map()),
            usage: handle(self.pin_use.map()),
            counters: handle(self.stats.map()),
        }
    }

    #[allow(dead_code)] // not every test binary attaches it
    pub(crate) fn program(&self) -> &Program {
        &self.object.program
    }
}

impl Group {
    /// The table of those that are alive and not draining.
    pub(crate) fn fill_table(&mut self, size: u32) {
        let alive = abi::MemberFlag::GW_MEMBER_ALIVE.0;
        let sid = |member: &abi::Member| Ipv6Addr::from(member.sid);
        let takes = self.members.iter().filter(|member| member.flags == alive);
        let sids: Vec<_> = takes.map(sid).collect();
        if sids.is_empty() {
            self.table = vec![abi::TableWord::GW_TABLE_NONE.0 as u16; size as usize];
            return;
        }
        let slots: BTreeMap<_, _> = self.members.iter().map(sid).zip(0_u16..).collect();
        let owners = maglev(&sids, size.into());
        self.table = owners.iter().map(|owner| slots[owner]).collect();
    }
}

/// The coarse monotonic clock as the program counts it.
pub(crate) fn tick() -> u32 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
    let now = now.expect("a clock");
    ((now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64) >> 30) as u32
}

fn swap(slots: &Slots, index: u32, shape: &MapShape, bytes: &[u8]) {
    let snapshot = Snapshot::create(shape).expect("create");
    snapshot.fill(bytes).expect("fill");
    snapshot.freeze().expect("freeze");
    slots.swap(index, &snapshot).expect("swap");
}
