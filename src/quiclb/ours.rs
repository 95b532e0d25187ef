// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which of the objects under an instance's names are its own.
//!
//! What works together belongs together: a program is the instance's if it uses most of the maps that
//! are pinned here, a link or a place in an array if such a program is there, and a map if no such
//! program uses another one in its place, or where there is no such program, if none of another
//! instance uses it. Names alone prove nothing: whoever may pin may take any.

use std::path::PathBuf;

use super::attachment::LINK;
use super::error::InstanceError;
use super::instance::{shapes, Maps, PROGRAM};
use super::root_array;
use crate::error::ErrorKind;
use crate::kernel::attach::{AttachError, XdpLink};
use crate::kernel::exchange::{self, refuse_other_maps, Programs, Role, Unheld};
use crate::kernel::keys;
use crate::kernel::map::Map;
use crate::kernel::program::{by_id, find, Program};
use crate::kernel::statedir::{Section, StateDir};
use crate::kernel::{PinError, SysError};

/// The pinned programs of an instance, whether there are any. What is somebody else's in the place of
/// the next or the previous one is none of them.
pub(super) fn pinned_programs(dir: &StateDir) -> Result<Programs, PinError> {
    Ok(told_apart(dir)?.0)
}

/// What is somebody else's in the place of the next or the previous program.
pub(super) fn foreign_programs(dir: &StateDir) -> Result<Vec<(Role, PinError)>, PinError> {
    Ok(told_apart(dir)?.1)
}

