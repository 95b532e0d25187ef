// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The maps of a busy node: 15,000 interfaces of tenants, 30,000 routes, 40,000 pins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use bytemuck::{bytes_of, Zeroable};
use guideway::abi;
use guideway::encap::Encap;
use guideway::group::{
    allocate, plan, Candidate, Class, Classes, ConfiguredClass, Context, GroupId, GroupSpec,
    HashMode, Incarnation, Limits, PinIdle, Settings,
};
use guideway::kernel::egress_object::{Options, Sizes};
use guideway::kernel::map::{Map, MapShape, Update};
use guideway::kernel::object::Object;
use guideway::kernel::snapshot::{Slots, Snapshot};
use guideway::kernel::typed::{Hash, PerCpuArray, Trie};
use guideway::pin::Holder;
use guideway::placement::{Family, Fnv12, Fnv5, HashGroup, HashTable, Scope};
use guideway::route::{Key, Prefix, Route, TableId, Target};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

use super::driver::{DMAC, MANY};

const INTERFACES: u32 = 15_000;
const TABLES: u32 = 4_000;
const ROUTES: u32 = 30_000;
/// With those that the measured tenant's packets make.
const PINS: u32 = 40_000;
/// Loopback: the interface of test runs.
const HERE: u32 = 1;
const SMAC: [u8; 6] = [2, 0, 0, 0, 8, 8];

/// How the measured tenant's packets go; each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Shard,
    /// A group that places by source, without pins and with.
    Unpinned,
    Pinned,
    /// The same, for sources that come and go.
    Newcomers,
    /// One that places by flow.
    Flows,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Shard,
        Self::Unpinned,
        Self::Pinned,
        Self::Newcomers,
        Self::Flows,
    ];

    pub(crate) fn table(self) -> TableId {
        TableId::new(1_000 + self as u32)
    }

    pub(crate) fn group(self) -> Option<GroupId> {
        let index = match self {
            Self::Shard => return None,
            Self::Unpinned => 0,
            Self::Pinned | Self::Newcomers => 1,
            Self::Flows => 2,
        };
        GroupId::new(index)
    }
}

/// Its maps, full of what a node has.
pub(crate) struct Node {
    maps: BTreeMap<&'static str, Map>,
    tenants: Hash<u32, abi::Tenant>,
    pins: Hash<abi::PinKey, abi::Pin>,
    pin_use: Hash<u32, abi::PinUse>,
    counters: PerCpuArray<u64>,
    config: Snapshot,
    _object: Object,
}

fn argument() -> Argument {
    Argument::new(0x2a5).expect("an Argument")
}

fn shard(number: u16) -> BaseSid {
    let sid = Ipv6Addr::new(0x2001, 0xdb8, 0xff09, number, 0xe000, 0, 0, 0);
    BaseSid::new(sid).expect("a SID")
}

fn next_hop() -> NextHop {
    NextHop::new(HERE, SMAC.into(), DMAC.into(), Mtu::UNCHECKED).expect("a next hop")
}

impl Node {
    pub(crate) fn new() -> Self {
        let options = Options {
            entries: &[("gw_flow_pins", 1 << 16)],
            ..Options::default()
        };
        let mut object = options.load().expect("the program loads");
        let names = [
            "gw_tenants",
            "gw_routes",
            "gw_groups",
            "gw_eg_config",
            "gw_pins",
            "gw_flow_pins",
            "gw_pin_use",
            "gw_shardstat",
            "gw_eg_stat",
        ];
        let maps: BTreeMap<_, _> = names
            .into_iter()
            .map(|name| (name, object.take_map(name).expect("a map")))
            .collect();
        let map = |name: &str| maps[name].try_clone().expect("a handle");
        let config = Snapshot::create(&MapShape {
            value_size: size_of::<abi::EgressConfig>() as u32,
            ..Sizes::default().snapshot_shape()
        });
        let config = config.expect("a configuration");
        let configs = Slots::new(map("gw_eg_config")).expect("a slot");
        configs.swap(0, &config).expect("live");
        publish_groups(&Slots::new(map("gw_groups")).expect("groups"));
        let node = Self {
            tenants: Hash::new(map("gw_tenants")).expect("tenants"),
            pins: Hash::new(map("gw_pins")).expect("pins"),
            pin_use: Hash::new(map("gw_pin_use")).expect("counts"),
            counters: PerCpuArray::new(map("gw_eg_stat")).expect("counters"),
            config,
            maps,
            _object: object,
        };
        node.fill();
        node
    }

    /// A map for the programs of the bench.
    pub(crate) fn shared(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.maps.get(name).map(AsFd::as_fd)
    }

