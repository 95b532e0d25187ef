// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What went wrong with packets and pins, told once in a while.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde::Serialize;

use super::error::InstanceError;
use super::instance::Egress;
use crate::abi;
use crate::kernel::ring::Ring;

/// One event: a sample of the packets that ended so.
///
/// Events are hints for people. State and counters are complete without anybody reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// When, on the monotonic clock of this host.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// Index of the tenant's interface.
    pub ifindex: u32,
    /// The tenant; 0 if its row could not be read.
    pub table_id: u32,
    /// The group that the packet's route leads to; none for other routes.
    pub group_id: Option<u32>,
    /// Slot that a pin was made for; none of events about packets.
    pub slot: Option<u32>,
    /// Interface that a dropped packet was to leave by; none if none was chosen.
    pub link_ifindex: Option<u32>,
    /// Source of the packet; none if it could not be read.
    pub source: Option<IpAddr>,
    /// Events of this kind that the rate limit swallowed since the last one on this processor.
    pub suppressed: u32,
}

/// Defines the kinds of events with their numbers and texts.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $abi:ident $text:literal;)+) => {
        /// What an event tells. Each has a counter of the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
                    $(number if number == abi::EgressEventKind::$abi.0 => Self::$variant,)+
                    _ => Self::Unknown,
                }
            }
        }
    };
}

kinds! {
    /// Dropped: the route makes no sense.
    BadRoute = GW_EGRESS_EVENT_BAD_ROUTE "bad_route";
    /// Dropped: the route's group was never published.
    GroupAbsent = GW_EGRESS_EVENT_GROUP_ABSENT "group_absent";
    /// Dropped: the route's group is disabled.
    GroupDisabled = GW_EGRESS_EVENT_GROUP_DISABLED "group_disabled";
    /// Dropped: the route's group has no active member.
    GroupEmpty = GW_EGRESS_EVENT_GROUP_EMPTY "group_empty";
    /// Dropped: the route means a former incarnation of its group.
    StaleRoute = GW_EGRESS_EVENT_STALE_ROUTE "stale_route";
    /// Dropped: a snapshot or a tenant's row makes no sense.
    BadSnapshot = GW_EGRESS_EVENT_BAD_SNAPSHOT "bad_snapshot";
    /// Dropped: the table named a member that is not alive.
    MemberDead = GW_EGRESS_EVENT_MEMBER_DEAD "member_dead";
    /// Dropped: bytes that are needed are missing or malformed.
    Parse = GW_EGRESS_EVENT_PARSE "parse";
    /// Dropped: longer than the outer header can say.
    TooLong = GW_EGRESS_EVENT_TOO_LONG "too_long";
    /// Dropped: longer than the link carries, and the sender was not told.
    TooBig = GW_EGRESS_EVENT_TOO_BIG "too_big";
    /// Dropped: its sender would have been told, but too many were.
    IcmpLimited = GW_EGRESS_EVENT_ICMP_LIMITED "icmp_limited";
    /// Dropped: the kernel made no room for a header.
    Encap = GW_EGRESS_EVENT_ENCAP "encap";
    /// Dropped: the kernel would not redirect it.
    Redirect = GW_EGRESS_EVENT_REDIRECT "redirect";
    /// A pin was of no use any more, and another processor replaced it.
    PinStale = GW_EGRESS_EVENT_PIN_STALE "pin_stale";
    /// No pin was made: the map is full.
    PinFull = GW_EGRESS_EVENT_PIN_FULL "pin_full";
    /// No pin was made: the tenant has its share.
    PinQuota = GW_EGRESS_EVENT_PIN_QUOTA "pin_quota";
    /// No pin was made: the kernel was busy.
    PinBusy = GW_EGRESS_EVENT_PIN_BUSY "pin_busy";
    /// A pin was of no use any more, and was replaced.
    PinReplaced = GW_EGRESS_EVENT_PIN_REPLACED "pin_replaced";
}

impl EventKind {
    /// Whether it tells of a pin, and the packet went its way.
    pub const fn is_about_pin(self) -> bool {
        matches!(
            self,
            Self::PinStale | Self::PinFull | Self::PinQuota | Self::PinBusy | Self::PinReplaced
        )
    }
}

