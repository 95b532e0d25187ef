// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why a packet left the load balancer the way it did.
//!
//! Every packet is counted under exactly one [`Reason`]; a forwarded one also under the [`Rule`]
//! that chose its backend. Numbers and names are part of the ABI and of every output: they are only
//! ever appended to.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::abi;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is sent to a backend: redirected, or transmitted where it came in.
    Forward,
    /// It goes on to the host's network stack, untouched.
    Pass,
    /// It is dropped.
    Drop,
    /// The program gave up on an inconsistency of its own; the kernel drops the packet and reports
    /// it.
    Abort,
}

/// A name that belongs to no [`Reason`] or [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} is named {name:?}")]
pub struct UnknownName {
    kind: &'static str,
    name: String,
}

/// Declares an enum whose numbers are those of a C enum in the ABI, or a part of them.
macro_rules! named {
    (
        $(#[$type_doc:meta])*
        $type:ident of $numbers:ident, $kind:literal;
        $($(#[doc = $text:literal])+ $variant:ident = $abi:ident $name:literal,)+
    ) => {
        $(#[$type_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum $type {
            $(
                $(#[doc = $text])+
                #[serde(rename = $name)]
                $variant = abi::$numbers::$abi.0 as u8,
            )+
        }

        impl $type {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in every output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it means, in a sentence or two.
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($text),+).trim_ascii(),)+
                }
            }

            /// The number in the ABI.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The one with this number, if there is one.
            pub const fn from_number(number: u8) -> Option<Self> {
                let mut i = 0;
                while i < Self::ALL.len() {
                    if Self::ALL[i].number() == number {
                        return Some(Self::ALL[i]);
                    }
                    i += 1;
                }
                None
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(UnknownName { kind: $kind, name: name.to_owned() }),
                }
            }
        }
    };
}

pub mod egress;

named! {
    /// Why a packet left: one of these for each packet.
    ///
    /// 1 to 31 pass, 32 to 62 drop.
    Reason of Reason, "reason";

    /// Sent to a backend; the rule says how it was chosen.
    Forwarded = GW_REASON_FORWARDED "forwarded",
    /// No generation is published.
    NoGeneration = GW_REASON_NO_GENERATION "no_generation",
    /// The EtherType is neither IPv4 nor IPv6.
    NotIp = GW_REASON_NOT_IP "not_ip",
    /// More than two VLAN tags.
    VlanDepth = GW_REASON_VLAN_DEPTH "vlan_depth",
    /// The frame ends within the Ethernet header or a VLAN tag.
    ShortFrame = GW_REASON_SHORT_FRAME "short_frame",
    /// The IPv4 header is cut or contradicts itself or the frame.
    BadIpv4 = GW_REASON_BAD_IPV4 "bad_ipv4",
    /// The IPv6 header or an extension header is cut or contradicts the frame.
    BadIpv6 = GW_REASON_BAD_IPV6 "bad_ipv6",
    /// Too many or too long IPv6 extension headers, or one that is not walked.
    ExtHeaders = GW_REASON_EXT_HEADERS "ext_headers",
    /// An IPv6 routing header with segments left: the packet's destination is not its last.
    RoutingHeader = GW_REASON_ROUTING_HEADER "routing_header",
    /// A protocol that is not balanced.
    L4Other = GW_REASON_L4_OTHER "l4_other",
    /// The UDP or TCP header is cut or contradicts the IP header.
    BadL4 = GW_REASON_BAD_L4 "bad_l4",
    /// No service has this address, protocol and port.
    NoService = GW_REASON_NO_SERVICE "no_service",
    /// ICMP that is no error about a flow.
    IcmpOther = GW_REASON_ICMP_OTHER "icmp_other",
    /// An ICMP error whose quoted packet cannot be read as one of a service.
    IcmpBad = GW_REASON_ICMP_BAD "icmp_bad",
    /// An ICMP error about a flow of no service.
    IcmpNoService = GW_REASON_ICMP_NO_SERVICE "icmp_no_service",
    /// A fragment, and the service passes fragments.
    FragmentPass = GW_REASON_FRAGMENT_PASS "fragment_pass",
    /// Not QUIC, in a service for QUIC only.
    NotQuic = GW_REASON_NOT_QUIC "not_quic",
    /// Malformed QUIC, in a service for QUIC only.
    BadQuic = GW_REASON_BAD_QUIC "bad_quic",
    /// A fragment, and the service drops fragments.
    FragmentDrop = GW_REASON_FRAGMENT_DROP "fragment_drop",
    /// The connection ID names a server that does not exist.
    UnknownServerId = GW_REASON_UNKNOWN_SERVER_ID "unknown_server_id",
    /// The connection ID names a server that is gone, whose ID is not free yet.
    QuarantinedServerId = GW_REASON_QUARANTINED_SERVER_ID "quarantined_server_id",
    /// The connection ID names an unhealthy backend, and the service keeps to it.
    Unhealthy = GW_REASON_UNHEALTHY "unhealthy",
    /// Nothing that may take the packet is usable.
    NoBackend = GW_REASON_NO_BACKEND "no_backend",
    /// The backend's interface cannot be reached.
    NoTarget = GW_REASON_NO_TARGET "no_target",
    /// The program met an inconsistency of its own; never expected.
    Internal = GW_REASON_INTERNAL "internal",
}

