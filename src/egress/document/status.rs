// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the egress of a node does.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::class::GroupSettings;
use super::finding::Finding;
use super::interfaces::InterfaceName;
use crate::document::severity::Severity;
use crate::egress::pins::Standings;
use crate::egress::LoopMode;
use crate::group::{Class, MemberState, State};
use crate::kernel::build::Build;
use crate::route::Prefix;
use crate::srv6::BaseSid;

/// What an instance does, as it was found at one moment; packets went on meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StatusDocument {
    /// Names this form.
    pub schema: StatusSchema,
    /// Whether anything is found that is an error.
    pub health: Health,
    /// The program.
    pub program: ProgramStatus,
    /// What this kernel can do of what the datapath needs or uses, tried without an effect.
    pub preflight: Vec<CheckStatus>,
    /// The loop that keeps the instance in line, by what it said last; null if there is none.
    #[serde(rename = "loop")]
    pub keeper: Option<LoopStatus>,
    /// How packets are encapsulated, by the names of the specification; null before that was
    /// published, and where its pin is lost.
    pub configuration: Option<Map<String, Value>>,
    /// All groups that were ever opened.
    pub groups: Vec<GroupStatus>,
    /// All tenants of which anything is known.
    pub tenants: Vec<TenantStatus>,
    /// The routes of all tenants.
    pub routes: RouteStatus,
    /// Where the program is attached.
    pub attachments: Vec<AttachmentStatus>,
    /// Packets since the instance was made, by how they ended.
    pub packets: PacketStatus,
    /// What happened where groups chose members, and where pins were removed.
    pub selection: BTreeMap<&'static str, u64>,
    /// What became of events.
    pub events: BTreeMap<&'static str, u64>,
    /// The pins of all tenants.
    pub pins: PinStatus,
    /// Memory of the kernel that the maps take now, without the snapshots.
    pub memory_bytes: u64,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

impl StatusDocument {
    /// Whether packets do not go where they should, or will not.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.severity == Severity::Error)
    }
}

/// Names the form of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StatusSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.status/v1")]
    V1,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// No finding is an error.
    Sound,
    /// One is.
    Degraded,
}

/// The program that packets meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProgramStatus {
    /// The kernel's number of it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The kernel's digest of it, in hexadecimal digits.
    pub tag: String,
    /// What it was made of; null if its build kept no record.
    pub build: Option<Build>,
    /// The kernel's number of the program before, to go back to; null if there is none.
    pub previous_id: Option<u32>,
}

/// Something that the datapath needs or uses of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CheckStatus {
    /// What it is.
    pub name: &'static str,
    /// Whether nothing goes without it.
    pub needed: bool,
    /// Why it is not there; null if it is.
    pub missing: Option<String>,
}

/// The loop that keeps an instance in line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LoopStatus {
    /// How packets find their shard.
    pub mode: LoopMode,
    /// The classes that each tenant should have routes for.
    pub classes: Vec<String>,
    /// Active members that each group should have at least.
    pub pool_min_active: u32,
    /// The longest time between two sweeps, in seconds; null of a loop that swept once.
    pub interval_seconds: Option<f64>,
    /// Why no current list of shards is held; null if one is, or if none is needed.
    pub unsynced: Option<String>,
    /// Seconds since the last sweep ended.
    pub swept_seconds_ago: f64,
    /// Seconds since one ended that did not fail; null if none did.
    pub succeeded_seconds_ago: Option<f64>,
    /// What failed in the last sweep: the first of it.
    pub failures: Vec<String>,
}

/// A group as packets see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupStatus {
    /// Its index.
    pub group: u8,
    /// Whose it is; of a disabled one, whose it was.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// What it does.
    pub state: State,
    /// The number that placement hashes for the class.
    pub hash_group: u8,
    /// How it treats packets.
    pub settings: GroupSettings,
    /// Tenure of the group by the class.
    pub incarnation: u32,
    /// Number of the publication.
    pub publication: u32,
    /// Seconds since that was planned, by the clock of this machine.
    pub age_seconds: u64,
    /// Slots of the table.
    pub table_size: u32,
    /// The table as a number to compare nodes by.
    pub digest: String,
    /// Shards that cannot translate this class.
    pub ineligible: u16,
    /// Routes that lead to it.
    pub routes: u64,
    /// Of these, routes that others keep than the node's control loop: it is not disabled before they
    /// are gone.
    pub foreign_routes: u64,
    /// Its pins.
    pub pins: Standings,
    /// Its members, in the order of their slots.
    pub members: Vec<MemberStatus>,
}

