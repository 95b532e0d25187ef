// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works on this machine and may still not be what was meant.

use std::fmt;

use serde::Serialize;

use crate::kernel::netdev::Interface;

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
