// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why an address is not explained.

use std::net::IpAddr;

use super::Who;
use crate::egress::InstanceError;
use crate::error::ErrorKind;
use crate::kernel::SysError;
use crate::route::TableId;

/// Why an address is not explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// No tenant is that one.
    #[error("{who} has no tenant in this instance")]
    #[non_exhaustive]
    NoTenant {
        /// Who was asked for.
        who: Who,
    },
    /// More than one tenant could be meant.
    #[error("{} tenants have interfaces, among them tables {first} and {second}: say which", .count)]
    #[non_exhaustive]
    Ambiguous {
        /// How many there are.
        count: usize,
        /// One of them.
        first: TableId,
        /// Another one.
        second: TableId,
    },
    /// A packet has addresses of one family.
    #[error(
        "source {source_address} and destination {destination} are not both IPv4 or both IPv6"
    )]
    #[non_exhaustive]
    Families {
        /// Where it would come from.
        source_address: IpAddr,
        /// Where it would go.
        destination: IpAddr,
    },
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl ExplainError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTenant { .. } => ErrorKind::NotFound,
            Self::Ambiguous { .. } | Self::Families { .. } => ErrorKind::Usage,
            Self::Instance(error) => error.kind(),
            Self::Sys(error) => error.kind(),
        }
    }
}
