// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The pinned programs of an instance.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Pins;
use crate::error::ErrorKind;
use crate::kernel::build::Build;
use crate::kernel::map::{Map, MapShape, OpenError};
use crate::kernel::program::{all_using, Program};
use crate::kernel::statedir::{Section, StateDir, StateDirLock};
use crate::kernel::{PinError, SysError};

/// What a pinned program is to its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The one that packets meet.
    Running,
    /// The one that is about to take over.
    Next,
    /// The one before, to go back to.
    Previous,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Running, Self::Next, Self::Previous];

    /// Name of the pin, where the program is called `name`.
    pub fn pin(self, name: &str) -> String {
        match self {
            Self::Running => name.to_owned(),
            Self::Next | Self::Previous => format!("{name}-{self}"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Next => "next",
            Self::Previous => "previous",
        })
    }
}

/// Handles of the pinned programs of an instance.
#[derive(Debug, Default)]
pub struct Programs {
    /// By the number of the role.
    by_role: [Option<Program>; 3],
}

impl Programs {
    /// Opens those that there are; `name` is that of the running one's pin.
    ///
    /// # Errors
    /// Something else is pinned in the place of a program.
    pub fn open(dir: &StateDir, name: &str) -> Result<Self, PinError> {
        let mut programs = Self::default();
        for role in Role::ALL {
            programs.by_role[role as usize] = open(dir, &role.pin(name))?;
        }
        Ok(programs)
    }

