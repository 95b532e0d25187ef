// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where the packets of an address go.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::{Case, Explain, ExplainError, PinSight};
use crate::egress::document::InterfaceName;
use crate::egress::pins::Tick;
use crate::egress::Egress;
use crate::group::HashMode;
use crate::kernel::{netdev, SysError};
use crate::oracle::egress::{Packet, World};
use crate::placement::{Family, FlowFields, Ports};
use crate::route::{Key, Route, TableId};
use crate::tenant::Tenant;

/// Whose address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The only tenant's that has an interface.
    Only,
    /// This tenant's.
    Table(TableId),
    /// The tenant's whose interface has this index.
    Interface(u32),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("no interface"),
            Self::Table(table) => write!(f, "table {table}"),
            Self::Interface(ifindex) => write!(f, "ifindex {ifindex}"),
        }
    }
}

/// What is behind the addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    /// IPv4: the protocol; IPv6: the first next header.
    pub protocol: u8,
    /// The ports, if it is known which.
    pub ports: Option<Ports>,
}

/// What is known of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Where they come from.
    pub source: IpAddr,
    /// Where they go; none asks for every route of the tenant.
    pub destination: Option<IpAddr>,
    /// What they carry.
    pub transport: Option<Transport>,
    /// Whether they are fragments, the first or others.
    pub fragment: bool,
}

/// No Next Header: what says nothing of what follows.
const NOTHING: u8 = 59;
const IPV6_FRAGMENT: u8 = 44;
/// As much as each header has that is looked at.
const PAYLOAD_BYTES: u8 = 8;
const MORE_FRAGMENTS: u8 = 0x20;

impl Address {
    /// All that an address sends.
    #[must_use]
    pub const fn new(source: IpAddr) -> Self {
        Self {
            source,
            destination: None,
            transport: None,
            fragment: false,
        }
    }

    /// Whether all is known that a group can place by.
    fn is_one_flow(&self) -> bool {
        let transport = match (self.source, self.transport) {
            (IpAddr::V6(_), _) if self.fragment => true,
            (_, None) => false,
            (_, Some(Transport { protocol, ports })) => {
                self.fragment || ports.is_some() || !FlowFields::has_ports(protocol)
            }
        };
        transport && self.destination.is_some()
    }

    /// The shortest packet that is all that.
    fn frame(&self, destination: IpAddr) -> Vec<u8> {
        let protocol = self.transport.map_or(NOTHING, |of| of.protocol);
        let ports = self.transport.and_then(|of| of.ports).unwrap_or_default();
        let mut frame = vec![0; 12];
        match (self.source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let more = if self.fragment { MORE_FRAGMENTS } else { 0 };
                frame.extend([0x08, 0, 0x45, 0, 0, 20 + PAYLOAD_BYTES, 0, 0, more, 0]);
                frame.extend([64, protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (source, destination) => {
                let next = if self.fragment {
                    IPV6_FRAGMENT
                } else {
                    protocol
                };
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, PAYLOAD_BYTES, next, 64]);
                frame.extend(octets6(source));
                frame.extend(octets6(destination));
            }
        }
        // A fragment of IPv6 has its own header here.
        let ports = if self.fragment {
            Ports::default()
        } else {
            ports
        };
        frame.extend(ports.source.to_be_bytes());
        frame.extend(ports.destination.to_be_bytes());
        frame.extend([0; PAYLOAD_BYTES as usize - 4]);
        frame
    }
}

fn octets6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Where the packets of an address go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AddressExplain {
    /// Names this form.
    pub schema: ExplainSchema,
    /// Where they come from.
    pub source: IpAddr,
    /// Where they go; null where every route was asked for.
    pub destination: Option<IpAddr>,
    /// Number of the tenant.
    pub table: u32,
    /// The interface that they come in by, one of the tenant's.
    pub interface: InterfaceName,
    /// What becomes of them: once, or by each route of the tenant of their family, of the packets
    /// that no longer prefix catches. Empty: there is no route, and they pass.
    pub routes: Vec<Explain>,
}

