// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How tenants' packets are encapsulated, the same for all of a node.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::Ipv6Addr;

use serde::Serialize;

use crate::abi::{self, EgressProfile};
use crate::route::RowError;
use crate::srv6::NodeSid;

const DSCP_COPY: u32 = EgressProfile::GW_PROFILE_DSCP_COPY.0;
const DSCP_FIXED: u32 = EgressProfile::GW_PROFILE_DSCP_FIXED.0;
const FLOW_LABEL: u32 = EgressProfile::GW_PROFILE_FLOW_LABEL.0;
const ECN_NORMAL: u32 = EgressProfile::GW_PROFILE_ECN_NORMAL.0;
const ICMP_TOO_BIG: u32 = EgressProfile::GW_PROFILE_ICMP_TOO_BIG.0;
const MSS_CLAMP: u32 = EgressProfile::GW_PROFILE_MSS_CLAMP.0;

/// The outer DSCP (RFC 2983).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dscp {
    /// 0, best effort.
    #[default]
    Zero,
    /// The inner packet's: the uniform model.
    Copy,
    /// Always this: the pipe model.
    Fixed(DscpValue),
}

/// A DSCP, from 0 to 63.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct DscpValue(u8);

/// A number that is no DSCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("DSCP {value} is not from 0 to 63")]
#[non_exhaustive]
pub struct InvalidDscp {
    /// The number.
    pub value: u8,
}

impl DscpValue {
    /// Checks a number.
    ///
    /// # Errors
    /// More than 63.
    pub const fn new(value: u8) -> Result<Self, InvalidDscp> {
        if value < 64 {
            Ok(Self(value))
        } else {
            Err(InvalidDscp { value })
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The outer ECN field (RFC 6040).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// Not-ECT. Right for every shard: Linux' seg6local does not merge an outer mark into the
    /// packet, which would hide congestion.
    #[default]
    Compatibility,
    /// The inner packet's, for shards that merge the outer mark.
    Normal,
}

/// How often something is done at most, on each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Rate {
    /// Times per second.
    pub per_second: u32,
    /// Times at once.
    pub burst: u32,
}

/// The segment sizes that TCP may announce at most, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Mss {
    /// Over IPv6; 0 is no limit.
    pub ipv6: u16,
    /// Over IPv4; 0 is no limit.
    pub ipv4: u16,
}

/// How packets are encapsulated and answered. One value is in force for a node, and is replaced as
/// a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Encap {
    /// Of the outer source address, completed with the tenant's Argument.
    pub node_sid: NodeSid,
    /// The outer hop limit, at least 1.
    pub hop_limit: u8,
    /// The outer DSCP.
    pub dscp: Dscp,
    /// The outer ECN field of all groups and shards; a group can ask for [`Ecn::Normal`] by itself.
    pub ecn: Ecn,
    /// Whether the outer flow label stands for the inner flow ([`flow_label`](crate::flow_label));
    /// else it is 0.
    pub flow_label: bool,
    /// Whether who sends too big a packet is told the size that fits (RFC 4443, RFC 1191), where
    /// the tenant is [answered](crate::tenant::Tenant::icmp).
    pub too_big: bool,
    /// Whether SYN segments of tenants with [`mss`](crate::tenant::Tenant::mss) get a lower segment
    /// size.
    pub mss: Option<Mss>,
    /// Answers by ICMP.
    pub icmp: Rate,
    /// Events of each kind.
    pub events: Rate,
}

impl Encap {
    /// Byte for byte as datum-cloud/galactic encapsulates: traffic class and flow label 0, hop limit
    /// 64.
    #[must_use]
    pub const fn compat(node_sid: NodeSid) -> Self {
        Self {
            node_sid,
            hop_limit: 64,
            dscp: Dscp::Zero,
            ecn: Ecn::Compatibility,
            flow_label: false,
            too_big: true,
            mss: None,
            icmp: Rate {
                per_second: 1000,
                burst: 100,
            },
            events: Rate {
                per_second: 100,
                burst: 100,
            },
        }
    }

