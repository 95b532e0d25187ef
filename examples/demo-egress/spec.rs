// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification that the node of this network is given.

use std::net::Ipv6Addr;

use guideway::srv6::BaseSid;
use serde_json::{json, Value};

use super::net::{argument, interface, Network};

/// Number in the SID of the first shard; the others follow.
const FIRST: u16 = 0x10;

/// What can be said about a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not listed.
    Absent,
    /// Gets its share of new addresses.
    Active,
    /// Keeps the addresses it has.
    Draining,
    /// Listed, and nothing reaches it.
    Unreachable,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Absent => "absent",
            State::Active => "active",
            State::Draining => "draining",
            State::Unreachable => "lost",
        }
    }
}

/// The SID of a shard, without a tenant's Argument.
pub(crate) fn sid(shard: u32) -> BaseSid {
    let node = FIRST + shard as u16;
    let sid = Ipv6Addr::new(0x2001, 0xdb8, 0xff09, node, 0xe000, 0, 0, 0);
    BaseSid::new(sid).expect("all of its parts are in range")
}

/// The shard with a SID.
pub(crate) fn shard(sid: BaseSid) -> u32 {
    u32::from(sid.node_id() - FIRST)
}

/// The number of a tenant, in its node and for placement.
pub(crate) fn table(tenant: u32) -> u32 {
    100 + tenant
}

/// A whole specification. Shards have the states in their order.
pub(crate) fn document(network: &Network, states: &[State], pin_idle: &str) -> Value {
    let listed = network.shards.iter().zip(states);
    let listed = listed.filter(|(_, state)| **state != State::Absent);
    let shards = listed.map(|(shard, state)| {
        let next_hop = json!({"interface": shard.interface, "destination": shard.mac});
        json!({
            "sid": sid(shard.number).address(),
            "draining": *state == State::Draining,
            "next_hop": (*state != State::Unreachable).then_some(next_hop),
        })
    });
    let tenants = (0..).zip(&network.tenants).map(|(tenant, _)| {
        json!({
            "table": table(tenant),
            "argument": argument(tenant).get(),
            "interfaces": [interface(tenant)],
        })
    });
    json!({
        "schema": guideway::egress_spec::SCHEMA,
        "node_sid": "2001:db8:ff01:1:e000::",
        "classes": [{
            "class": "nat66",
            "pin_idle": pin_idle,
            "shards": shards.collect::<Vec<_>>(),
        }],
        "tenants": tenants.collect::<Vec<_>>(),
    })
}
