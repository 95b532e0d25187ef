// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why a tenant's packet left the egress program the way it did, and what was counted on its way.
//!
//! Every packet is counted under exactly one [`End`]. The other counters are beside it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::UnknownName;
use crate::abi;

/// What kind of end a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndKind {
    /// A route decided, and the packet was sent, answered or let pass as the route says.
    Outcome,
    /// Not ours: the next program decides, and the packet is untouched.
    Skip,
    /// Ours, and dropped.
    Drop,
}

named! {
    /// How a packet ended: one of these for each packet.
    ///
    /// 0 to 15 are outcomes, 16 to 31 packets that are not ours, 32 to 63 drops.
    End of EgressCounter, "end";

    /// The route leaves it to the next program.
    Pass = GW_EGRESS_PASS "pass",
    /// Sent to the shard of its route.
    Shard = GW_EGRESS_SHARD "shard",
    /// Sent to a member of the group of its route.
    Group = GW_EGRESS_GROUP "group",
    /// Too big for the link: its sender was told what fits.
    IcmpSent = GW_EGRESS_ICMP_SENT "icmp_sent",
    /// It may go nowhere, and its sender was told.
    UnreachSent = GW_EGRESS_UNREACH_SENT "unreach_sent",
    /// The frame ends within its Ethernet or IP header, or the header is of another version than the
    /// EtherType says.
    Short = GW_EGRESS_SKIP_SHORT "short",
    /// The EtherType is neither IPv4 nor IPv6, or the frame has a VLAN tag.
    NotIp = GW_EGRESS_SKIP_NOT_IP "not_ip",
    /// No enabled tenant has the interface.
    NoTenant = GW_EGRESS_SKIP_NO_TENANT "no_tenant",
    /// It stays on the link: multicast, broadcast, link-local IPv6, or neighbour discovery.
    Local = GW_EGRESS_SKIP_LOCAL "local",
    /// The node has no SID.
    NoSource = GW_EGRESS_SKIP_NO_SOURCE "no_source",
    /// No route of the tenant covers the destination.
    NoRoute = GW_EGRESS_SKIP_NO_ROUTE "no_route",
    /// The route makes no sense: an unknown kind, no interface, or a group out of range.
    BadRoute = GW_EGRESS_DROP_BAD_ROUTE "bad_route",
    /// The route says that it may go nowhere.
    Blocked = GW_EGRESS_DROP_BLOCKED "blocked",
    /// The group of its route was never published.
    GroupAbsent = GW_EGRESS_DROP_GROUP_ABSENT "group_absent",
    /// The group of its route is disabled.
    GroupDisabled = GW_EGRESS_DROP_GROUP_DISABLED "group_disabled",
    /// No member of the group takes new addresses, and no pin holds it to another one.
    GroupEmpty = GW_EGRESS_DROP_GROUP_EMPTY "group_empty",
    /// The route means another incarnation of the group than the one in force.
    StaleRoute = GW_EGRESS_DROP_STALE_ROUTE "stale_route",
    /// The group's snapshot, or the tenant's row, is not what was looked for; never expected.
    BadSnapshot = GW_EGRESS_DROP_BAD_SNAPSHOT "bad_snapshot",
    /// The group's table names a member that nothing reaches; never expected.
    MemberDead = GW_EGRESS_DROP_MEMBER_DEAD "member_dead",
    /// Its header says a length that it cannot have, or the group places by flow and the ports are cut off.
    Parse = GW_EGRESS_DROP_PARSE "parse",
    /// The length field of the outer header is too small for it.
    TooLong = GW_EGRESS_DROP_TOO_LONG "too_long",
    /// Encapsulated it does not fit the link, and its sender was not told.
    TooBig = GW_EGRESS_DROP_TOO_BIG "too_big",
    /// Its sender should have been told why, but enough were told in this second.
    IcmpLimited = GW_EGRESS_DROP_ICMP_LIMITED "icmp_limited",
    /// The kernel made no room for the outer header.
    Encap = GW_EGRESS_DROP_ENCAP "encap",
    /// The kernel refused to redirect it.
    Redirect = GW_EGRESS_DROP_REDIRECT "redirect",
}

impl End {
    /// What kind of end it is.
    pub const fn kind(self) -> EndKind {
        match self.number() {
            0..=15 => EndKind::Outcome,
            16..=31 => EndKind::Skip,
            _ => EndKind::Drop,
        }
    }
}