    /// Opens those that there are and that `is_ours`; what is nobody's of this instance in the place of
    /// the next or the previous one is left out, and told.
    ///
    /// # Errors
    /// Something else is pinned in the place of the running one.
    pub(crate) fn ours(
        dir: &StateDir,
        name: &str,
        is_ours: impl Fn(&Program) -> bool,
    ) -> Result<(Self, Vec<(Role, PinError)>), PinError> {
        let mut programs = Self::default();
        let mut foreign = Vec::new();
        for role in Role::ALL {
            let pin = role.pin(name);
            match open(dir, &pin) {
                Ok(Some(program)) if role != Role::Running && !is_ours(&program) => {
                    foreign.push((role, other_program(dir, &pin, &program)));
                }
                Ok(program) => programs.by_role[role as usize] = program,
                Err(error @ PinError::WrongType { .. }) if role != Role::Running => {
                    foreign.push((role, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((programs, foreign))
    }

    /// The program of this role.
    pub fn get(&self, role: Role) -> Option<&Program> {
        self.by_role[role as usize].as_ref()
    }

    /// All of them, the running one first.
    pub fn all(&self) -> impl Iterator<Item = &Program> {
        self.by_role.iter().flatten()
    }

    /// The program with this number, if it has a role.
    pub fn with_id(&self, id: u32) -> Option<&Program> {
        self.all().find(|program| program.id() == id)
    }
}

/// That the program pinned under this name is somebody else's.
pub(crate) fn other_program(dir: &StateDir, pin: &str, program: &Program) -> PinError {
    PinError::OtherProgram {
        path: dir.pin(Section::Programs, pin).display().to_string(),
        id: program.id(),
        name: program.name().to_owned(),
    }
}

/// A map of an instance that is pinned no more.
#[derive(Debug)]
pub(crate) struct LostMap {
    /// Its name.
    pub(crate) name: &'static str,
    /// The map, and the number of a program that uses it still; none if no program does. An error if
    /// the process may not ask.
    pub(crate) used: Result<Option<(Map, u32)>, SysError>,
}

/// Those maps of these names that are pinned no more, asked for at `programs` one after the other.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn lost_maps(
    dir: &StateDir,
    programs: &[&Program],
    shapes: &BTreeMap<String, MapShape>,
    names: impl IntoIterator<Item = &'static str>,
) -> Result<Vec<LostMap>, SysError> {
    let pinned = dir.pins(Section::Maps)?;
    let names = names.into_iter();
    let lost = names.filter(|name| !pinned.iter().any(|pin| pin == name));
    let lost = lost.filter_map(|name| Some((name, shapes.get(name)?)));
    Ok(lost
        .map(|(name, shape)| LostMap {
            name,
            used: used_by(programs, shape),
        })
        .collect())
}

/// Refuses if one of these names holds no map, or another one than a program uses in its place: one that
/// were loaded around it would leave behind what is in the real one. Of `programs` the first that uses any
/// decides.
///
/// # Errors
/// So it is, or the process may not look, which takes CAP_SYS_ADMIN where a program does not use what
/// is pinned.
pub(crate) fn refuse_other_maps(
    dir: &StateDir,
    programs: &[Program],
    shapes: &BTreeMap<String, MapShape>,
    names: impl IntoIterator<Item = &'static str>,
) -> Result<(), PinError> {
    for name in names {
        let path = dir.pin(Section::Maps, name);
        let pinned = match Map::open_any(&path) {
            Ok(pinned) => pinned,
            Err(OpenError::Pin(error @ PinError::WrongType { .. })) => return Err(error),
            Err(_) => continue,
        };
        let Some(shape) = shapes.get(name) else {
            continue;
        };
        for program in programs {
            if program.map_ids().contains(&pinned.id()) {
                break;
            }
            if let Some(used) = program.map(shape)? {
                return Err(PinError::OtherMap {
                    path: path.display().to_string(),
                    id: pinned.id(),
                    program: program.id(),
                    used: used.id(),
                });
            }
        }
    }
    Ok(())
}

/// What is pinned among an instance's links under names that it gives to nothing. With the directory it
/// would go, and take off what it holds.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn unknown_links(
    dir: &StateDir,
    is_known: impl Fn(&str) -> bool,
) -> Result<Vec<(PathBuf, PinError)>, SysError> {
    let names = dir.pins(Section::Links)?.into_iter();
    let unknown = names.filter(|name| !is_known(name)).map(|name| {
        let path = dir.pin(Section::Links, &name);
        let error = PinError::Unknown {
            path: path.display().to_string(),
        };
        (path, error)
    });
    Ok(unknown.collect())
}

/// The programs called `name` that work on an instance's pinned maps, given by their numbers, where no pin
/// and no link tells of one.
#[derive(Debug, Default)]
pub(crate) struct Unheld {
    /// Those that are the instance's.
    pub(crate) ours: Vec<Program>,
    /// A pinned map that another one uses.
    pub(crate) foreign: Option<(PathBuf, PinError)>,
}

impl Unheld {
    /// Asks every program that is loaded.
    ///
    /// # Errors
    /// The process may not, which takes CAP_SYS_ADMIN.
    pub(crate) fn find(dir: &StateDir, name: &str, maps: &[u32]) -> Result<Self, SysError> {
        let (ours, others) = all_using(name, maps)?
            .into_iter()
            .partition::<Vec<_>, _>(|program| program.works_on(maps));
        let pins = dir.pins(Section::Maps)?.into_iter();
        let pins = pins.map(|name| dir.pin(Section::Maps, &name));
        let mut pins = pins.filter_map(|path| Some((Map::open_any(&path).ok()?.id(), path)));
        let foreign = pins.find_map(|(id, path)| {
            let mut others = others.iter();
            let other = others.find(|program| program.map_ids().contains(&id))?;
            let error = PinError::UsedMap {
                path: path.display().to_string(),
                id,
                program: other.id(),
                name: other.name().to_owned(),
            };
            Some((path, error))
        });
        Ok(Self { ours, foreign })
    }
}

fn used_by(programs: &[&Program], shape: &MapShape) -> Result<Option<(Map, u32)>, SysError> {
    for program in programs {
        let map = program.map(shape).map_err(|error| SysError {
            op: "ask the program for its map",
            object: shape.name.clone(),
            ..error
        })?;
        if let Some(map) = map {
            return Ok(Some((map, program.id())));
        }
    }
    Ok(None)
}

fn open(dir: &StateDir, pin: &str) -> Result<Option<Program>, PinError> {
    match Program::open(&dir.pin(Section::Programs, pin)) {
        Ok(program) => Ok(Some(program)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The pinned programs of an instance in the hands of who holds its lock.
#[derive(Debug)]
pub struct ProgramPins<'l> {
    lock: &'l StateDirLock,
    name: &'static str,
    programs: Programs,
}

impl<'l> ProgramPins<'l> {
    /// Opens those that there are; `name` is that of the running one's pin.
    ///
    /// # Errors
    /// As of [`Programs::open`].
    pub fn open(lock: &'l StateDirLock, name: &'static str) -> Result<Self, PinError> {
        let programs = Programs::open(lock.dir(), name)?;
        Ok(Self {
            lock,
            name,
            programs,
        })
    }

    /// The handles.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Pins a program as the next one, and what it was made of.
    ///
    /// # Errors
    /// The kernel refuses, or there is a next one already.
    pub fn add_next(&mut self, program: Program, build: &Build) -> Result<(), SysError> {
        let dir = self.lock.dir();
        program.pin(&dir.pin(Section::Programs, &Role::Next.pin(self.name)))?;
        build.store(&program, |name| dir.pin(Section::Programs, name))?;
        self.programs.by_role[Role::Next as usize] = Some(program);
        Ok(())
    }

    /// Pins a program as the running one, in the place of the one that has that name, and what it was
    /// made of.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn put(&mut self, program: &Program, build: &Build) -> Result<(), SysError> {
        let dir = self.lock.dir();
        let draft = self.draft();
        self.lock.unpin(Section::Programs, &draft)?;
        program.pin(&dir.pin(Section::Programs, &draft))?;
        build.store(program, |name| dir.pin(Section::Programs, name))?;
        self.rename(&draft, Role::Running)?;
        self.programs.by_role[Role::Running as usize] = Some(program.try_clone()?);
        Ok(())
    }

    /// A name for a pin that is about to be renamed.
    fn draft(&self) -> String {
        format!("{}-draft", self.name)
    }

    fn rename(&self, from: &str, to: Role) -> Result<(), SysError> {
        self.lock
            .rename(Section::Programs, from, &to.pin(self.name))
    }

    fn take(&mut self, role: Role) -> Option<Program> {
        self.programs.by_role[role as usize].take()
    }
}

impl Pins for ProgramPins<'_> {
    fn id(&self, role: Role) -> Option<u32> {
        self.programs.get(role).map(Program::id)
    }

    fn keep(&mut self) -> Result<(), SysError> {
        let Some(running) = self.programs.get(Role::Running) else {
            return Ok(());
        };
        // A name cannot be given to a second object, but another name can take its place.
        let draft = self.draft();
        self.lock.unpin(Section::Programs, &draft)?;
        running.pin(&self.lock.dir().pin(Section::Programs, &draft))?;
        let kept = running.try_clone()?;
        self.rename(&draft, Role::Previous)?;
        self.programs.by_role[Role::Previous as usize] = Some(kept);
        Ok(())
    }

    fn promote(&mut self) -> Result<(), SysError> {
        self.rename(&Role::Next.pin(self.name), Role::Running)?;
        self.programs.by_role[Role::Running as usize] = self.take(Role::Next);
        Ok(())
    }

    fn swap(&mut self) -> Result<(), SysError> {
        let [one, other] = [Role::Running, Role::Previous].map(|role| role.pin(self.name));
        self.lock.swap(Section::Programs, &one, &other)?;
        let by_role = &mut self.programs.by_role;
        by_role.swap(Role::Running as usize, Role::Previous as usize);
        Ok(())
    }

    fn unpin(&mut self, role: Role) -> Result<(), SysError> {
        self.lock.unpin(Section::Programs, &role.pin(self.name))?;
        self.take(role);
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), SysError> {
        let draft = self.draft();
        for pin in self.lock.dir().pins(Section::Programs)? {
            let told_of = Build::program_of(&pin);
            let gone = told_of.is_some_and(|id| self.programs.with_id(id).is_none());
            if gone || pin == draft {
                self.lock.unpin(Section::Programs, &pin)?;
            }
        }
        Ok(())
    }
}
