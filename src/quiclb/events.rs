// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The events of an instance, one document each: a sample of what happened to packets.
//!
//! Events are hints for people. State and counters are complete without anybody reading them, and
//! what the rate limit or a full ring swallowed is counted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde::Serialize;

use super::error::InstanceError;
use super::instance::QuicLb;
use super::stats::EventStats;
use crate::abi;
use crate::hex;
use crate::kernel::ring::Ring;
use crate::oracle::{Family, IpProtocol};
use crate::reason::{Reason, Rule};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Event {
    /// Names this form.
    pub schema: EventSchema,
    /// When, on the monotonic clock of this host.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// Name of the service; none if it is gone.
    pub service: Option<String>,
    /// Number of the service; none if the packet belongs to none.
    pub service_id: Option<u32>,
    /// The backend, if one was chosen.
    pub backend_id: Option<u32>,
    /// Number of the generation that the packet saw.
    pub generation: u64,
    /// What chose the backend, if one was chosen.
    pub rule: Option<Rule>,
    /// What became of the packet; none for a number that this version does not know.
    pub reason: Option<Reason>,
    /// Family of the addresses.
    pub family: Option<Family>,
    /// Protocol of the packet.
    pub protocol: IpProtocol,
    /// The client's address.
    pub source: Option<IpAddr>,
    /// The client's port.
    pub source_port: u16,
    /// The service's port.
    pub destination_port: u16,
    /// The packet's destination connection ID, hexadecimal; none where none was read.
    pub cid: Option<String>,
    /// Slot of the table; none where the flow was not hashed.
    pub slot: Option<u32>,
    /// Index of the interface where the packet arrived.
    pub ingress_ifindex: u32,
    /// Events of this kind that the rate limit swallowed since the last one on this processor.
    pub suppressed: u32,
}

/// Names the form of an event and of the summary behind the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EventSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.event/v1")]
    V1,
}

/// Defines the kinds of events with their numbers and texts.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $abi:ident $text:literal;)+) => {
        /// What an event tells.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$doc])* $variant,)+
            /// A kind that this version does not know.
            Unknown,
        }

        impl EventKind {
            /// The text in documents and outputs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ Self::Unknown => "unknown" }
            }

            fn from_number(number: u16) -> Self {
                match u32::from(number) {
                    $(number if number == abi::EventKind::$abi.0 => Self::$variant,)+
                    _ => Self::Unknown,
                }
            }
        }
    };
}

kinds! {
    /// A flow began.
    FlowStart = GW_EVENT_FLOW_START "flow_start";
    /// A flow got another backend, its own being unusable.
    Reselect = GW_EVENT_RESELECT "reselect";
    /// Nothing that may take the packet is usable.
    NoBackend = GW_EVENT_NO_BACKEND "no_backend";
    /// A server ID that belongs to nobody.
    UnknownServerId = GW_EVENT_UNKNOWN_SERVER_ID "unknown_server_id";
    /// A connection ID was bound to the backend of its flow.
    CidLearned = GW_EVENT_CID_LEARNED "cid_learned";
    /// A connection ID is bound to another backend than its flow's.
    CidConflict = GW_EVENT_CID_CONFLICT "cid_conflict";
    /// A map had no room.
    RefusedFull = GW_EVENT_REFUSED_FULL "refused_full";
    /// A malformed packet.
    BadPacket = GW_EVENT_BAD_PACKET "bad_packet";
    /// Not QUIC, in a service for QUIC only.
    NotQuic = GW_EVENT_NOT_QUIC "not_quic";
    /// A fragment.
    Fragment = GW_EVENT_FRAGMENT "fragment";
    /// A connection ID came from another address.
    Rebind = GW_EVENT_REBIND "rebind";
    /// An entry named a backend that is gone.
    Stale = GW_EVENT_STALE "stale";
}