/// A member as packets see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemberStatus {
    /// Its slot.
    pub slot: u16,
    /// Its tenure of the slot.
    pub generation: u32,
    /// The shard.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sid: BaseSid,
    /// What it does.
    pub state: MemberState,
    /// Its weight.
    pub weight: u32,
    /// Its slots of the table.
    pub table_slots: u32,
    /// Its part of the table, from 0 to 1.
    pub share: f64,
    /// Packets sent to it in this tenure.
    pub packets: u64,
    /// Their bytes before encapsulation.
    pub bytes: u64,
    /// Pins that hold somebody to it.
    pub pins: u64,
    /// Pins of earlier tenures of the slot, which hold nobody.
    pub former_pins: u64,
    /// The interface that packets to it leave by; null while nothing reaches it.
    pub interface: Option<InterfaceName>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TenantStatus {
    /// Its number.
    pub table: u32,
    /// The number that SIDs carry for it; null if it has no interface.
    pub argument: Option<u16>,
    /// The number that placement hashes for it.
    pub hash_table: Option<u32>,
    /// Interfaces that bring its packets.
    pub interfaces: Vec<InterfaceName>,
    /// Its routes.
    pub routes: u64,
    /// Its pins.
    pub pins: Standings,
    /// How many of them the packet path counts; null if it does not, and makes no new ones.
    pub pins_counted: Option<u64>,
    /// How many it may have; null for any number.
    pub pin_quota: Option<u32>,
    /// Pins that it was refused for want of quota, ever.
    pub pins_refused: u64,
}

/// The routes of all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RouteStatus {
    /// All of them.
    pub total: u64,
    /// How many there is room for.
    pub limit: u32,
    /// By class, those that lead to its groups.
    pub by_class: BTreeMap<String, u64>,
    /// Those that lead to a group which is gone.
    pub dead: u64,
    /// Those that others keep than the node's control loop.
    pub foreign: u64,
    /// Each of these that leads to a group, in order.
    pub foreign_to_groups: Vec<ForeignRouteStatus>,
    /// Rows that make no sense.
    pub unknown: u64,
}

/// A route to a group that another writer keeps than the node's control loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ForeignRouteStatus {
    /// Number of the tenant's table.
    pub table: u32,
    /// Packets to where.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub prefix: Prefix,
    /// The group that it names.
    pub group: u8,
    /// The class that has the group; null if it was never opened.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<Class>,
    /// The tenure of the group that it names.
    pub incarnation: u32,
    /// Who keeps it.
    pub origin: u16,
}

/// Where the program is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AttachmentStatus {
    /// The interface.
    pub interface: InterfaceName,
    /// By which way.
    pub way: AttachmentWay,
    /// The link, on TCX.
    pub link_id: Option<u32>,
    /// The filter's priority, with clsact.
    pub priority: Option<u16>,
    /// The filter's handle, with clsact.
    pub handle: Option<u32>,
    /// The program that runs there; null if the interface is gone, or somebody took it off.
    pub program_id: Option<u32>,
    /// Whether it is a program of the instance that runs there: in the middle of an exchange, that is
    /// the one before or the one to follow.
    pub alive: bool,
}

/// By which of the kernel's ways a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttachmentWay {
    /// Through a link on TCX.
    Tcx,
    /// As a filter of clsact.
    Clsact,
}

/// Packets by how they ended; every name is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PacketStatus {
    /// All of them.
    pub total: u64,
    /// Those that went where their route says.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Those that are not ours, and passed untouched.
    pub skips: BTreeMap<&'static str, u64>,
    /// Those that were dropped.
    pub drops: BTreeMap<&'static str, u64>,
}

/// The pins of all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PinStatus {
    /// As they stand.
    pub standing: Standings,
    /// Pins of addresses.
    pub by_source: u64,
    /// How many of these there is room for.
    pub source_capacity: u32,
    /// Pins of flows.
    pub by_flow: u64,
    /// How many of these there is room for.
    pub flow_capacity: u32,
    /// Rows that make no sense.
    pub unknown: u64,
    /// Tenants whose count is not that of their pins, and by how many it is higher.
    pub drift: BTreeMap<u32, i64>,
}
