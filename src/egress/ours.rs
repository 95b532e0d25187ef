// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whose that is which has the names of an instance's programs and links.
//!
//! A program is the instance's if it works on most of its maps, a link if its program is, and a map
//! unless such a program uses another one in its place, or where there is no such program, one of
//! another instance uses it. What is not is refused by whoever would exchange, take off or remove it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::attachment::{holders, is_pin, link_pin, successor, AttachmentError, Holder};
use super::error::InstanceError;
use super::instance::{limits, shapes, Egress, Maps, Writer, PROGRAM};
use crate::kernel::exchange::{refuse_other_maps, unknown_links, Programs, Role, Unheld};
use crate::kernel::map::Map;
use crate::kernel::program::{find, Program};
use crate::kernel::statedir::{Section, StateDir};
use crate::kernel::tc::TcxLink;
use crate::kernel::{PinError, SysError};

/// What an instance has.
#[derive(Debug)]
pub(super) struct Ours {
    dir: StateDir,
    programs: Programs,
    /// The one that interfaces go over to in a migration.
    successor: Option<Program>,
    /// What is somebody else's in the place of a program.
    foreign: ForeignPrograms,
    maps: Vec<u32>,
}

/// Something of somebody else's under a name of the instance's.
#[derive(Debug)]
pub(super) struct ForeignPin {
    /// Where.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) error: PinError,
    /// Index of the interface, of a link.
    pub(super) ifindex: Option<u32>,
}

impl Ours {
    pub(super) fn of(dir: &StateDir) -> Result<Self, AttachmentError> {
        let maps = pinned_maps(dir);
        let (programs, foreign) = known_programs(dir, &maps)?;
        Ok(Self {
            successor: successor(dir)?,
            dir: dir.clone(),
            programs,
            foreign,
            maps,
        })
    }

    /// The pinned programs.
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// These, and the one that interfaces go over to in a migration.
    pub(super) fn all(&self) -> impl Iterator<Item = &Program> {
        self.programs.all().chain(&self.successor)
    }

    /// Refuses a link, at the interface with this index, that runs somebody else's program.
    ///
    /// # Errors
    /// It does, or that takes CAP_SYS_ADMIN to know.
    pub(super) fn require_link(&self, ifindex: u32, link: &TcxLink) -> Result<(), AttachmentError> {
        match self.foreign_link(ifindex, link)? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn foreign_link(&self, ifindex: u32, link: &TcxLink) -> Result<Option<PinError>, SysError> {
        // One that cannot be asked is for who needs an answer.
        let Ok(state) = link.state() else {
            return Ok(None);
        };
        let id = state.program_id;
        if self.all().any(|known| known.id() == id) {
            return Ok(None);
        }
        let program = match find(id) {
            Ok(program) => program,
            Err(error) if state.ifindex.is_some() => return Err(error),
            // Without an interface it has nothing to take off.
            Err(_) => None,
        };
        let foreign = program.filter(|program| !program.works_on(&self.maps));
        Ok(foreign.map(|program| PinError::OtherLink {
            path: link_pin(&self.dir, ifindex).display().to_string(),
            id: state.id,
            program: id,
            name: program.name().to_owned(),
        }))
    }

    /// All that is somebody else's. What cannot be known is told of nobody.
    fn foreign_pins(&self) -> Result<Vec<ForeignPin>, AttachmentError> {
        let programs = self.foreign.iter().map(|(role, error)| ForeignPin {
            path: self.dir.pin(Section::Programs, &role.pin(PROGRAM)),
            error: error.clone(),
            ifindex: None,
        });
        let mut foreign: Vec<_> = programs.collect();
        for (ifindex, link) in self.links()? {
            let error = self.foreign_link(ifindex, &link).ok().flatten();
            foreign.extend(error.map(|error| ForeignPin {
                path: link_pin(&self.dir, ifindex),
                error,
                ifindex: Some(ifindex),
            }));
        }
        let unknown = unknown_links(&self.dir, is_pin)?.into_iter();
        foreign.extend(unknown.map(|(path, error)| ForeignPin {
            path,
            error,
            ifindex: None,
        }));
        Ok(foreign)
    }

    /// Refuses if anything is somebody else's.
    fn require_all(&self) -> Result<(), AttachmentError> {
        if let Some((_, error)) = self.foreign.first() {
            return Err(error.clone().into());
        }
        self.require_links(|_| true)
    }

    /// Refuses the links of interfaces as [`require_link`](Self::require_link) does one.
    fn require_links(&self, of: impl Fn(u32) -> bool) -> Result<(), AttachmentError> {
        for (ifindex, link) in self.links()? {
            if of(ifindex) {
                self.require_link(ifindex, &link)?;
            }
        }
        Ok(())
    }

    /// The pinned links. A filter is known by the program that it runs.
    fn links(&self) -> Result<Vec<(u32, TcxLink)>, AttachmentError> {
        let links = holders(&self.dir)?.into_iter();
        let links = links.filter_map(|(ifindex, holder)| match holder {
            Holder::Tcx(link) => Some((ifindex, link)),
            Holder::Clsact(..) => None,
        });
        Ok(links.collect())
    }
}

/// Refuses if anything of somebody else's has the name of a program or a link of an instance.
///
/// # Errors
/// It has, or that takes CAP_SYS_ADMIN to know.
pub(super) fn refuse_foreign(dir: &StateDir) -> Result<(), AttachmentError> {
    Ours::of(dir)?.require_all()
}

impl Writer {
    /// Refuses if something of somebody else's has the name of a program or a link of the instance.
    /// What exchanges programs, or removes pins, refuses by itself; packets go on.
    ///
    /// # Errors
    /// It is named; or it takes CAP_SYS_ADMIN to know whose a link's program is.
    pub fn refuse_foreign(&self) -> Result<(), AttachmentError> {
        refuse_foreign(&self.dir)
    }

