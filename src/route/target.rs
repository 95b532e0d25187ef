// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where a route leads.

use std::net::Ipv6Addr;

use serde::Serialize;

use super::{Key, Prefix, RowError};
use crate::abi::{self, BlockAction, RouteKind};
use crate::addr::MacAddr;
use crate::group::{GroupId, Incarnation};
use crate::placement::{Fnv12, Fnv5, Scope};
use crate::srv6::{Argument, BaseSid, Mtu, NextHop};

const PASS: u8 = RouteKind::GW_ROUTE_PASS.0 as u8;
const SHARD: u8 = RouteKind::GW_ROUTE_SHARD.0 as u8;
const GROUP: u8 = RouteKind::GW_ROUTE_GROUP.0 as u8;
const BLOCK: u8 = RouteKind::GW_ROUTE_BLOCK.0 as u8;
const DROP: u8 = BlockAction::GW_BLOCK_DROP.0 as u8;
const UNREACHABLE: u8 = BlockAction::GW_BLOCK_UNREACHABLE.0 as u8;

/// Who keeps a route in line: 0, the control loop of the node, or another writer, whose routes the
/// loop leaves alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Origin(pub u16);

impl Origin {
    /// Whether another writer than the control loop keeps the route.
    #[must_use]
    pub const fn is_foreign(self) -> bool {
        self.0 != 0
    }
}

/// What becomes of packets that may go nowhere.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// They are dropped and counted.
    #[default]
    Drop,
    /// Who sent them is told by ICMP, if the tenant has a gateway address.
    Unreachable,
}

/// Where packets go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// To the next program, untouched.
    Pass,
    /// Nowhere.
    Block(Block),
    /// To one shard, encapsulated.
    Shard {
        /// Of the tenant, in the outer destination address.
        argument: Argument,
        /// The shard.
        sid: BaseSid,
        /// The way to it.
        next_hop: NextHop,
    },
    /// To that member of a group which pin or table name, encapsulated.
    Group {
        /// Of the tenant, in the outer destination address.
        argument: Argument,
        /// The group.
        group: GroupId,
        /// The tenure that is meant: packets are dropped while the group is in another one.
        incarnation: Incarnation,
        /// Where the hash by flow begins, of the tenant and the family of the prefix.
        fnv5: Fnv5,
        /// Where the hash by source begins, of the tenant, the class and the family of the prefix.
        fnv12: Fnv12,
    },
}

impl Target {
    /// To a group, in the tenure `incarnation`, of packets to `prefix` of a tenant whose packets
    /// are hashed within `scope`.
    #[must_use]
    pub const fn group(
        argument: Argument,
        group: GroupId,
        incarnation: Incarnation,
        scope: Scope,
        prefix: Prefix,
    ) -> Self {
        let family = prefix.family();
        Self::Group {
            argument,
            group,
            incarnation,
            fnv5: Fnv5::new(scope.table, family),
            fnv12: Fnv12::new(scope, family),
        }
    }
}

/// One route without its [`Key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// Who keeps it.
    pub origin: Origin,
    /// Where it leads.
    pub target: Target,
}

impl Route {
    /// A route that the control loop keeps.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        let origin = Origin(0);
        Self { origin, target }
    }

    /// The Argument in the outer destination address; none where nothing is encapsulated.
    #[must_use]
    pub const fn argument(&self) -> Option<Argument> {
        match self.target {
            Target::Shard { argument, .. } | Target::Group { argument, .. } => Some(argument),
            Target::Pass | Target::Block(_) => None,
        }
    }

    /// The group that it names, and which tenure.
    #[must_use]
    pub const fn group(&self) -> Option<(GroupId, Incarnation)> {
        match self.target {
            Target::Group {
                group, incarnation, ..
            } => Some((group, incarnation)),
            _ => None,
        }
    }

    /// As the kernel has it.
    #[must_use]
    pub fn to_row(&self) -> abi::Route {
        let row = abi::Route {
            origin: self.origin.0,
            argument: self.argument().map_or(0, Argument::get),
            ..Default::default()
        };
        match self.target {
            Target::Pass => abi::Route { kind: PASS, ..row },
            Target::Block(block) => abi::Route {
                kind: BLOCK,
                action: match block {
                    Block::Drop => DROP,
                    Block::Unreachable => UNREACHABLE,
                },
                ..row
            },
            Target::Shard { sid, next_hop, .. } => abi::Route {
                kind: SHARD,
                sid: sid.octets(),
                next_hop: abi::NextHop {
                    ifindex: next_hop.ifindex(),
                    mtu: next_hop.mtu().get(),
                    dmac: next_hop.destination().octets(),
                    smac: next_hop.source().octets(),
                },
                ..row
            },
            Target::Group {
                group,
                incarnation,
                fnv5,
                fnv12,
                ..
            } => abi::Route {
                kind: GROUP,
                group_id: group.get().into(),
                incarnation: incarnation.get(),
                fnv5: fnv5.get(),
                fnv12: fnv12.get(),
                ..row
            },
        }
    }

    /// Reads what [`to_row`](Self::to_row) makes; `key` is for the error's text.
    ///
    /// # Errors
    /// Anything that it does not make: another writer's mistake, or another version's row.
    pub fn from_row(key: &Key, row: &abi::Route) -> Result<Self, RowError> {
        let at = |field, value: String| RowError::new(format_args!("route {key}"), field, value);
        let argument = || {
            Argument::new(row.argument.into())
                .map_err(|_| at("argument", format!("{:#x}", row.argument)))
        };
        let target = match row.kind {
            PASS => Target::Pass,
            BLOCK => Target::Block(match row.action {
                DROP => Block::Drop,
                UNREACHABLE => Block::Unreachable,
                action => return Err(at("action", action.to_string())),
            }),
            SHARD => Target::Shard {
                argument: argument()?,
                sid: {
                    let sid = Ipv6Addr::from(row.sid);
                    BaseSid::new(sid).map_err(|_| at("sid", sid.to_string()))?
                },
                next_hop: {
                    let hop = &row.next_hop;
                    let mtu = Mtu::new(hop.mtu).map_err(|_| at("mtu", hop.mtu.to_string()))?;
                    let [source, destination] = [hop.smac, hop.dmac].map(MacAddr::new);
                    NextHop::new(hop.ifindex, source, destination, mtu)
                        .map_err(|error| at("next_hop", error.to_string()))?
                },
            },
            GROUP => Target::Group {
                argument: argument()?,
                group: GroupId::new(row.group_id)
                    .ok_or_else(|| at("group_id", row.group_id.to_string()))?,
                incarnation: Incarnation::new(row.incarnation)
                    .ok_or_else(|| at("incarnation", row.incarnation.to_string()))?,
                fnv5: Fnv5::from_raw(row.fnv5),
                fnv12: Fnv12::from_raw(row.fnv12),
            },
            kind => return Err(at("kind", kind.to_string())),
        };
        let route = Self {
            origin: Origin(row.origin),
            target,
        };
        // Whatever else stands there belongs to a meaning that is not known here.
        if bytemuck::bytes_of(&route.to_row()) != bytemuck::bytes_of(row) {
            return Err(at("zero", "is not 0 and".to_owned()));
        }
        Ok(route)
    }
}
