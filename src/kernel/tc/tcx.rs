// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Links on TCX.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_sys::{BPF_F_AFTER, BPF_F_BEFORE, BPF_F_LINK};
use nix::libc;

use super::hook::{self, no_interface};
use super::{Anchor, AttachError, Neighbour, Occupant, Place};
use crate::kernel::attach::{display_name, LinkState};
use crate::kernel::probe::{lacking, Capability};
use crate::kernel::program::Program;
use crate::kernel::sys::link::{self, Position};
use crate::kernel::sys::object::{self, ObjectType};
use crate::kernel::SysError;

/// A link at the ingress of the TC hook of an interface (Linux 6.6). It ends with its last
/// descriptor unless it is pinned.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
}

impl TcxLink {
    /// Attaches `program` at `anchor`, if the hook still has the revision `expected` where one is
    /// given.
    ///
    /// # Errors
    /// [`AttachError::Raced`] if it has another one, [`AttachError::NoNeighbour`] if the anchor
    /// names one that is not there, [`AttachError::Attached`] if the program is.
    pub fn create(
        program: &Program,
        ifindex: u32,
        anchor: Anchor,
        expected: Option<u64>,
    ) -> Result<Self, AttachError> {
        let (flags, neighbour) = match anchor {
            Anchor::First => (BPF_F_BEFORE, None),
            Anchor::Last => (BPF_F_AFTER, None),
            Anchor::Before(neighbour) => (BPF_F_BEFORE, Some(neighbour)),
            Anchor::After(neighbour) => (BPF_F_AFTER, Some(neighbour)),
        };
        let position = match neighbour {
            None => Position {
                flags,
                relative_id: 0,
            },
            // The kernel would take it for none at all.
            Some(neighbour @ (Neighbour::Program(0) | Neighbour::Link(0))) => {
                return Err(AttachError::NoNeighbour {
                    interface: display_name(ifindex),
                    neighbour,
                })
            }
            Some(Neighbour::Program(relative_id)) => Position { flags, relative_id },
            Some(Neighbour::Link(relative_id)) => Position {
                flags: flags | BPF_F_LINK,
                relative_id,
            },
        };
        // The first revision of a hook is 1.
        let revision = match expected {
            Some(0) => return Err(raced(ifindex, 0)),
            expected => expected.unwrap_or(0),
        };
        match link::create_tcx(program.as_fd(), ifindex, position, revision) {
            Ok(fd) => Ok(Self { fd }),
            Err(error) => Err(explain(error, program, ifindex, neighbour, revision)),
        }
    }