    /// The same, and also of what is pinned among the links and is none of the instance's: what would go
    /// with the directory.
    pub(super) fn refuse_purge(&self) -> Result<(), AttachmentError> {
        self.refuse_foreign()?;
        match unknown_links(&self.dir, is_pin)?.pop() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// The same of the links of these interfaces alone.
    pub(super) fn refuse_foreign_links(
        &self,
        interfaces: &BTreeSet<u32>,
    ) -> Result<(), AttachmentError> {
        Ours::of(&self.dir)?.require_links(|ifindex| interfaces.contains(&ifindex))
    }
}

impl Egress {
    /// What of somebody else's has the name of a program or a link, as far as this process may know.
    pub(super) fn foreign_pins(&self) -> Result<Vec<ForeignPin>, AttachmentError> {
        Ours::of(&self.dir)?.foreign_pins()
    }
}

/// The pinned programs of an instance, whether there are any. What is somebody else's in the place of
/// the next or the previous one is none of them.
pub(super) fn pinned_programs(dir: &StateDir) -> Result<Programs, PinError> {
    Ok(known_programs(dir, &pinned_maps(dir))?.0)
}

type ForeignPrograms = Vec<(Role, PinError)>;

fn known_programs(dir: &StateDir, maps: &[u32]) -> Result<(Programs, ForeignPrograms), PinError> {
    Programs::ours(dir, PROGRAM, |program| program.works_on(maps))
}

/// The numbers of the pinned maps.
fn pinned_maps(dir: &StateDir) -> Vec<u32> {
    let maps = Maps::NAMES.into_iter();
    let maps = maps.filter_map(|name| Map::open_any(&dir.pin(Section::Maps, name)).ok());
    maps.map(|map| map.id()).collect()
}

/// The programs of an instance, pinned, attached or, where none is, loaded.
///
/// # Errors
/// Something else has the name of one, what is not pinned takes CAP_SYS_ADMIN to know, or no program is
/// the instance's and another one uses a map of it.
pub(super) fn users(dir: &StateDir) -> Result<Vec<Program>, InstanceError> {
    let ours = Ours::of(dir)?;
    let mut programs = Vec::new();
    for program in ours.programs.all() {
        programs.push(program.try_clone()?);
    }
    // What says nothing of a program has none.
    for (_, holder) in holders(dir).unwrap_or_default() {
        let Some(id) = holder.known_program() else {
            continue;
        };
        if programs.iter().all(|program| program.id() != id) {
            // What a record says may be over.
            programs.extend(find(id)?);
        }
    }
    programs.retain(|program| program.works_on(&ours.maps));
    if !programs.is_empty() {
        return Ok(programs);
    }
    let unheld = Unheld::find(dir, PROGRAM, &ours.maps)?;
    match unheld.foreign {
        Some((_, error)) => Err(error.into()),
        None => Ok(unheld.ours),
    }
}

/// Refuses if somebody else's map has the name of one that a program of the instance uses.
///
/// # Errors
/// So it is, or the process may not look, which takes CAP_SYS_ADMIN where a program does not use what
/// is pinned.
pub(super) fn refuse_foreign_maps(dir: &StateDir) -> Result<(), InstanceError> {
    let shapes = shapes(&limits(dir)?)?;
    Ok(refuse_other_maps(dir, &users(dir)?, &shapes, Maps::NAMES)?)
}
