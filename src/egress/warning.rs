// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works on this machine and may still not be what was meant.

use std::fmt;
use std::ops::ControlFlow;

use serde::Serialize;

use super::instance::Egress;
use super::InstanceError;
use crate::egress_spec::{WarningCode, UNANSWERED};
use crate::id::InterfaceName;
use crate::kernel::netdev::Interface;
use crate::route::Target;
use crate::srv6::NextHop;
use crate::tenant::Tenant;

/// What an outer header can say of the packet inside, and what senders keep to unless they are told
/// otherwise.
const CLASSIC_GSO_BYTES: u32 = 65_536;

/// Something about an interface to know before the program is attached to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InterfaceWarning {
    /// Packets longer than an outer header can tell (BIG TCP) come in unsegmented; they are dropped
    /// as too long.
    LargeSegments {
        /// Name of the interface.
        interface: String,
        /// Its largest packet before segmentation.
        gso_max_bytes: u32,
    },
    /// It is loopback: what comes in by it is the node's own.
    Loopback {
        /// Name of the interface.
        interface: String,
    },
    /// Encapsulated packets leave by it.
    TenantUplink {
        /// Name of the interface.
        interface: String,
    },
    /// Nobody can answer the tenant there.
    NoGateway {
        /// Name of the interface.
        interface: String,
    },
}

impl InterfaceWarning {
    /// Its name, as documents have it; of what a specification is warned of the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::LargeSegments { .. } => "large-segments",
            Self::Loopback { .. } => "loopback",
            Self::TenantUplink { .. } => WarningCode::TenantUplink.as_str(),
            Self::NoGateway { .. } => WarningCode::NoGateway.as_str(),
        }
    }
}

impl fmt::Display for InterfaceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargeSegments {
                interface,
                gso_max_bytes,
            } => write!(
                f,
                "interface {interface} takes packets of {gso_max_bytes} bytes before segmentation; \
                 those above {CLASSIC_GSO_BYTES} cannot be encapsulated and are dropped: ip link set \
                 {interface} gso_max_size {CLASSIC_GSO_BYTES}"
            ),
            Self::Loopback { interface } => write!(
                f,
                "interface {interface} is loopback: the node's own packets are taken for a tenant's"
            ),
            Self::TenantUplink { interface } => write!(
                f,
                "encapsulated packets leave by {interface}, which brings a tenant's"
            ),
            Self::NoGateway { interface } => write!(f, "interface {interface} has {UNANSWERED}"),
        }
    }
}

/// What is to be known of the interface of a tenant.
#[must_use]
pub fn warnings(interface: &Interface) -> Vec<InterfaceWarning> {
    let mut warnings = Vec::new();
    if interface.gso_max_bytes > CLASSIC_GSO_BYTES {
        warnings.push(InterfaceWarning::LargeSegments {
            interface: interface.name.clone(),
            gso_max_bytes: interface.gso_max_bytes,
        });
    }
    warnings
}

impl Egress {
    /// What is to be known of the interface when it brings packets of the tenant; `uplinks` are those
    /// that are meant to lead to shards, beside those that do.
    ///
    /// # Errors
    /// Groups or routes cannot be read.
    pub fn tenant_warnings(
        &self,
        interface: &Interface,
        tenant: &Tenant,
        uplinks: &[InterfaceName],
    ) -> Result<Vec<InterfaceWarning>, InstanceError> {
        let mut warnings = warnings(interface);
        let name = || interface.name.clone();
        if interface.loopback {
            warnings.push(InterfaceWarning::Loopback { interface: name() });
        }
        let is_meant = uplinks.iter().any(|one| one.as_str() == interface.name);
        if is_meant || self.leaves_by(interface.index)? {
            warnings.push(InterfaceWarning::TenantUplink { interface: name() });
        }
        if tenant.gateway6.is_none() && tenant.gateway4.is_none() {
            warnings.push(InterfaceWarning::NoGateway { interface: name() });
        }
        Ok(warnings)
    }

    /// Whether packets to a member of a group, or to the shard of a route, leave by an interface.
    fn leaves_by(&self, ifindex: u32) -> Result<bool, InstanceError> {
        let groups = self.groups_as_they_are()?.known;
        let mut members = groups.iter().flat_map(|group| &group.members);
        let is_it = |next_hop: &NextHop| next_hop.ifindex() == ifindex;
        if members.any(|member| member.next_hop.as_ref().is_some_and(is_it)) {
            return Ok(true);
        }
        let mut found = false;
        self.for_each_route(|row| match row {
            Ok((_, route)) => match route.target {
                Target::Shard { next_hop, .. } if is_it(&next_hop) => {
                    found = true;
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            },
            Err(_) => ControlFlow::Continue(()),
        })?;
        Ok(found)
    }
}