named! {
    /// What is counted where a group selects a member, and where pins are removed.
    Selection of EgressCounter, "selection counter";

    /// A pin decided.
    PinHit = GW_EGRESS_PIN_HIT "pin_hit",
    /// The group's table decided.
    Maglev = GW_EGRESS_MAGLEV "maglev",
    /// The pin was idle for too long, or its member is gone or unreachable.
    PinStale = GW_EGRESS_PIN_STALE "pin_stale",
    /// A pin was made.
    PinNew = GW_EGRESS_PIN_NEW "pin_new",
    /// No pin was made: there is no room for more.
    PinFull = GW_EGRESS_PIN_FULL "pin_full",
    /// No pin was made: the tenant has as many as it may have.
    PinQuota = GW_EGRESS_PIN_QUOTA "pin_quota",
    /// No pin was made: the kernel could not take its lock.
    PinBusy = GW_EGRESS_PIN_BUSY "pin_busy",
    /// What was found in place of the pin is another one's.
    PinTorn = GW_EGRESS_PIN_TORN "pin_torn",
    /// A stale pin was made one of the member that the table names.
    PinReplaced = GW_EGRESS_PIN_REPLACED "pin_replaced",
    /// A pin was removed because it was idle for too long.
    PinRemovedIdle = GW_EGRESS_PIN_REMOVED_IDLE "pin_removed_idle",
    /// A pin was removed because its member is gone.
    PinRemovedStale = GW_EGRESS_PIN_REMOVED_STALE "pin_removed_stale",
    /// A pin was removed with its tenant.
    PinRemovedTenant = GW_EGRESS_PIN_REMOVED_TENANT "pin_removed_tenant",
    /// A pin was removed because somebody asked for it.
    PinRemovedCall = GW_EGRESS_PIN_REMOVED_CALL "pin_removed_call",
}

named! {
    /// What became of events.
    Reported of EgressCounter, "event counter";

    /// An event was sent.
    Sent = GW_EGRESS_EVENT_SENT "sent",
    /// Enough events of its kind were sent in this second.
    Suppressed = GW_EGRESS_EVENT_SUPPRESSED "suppressed",
    /// There was no room for an event.
    Lost = GW_EGRESS_EVENT_LOST "lost",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_published_numbers_and_names() {
        let outcomes = ["pass", "shard", "group", "icmp_sent", "unreach_sent"];
        let skips = [
            "short",
            "not_ip",
            "no_tenant",
            "local",
            "no_source",
            "no_route",
        ];
        let drops = [
            "bad_route",
            "blocked",
            "group_absent",
            "group_disabled",
            "group_empty",
            "stale_route",
            "bad_snapshot",
            "member_dead",
            "parse",
            "too_long",
            "too_big",
            "icmp_limited",
            "encap",
            "redirect",
        ];
        let published = (0..)
            .zip(outcomes)
            .map(|(number, name)| (number, name, EndKind::Outcome))
            .chain(
                (16..)
                    .zip(skips)
                    .map(|(number, name)| (number, name, EndKind::Skip)),
            )
            .chain(
                (32..)
                    .zip(drops)
                    .map(|(number, name)| (number, name, EndKind::Drop)),
            );
        let ends = End::ALL
            .iter()
            .map(|end| (end.number(), end.name(), end.kind()));
        assert!(ends.eq(published));
        let selection = [
            "pin_hit",
            "maglev",
            "pin_stale",
            "pin_new",
            "pin_full",
            "pin_quota",
            "pin_busy",
            "pin_torn",
            "pin_replaced",
            "pin_removed_idle",
            "pin_removed_stale",
            "pin_removed_tenant",
            "pin_removed_call",
        ];
        let counters = Selection::ALL.iter().map(|one| (one.number(), one.name()));
        assert!(counters.eq((64..).zip(selection)));
        let counters = Reported::ALL.iter().map(|one| (one.number(), one.name()));
        assert!(counters.eq((80..).zip(["sent", "suppressed", "lost"])));
    }

    #[test]
    fn an_explanation_is_a_sentence() {
        for end in End::ALL {
            let text = end.explanation();
            assert!(
                text.ends_with('.') && !text.contains(['`', '\n', '[']),
                "{text}"
            );
            assert_eq!(text, text.trim());
            assert!(!text.contains("  "), "{text}");
        }
        assert_eq!(
            End::NoRoute.explanation(),
            "No route of the tenant covers the destination."
        );
    }
}