    /// Opens the link pinned at `path`.
    ///
    /// # Errors
    /// [`AttachError::Pin`] if there is no link, [`AttachError::NotTcx`] if it is on another hook.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let fd = object::open_as(path, ObjectType::Link)?;
        if link::info(fd.as_fd())?.tcx_ifindex.is_none() {
            return Err(AttachError::NotTcx {
                path: path.display().to_string(),
            });
        }
        Ok(Self { fd })
    }

    /// The link through which `program` is on an interface, pinned or not; none where there is none.
    ///
    /// # Errors
    /// As of [`hook`](super::hook()), and if there is one and the process may not open it by its number,
    /// which takes CAP_SYS_ADMIN.
    pub fn find(program: &Program, ifindex: u32) -> Result<Option<Self>, AttachError> {
        let hook = hook::tcx(ifindex)?;
        let mut programs = hook.iter().flat_map(|hook| &hook.programs);
        let held = programs.find(|(id, link_id)| *id == program.id() && *link_id != 0);
        let Some(&(_, link_id)) = held else {
            return Ok(None);
        };
        match link::by_id(link_id) {
            Ok(fd) => Ok(Some(Self { fd })),
            // Gone since it was listed.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(lacking(error, &[Capability::SysAdmin]).into()),
        }
    }

    /// Pins the link, so that it outlives this process; an existing name is refused (EEXIST).
    ///
    /// # Errors
    /// The kernel refuses the name.
    pub fn pin(&self, path: &Path) -> Result<(), SysError> {
        object::pin(self.as_fd(), path)
    }

    /// What the kernel says about it now.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn state(&self) -> Result<LinkState, SysError> {
        let info = link::info(self.as_fd())?;
        Ok(LinkState {
            id: info.id,
            program_id: info.program_id,
            ifindex: info.tcx_ifindex.filter(|&ifindex| ifindex != 0),
        })
    }

    /// Exchanges the program in one step, without a packet lost in between, if `expected` is the
    /// one that runs now.
    ///
    /// # Errors
    /// [`AttachError::OtherProgram`] if another one does, [`AttachError::Gone`] if the interface is
    /// gone or the link was detached, [`AttachError::Attached`] if the new program is on the hook
    /// already.
    pub fn update(&self, program: &Program, expected: &Program) -> Result<(), AttachError> {
        self.exchange(program, Some(expected))
    }

    /// Exchanges the program as [`update`](Self::update) does, whichever runs now: for who holds
    /// the link and has lost the program.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn replace(&self, program: &Program) -> Result<(), AttachError> {
        self.exchange(program, None)
    }

    fn exchange(&self, program: &Program, expected: Option<&Program>) -> Result<(), AttachError> {
        let old = expected.map(AsFd::as_fd);
        let Err(error) = link::update(self.as_fd(), program.as_fd(), old) else {
            return Ok(());
        };
        let state = self.state()?;
        match (error.errno, state.ifindex, expected) {
            (libc::ENOLINK, ..) | (_, None, _) => Err(AttachError::Gone {
                attachment: format!("the place of link {}", state.id),
            }),
            (libc::EPERM, _, Some(expected)) => Err(AttachError::OtherProgram {
                link_id: state.id,
                expected: expected.id(),
                found: state.program_id,
            }),
            (libc::EEXIST, Some(ifindex), _) => Err(attached(program, ifindex)),
            _ => Err(error.into()),
        }
    }

    /// Takes the program off the interface and makes sure that it is gone; whether it was there. A
    /// pin of the link, if any, stays and must be removed. Nothing happens if the interface is gone.
    ///
    /// # Errors
    /// [`AttachError::StillAttached`], or what the kernel answers.
    pub fn detach(&self) -> Result<bool, AttachError> {
        let before = self.state()?;
        let Some(ifindex) = before.ifindex else {
            return Ok(false);
        };
        link::detach(self.as_fd())?;
        if self.state()?.ifindex.is_none() {
            return Ok(true);
        }
        Err(AttachError::StillAttached {
            interface: display_name(ifindex),
            occupant: find(ifindex, Neighbour::Link(before.id)),
        })
    }
}

impl AsFd for TcxLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The error of a refused attachment in terms of its cause.
fn explain(
    error: SysError,
    program: &Program,
    ifindex: u32,
    neighbour: Option<Neighbour>,
    expected: u64,
) -> AttachError {
    let interface = display_name(ifindex);
    match (error.errno, neighbour) {
        (libc::ENODEV, _) => no_interface(ifindex),
        (libc::EPERM, _) => AttachError::Permission { interface },
        (libc::ESTALE, _) => raced(ifindex, expected),
        (libc::EEXIST, _) => attached(program, ifindex),
        (libc::ERANGE, _) => AttachError::Full {
            interface,
            programs: hook::tcx(ifindex)
                .ok()
                .flatten()
                .map_or(0, |hook| hook.programs.len()),
        },
        // No such number at all, a program of another type, or one that is elsewhere.
        (libc::ENOENT | libc::EINVAL, Some(neighbour)) if find(ifindex, neighbour).is_none() => {
            AttachError::NoNeighbour {
                interface,
                neighbour,
            }
        }
        _ => AttachError::Sys(error),
    }
}

fn raced(ifindex: u32, expected: u64) -> AttachError {
    let now = hook::tcx(ifindex).ok().flatten();
    AttachError::Raced {
        interface: display_name(ifindex),
        expected,
        found: now.map(|hook| hook.revision),
    }
}

fn attached(program: &Program, ifindex: u32) -> AttachError {
    AttachError::Attached {
        interface: display_name(ifindex),
        program_id: program.id(),
        occupant: find(ifindex, Neighbour::Program(program.id())),
    }
}

/// What is on TCX of this.
fn find(ifindex: u32, neighbour: Neighbour) -> Option<Occupant> {
    let on_tcx = |occupant: &Occupant| matches!(occupant.place, Place::Tcx { .. });
    let mut occupants = hook::hook(ifindex).ok()?.occupants.into_iter();
    occupants.find(|occupant| on_tcx(occupant) && occupant.is(neighbour))
}
