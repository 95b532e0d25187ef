// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Filters of the clsact qdisc.
//!
//! Netlink cannot compare before it changes a filter: here it is done first, so somebody who puts
//! another program in the same place at that very moment is not seen. Nothing else than the one
//! filter is ever touched; the qdisc stays, as its removal would take everybody's filters along.

use std::os::fd::AsFd;

use nix::libc;

use super::hook::{self, no_interface, Hook, Occupant, Place};
use super::{message, Anchor, AttachError, FilterId, Neighbour};
use crate::kernel::attach::display_name;
use crate::kernel::program::Program;
use crate::kernel::SysError;

/// A program as a filter at the ingress of an interface. It is recognised by its id, so a
/// descriptor or pin of the program is the proof of ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClsactFilter {
    ifindex: u32,
    id: FilterId,
}

impl ClsactFilter {
    /// Makes a direct-action filter of `program` for all protocols, and a clsact qdisc if the
    /// interface has none.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] if priority and handle are in use, or the priority by filters of
    /// another kind or protocol; [`AttachError::Misplaced`] if it is not where `anchor` says.
    pub fn create(
        program: &Program,
        ifindex: u32,
        anchor: Anchor,
        id: FilterId,
    ) -> Result<Self, AttachError> {
        let filter = Self { ifindex, id };
        let hook = hook::hook(ifindex)?;
        // Who is there is the better answer to who asks for a place before it.
        if let Some(occupant) = hook.occupants.iter().find(|o| filter.is_at(o)) {
            return Err(filter.held(program, Some(occupant.clone())));
        }
        filter.check(anchor, &hook)?;
        let refused = message::ensure_qdisc(ifindex)
            .and_then(|()| message::create(ifindex, id, program.as_fd(), program.name()));
        match refused {
            Ok(()) => Ok(filter),
            Err(error) => Err(filter.explain(error, program)),
        }
    }

    /// The filter with this name on an interface, whether it is there or not.
    pub fn at(ifindex: u32, id: FilterId) -> Self {
        Self { ifindex, id }
    }

    /// The filter of an interface that runs this program, if one does, as
    /// [`create`](Self::create) makes it.
    ///
    /// # Errors
    /// As of [`hook`](super::hook()).
    pub fn find(program_id: u32, ifindex: u32) -> Result<Option<Self>, AttachError> {
        let occupants = hook::hook(ifindex)?.occupants;
        let ours = |occupant: &Occupant| {
            let Place::Filter {
                priority,
                handle,
                protocol,
                chain: 0,
                direct_action: true,
                ..
            } = occupant.place
            else {
                return None;
            };
            let id = FilterId {
                priority: priority.try_into().ok()?,
                handle: handle.try_into().ok()?,
            };
            let found = occupant.is(Neighbour::Program(program_id));
            (found && i32::from(protocol) == libc::ETH_P_ALL).then_some(Self { ifindex, id })
        };
        Ok(occupants.iter().find_map(ours))
    }

    /// Index of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Priority and handle.
    pub fn id(&self) -> FilterId {
        self.id
    }

    /// Exchanges `expected` for `program` in one step, without a packet lost in between.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] if the filter runs another program, [`AttachError::Gone`] if there
    /// is no filter.
    pub fn update(&self, program: &Program, expected: &Program) -> Result<(), AttachError> {
        self.replace(program, expected.id())
    }