/// The reader of an instance's events. One instance has one reader: two would take events from each
/// other.
///
/// [`AsFd`] gives a descriptor that is readable while there are events. A ring that nobody has read
/// for a while begins with old ones.
#[derive(Debug)]
pub struct EventStream {
    ring: Ring<abi::EgressEvent>,
}

impl Egress {
    /// Starts to read the events.
    ///
    /// # Errors
    /// The ring cannot be read.
    pub fn events(&self) -> Result<EventStream, InstanceError> {
        let ring = Ring::new(self.maps.events.try_clone()?)?;
        Ok(EventStream { ring })
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl EventStream {
    /// Waits up to `timeout` for an event, then hands at most `limit` of them to `each`; returns how
    /// many. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn poll(
        &mut self,
        timeout: Duration,
        limit: usize,
        mut each: impl FnMut(Event),
    ) -> Result<usize, InstanceError> {
        let count = self
            .ring
            .poll(timeout, limit, |record| each(event(record)))?;
        Ok(count)
    }
}

fn event(record: &abi::EgressEvent) -> Event {
    let kind = EventKind::from_number(record.kind);
    let about_pin = kind.is_about_pin();
    let source = Ipv6Addr::from(record.source).to_canonical();
    Event {
        time_ns: record.time_ns,
        kind,
        ifindex: record.ifindex,
        table_id: record.table_id,
        group_id: Some(record.group_id).filter(|&id| id != abi::Index::GW_INDEX_NONE.0),
        slot: about_pin.then_some(record.detail),
        link_ifindex: Some(record.detail).filter(|&link| !about_pin && link != 0),
        source: Some(source).filter(|source| *source != IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        suppressed: record.suppressed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record byte by byte.
    fn record(kind: u16, group: u32, detail: u32, source: [u8; 16]) -> abi::EgressEvent {
        let mut bytes = [0; 48];
        bytes[0..2].copy_from_slice(&kind.to_ne_bytes());
        bytes[2..4].copy_from_slice(&48_u16.to_ne_bytes());
        bytes[4..8].copy_from_slice(&5_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&42_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&group.to_ne_bytes());
        bytes[28..32].copy_from_slice(&detail.to_ne_bytes());
        bytes[32..].copy_from_slice(&source);
        bytemuck::pod_read_unaligned(&bytes)
    }

    #[test]
    fn fields_keep_their_place_and_meaning() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7];
        let told = event(&record(68, 2, 9, mapped));
        let expected = serde_json::json!({
            "time_ns": 7, "kind": "pin_full", "ifindex": 3, "table_id": 42, "group_id": 2,
            "slot": 9, "link_ifindex": null, "source": "10.0.0.7", "suppressed": 5,
        });
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
        let mut six = [0; 16];
        (six[0], six[15]) = (0x20, 7);
        let told = event(&record(42, u32::MAX, 9, six));
        let expected = serde_json::json!({
            "time_ns": 7, "kind": "too_big", "ifindex": 3, "table_id": 42, "group_id": null,
            "slot": null, "link_ifindex": 9, "source": "2000::7", "suppressed": 5,
        });
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
        let told = event(&record(0xffff, u32::MAX, 0, [0; 16]));
        assert_eq!(told.kind, EventKind::Unknown);
        assert_eq!(
            (told.slot, told.link_ifindex, told.source),
            (None, None, None)
        );
    }

    /// What operators know them by is what the counters are called.
    #[test]
    fn kinds_have_their_published_names_and_numbers() {
        let named = |number| (number, EventKind::from_number(number).as_str());
        let names: Vec<_> = (0..80)
            .map(named)
            .filter(|(_, name)| *name != "unknown")
            .collect();
        let published = [
            (32, "bad_route"),
            (34, "group_absent"),
            (35, "group_disabled"),
            (36, "group_empty"),
            (37, "stale_route"),
            (38, "bad_snapshot"),
            (39, "member_dead"),
            (40, "parse"),
            (41, "too_long"),
            (42, "too_big"),
            (43, "icmp_limited"),
            (44, "encap"),
            (45, "redirect"),
            (66, "pin_stale"),
            (68, "pin_full"),
            (69, "pin_quota"),
            (70, "pin_busy"),
            (72, "pin_replaced"),
        ];
        assert_eq!(names, published);
        for (number, name) in published {
            let kind = EventKind::from_number(number);
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
        }
    }
}
