// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A pin, and its rows in the kernel's maps.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Tick;
use crate::abi::{self, PinBind, PinState};
use crate::group::{Generation, GroupId, Slot};
use crate::placement::Family;
use crate::route::{RowError, TableId};

const LIVE: u8 = PinState::GW_PIN_LIVE.0 as u8;

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

/// To whom: the tenure of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The slot.
    pub slot: Slot,
    /// The tenure of it.
    pub generation: Generation,
}

/// A pin as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pin {
    /// Who is held.
    pub holder: Holder,
    /// To whom.
    pub held: Held,
    /// Changes each time that a packet binds it anew.
    pub sequence: u8,
    /// About to be deleted: no packet follows it.
    pub dead: bool,
    /// When a packet last said that it uses the pin, which each does that comes an interval of
    /// renewal after the one before.
    pub last_seen: Tick,
    /// Its binding as the kernel has it.
    bind: u64,
}

impl Holder {
    /// The key of a pin of an address.
    pub(super) fn source_key(&self) -> abi::PinKey {
        abi::PinKey {
            table_id: self.table.get(),
            family: Family::of(self.source).number(),
            group_id: self.group.get(),
            source: octets(self.source),
            ..Default::default()
        }
    }

    /// The key of a pin of a flow; none between families.
    pub(super) fn flow_key(&self, flow: &Flow) -> Option<abi::FlowPinKey> {
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

    pub(super) fn of_source(key: &abi::PinKey) -> Result<Self, RowError> {
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

    pub(super) fn of_flow(key: &abi::FlowPinKey) -> Result<Self, RowError> {
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
}

impl Pin {
    pub(super) fn new(holder: Holder, row: &abi::Pin) -> Result<Self, RowError> {
        let at = |field, value: String| RowError::new(format!("pin of {holder}"), field, value);
        let part = |shift: PinBind| row.bind >> shift.0;
        let slot = part(PinBind::GW_PIN_SLOT_SHIFT) as u16;
        let generation = part(PinBind::GW_PIN_GENERATION_SHIFT) as u32;
        Ok(Self {
            holder,
            held: Held {
                slot: Slot::new(slot.into()).ok_or_else(|| at("slot", slot.to_string()))?,
                generation: Generation::new(generation)
                    .ok_or_else(|| at("generation", generation.to_string()))?,
            },
            sequence: part(PinBind::GW_PIN_SEQUENCE_SHIFT) as u8,
            dead: part(PinBind::GW_PIN_STATE_SHIFT) as u8 != LIVE,
            last_seen: Tick::new(row.last_seen_tick),
            bind: row.bind,
        })
    }

    /// Its binding as the kernel has it.
    pub(super) fn bind(&self) -> u64 {
        self.bind
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

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} generation {}", self.slot, self.generation)
    }
}
