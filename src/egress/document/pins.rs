// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins, one by one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

use serde::Serialize;

use super::Error;
use crate::egress::pins::{Pin, Rules, Standing, Tick};
use crate::egress::{Egress, InstanceError};
use crate::group::{Class, GroupId, Snapshot};
use crate::kernel::statedir::StateDir;
use crate::route::TableId;
use crate::srv6::BaseSid;

/// One pin: who is held to which shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PinDocument {
    /// Names this form.
    pub schema: PinSchema,
    /// The tenant.
    pub table: u32,
    /// The tenant's address.
    pub source: IpAddr,
    /// The rest of the flow; null where all that the address sends is held.
    pub flow: Option<FlowDocument>,
    /// Index of the group.
    pub group: u8,
    /// Whose the group is; null if it is not published.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<Class>,
    /// The slot of the member.
    pub slot: u16,
    /// The tenure of the slot.
    pub generation: u32,
    /// The member; null if that tenure is over.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub shard: Option<BaseSid>,
    /// Seconds since a packet last said that it uses the pin, to the accuracy of its renewal.
    pub idle_seconds: u64,
    /// How it stands.
    pub standing: Standing,
}

/// Names the form of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PinSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.pin/v1")]
    V1,
}

/// What of a flow is not its source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FlowDocument {
    /// IPv4: the protocol; IPv6: the first next header.
    pub protocol: u8,
    /// 0 where there are none.
    pub source_port: u16,
    /// Where it goes.
    pub destination: IpAddr,
    /// 0 where there are none.
    pub destination_port: u16,
}

/// Which pins; all of them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinFilter {
    /// Only those of this tenant.
    pub table: Option<TableId>,
    /// Only those of this group.
    pub group: Option<GroupId>,
    /// Only those of this address.
    pub source: Option<IpAddr>,
}

impl PinFilter {
    pub(super) fn matches(&self, pin: &Pin) -> bool {
        let holder = &pin.holder;
        self.table.is_none_or(|table| table == holder.table)
            && self.group.is_none_or(|group| group == holder.group)
            && self.source.is_none_or(|source| source == holder.source)
    }
}

/// Calls `each` with every pin that `filter` lets through, in no order, until it breaks off; how
/// many rows made no sense. Takes no lock.
///
/// # Errors
/// The instance or its pins cannot be read.
pub fn pins(
    dir: &StateDir,
    filter: &PinFilter,
    mut each: impl FnMut(PinDocument) -> ControlFlow<()>,
) -> Result<u64, Error> {
    let egress = Egress::open(dir)?;
    let groups = egress.groups_as_they_are()?.known;
    let rules = Rules::new(&groups);
    let groups: BTreeMap<_, _> = groups.iter().map(|group| (group.group, group)).collect();
    let (now, mut unknown) = (Tick::now(), 0);
    let pins = egress.pins()?;
    let read = pins.for_each(|pin| match pin {
        Ok(pin) if filter.matches(&pin) => {
            let group = groups.get(&pin.holder.group).copied();
            each(PinDocument::of(&pin, group, rules.standing(&pin, now), now))
        }
        Ok(_) => ControlFlow::Continue(()),
        Err(_) => {
            unknown += 1;
            ControlFlow::Continue(())
        }
    });
    read.map_err(InstanceError::from)?;
    Ok(unknown)
}

impl PinDocument {
    fn of(pin: &Pin, group: Option<&Snapshot>, standing: Standing, now: Tick) -> Self {
        let (holder, held) = (&pin.holder, pin.held);
        let member = group.and_then(|group| group.member(held.slot));
        let member = member.filter(|member| member.generation == held.generation);
        Self {
            schema: PinSchema::V1,
            table: holder.table.get(),
            source: holder.source,
            flow: holder.flow.map(|flow| FlowDocument {
                protocol: flow.protocol,
                source_port: flow.source_port,
                destination: flow.destination,
                destination_port: flow.destination_port,
            }),
            group: holder.group.get(),
            class: group.map(|group| group.class),
            slot: held.slot.get(),
            generation: held.generation.get(),
            shard: member.map(|member| member.sid),
            idle_seconds: now.elapsed_since(pin.last_seen).as_secs(),
            standing,
        }
    }
}
