// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is at the ingress of an interface.

use std::fmt;

use nix::libc;

use super::{message, AttachError, Neighbour};
use crate::kernel::attach::{display_name, interface_name};
use crate::kernel::{program, sys};

/// Where at the ingress of an interface something is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A program on TCX.
    #[non_exhaustive]
    Tcx {
        /// The link that holds it; `None` if it was attached without.
        link_id: Option<u32>,
    },
    /// A filter, of whatever kind.
    #[non_exhaustive]
    Filter {
        /// Filters run in the order of their priorities, the lowest number first.
        priority: u16,
        /// Its number in the priority.
        handle: u32,
        /// The EtherType that it is asked about, `ETH_P_ALL` (3) for any.
        protocol: u16,
        /// Chain 0 is the one that packets come to by themselves.
        chain: u32,
        /// Kind of the filter: `bpf`, `u32`, `flower` and so on.
        kind: String,
        /// Whether what its program returns is the verdict.
        direct_action: bool,
    },
}

/// Something at the ingress of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupant {
    /// Where.
    pub place: Place,
    /// The kernel's number of its program; `None` for filters of other kinds.
    pub program_id: Option<u32>,
    /// The program's name, or without CAP_SYS_ADMIN the one that was given to its filter.
    pub name: Option<String>,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.program_id, &self.place) {
            (Some(id), _) => write!(f, "program {id}")?,
            (None, Place::Filter { kind, .. }) => write!(f, "a filter of kind {kind}")?,
            (None, Place::Tcx { .. }) => f.write_str("a program")?,
        }
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        match &self.place {
            Place::Tcx { link_id: None } => f.write_str(" on TCX"),
            Place::Tcx { link_id: Some(id) } => write!(f, " on TCX through link {id}"),
            Place::Filter {
                priority,
                handle,
                chain,
                ..
            } => {
                write!(
                    f,
                    " in a filter with priority {priority}, handle {handle:#x}"
                )?;
                match chain {
                    0 => Ok(()),
                    chain => write!(f, " in chain {chain}"),
                }
            }
        }
    }
}

impl Occupant {
    pub(super) fn is(&self, neighbour: Neighbour) -> bool {
        match (neighbour, &self.place) {
            (Neighbour::Program(id), _) => self.program_id == Some(id),
            (Neighbour::Link(id), Place::Tcx { link_id }) => *link_id == Some(id),
            (Neighbour::Link(_), Place::Filter { .. }) => false,
        }
    }
}

/// Everything at the ingress of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hook {
    /// The number that TCX raises with every change of what is on it; `None` on kernels without.
    pub revision: Option<u64>,
    /// What is there, in the order in which packets come to it.
    pub occupants: Vec<Occupant>,
}

/// Looks at the ingress of an interface of the calling thread's network namespace. Needs
/// CAP_NET_ADMIN; names of programs take CAP_SYS_ADMIN.
///
/// # Errors
/// [`AttachError::NoInterface`], [`AttachError::Permission`], or what the kernel answers.
pub fn hook(ifindex: u32) -> Result<Hook, AttachError> {
    let tcx = tcx(ifindex)?;
    let mut occupants = Vec::new();
    for &(program_id, link_id) in tcx.iter().flat_map(|hook| &hook.programs) {
        occupants.push(Occupant {
            place: Place::Tcx {
                link_id: Some(link_id).filter(|&id| id != 0),
            },
            program_id: Some(program_id),
            name: program::name_by_id(program_id),
        });
    }
    occupants.extend(filters(ifindex)?);
    Ok(Hook {
        revision: tcx.map(|hook| hook.revision),
        occupants,
    })
}

/// What is on TCX; none on kernels without.
pub(super) fn tcx(ifindex: u32) -> Result<Option<sys::tcx::Hook>, AttachError> {
    // A kernel without TCX does not look for the interface.
    if interface_name(ifindex).is_none() {
        return Err(no_interface(ifindex));
    }
    sys::tcx::query(ifindex).map_err(|error| match error.errno {
        libc::ENODEV => no_interface(ifindex),
        libc::EPERM => AttachError::Permission {
            interface: display_name(ifindex),
        },
        _ => AttachError::Sys(error),
    })
}

/// The filters, in the order in which packets come to them.
pub(super) fn filters(ifindex: u32) -> Result<Vec<Occupant>, AttachError> {
    let filters = message::filters(ifindex)?.into_iter();
    Ok(filters.map(Occupant::from).collect())
}

impl From<message::Filter> for Occupant {
    fn from(filter: message::Filter) -> Self {
        let program = filter.program_id.and_then(program::name_by_id);
        Self {
            name: program.or(filter.name),
            program_id: filter.program_id,
            place: Place::Filter {
                priority: filter.priority,
                handle: filter.handle,
                protocol: filter.protocol,
                chain: filter.chain,
                kind: filter.kind,
                direct_action: filter.direct_action,
            },
        }
    }
}

pub(super) fn no_interface(ifindex: u32) -> AttachError {
    AttachError::NoInterface {
        interface: display_name(ifindex),
    }
}