impl Reason {
    /// What becomes of a packet with this reason.
    pub const fn verdict(self) -> Verdict {
        match self.number() {
            0 => Verdict::Forward,
            1..=31 => Verdict::Pass,
            32..=62 => Verdict::Drop,
            _ => Verdict::Abort,
        }
    }
}

named! {
    /// What chose the backend of a forwarded packet. Where the ABI has room for one but there is
    /// none, `GW_RULE_NONE` stands.
    Rule of Rule, "rule";

    /// The server ID in the QUIC connection ID.
    ServerId = GW_RULE_SERVER_ID "server_id",
    /// The exact connection ID, registered by its server.
    CidRegistered = GW_RULE_CID_REGISTERED "cid_registered",
    /// The exact connection ID, imported from another node.
    CidImported = GW_RULE_CID_IMPORTED "cid_imported",
    /// The exact connection ID, learned from a flow.
    CidLearned = GW_RULE_CID_LEARNED "cid_learned",
    /// The flow's own entry.
    Flow = GW_RULE_FLOW "flow",
    /// The owner of the slot before a change that is not over.
    Previous = GW_RULE_PREVIOUS "previous",
    /// The slot's owner.
    Table = GW_RULE_TABLE "table",
    /// The slot's owner, because the backend in an entry can no longer be used.
    Reselect = GW_RULE_RESELECT "reselect",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_published_numbers_names_and_verdicts() {
        let published = [
            (0, "forwarded", Verdict::Forward),
            (1, "no_generation", Verdict::Pass),
            (2, "not_ip", Verdict::Pass),
            (3, "vlan_depth", Verdict::Pass),
            (4, "short_frame", Verdict::Pass),
            (5, "bad_ipv4", Verdict::Pass),
            (6, "bad_ipv6", Verdict::Pass),
            (7, "ext_headers", Verdict::Pass),
            (8, "routing_header", Verdict::Pass),
            (9, "l4_other", Verdict::Pass),
            (10, "bad_l4", Verdict::Pass),
            (11, "no_service", Verdict::Pass),
            (12, "icmp_other", Verdict::Pass),
            (13, "icmp_bad", Verdict::Pass),
            (14, "icmp_no_service", Verdict::Pass),
            (15, "fragment_pass", Verdict::Pass),
            (16, "not_quic", Verdict::Pass),
            (17, "bad_quic", Verdict::Pass),
            (32, "fragment_drop", Verdict::Drop),
            (33, "unknown_server_id", Verdict::Drop),
            (34, "quarantined_server_id", Verdict::Drop),
            (35, "unhealthy", Verdict::Drop),
            (36, "no_backend", Verdict::Drop),
            (37, "no_target", Verdict::Drop),
            (63, "internal", Verdict::Abort),
        ];
        let all: Vec<_> = Reason::ALL
            .iter()
            .map(|r| (r.number(), r.name(), r.verdict()))
            .collect();
        assert_eq!(all, published);
    }

    #[test]
    fn rules_have_their_published_names_in_order() {
        let published = [
            "server_id",
            "cid_registered",
            "cid_imported",
            "cid_learned",
            "flow",
            "previous",
            "table",
            "reselect",
        ];
        for (i, (rule, name)) in Rule::ALL.iter().zip(published).enumerate() {
            assert_eq!((usize::from(rule.number()), rule.name()), (i, name));
        }
        assert_eq!(Rule::ALL.len(), published.len());
    }

    #[test]
    fn numbers_and_names_lead_back() {
        let mut known = 0;
        for number in 0..=u8::MAX {
            if let Some(reason) = Reason::from_number(number) {
                assert_eq!(reason.number(), number);
                assert_eq!(reason.to_string().parse(), Ok(reason));
                let written = serde_json::to_value(reason).unwrap();
                assert_eq!(written, reason.name());
                known += 1;
            }
        }
        assert_eq!(known, Reason::ALL.len());
        assert_eq!(Rule::from_number(255), None);
        assert!(Rule::ALL
            .iter()
            .all(|&r| Rule::from_number(r.number()) == Some(r)));
        let unknown = "Forwarded".parse::<Reason>().unwrap_err();
        assert_eq!(unknown.to_string(), "no reason is named \"Forwarded\"");
    }
}
