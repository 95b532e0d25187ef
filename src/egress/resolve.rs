// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A specification for this machine.

use crate::addr::MacAddr;
use crate::egress_spec::{InterfaceFacts, Resolved, Spec};
use crate::error::ErrorKind;
use crate::kernel::{netdev, SysError};
use crate::service::Faults;

/// Why a specification does not fit this machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Interfaces that do not exist or do not suit, all of them.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// The interfaces cannot be listed.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl ResolveError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Faults(_) => ErrorKind::Invalid,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Puts in place of the names of interfaces what the kernel knows of them, in the calling thread's
/// network namespace; see [`Spec::resolve`].
///
/// # Errors
/// Interfaces that are missing or do not suit, all at once by JSON pointer; or the kernel does not
/// list them.
pub fn resolve(spec: &Spec) -> Result<Resolved, ResolveError> {
    let interfaces = netdev::all()?;
    let facts = |name: &crate::id::InterfaceName| {
        let found = interfaces.iter().find(|one| one.name == name.as_str())?;
        Some(InterfaceFacts {
            ifindex: found.index,
            mac: MacAddr::new(found.mac),
            mtu: found.mtu,
        })
    };
    Ok(spec.resolve(facts)?)
}