/// Refuses if there is any: whoever exchanges programs, or removes their pins, needs these places.
pub(super) fn refuse_foreign_programs(dir: &StateDir) -> Result<(), PinError> {
    match foreign_programs(dir)?.pop() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

fn told_apart(dir: &StateDir) -> Result<(Programs, Vec<(Role, PinError)>), PinError> {
    by_maps(dir, &pinned_maps(dir))
}

fn by_maps(dir: &StateDir, maps: &[u32]) -> Result<(Programs, Vec<(Role, PinError)>), PinError> {
    Programs::ours(dir, PROGRAM, |program| program.works_on(maps))
}

/// Whether the program with this number, at a place that others may fill as well, is the instance's: a
/// pinned one, or one that works on the instance's maps, where programs may be opened by number.
pub(super) fn is_program(dir: &StateDir, id: u32) -> Result<bool, PinError> {
    if pinned_programs(dir)?.with_id(id).is_some() {
        return Ok(true);
    }
    let maps = pinned_maps(dir);
    Ok(!maps.is_empty() && by_id(id).is_some_and(|program| program.works_on(&maps)))
}

/// The numbers of those pinned maps that programs use, of whatever layout.
fn pinned_maps(dir: &StateDir) -> Vec<u32> {
    // What cannot be read is pinned no more.
    let names = dir.pins(Section::Maps).unwrap_or_default().into_iter();
    let names = names.filter(|name| Maps::is_programs(name));
    let maps = names.filter_map(|name| Map::open_any(&dir.pin(Section::Maps, &name)).ok());
    maps.map(|map| map.id()).collect()
}

/// The pinned link of an instance, if there is one.
///
/// # Errors
/// What has its name is somebody else's, or the process may not tell.
pub(super) fn pinned_link(dir: &StateDir) -> Result<Option<XdpLink>, AttachError> {
    let path = dir.pin(Section::Links, LINK);
    let link = match XdpLink::open(&path) {
        Ok(link) => link,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let state = link.state()?;
    let id = state.program_id;
    let maps = pinned_maps(dir);
    let program = match by_maps(dir, &maps)?.0.with_id(id) {
        Some(program) => Some(program.try_clone()?),
        None => find(id)?,
    };
    match program {
        Some(program) if !program.works_on(&maps) => Err(PinError::OtherLink {
            path: path.display().to_string(),
            id: state.id,
            program: id,
            name: program.name().to_owned(),
        }
        .into()),
        // One that is gone was exchanged a moment ago, by who has the link in hand.
        _ => Ok(Some(link)),
    }
}

/// The programs of an instance.
pub(super) struct Users {
    /// One that is attached and has lost its pin is the first, as packets meet it.
    pub(super) programs: Vec<Program>,
    /// Why one that there may be could not be opened.
    pub(super) refused: Option<SysError>,
    /// A pinned map that somebody else's program uses, where none of the instance is left.
    foreign: Option<(PathBuf, PinError)>,
}

impl Users {
    /// Asks the pins, and where they tell of none every program that is loaded.
    ///
    /// # Errors
    /// Something of another type has the name of a program or of the link.
    pub(super) fn of(dir: &StateDir) -> Result<Self, AttachError> {
        let maps = pinned_maps(dir);
        let (pinned, _) = by_maps(dir, &maps)?;
        let mut users = Self {
            programs: Vec::new(),
            refused: None,
            foreign: None,
        };
        let linked = match XdpLink::open(&dir.pin(Section::Links, LINK)) {
            Ok(link) => Some(link.state()?.program_id),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(id) = linked.filter(|id| pinned.with_id(*id).is_none()) {
            match find(id) {
                Ok(program) => users.programs.extend(program),
                Err(error) => users.refused = Some(error),
            }
        }
        for program in pinned.all() {
            users.programs.push(program.try_clone()?);
        }
        users.programs.retain(|program| program.works_on(&maps));
        if users.programs.is_empty() && users.refused.is_none() {
            match Unheld::find(dir, PROGRAM, &maps) {
                Ok(unheld) => (users.programs, users.foreign) = (unheld.ours, unheld.foreign),
                Err(error) => users.refused = Some(error),
            }
        }
        Ok(users)
    }

    /// The programs.
    ///
    /// # Errors
    /// None is known, and the process may not look for those that lost their pins.
    pub(super) fn known(self) -> Result<Vec<Program>, SysError> {
        match self.refused {
            Some(error) if self.programs.is_empty() => Err(error),
            _ => Ok(self.programs),
        }
    }
}

/// Refuses if anything under the instance's names is somebody else's, or may be: whoever makes anew what
/// is missing, or removes all, must know.
///
/// # Errors
/// So it is, or the process may not look, which takes CAP_SYS_ADMIN where pins have been lost.
pub(super) fn refuse_foreign(dir: &StateDir) -> Result<(), InstanceError> {
    refuse_foreign_programs(dir)?;
    pinned_link(dir)?;
    refuse_foreign_maps(dir)
}

/// A map that somebody else's program uses, where no program of the instance is left.
///
/// # Errors
/// As of [`Users::of`].
pub(super) fn foreign_map(dir: &StateDir) -> Result<Option<(PathBuf, PinError)>, InstanceError> {
    Ok(Users::of(dir)?.foreign)
}

/// What is pinned among the links and is none of the instance's.
pub(super) fn unknown_links(dir: &StateDir) -> Result<Vec<(PathBuf, PinError)>, SysError> {
    exchange::unknown_links(dir, |name| name == LINK || root_array::is_pin(name))
}

/// Refuses as [`refuse_foreign`] does, and if the program's own place, or anything unknown among the
/// links, is somebody else's: what would go with the directory.
pub(super) fn refuse_purge(dir: &StateDir) -> Result<(), InstanceError> {
    let maps = pinned_maps(dir);
    let programs = by_maps(dir, &maps)?.0;
    let running = programs.get(Role::Running);
    if let Some(program) = running.filter(|program| !program.works_on(&maps)) {
        return Err(exchange::other_program(dir, &Role::Running.pin(PROGRAM), program).into());
    }
    refuse_foreign(dir)?;
    match unknown_links(dir)?.pop() {
        Some((_, error)) => Err(error.into()),
        None => Ok(()),
    }
}

/// Refuses if somebody else's map has the name of one that a program of the instance uses.
///
/// # Errors
/// So it is, or the process may not look, which takes CAP_SYS_ADMIN where a program does not use what
/// is pinned.
pub(super) fn refuse_foreign_maps(dir: &StateDir) -> Result<(), InstanceError> {
    let names = Maps::NAMES.into_iter().filter(|name| Maps::is_held(name));
    // Of some build no program uses the last.
    let names = names.chain([keys::MAP]);
    let mut users = Users::of(dir)?;
    if let Some((_, error)) = users.foreign.take() {
        return Err(error.into());
    }
    Ok(refuse_other_maps(
        dir,
        &users.known()?,
        &shapes(dir)?,
        names,
    )?)
}
