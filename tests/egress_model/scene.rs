// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A tenant, its routes, a group of three shards, and what becomes of frames there.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use guideway::encap::Encap;
use guideway::group::{
    allocate, plan, Candidate, Class, Classes, Context, GroupId, GroupSpec, Incarnation, Limits,
    PinIdle, Settings, Snapshot,
};
use guideway::oracle::egress::{decide, Action, Decision, Packet, PinUse, Pins, World};
use guideway::placement::{Family, Fnv12, Fnv5, HashTable, Scope};
use guideway::reason::egress::End;
use guideway::route::{Key, Prefix, Route, TableId, Target};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

use crate::frames::*;

pub(crate) const TENANT: u32 = 7;
pub(crate) const UPLINK: u32 = 9;
pub(crate) const TABLE: TableId = TableId::new(42);
pub(crate) const DMAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
pub(crate) const SMAC: [u8; 6] = [2, 0, 0, 0, 8, 8];
pub(crate) const IDLE: u32 = 100;

pub(crate) fn argument() -> Argument {
    Argument::new(0x2a5).expect("an Argument")
}

pub(crate) fn shard(number: u16) -> BaseSid {
    let sid = Ipv6Addr::new(0x2001, 0xdb8, 0xff09, number, 0xe000, 0, 0, 0);
    BaseSid::new(sid).expect("a SID")
}

pub(crate) fn next_hop(mtu: u32) -> NextHop {
    let mtu = Mtu::new(mtu).expect("an MTU");
    NextHop::new(UPLINK, SMAC.into(), DMAC.into(), mtu).expect("a next hop")
}

pub(crate) fn group(settings: Settings) -> Snapshot {
    let classes = Classes::new([], Limits::default()).expect("classes");
    let places = allocate(&classes, &[], |_| 0, Limits::default());
    let spec = GroupSpec {
        candidates: [0x10, 0x11, 0x12]
            .map(|number| Candidate::new(shard(number), next_hop(0)))
            .to_vec(),
        settings,
        ..GroupSpec::default()
    };
    let place = places.of(Class::Nat66).expect("a place");
    let plan = plan(None, &place, &spec, &Context::default()).expect("a plan");
    plan.snapshot().clone()
}

pub(crate) fn off() -> Settings {
    Settings {
        pin_idle: PinIdle::OFF,
        ..Settings::default()
    }
}

pub(crate) fn pinned() -> Settings {
    Settings {
        pin_idle: PinIdle::from_secs(IDLE.into()).expect("a time"),
        ..Settings::default()
    }
}

pub(crate) fn to_shard(mtu: u32) -> Target {
    Target::Shard {
        argument: argument(),
        sid: shard(0x10),
        next_hop: next_hop(mtu),
    }
}

pub(crate) fn to_group(group: u32, incarnation: Incarnation, family: Family) -> Target {
    let scope = Scope::of(HashTable(TABLE.get()));
    Target::Group {
        argument: argument(),
        group: GroupId::new(group).expect("a group"),
        incarnation,
        fnv5: Fnv5::new(scope.table, family),
        fnv12: Fnv12::new(scope, family),
    }
}

/// A world, its pins, and a clock that stands still.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) pins: Pins,
    pub(crate) now_tick: u32,
}

impl Scene {
    /// All of both families goes to one target, or to a group.
    pub(crate) fn new(target: impl Fn(Family) -> Target) -> Self {
        let defaults = [Prefix::DEFAULT_IPV6, Prefix::DEFAULT_IPV4];
        let routes = defaults.map(|prefix| {
            let route = Route::new(target(prefix.family()));
            (Key::new(TABLE, prefix), route)
        });
        let world = World {
            limits: Limits::default(),
            tenants: BTreeMap::from([(TENANT, Tenant::new(TABLE, argument()))]),
            routes: routes.into(),
            groups: BTreeMap::new(),
            encap: Some(Encap::compat(
                "2001:db8:ff01:1:e000::".parse().expect("a SID"),
            )),
        };
        let mut pins = Pins::with_capacity(8, 8);
        pins.used.insert(TABLE, PinUse::default());
        Self {
            world,
            pins,
            now_tick: 1_000_000,
        }
    }

    pub(crate) fn of_group(group: Snapshot) -> Self {
        let (id, incarnation) = (group.group, group.incarnation);
        let mut scene = Self::new(|family| to_group(id.get().into(), incarnation, family));
        scene.world.groups.insert(id, group);
        scene
    }

    pub(crate) fn group(&mut self) -> &mut Snapshot {
        self.world.groups.values_mut().next().expect("a group")
    }

    pub(crate) fn send(&mut self, frame: &[u8]) -> Decision {
        let packet = Packet::new(TENANT, frame, self.now_tick);
        decide(&self.world, &mut self.pins, &packet)
    }

    /// Sends a frame that must end like this, as it came and with nothing else counted.
    pub(crate) fn ends(&mut self, frame: &[u8], action: Action, end: End) {
        let pins = self.pins.clone();
        let decision = self.send(frame);
        assert_eq!((decision.action, decision.end), (action, end), "{frame:x?}");
        assert_eq!(decision.output, frame);
        assert_eq!((decision.counters, decision.slot), (vec![], None));
        assert_eq!(self.pins, pins);
    }

    pub(crate) fn skips(&mut self, frame: &[u8], end: End) {
        self.ends(frame, Action::Next, end);
    }

    pub(crate) fn drops(&mut self, frame: &[u8], end: End) {
        self.ends(frame, Action::Drop, end);
    }
}

pub(crate) fn v6_from(source: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse().expect("an address");
    ipv6(address(source), address("2001:db8:2::1"), next, payload)
}

pub(crate) fn v6() -> Vec<u8> {
    v6_from("2001:db8:aaaa::7", UDP, &ports(1000, 53, 72))
}

pub(crate) fn v4() -> Vec<u8> {
    let to = Ipv4Addr::new(198, 51, 100, 1);
    ipv4(Ipv4Addr::new(10, 0, 0, 7), to, UDP, 0, &ports(1000, 53, 72))
}
