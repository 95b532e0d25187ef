// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why a connection ID is not registered.

use crate::affinity::ContractError;
use crate::error::ErrorKind;
use crate::id::{BackendId, ServiceId};
use crate::kernel::SysError;
use crate::quic::Cid;
use crate::quiclb::error::InstanceError;

/// Why a connection ID is not registered, or not unregistered. A server must not send it then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The instance has no generation: it serves nothing.
    #[error("the instance has published nothing")]
    NothingPublished,
    /// The live generation has no service with this number.
    #[error("the live generation has no service {service}")]
    #[non_exhaustive]
    UnknownService {
        /// Number of the service.
        service: ServiceId,
    },
    /// The service has no backend with this number.
    #[error("service {service} has no backend {backend}")]
    #[non_exhaustive]
    UnknownBackend {
        /// Name of the service.
        service: String,
        /// Number of the backend.
        backend: BackendId,
    },
    /// No packet of the service can be found by the connection ID.
    #[error("service {service} cannot be shown {cid}: {why}")]
    #[non_exhaustive]
    Contract {
        /// Name of the service.
        service: String,
        /// The connection ID.
        cid: Cid,
        /// Why not.
        why: ContractError,
    },
    /// Packets of the service do not look for bindings:
    /// [`Writer::use_bindings`](crate::quiclb::Writer::use_bindings) makes them.
    #[error(
        "packets of service {service} do not look for bindings yet: Writer::use_bindings makes them"
    )]
    #[non_exhaustive]
    Unused {
        /// Name of the service.
        service: String,
    },
    /// A time to live of nothing.
    #[error("a time to live of 0 ends at once")]
    NoTime,
    /// The connection ID is registered for another backend.
    #[error("{cid} is registered for backend {backend}")]
    #[non_exhaustive]
    Conflict {
        /// The connection ID.
        cid: Cid,
        /// The backend that has it.
        backend: BackendId,
    },
    /// The map of connection IDs has no room.
    #[error("the map of connection IDs is full: all of its {capacity} entries are in use")]
    #[non_exhaustive]
    MapFull {
        /// Entries that it has.
        capacity: u32,
    },
    /// Others held on to the entry the whole time.
    #[error("the entry of {cid} is in use by others: try again")]
    #[non_exhaustive]
    Busy {
        /// The connection ID.
        cid: Cid,
    },
    /// The instance cannot be read, or the program that binds cannot be loaded.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

impl From<SysError> for RegisterError {
    fn from(error: SysError) -> Self {
        Self::Instance(error.into())
    }
}

impl RegisterError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NothingPublished | Self::UnknownService { .. } | Self::UnknownBackend { .. } => {
                ErrorKind::NotFound
            }
            Self::Contract { .. } | Self::NoTime => ErrorKind::Invalid,
            Self::Unused { .. } => ErrorKind::Preflight,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::MapFull { .. } | Self::Busy { .. } => ErrorKind::Kernel,
            Self::Instance(error) => error.kind(),
        }
    }
}