/// Names the form of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ExplainSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.explain/v1")]
    V1,
}

impl Egress {
    /// The interface of a tenant, one of several.
    ///
    /// # Errors
    /// There is no such tenant, or more than one could be meant.
    pub fn find_tenant(&self, who: Who) -> Result<(u32, Tenant), ExplainError> {
        let tenants = self.tenants()?;
        let mut found = tenants.iter().filter(|(ifindex, tenant)| match who {
            Who::Only => true,
            Who::Table(table) => tenant.table == table,
            Who::Interface(wanted) => **ifindex == wanted,
        });
        let (ifindex, tenant) = found.next().ok_or(ExplainError::NoTenant { who })?;
        let tables: BTreeSet<_> = tenants.values().map(|tenant| tenant.table).collect();
        let count = tables.len();
        match (who, Vec::from_iter(tables).as_slice()) {
            (Who::Only, &[first, second, ..]) => Err(ExplainError::Ambiguous {
                count,
                first,
                second,
            }),
            _ => Ok((*ifindex, *tenant)),
        }
    }

    /// Where the packets of an address go now, and why; as [`explain`](Self::explain) says of a
    /// frame. They are as short as can be, so that no link is too small for them.
    ///
    /// # Errors
    /// There is no such tenant, more than one could be meant, source and destination are of two
    /// families, or the instance cannot be read.
    pub fn explain_address(
        &self,
        who: Who,
        address: &Address,
    ) -> Result<AddressExplain, ExplainError> {
        let family = Family::of(address.source);
        if let Some(destination) = address.destination {
            if Family::of(destination) != family {
                return Err(ExplainError::Families {
                    source_address: address.source,
                    destination,
                });
            }
        }
        let (ifindex, tenant) = self.find_tenant(who)?;
        let world = self.world_at(ifindex)?;
        let pins = self.pin_sight()?;
        let look = Look {
            address,
            ifindex,
            now: Tick::now(),
            pins,
        };
        let routes = match address.destination {
            Some(destination) => vec![look.explain(&world, destination)?],
            None => look.by_route(&world, family)?,
        };
        Ok(AddressExplain {
            schema: ExplainSchema::V1,
            source: address.source,
            destination: address.destination,
            table: tenant.table.get(),
            interface: interface(ifindex)?,
            routes,
        })
    }
}

/// What to call an interface.
pub(in crate::egress) fn interface(ifindex: u32) -> Result<InterfaceName, SysError> {
    let interface = netdev::by_index(ifindex)?;
    let name = interface.map(|interface| interface.name);
    Ok(InterfaceName { ifindex, name })
}

/// One look at an address.
struct Look<'a> {
    address: &'a Address,
    ifindex: u32,
    now: Tick,
    pins: PinSight<'a>,
}

impl Look<'_> {
    fn explain(&self, world: &World, destination: IpAddr) -> Result<Explain, SysError> {
        let frame = self.address.frame(destination);
        let packet = Packet::new(self.ifindex, &frame, self.now.get());
        let case = Case::decide(world, &packet, &self.pins)?;
        let mut explain = case.explain();
        let by_flow = explain
            .group
            .is_some_and(|group| group.hash == HashMode::Flow && case.decision.choice.is_some());
        if by_flow && !self.address.is_one_flow() {
            explain.forget_flow();
        }
        Ok(explain)
    }

    /// Each route as if it were the only one: long prefixes before short ones.
    fn by_route(&self, world: &World, family: Family) -> Result<Vec<Explain>, SysError> {
        let of_family = |(key, _): &(&Key, &Route)| key.prefix.family() == family;
        let mut routes: Vec<_> = world.routes.iter().filter(of_family).collect();
        routes.sort_by_key(|(key, _)| std::cmp::Reverse(key.prefix.bits()));
        routes
            .into_iter()
            .map(|(key, route)| {
                let alone = World {
                    routes: BTreeMap::from([(*key, *route)]),
                    ..world.clone()
                };
                self.explain(&alone, key.prefix.address())
            })
            .collect()
    }
}
