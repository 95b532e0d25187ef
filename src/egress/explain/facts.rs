// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A decision of the model with everything named.

use std::net::Ipv6Addr;

use serde::Serialize;

use crate::addr::MacAddr;
use crate::group::{
    Class, Generation, HashMode, Incarnation, Member, MemberState, PinIdle, Slot, Snapshot, State,
};
use crate::oracle::egress::{By, Chosen, PinFate};
use crate::placement::{Family, Fnv12, Fnv5, Scope};
use crate::reason::egress::End;
use crate::route::{Block, Key, Prefix, Route, Target};
use crate::srv6::BaseSid;
use crate::tenant::Tenant;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It goes to the next program, untouched.
    Next,
    /// It is dropped.
    Drop,
    /// It goes to a shard, through another interface.
    Redirect,
    /// It is dropped, and its sender told, through the interface that it came in by.
    Answer,
}

/// What becomes of one packet, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Explain {
    /// What becomes of it; null where that depends on more of a flow than is known.
    pub verdict: Option<Verdict>,
    /// Under which counter it ends; null likewise.
    pub end: Option<End>,
    /// Why, in a sentence.
    pub why: String,
    /// Whose it is; null where nobody looks or no enabled tenant has the interface.
    pub tenant: Option<ExplainedTenant>,
    /// The route that decides.
    pub route: Option<ExplainedRoute>,
    /// The group that the route names, as it is now.
    pub group: Option<ExplainedGroup>,
    /// The placement hash, eight hexadecimal digits, whether or not a pin decides.
    pub hash: Option<String>,
    /// The word of the group's table that the hash leads to.
    pub word: Option<u32>,
    /// Who gets it.
    pub member: Option<ExplainedMember>,
    /// Who would get it if it had no pin.
    pub without_pin: Option<ExplainedMember>,
    /// Its pin, as it was before the packet, and what becomes of it.
    pub pin: Option<ExplainedPin>,
    /// The outer source and destination address, and the way.
    pub hop: Option<ExplainedHop>,
}

/// A tenant at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedTenant {
    /// Number of the tenant.
    pub table: u32,
    /// What placement hashes for it.
    pub hash_table: u32,
    /// Of the outer source address.
    pub argument: u16,
    /// Whether its packets are looked at.
    pub enabled: bool,
    /// Pins that it may have.
    pub pin_quota: u32,
    /// Pins that it has; null if nothing counts them, and it gets none.
    pub pins: Option<u64>,
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Leads {
    /// To the next program.
    Pass,
    /// Nowhere.
    Block,
    /// Nowhere, and the sender is told.
    Unreachable,
    /// To one shard.
    Shard,
    /// To a group of shards.
    Group,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedRoute {
    /// Of packets to where.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub prefix: Prefix,
    /// Where it leads.
    pub leads: Leads,
    /// Who keeps it: 0 is the control loop of the node.
    pub origin: u16,
    /// Of the outer destination address.
    pub argument: Option<u16>,
    /// The shard of a route to one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub sid: Option<BaseSid>,
    /// The group of a route to one.
    pub group: Option<u8>,
    /// The tenure of the group that it means.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub incarnation: Option<Incarnation>,
    /// Where the hash begins, of a route to a group that is there.
    pub states: Option<HashStates>,
}

/// Where the hash of packets of a route begins: what the route carries, and what tenant and group
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HashStates {
    /// By flow.
    pub fnv5: HashState,
    /// By source.
    pub fnv12: HashState,
    /// Whether the route carries what it should. Otherwise it waits for being written anew, and
    /// places by what it carries.
    pub agree: bool,
}

/// One state of the hash, eight hexadecimal digits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HashState {
    /// What the route carries.
    #[serde(serialize_with = "eight_digits")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub carried: u32,
    /// What it should.
    #[serde(serialize_with = "eight_digits")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub expected: u32,
}

fn eight_digits<S: serde::Serializer>(state: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{state:08x}"))
}

/// A group as it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedGroup {
    /// Its index.
    pub group: u8,
    /// Whose packets it carries: `nat66`, or `nat64:` and the prefix.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// What it does.
    pub state: State,
    /// The tenure in force.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub incarnation: Incarnation,
    /// Number of the publication.
    pub publication: u32,
    /// What of a packet is hashed.
    pub hash: HashMode,
    /// The number that placement hashes for the class.
    pub hash_group: u8,
    /// Seconds for which a pin outlives its last packet; 0: no pins.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub pin_idle_seconds: PinIdle,
    /// Its members.
    pub members: usize,
    /// Of these, those that take new addresses.
    pub active: usize,
}