    /// DSCP of the inner packet, and a flow label, so that paths and queues tell flows apart.
    #[must_use]
    pub const fn standard(node_sid: NodeSid) -> Self {
        Self {
            dscp: Dscp::Copy,
            flow_label: true,
            ..Self::compat(node_sid)
        }
    }

    /// What of it makes no sense, by its name in the ABI.
    ///
    /// # Errors
    /// A hop limit of 0, with which nothing leaves the node.
    pub fn check(&self) -> Result<(), InvalidHopLimit> {
        match self.hop_limit {
            0 => Err(InvalidHopLimit),
            _ => Ok(()),
        }
    }

    /// As the kernel has it.
    #[must_use]
    pub fn to_row(&self) -> abi::EgressConfig {
        let (dscp_profile, dscp) = match self.dscp {
            Dscp::Zero => (0, 0),
            Dscp::Copy => (DSCP_COPY, 0),
            Dscp::Fixed(value) => (DSCP_FIXED, value.get()),
        };
        let bit = |set, bit| if set { bit } else { 0 };
        let mss = self.mss.unwrap_or(Mss { ipv6: 0, ipv4: 0 });
        abi::EgressConfig {
            node_sid: self.node_sid.octets(),
            profile: dscp_profile
                | bit(self.ecn == Ecn::Normal, ECN_NORMAL)
                | bit(self.flow_label, FLOW_LABEL)
                | bit(self.too_big, ICMP_TOO_BIG)
                | bit(self.mss.is_some(), MSS_CLAMP),
            hop_limit: self.hop_limit,
            dscp,
            mss6: mss.ipv6,
            mss4: mss.ipv4,
            icmp_rate: self.icmp.per_second,
            icmp_burst: self.icmp.burst,
            event_rate: self.events.per_second,
            event_burst: self.events.burst,
            ..Default::default()
        }
    }

    /// Reads what [`to_row`](Self::to_row) makes.
    ///
    /// # Errors
    /// Anything that it does not make: another writer's mistake, or another version's row.
    pub fn from_row(row: &abi::EgressConfig) -> Result<Self, RowError> {
        let at = |field, value: &dyn fmt::Display| RowError::new("configuration", field, value);
        let has = |bit| row.profile & bit != 0;
        let sid = Ipv6Addr::from(row.node_sid);
        let encap = Self {
            node_sid: NodeSid::new(sid).map_err(|_| at("node_sid", &sid))?,
            hop_limit: row.hop_limit,
            dscp: match (has(DSCP_COPY), has(DSCP_FIXED)) {
                (true, true) => return Err(at("profile", &format_args!("{:#x}", row.profile))),
                (true, false) => Dscp::Copy,
                (false, true) => {
                    Dscp::Fixed(DscpValue::new(row.dscp).map_err(|_| at("dscp", &row.dscp))?)
                }
                (false, false) => Dscp::Zero,
            },
            ecn: if has(ECN_NORMAL) {
                Ecn::Normal
            } else {
                Ecn::Compatibility
            },
            flow_label: has(FLOW_LABEL),
            too_big: has(ICMP_TOO_BIG),
            mss: has(MSS_CLAMP).then_some(Mss {
                ipv6: row.mss6,
                ipv4: row.mss4,
            }),
            icmp: Rate {
                per_second: row.icmp_rate,
                burst: row.icmp_burst,
            },
            events: Rate {
                per_second: row.event_rate,
                burst: row.event_burst,
            },
        };
        encap.check().map_err(|_| at("hop_limit", &row.hop_limit))?;
        if bytemuck::bytes_of(&encap.to_row()) != bytemuck::bytes_of(row) {
            return Err(at("zero", &"is not 0 and"));
        }
        Ok(encap)
    }
}

/// An outer hop limit with which nothing leaves the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hop limit 0: packets would not leave the node")]
#[non_exhaustive]
pub struct InvalidHopLimit;