    fn fill(&self) {
        // Loopback is one of them.
        for ifindex in 1..=INTERFACES {
            let table = TableId::new(10_000 + ifindex % TABLES);
            let row = Tenant::new(table, argument()).to_row(ifindex);
            let added = self.tenants.update(&ifindex, &row, Update::Any);
            added.expect("room");
        }
        let routes = Trie::new(self.maps["gw_routes"].try_clone().expect("a handle"));
        let routes = routes.expect("routes");
        let mut left = ROUTES;
        let mut add = |table, prefix, target| {
            let key = Key::new(table, prefix).to_row();
            let row = Route::new(target).to_row();
            let added: Result<(), _> = routes.update(&key, &row, Update::Insert);
            added.expect("room");
            left -= 1;
            left
        };
        let to_shard = Target::Shard {
            argument: argument(),
            sid: shard(0x10),
            next_hop: next_hop(),
        };
        for way in Way::ALL {
            let scope = Scope {
                table: HashTable(way.table().get()),
                group: HashGroup(way.group().map_or(0, GroupId::get)),
            };
            let target = way.group().map_or(to_shard, |group| Target::Group {
                argument: argument(),
                group,
                incarnation: Incarnation::FIRST,
                fnv5: Fnv5::new(scope.table, Family::Ipv6),
                fnv12: Fnv12::new(scope, Family::Ipv6),
            });
            add(way.table(), Prefix::DEFAULT_IPV6, target);
            let row = abi::PinUse::zeroed();
            let added = self.pin_use.update(&way.table().get(), &row, Update::Any);
            added.expect("room");
        }
        let tables = (0..TABLES).map(|table| TableId::new(10_000 + table));
        let all = tables.skip(Way::ALL.len());
        let last = all.fold(ROUTES, |_, table| {
            add(table, Prefix::DEFAULT_IPV6, to_shard)
        });
        for number in 0..last {
            let address = Ipv6Addr::from(u128::from(0x0064_ff9b_0000 + u64::from(number)) << 80);
            let prefix = Prefix::new(address.into(), 96).expect("a prefix");
            add(TableId::new(10_000 + number % TABLES), prefix, to_shard);
        }
        // Other tenants' pins.
        for number in 0..PINS - MANY {
            let source = Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number));
            let holder = Holder {
                table: TableId::new(10_000 + number % TABLES),
                group: GroupId::new(1).expect("a group"),
                source: IpAddr::V6(source),
                flow: None,
            };
            let row = abi::Pin {
                bind: 1 << 32,
                last_seen_tick: 0,
                tag: holder.tag(),
            };
            let added = self.pins.update(&holder.source_key(), &row, Update::Insert);
            added.expect("room");
        }
    }

    /// From now on packets go this way, and are encapsulated like this.
    pub(crate) fn direct(&self, way: Way, encap: impl Fn(Encap) -> Encap) {
        let row = Tenant::new(way.table(), argument()).to_row(HERE);
        let set = self.tenants.update(&HERE, &row, Update::Any);
        set.expect("updated");
        let node = "2001:db8:ff01:1:e000::".parse().expect("a SID");
        let encap = encap(Encap::compat(node)).to_row();
        self.config.fill(bytes_of(&encap)).expect("filled");
    }

    pub(crate) fn counters(&self) -> Vec<u64> {
        let mut sums = Vec::new();
        let read = self
            .counters
            .for_each(|_, cpus| sums.push(cpus.iter().sum()));
        read.expect("counters");
        sums
    }

    /// Removes the pins of newcomers.
    pub(crate) fn forget(&self) {
        let table = Way::Newcomers.table().get();
        let mut keys = Vec::new();
        let read = self.pins.for_each(|key, _| {
            if key.table_id == table {
                keys.push(*key);
            }
            ControlFlow::Continue(())
        });
        read.expect("readable");
        for key in keys {
            self.pins.remove(&key).expect("removed");
        }
        let none = abi::PinUse::zeroed();
        let set = self.pin_use.update(&table, &none, Update::Any);
        set.expect("updated");
    }
}

/// Three groups of the same eight shards.
fn publish_groups(slots: &Slots) {
    let limits = Limits::default();
    let prefixes = ["64:ff9b::/96", "64:ff9b:1::/96"];
    let classes = prefixes.map(|prefix| {
        let class = Class::Nat64(prefix.parse().expect("a prefix"));
        ConfiguredClass::from(class)
    });
    let classes = Classes::new(classes, limits).expect("classes");
    let places = allocate(&classes, &[], |_| 0, limits);
    for (id, settings) in (0_u32..).zip([
        Settings {
            pin_idle: PinIdle::OFF,
            ..Settings::default()
        },
        Settings::default(),
        Settings {
            hash_mode: HashMode::Flow,
            ..Settings::default()
        },
    ]) {
        let spec = GroupSpec {
            candidates: (0x10..0x18)
                .map(|number| Candidate::new(shard(number), next_hop()))
                .collect(),
            settings,
            ..GroupSpec::default()
        };
        let class = match id {
            0 => Class::Nat66,
            id => Class::Nat64(prefixes[id as usize - 1].parse().expect("a prefix")),
        };
        let place = places.of(class).expect("a place");
        let plan = plan(None, &place, &spec, &Context::default()).expect("a plan");
        let bytes = plan.snapshot().to_bytes(limits).expect("an image");
        let snapshot = Snapshot::create(&Sizes::default().snapshot_shape()).expect("a map");
        snapshot.fill(&bytes).expect("filled");
        snapshot.freeze().expect("frozen");
        slots
            .swap(plan.group().get().into(), &snapshot)
            .expect("live");
    }
}