/// What was read of a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EventSummary {
    /// Names this form.
    pub schema: EventSchema,
    /// Tells it from an event.
    pub kind: SummaryKind,
    /// Events that were read.
    pub lines: u64,
    /// Events that the rate limit swallowed meanwhile.
    pub suppressed: u64,
    /// Events for which the ring had no room meanwhile.
    pub lost: u64,
}

/// Tells a summary from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SummaryKind {
    /// A summary.
    Summary,
}

/// A line of the output of events: one of the events, or the summary behind the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // a line is made and written, never kept
pub enum EventLine {
    /// An event.
    Event(Event),
    /// The summary.
    Summary(EventSummary),
}

/// The reader of an instance's events. One instance has one reader: two would take events from
/// each other.
///
/// [`AsFd`] gives a descriptor that is readable while there are events. A ring that nobody has
/// read for a while begins with old ones.
#[derive(Debug)]
pub struct EventStream {
    ring: Ring<abi::Event>,
    instance: QuicLb,
    /// Names of the services of the generation that was live when they were last looked up.
    names: BTreeMap<u32, String>,
    named: Option<u64>,
    before: EventStats,
    lines: u64,
}

impl QuicLb {
    /// Starts to read the events.
    ///
    /// # Errors
    /// The ring cannot be read.
    pub fn events(&self) -> Result<EventStream, InstanceError> {
        let instance = QuicLb::open(&self.dir)?;
        let mut stream = EventStream {
            ring: Ring::new(self.maps.events.try_clone()?)?,
            before: instance.event_stats()?,
            instance,
            names: BTreeMap::new(),
            named: None,
            lines: 0,
        };
        stream.look_up();
        Ok(stream)
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl EventStream {
    /// Waits up to `timeout` for an event, then hands at most `limit` of them to `each`; returns
    /// how many. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn poll(
        &mut self,
        timeout: Duration,
        limit: usize,
        mut each: impl FnMut(Event),
    ) -> Result<usize, InstanceError> {
        let mut records = Vec::new();
        let count = self
            .ring
            .poll(timeout, limit, |record| records.push(*record))?;
        // A generation that is newer than the names may have services that they lack.
        let newest = records.iter().map(|record| record.generation).max();
        if newest.is_some_and(|newest| self.named.is_none_or(|named| named < newest)) {
            self.look_up();
        }
        for record in &records {
            each(event(record, &self.names));
        }
        self.lines += count as u64;
        Ok(count)
    }

    /// What was read since the stream began, and what was not written meanwhile.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn summary(&self) -> Result<EventSummary, InstanceError> {
        let now = self.instance.event_stats()?;
        Ok(EventSummary {
            schema: EventSchema::V1,
            kind: SummaryKind::Summary,
            lines: self.lines,
            suppressed: now.suppressed.wrapping_sub(self.before.suppressed),
            lost: now.lost.wrapping_sub(self.before.lost),
        })
    }

    /// Takes over the names of the live generation, if it can be read.
    fn look_up(&mut self) {
        if let Ok(Some(live)) = self.instance.live_record() {
            self.named = Some(live.number());
            // Names of services that are gone stay: events about them may still be in the ring.
            self.names.extend(
                live.spec()
                    .services()
                    .iter()
                    .map(|service| (service.id.get(), service.name.clone())),
            );
        }
    }
}