/// A member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedMember {
    /// The shard.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sid: BaseSid,
    /// Its slot.
    #[cfg_attr(feature = "schema", schemars(with = "u16"))]
    pub slot: Slot,
    /// Its tenure of the slot.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub generation: Generation,
    /// What it does for the group.
    pub state: Option<MemberState>,
    /// What selects it.
    pub by: By,
}

/// A packet's pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedPin {
    /// What becomes of it; null where there is none, and the packet ends before one is made.
    pub fate: Option<PinFate>,
    /// Whether it holds one flow, not all that the address sends.
    pub flow: bool,
    /// The slot that it names; null where there is none yet.
    pub slot: Option<u16>,
    /// The tenure of the slot that it names.
    pub generation: Option<u32>,
    /// Seconds since a packet said that it uses it.
    pub idle_seconds: Option<u64>,
    /// Seconds in which it will be followed still if no packet comes; 0 if it is too old.
    pub left_seconds: Option<u64>,
}

/// The way to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExplainedHop {
    /// The outer source address.
    pub source: Ipv6Addr,
    /// The outer destination address.
    pub destination: Ipv6Addr,
    /// Index of the interface.
    pub ifindex: u32,
    /// Destination of the Ethernet header.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub mac: Option<MacAddr>,
    /// The greatest packet that the link takes, in bytes; 0: unchecked.
    pub mtu: Option<u32>,
}

impl Explain {
    /// Says that too many were answered already.
    pub(in crate::egress) fn limit(&mut self) {
        self.verdict = Some(Verdict::Drop);
        self.end = Some(End::IcmpLimited);
        self.why = End::IcmpLimited.explanation().to_owned();
    }

    /// Takes away what depends on a flow that is not known.
    pub(super) fn forget_flow(&mut self) {
        self.verdict = None;
        self.end = None;
        self.why =
            "The group places by flow: the shard depends on destination, protocol and ports."
                .to_owned();
        self.hash = None;
        self.word = None;
        self.member = None;
        self.without_pin = None;
        self.pin = None;
        self.hop = None;
    }
}

impl ExplainedRoute {
    pub(super) fn of(
        key: &Key,
        route: &Route,
        tenant: Option<&Tenant>,
        group: Option<&Snapshot>,
    ) -> Self {
        let named = route.group();
        Self {
            prefix: key.prefix,
            leads: match route.target {
                Target::Pass => Leads::Pass,
                Target::Block(Block::Drop) => Leads::Block,
                Target::Block(Block::Unreachable) => Leads::Unreachable,
                Target::Shard { .. } => Leads::Shard,
                Target::Group { .. } => Leads::Group,
            },
            origin: route.origin.0,
            argument: route.argument().map(|argument| argument.get()),
            sid: match route.target {
                Target::Shard { sid, .. } => Some(sid),
                _ => None,
            },
            group: named.map(|(group, _)| group.get()),
            incarnation: named.map(|(_, incarnation)| incarnation),
            states: tenant
                .zip(group)
                .and_then(|(tenant, group)| HashStates::of(key, route, tenant, group)),
        }
    }
}

impl HashStates {
    fn of(key: &Key, route: &Route, tenant: &Tenant, group: &Snapshot) -> Option<Self> {
        let Target::Group { fnv5, fnv12, .. } = route.target else {
            return None;
        };
        let family: Family = key.prefix.family();
        let scope = Scope {
            table: tenant.hash_table,
            group: group.hash_group,
        };
        let fnv5 = HashState {
            carried: fnv5.get(),
            expected: Fnv5::new(tenant.hash_table, family).get(),
        };
        let fnv12 = HashState {
            carried: fnv12.get(),
            expected: Fnv12::new(scope, family).get(),
        };
        let agree = [fnv5, fnv12]
            .iter()
            .all(|state| state.carried == state.expected);
        Some(Self { fnv5, fnv12, agree })
    }
}

impl ExplainedGroup {
    pub(super) fn of(group: &Snapshot) -> Self {
        Self {
            group: group.group.get(),
            class: group.class,
            state: group.state,
            incarnation: group.incarnation,
            publication: group.publication.get(),
            hash: group.settings.hash_mode,
            hash_group: group.hash_group.0,
            pin_idle_seconds: group.settings.pin_idle,
            members: group.members.len(),
            active: group.count(MemberState::Active),
        }
    }
}

impl ExplainedMember {
    pub(super) fn of(chosen: &Chosen, group: Option<&Snapshot>) -> Self {
        let member = group.and_then(|group| group.member(chosen.slot));
        Self {
            sid: chosen.sid,
            slot: chosen.slot,
            generation: chosen.generation,
            state: member.map(Member::state),
            by: chosen.by,
        }
    }
}
