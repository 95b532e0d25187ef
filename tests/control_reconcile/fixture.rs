// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards, tenants and ways, by small numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway::abi;
use guideway::control::{
    Desired, Known, Mode, Observed, Policy, Reachability, SenselessRoute, Shard, ShardList,
    Unreached,
};
use guideway::encap::Encap;
use guideway::group::{Class, Classes, ConfiguredClass, GroupId, Limits, Settings, Snapshot};
use guideway::maglev::TableSize;
use guideway::route::{Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

/// The prefix of NAT64 that most tests configure.
pub(crate) const NAT64: &str = "2001:db8:64::/96";
/// Another one.
pub(crate) const OTHER64: &str = "2001:db8:65::/96";

pub(crate) fn nat64(prefix: &str) -> Class {
    Class::Nat64(prefix.parse().expect("a prefix"))
}

pub(crate) fn sid(number: u16) -> BaseSid {
    let text = format!("2001:db8:ff09:{:x}:e000::", 0x10 + number);
    text.parse().expect("a SID")
}

/// The way to shard `number`, of which there are several.
pub(crate) fn hop_by(number: u16, way: u8) -> NextHop {
    let [high, low] = number.to_be_bytes();
    let source = "02:00:00:00:00:01".parse().expect("an address");
    let destination = format!("02:aa:{way:02x}:00:{high:02x}:{low:02x}");
    let destination = destination.parse().expect("an address");
    NextHop::new(7, source, destination, Mtu::UNCHECKED).expect("a next hop")
}

pub(crate) fn hop(number: u16) -> NextHop {
    hop_by(number, 0)
}

/// A shard that translates IPv6 only.
pub(crate) fn shard66(number: u16) -> Shard {
    Shard {
        ipv6: true,
        ..Shard::new(format!("ns/shard-{number}"), sid(number))
    }
}

/// A shard that translates IPv6 and, behind `NAT64`, IPv4.
pub(crate) fn dual(number: u16) -> Shard {
    Shard {
        ipv4: true,
        nat64_prefix: Some(NAT64.parse().expect("a prefix")),
        ..shard66(number)
    }
}

pub(crate) fn list(shards: impl IntoIterator<Item = Shard>) -> Known<ShardList> {
    Known::Known(ShardList {
        shards: shards.into_iter().collect(),
        faults: Vec::new(),
    })
}

pub(crate) fn stale(known: Known<ShardList>) -> Known<ShardList> {
    known.lost(Duration::from_secs(5), "connection refused")
}

pub(crate) fn classes(prefixes: &[&str]) -> Classes {
    let prefixes = prefixes.iter().map(|prefix| nat64(prefix).into());
    Classes::new(prefixes, limits()).expect("classes")
}

pub(crate) fn classes_with(entries: impl IntoIterator<Item = ConfiguredClass>) -> Classes {
    Classes::new(entries, limits()).expect("classes")
}

/// Small tables, so that many plans cost little.
pub(crate) fn limits() -> Limits {
    Limits::new(4, 8, TableSize::new(61).expect("a prime")).expect("limits")
}

pub(crate) fn encap() -> Encap {
    Encap::compat("2001:db8:ff09:1::".parse().expect("a SID"))
}

/// Hashed mode for NAT66 and `NAT64` over these shards; no static SIDs.
pub(crate) fn hashed(shards: Known<ShardList>) -> Desired {
    Desired {
        mode: Mode::Hashed,
        classes: classes(&[NAT64]),
        settings: Settings::default(),
        encap: encap(),
        shards,
        static_sids: Vec::new(),
        policy: Policy::default(),
        overrides: BTreeMap::new(),
    }
}

/// Ordered mode for the same classes over these static SIDs; nobody lists shards.
pub(crate) fn ordered(sids: &[u16]) -> Desired {
    Desired {
        mode: Mode::Ordered,
        static_sids: sids.iter().map(|number| sid(*number)).collect(),
        ..hashed(Known::Unknown)
    }
}

pub(crate) fn argument(table: u32) -> Argument {
    Argument::new(0x100 + table).expect("an Argument")
}

pub(crate) fn tenant(table: u32) -> Tenant {
    Tenant::new(TableId::new(table), argument(table))
}

/// Nothing published, the ways to shards 0 to 15 known, and these tenants, at interfaces of 100 and
/// their number.
pub(crate) fn observed(tables: impl IntoIterator<Item = u32>) -> Observed {
    Observed {
        encap: Some(encap()),
        limits: limits(),
        groups: Vec::new(),
        damaged: BTreeMap::new(),
        contexts: BTreeMap::new(),
        routes: BTreeMap::new(),
        senseless: BTreeMap::new(),
        unreadable: Vec::new(),
        tenants: tables
            .into_iter()
            .map(|table| (100 + table, tenant(table)))
            .collect(),
        reach: reach((0..16).map(|number| (number, true))),
        pins: None,
        now: Duration::from_secs(1000),
        now_ns: 1,
    }
}

/// Which shards are reached.
pub(crate) fn reach(shards: impl IntoIterator<Item = (u16, bool)>) -> Reachability {
    let shards = shards.into_iter().map(|(number, reached)| {
        let way = match reached {
            true => Ok(hop(number)),
            false => Err(Unreached::NoRoute),
        };
        (sid(number), way)
    });
    Reachability(shards.collect())
}

/// The snapshot with everything that liveness may change made the same as in `other`.
pub(crate) fn but_for_liveness(snapshot: &Snapshot, other: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for (member, other) in snapshot.members.iter_mut().zip(&other.members) {
        member.next_hop = other.next_hop;
    }
    Snapshot {
        table: other.table.clone(),
        digest: other.digest,
        publication: other.publication,
        published_ns: other.published_ns,
        ..snapshot
    }
}

pub(crate) fn prefix_of(class: Class) -> Prefix {
    let (address, bits) = class.prefix();
    Prefix::new(address.into(), bits.into()).expect("a prefix")
}

/// The route of a tenant for a class.
pub(crate) fn key(table: u32, class: Class) -> Key {
    Key::new(TableId::new(table), prefix_of(class))
}

pub(crate) fn to_shard(table: u32, number: u16) -> Route {
    Route::new(Target::Shard {
        argument: argument(table),
        sid: sid(number),
        next_hop: hop(number),
    })
}

/// A row of a route that no writer of this library makes, and that packets read to name this group.
pub(crate) fn senseless_row(origin: Origin, group: Option<GroupId>) -> abi::Route {
    let kind = match group {
        // Without an Argument.
        Some(_) => abi::RouteKind::GW_ROUTE_GROUP.0 as u8,
        None => 77,
    };
    abi::Route {
        kind,
        origin: origin.0,
        group_id: group.map_or(0, |group| group.get().into()),
        ..Default::default()
    }
}

/// What is read of it.
pub(crate) fn senseless(key: &Key, origin: Origin, group: Option<GroupId>) -> SenselessRoute {
    let error = Route::from_row(key, &senseless_row(origin, group));
    SenselessRoute {
        origin,
        group,
        error: error.expect_err("a row without sense"),
    }
}