fn event(record: &abi::Event, names: &BTreeMap<u32, String>) -> Event {
    let [a, b, c, d, ..] = record.source;
    let (family, source) = match record.family {
        4 => (
            Some(Family::Ipv4),
            Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
        ),
        6 => (
            Some(Family::Ipv6),
            Some(IpAddr::V6(Ipv6Addr::from(record.source))),
        ),
        _ => (None, None),
    };
    let cid_len = usize::from(record.cid_len);
    let cid = record.cid.get(..cid_len).filter(|cid| !cid.is_empty());
    Event {
        schema: EventSchema::V1,
        time_ns: record.time_ns,
        kind: EventKind::from_number(record.kind),
        service: names.get(&record.service_id).cloned(),
        service_id: Some(record.service_id).filter(|&id| id != 0),
        backend_id: Some(record.backend_id).filter(|&id| id != 0),
        generation: record.generation,
        rule: Rule::from_number(record.rule),
        reason: Reason::from_number(record.reason),
        family,
        protocol: match record.protocol {
            1 => IpProtocol::Icmp,
            6 => IpProtocol::Tcp,
            17 => IpProtocol::Udp,
            58 => IpProtocol::Icmpv6,
            other => IpProtocol::Other(other),
        },
        source,
        // Big-endian fields.
        source_port: u16::from_be(record.source_port),
        destination_port: u16::from_be(record.destination_port),
        cid: cid.map(hex::encode),
        slot: Some(record.slot).filter(|&slot| slot != abi::Index::GW_INDEX_NONE.0),
        ingress_ifindex: record.ifindex,
        suppressed: record.suppressed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_zeros_and_one_of_ones_are_told_without_a_name_for_anything() {
        let zeros: abi::Event = bytemuck::Zeroable::zeroed();
        let event_of = |record: &abi::Event| event(record, &BTreeMap::new());
        let told = event_of(&zeros);
        assert_eq!(told.kind, EventKind::FlowStart);
        assert_eq!((told.service_id, told.backend_id), (None, None));
        assert_eq!((told.family, told.source, &told.cid), (None, None, &None));
        assert_eq!(told.slot, Some(0));

        let ones: abi::Event = bytemuck::pod_read_unaligned(&[0xff; 88]);
        let told = event_of(&ones);
        assert_eq!(told.kind, EventKind::Unknown);
        assert_eq!((told.rule, told.reason, told.slot), (None, None, None));
        assert_eq!(told.cid, None, "a length that the field has no room for");
        assert_eq!(serde_json::to_value(told.protocol).unwrap(), 255);
    }

    #[test]
    fn fields_keep_their_place_and_byte_order() {
        let mut bytes = [0_u8; 88];
        bytes[0..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&3_u64.to_ne_bytes());
        bytes[16..20].copy_from_slice(&0x8cd5_d28f_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&2_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&9_u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&11_u32.to_ne_bytes());
        bytes[32..34].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[34] = Rule::Table.number();
        bytes[35] = Reason::Forwarded.number();
        bytes[36] = 4;
        bytes[37] = 17;
        bytes[38] = 2;
        bytes[40..42].copy_from_slice(&[0xc3, 0x50]);
        bytes[42..44].copy_from_slice(&[0x01, 0xbb]);
        bytes[44..48].copy_from_slice(&1378_u32.to_ne_bytes());
        bytes[48..52].copy_from_slice(&[198, 51, 100, 7]);
        bytes[64..66].copy_from_slice(&[0xab, 0xcd]);
        let names = BTreeMap::from([(0x8cd5_d28f, "quic-api".to_owned())]);
        let told = event(&bytemuck::pod_read_unaligned(&bytes), &names);
        let expected = serde_json::json!({
            "schema": "guideway.quiclb.event/v1", "time_ns": 7, "kind": "reselect",
            "service": "quic-api", "service_id": 0x8cd5_d28f_u32, "backend_id": 2,
            "generation": 3, "rule": "table", "reason": "forwarded", "family": "ipv4",
            "protocol": "udp", "source": "198.51.100.7", "source_port": 50000,
            "destination_port": 443, "cid": "abcd", "slot": 1378, "ingress_ifindex": 9,
            "suppressed": 11,
        });
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
    }

    #[test]
    fn kinds_have_their_published_names() {
        let names: Vec<_> = (0..13)
            .map(|number| EventKind::from_number(number).as_str())
            .collect();
        let published =
            "flow_start reselect no_backend unknown_server_id cid_learned cid_conflict \
                         refused_full bad_packet not_quic fragment rebind stale unknown";
        assert_eq!(names.join(" "), published);
        for number in 0..13 {
            let kind = EventKind::from_number(number);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