    /// Exchanges the program as [`update`](Self::update) does, for who has lost the old one but knows
    /// its id.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn replace(&self, program: &Program, expected_id: u32) -> Result<(), AttachError> {
        match self.occupant()? {
            Some(occupant) if occupant.is(Neighbour::Program(expected_id)) => {}
            Some(occupant) => return Err(self.occupied(Some(occupant))),
            None => return Err(self.gone()),
        }
        match message::replace(self.ifindex, self.id, program.as_fd(), program.name()) {
            Ok(()) => Ok(()),
            Err(error) if error.errno == libc::ENOENT => Err(self.gone()),
            Err(error) => Err(self.explain(error, program)),
        }
    }

    /// Removes the filter if it runs the program with this id, and makes sure that it is gone;
    /// whether it was there. Nothing happens if the interface is gone.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] if it runs another program: it is left alone.
    pub fn detach(&self, program_id: u32) -> Result<bool, AttachError> {
        let ours = |occupant: &Occupant| occupant.is(Neighbour::Program(program_id));
        match self.occupant() {
            Err(AttachError::NoInterface { .. }) | Ok(None) => return Ok(false),
            Ok(Some(occupant)) if !ours(&occupant) => return Err(self.occupied(Some(occupant))),
            occupant => drop(occupant?),
        }
        match message::delete(self.ifindex, self.id) {
            Err(error) if matches!(error.errno, libc::ENOENT | libc::ENODEV) => return Ok(false),
            Err(error) if error.errno == libc::EPERM => return Err(self.permission()),
            result => result?,
        }
        match self.occupant() {
            Ok(Some(occupant)) if ours(&occupant) => Err(AttachError::StillAttached {
                interface: display_name(self.ifindex),
                occupant: Some(occupant),
            }),
            _ => Ok(true),
        }
    }

    /// What is in the filter's place.
    fn occupant(&self) -> Result<Option<Occupant>, AttachError> {
        let mut occupants = hook::hook(self.ifindex)?.occupants.into_iter();
        Ok(occupants.find(|occupant| self.is_at(occupant)))
    }

    fn is_at(&self, occupant: &Occupant) -> bool {
        match occupant.place {
            Place::Filter {
                priority,
                handle,
                chain,
                ..
            } => chain == 0 && priority == self.id.priority.get() && handle == self.id.handle.get(),
            Place::Tcx { .. } => false,
        }
    }

    /// Whether the filter would run where `anchor` says: after TCX and the lower priorities, before
    /// the others in its own, as the kernel puts each new filter before the older ones there.
    fn check(&self, anchor: Anchor, hook: &Hook) -> Result<(), AttachError> {
        // Packets come to the other chains only if a filter sends them there.
        let reached = |place: &Place| !matches!(place, Place::Filter { chain: 1.., .. });
        let earlier = |place: &Place| match place {
            Place::Tcx { .. } => true,
            Place::Filter { priority, .. } => *priority < self.id.priority.get(),
        };
        let others: Vec<_> = hook
            .occupants
            .iter()
            .filter(|o| reached(&o.place))
            .collect();
        let before = others.iter().filter(|o| earlier(&o.place)).count();
        let position = |neighbour| {
            let found = others.iter().position(|occupant| occupant.is(neighbour));
            found.ok_or_else(|| AttachError::NoNeighbour {
                interface: display_name(self.ifindex),
                neighbour,
            })
        };
        let right = match anchor {
            Anchor::First => before == 0,
            Anchor::Last => before == others.len(),
            Anchor::Before(neighbour) => position(neighbour)? >= before,
            Anchor::After(neighbour) => position(neighbour)? < before,
        };
        if right {
            return Ok(());
        }
        Err(AttachError::Misplaced {
            interface: display_name(self.ifindex),
            filter: self.id,
            anchor,
            before,
            others: others.len(),
        })
    }

    /// The error of a refused filter in terms of its cause.
    fn explain(&self, error: SysError, program: &Program) -> AttachError {
        match error.errno {
            libc::ENODEV => no_interface(self.ifindex),
            libc::EPERM => self.permission(),
            // Somebody was faster than this process after it had looked.
            libc::EEXIST => self.held(program, self.occupant().ok().flatten()),
            // The kernel lets filters of one kind and protocol alone share a priority.
            libc::ENOSPC | libc::EINVAL => match self.in_priority() {
                Some(occupant) => self.occupied(Some(occupant)),
                None => AttachError::Sys(error),
            },
            _ => AttachError::Sys(error),
        }
    }

    /// A filter in the same priority whose kind or protocol is another.
    fn in_priority(&self) -> Option<Occupant> {
        let alien = |place: &Place| match place {
            Place::Filter {
                priority,
                protocol,
                kind,
                chain: 0,
                ..
            } => {
                *priority == self.id.priority.get()
                    && (kind != "bpf" || i32::from(*protocol) != libc::ETH_P_ALL)
            }
            _ => false,
        };
        let mut filters = hook::filters(self.ifindex).ok()?.into_iter();
        filters.find(|occupant| alien(&occupant.place))
    }

    fn held(&self, program: &Program, occupant: Option<Occupant>) -> AttachError {
        match occupant {
            Some(occupant) if occupant.is(Neighbour::Program(program.id())) => {
                AttachError::Attached {
                    interface: display_name(self.ifindex),
                    program_id: program.id(),
                    occupant: Some(occupant),
                }
            }
            occupant => self.occupied(occupant),
        }
    }

    fn occupied(&self, occupant: Option<Occupant>) -> AttachError {
        AttachError::Occupied {
            interface: display_name(self.ifindex),
            ifindex: self.ifindex,
            filter: self.id,
            occupant,
        }
    }

    fn gone(&self) -> AttachError {
        AttachError::Gone {
            attachment: format!(
                "the filter with {} on interface {}",
                self.id,
                display_name(self.ifindex)
            ),
        }
    }

    fn permission(&self) -> AttachError {
        AttachError::Permission {
            interface: display_name(self.ifindex),
        }
    }
}
