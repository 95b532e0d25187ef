// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the tests of pins have in common: a group that pins, its tenant's packets, and rows.

use std::net::Ipv6Addr;

use bytemuck::Zeroable;
use guideway::abi;
use guideway::egress::pins::{Holder, Pins, Sweeper, Tick};
use guideway::group::{GroupId, Limits};
use guideway::kernel::map::Update;

use crate::frames::*;
use crate::machine::*;

pub(crate) const IDLE: u32 = 100;
pub(crate) const REFRESH: u32 = 4;
/// Of slots 0 to 2: who, and in which generation.
pub(crate) const SHARDS: [(u16, u32); 3] = [(0x10, 7), (0x11, 8), (0x12, 9)];

pub(crate) const NEW: [(C, u64); 3] = [
    (C::GW_EGRESS_GROUP, 1),
    (C::GW_EGRESS_MAGLEV, 1),
    (C::GW_EGRESS_PIN_NEW, 1),
];
pub(crate) const HIT: [(C, u64); 2] = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_PIN_HIT, 1)];
pub(crate) const BY_TABLE: [(C, u64); 2] = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_MAGLEV, 1)];

pub(crate) fn source(number: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_aaaa_0000_0000_0000_0000_0000 + u128::from(number))
}

pub(crate) fn frame(number: u32) -> Vec<u8> {
    let far = "2001:db8:2::1".parse().expect("an address");
    ipv6(source(number), far, UDP, &ports(1000, 53, 72))
}

/// Publishes group 0 with these shards and sends all of the tenant's packets there.
pub(crate) fn pinned(machine: &Machine) -> Group {
    let mut group = machine.group_of(&SHARDS);
    group.header.pin_idle_ticks = IDLE;
    group.header.pin_refresh_ticks = REFRESH;
    machine.publish(0, &group);
    machine.default_routes(&machine.to_group(0, 1));
    group
}

/// Another tenant of the same group, behind the uplink's interface.
pub(crate) fn neighbour(machine: &Machine) -> u32 {
    let other = TABLE + 1;
    machine.add_tenant(machine.uplink, other, ARGUMENT);
    let route = machine.to_group(0, 1);
    machine.route(other, "::".parse().expect("an address"), 0, &route);
    other
}

pub(crate) fn key(number: u32) -> abi::PinKey {
    abi::PinKey {
        table_id: TABLE,
        source: source(number).octets(),
        ..Zeroable::zeroed()
    }
}

pub(crate) fn words(pin: abi::Pin) -> (u64, u32, u32) {
    (pin.bind, pin.last_seen_tick, pin.tag)
}

pub(crate) fn pin(machine: &Machine, number: u32) -> Option<abi::Pin> {
    machine.pins.get(&key(number)).expect("read")
}

pub(crate) fn set_pin(machine: &Machine, number: u32, pin: &abi::Pin) {
    let updated = machine.pins.update(&key(number), pin, Update::Replace);
    updated.expect("a pin");
}

pub(crate) fn slot_and_generation(pin: abi::Pin) -> (u64, u64) {
    (pin.bind & 0xffff, pin.bind >> 32)
}

/// What a packet of the tenant was counted as; it reached a shard.
pub(crate) fn counted(machine: &Machine, number: u32) -> Vec<(C, u64)> {
    let (ran, counted) = machine.run(&frame(number));
    assert_eq!(ran.action, REDIRECT, "{counted:?}");
    counted
}

pub(crate) fn used(machine: &Machine, table: u32) -> (u64, u64) {
    let used = machine.pin_use.get(&table).expect("read").expect("a row");
    (used.pins, used.refused)
}

pub(crate) fn set_quota(machine: &Machine, ifindex: u32, quota: u32) {
    let row = machine.tenants.get(&ifindex).expect("read");
    let row = abi::Tenant {
        pin_quota: quota,
        ..row.expect("a row")
    };
    let updated = machine.tenants.update(&ifindex, &row, Update::Any);
    updated.expect("room");
}

pub(crate) fn sweeper(machine: &Machine) -> Sweeper {
    let loaded = Sweeper::load(machine.pin_maps(), Limits::default());
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn pins(machine: &Machine) -> Pins {
    let maps = machine.pin_maps();
    Pins::new(maps.sources, maps.flows, maps.usage).expect("their shapes")
}

pub(crate) fn now() -> Tick {
    Tick::new(tick())
}

pub(crate) fn group_id(number: u32) -> GroupId {
    GroupId::new(number).expect("a group")
}

/// What all counters of pins come to: as many were made and not removed as there are, and each tenant's
/// count is that of its pins.
pub(crate) fn assert_balance(machine: &Machine) {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;
    let counters = machine.counters();
    let of = |counter: C| counters[counter.0 as usize];
    let removed = of(C::GW_EGRESS_PIN_REMOVED_IDLE)
        + of(C::GW_EGRESS_PIN_REMOVED_STALE)
        + of(C::GW_EGRESS_PIN_REMOVED_TENANT)
        + of(C::GW_EGRESS_PIN_REMOVED_CALL);
    let mut pins: BTreeMap<u32, u64> = BTreeMap::new();
    let read = machine.pins.for_each(|key, _| {
        *pins.entry(key.table_id).or_default() += 1;
        ControlFlow::Continue(())
    });
    read.expect("readable");
    let read = machine.flow_pins.for_each(|key, _| {
        *pins.entry(key.table_id).or_default() += 1;
        ControlFlow::Continue(())
    });
    read.expect("readable");
    let total: u64 = pins.values().sum();
    assert_eq!(of(C::GW_EGRESS_PIN_NEW) - removed, total);
    let read = machine.pin_use.for_each(|table, used| {
        assert_eq!(used.pins, pins.remove(table).unwrap_or(0), "table {table}");
        ControlFlow::Continue(())
    });
    read.expect("readable");
    assert_eq!(pins, BTreeMap::new(), "pins of tables without a count");
}

pub(crate) fn tag(key: &abi::PinKey) -> u32 {
    Holder::of_source(key).expect("a key").tag()
}
