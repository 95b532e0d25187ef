// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Who is held by pins, and by which keys the kernel's maps have them.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::abi;
use crate::group::GroupId;
use crate::placement::{Family, FlowFields, HashKey, Ports, Scope};
use crate::route::{RowError, TableId};

/// Who is held: a tenant's address in a group that places by source, or one flow of it in a group that
/// places by flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Holder {
    /// The tenant.
    pub table: TableId,
    /// The group that has it.
    pub group: GroupId,
    /// The tenant's address.
    pub source: IpAddr,
    /// The rest of a flow; none for all that the address sends.
    pub flow: Option<Flow>,
}

/// What of a flow is not its source address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flow {
    /// IPv4: the protocol; IPv6: the first next header.
    pub protocol: u8,
    /// 0 where there are none.
    pub source_port: u16,
    /// Where it goes; of the family of the source.
    pub destination: IpAddr,
    /// 0 where there are none.
    pub destination_port: u16,
}

impl Holder {
    /// The key of a pin of the address, in the table of pins by source.
    #[must_use]
    pub fn source_key(&self) -> abi::PinKey {
        abi::PinKey {
            table_id: self.table.get(),
            family: Family::of(self.source).number(),
            group_id: self.group.get(),
            source: octets(self.source),
            ..Default::default()
        }
    }

    /// The key of a pin of a flow of it, in the table of pins by flow; none between families.
    #[must_use]
    pub fn flow_key(&self, flow: &Flow) -> Option<abi::FlowPinKey> {
        let family = Family::of(self.source);
        (family == Family::of(flow.destination)).then(|| abi::FlowPinKey {
            table_id: self.table.get(),
            family: family.number(),
            protocol: flow.protocol,
            group_id: self.group.get(),
            source_port: flow.source_port.to_be(),
            destination_port: flow.destination_port.to_be(),
            source: octets(self.source),
            destination: octets(flow.destination),
            ..Default::default()
        })
    }

    /// Reads what [`source_key`](Self::source_key) makes.
    ///
    /// # Errors
    /// Anything that it does not make.
    pub fn of_source(key: &abi::PinKey) -> Result<Self, RowError> {
        let at = |field, value: String| RowError::new(row(key.table_id), field, value);
        if key.zero != 0 {
            return Err(at("zero", key.zero.to_string()));
        }
        let address = |field, octets| {
            address(key.family, octets)
                .ok_or_else(|| at(field, format!("{octets:?} of family {}", key.family)))
        };
        Ok(Self {
            table: TableId::new(key.table_id),
            group: GroupId::new(key.group_id.into())
                .ok_or_else(|| at("group_id", key.group_id.to_string()))?,
            source: address("source", key.source)?,
            flow: None,
        })
    }

    /// Reads what [`flow_key`](Self::flow_key) makes.
    ///
    /// # Errors
    /// Anything that it does not make.
    pub fn of_flow(key: &abi::FlowPinKey) -> Result<Self, RowError> {
        let at = |field, value: String| RowError::new(row(key.table_id), field, value);
        if key.zero != 0 {
            return Err(at("zero", key.zero.to_string()));
        }
        let holder = Self::of_source(&abi::PinKey {
            table_id: key.table_id,
            family: key.family,
            group_id: key.group_id,
            zero: 0,
            source: key.source,
        })?;
        let destination = address(key.family, key.destination);
        Ok(Self {
            flow: Some(Flow {
                protocol: key.protocol,
                source_port: u16::from_be(key.source_port),
                destination: destination
                    .ok_or_else(|| at("destination", format!("{:?}", key.destination)))?,
                destination_port: u16::from_be(key.destination_port),
            }),
            ..holder
        })
    }

    /// What places packets of the holder that no pin holds, in a group of this scope; none between
    /// families.
    #[must_use]
    pub fn hash(&self, scope: Scope) -> Option<u32> {
        let Some(flow) = &self.flow else {
            return Some(HashKey::source(scope, self.source).hash32());
        };
        let ports = Ports {
            source: flow.source_port,
            destination: flow.destination_port,
        };
        let fields = match (self.source, flow.destination) {
            (IpAddr::V6(from), IpAddr::V6(to)) => FlowFields::ipv6(from, to, flow.protocol, ports),
            (IpAddr::V4(from), IpAddr::V4(to)) => FlowFields::ipv4(from, to, flow.protocol, ports),
            _ => return None,
        };
        Some(HashKey::flow(scope, &fields).hash32())
    }

    /// What a pin of this holder carries: whose it is, for who finds it while its memory is used
    /// again. It depends on the machine's byte order, as pins never leave it.
    #[must_use]
    pub fn tag(&self) -> u32 {
        let [from, from_low] = words(self.source);
        let whose = u64::from(self.group.get()) << 40
            | u64::from(Family::of(self.source).number()) << 32
            | u64::from(self.table.get());
        let mut factors = vec![
            (whose, 0x6a09_e667_f3bc_c909_u64),
            (from, 0xbb67_ae85_84ca_a73b),
            (from_low, 0x3c6e_f372_fe94_f82b),
        ];
        if let Some(flow) = &self.flow {
            let [to, to_low] = words(flow.destination);
            let what = u64::from(flow.protocol) << 32
                | u64::from(flow.source_port.to_be()) << 16
                | u64::from(flow.destination_port.to_be());
            factors.extend([
                (to, 0xa54f_f53a_5f1d_36f1),
                (to_low, 0x510e_527f_ade6_82d1),
                (what, 0x9b05_688c_2b3e_6c1f),
            ]);
        }
        let mixed = factors.iter().fold(0_u64, |sum, (word, factor)| {
            sum.wrapping_add(word.wrapping_mul(*factor))
        });
        (mixed >> 32) as u32
    }
}

fn row(table_id: u32) -> String {
    format!("key of a pin of table {table_id}")
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            octets
        }
    }
}

fn address(family: u8, octets: [u8; 16]) -> Option<IpAddr> {
    let [a, b, c, d, rest @ ..] = octets;
    if family == Family::Ipv6.number() {
        Some(Ipv6Addr::from(octets).into())
    } else if family == Family::Ipv4.number() && rest == [0; 12] {
        Some(Ipv4Addr::from([a, b, c, d]).into())
    } else {
        None
    }
}

/// An address as the two words that a packet loads.
fn words(address: IpAddr) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, low @ ..] = octets(address);
    [[a, b, c, d, e, f, g, h], low].map(u64::from_ne_bytes)
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Some(flow) = &self.flow {
            let Flow {
                protocol,
                source_port,
                destination,
                destination_port,
            } = flow;
            write!(
                f,
                " port {source_port} to {destination} port {destination_port} protocol {protocol}"
            )?;
        }
        write!(f, " of table {} in group {}", self.table, self.group)
    }
}
