// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes an instance, or opens and repairs one.

use std::time::Duration;

use super::error::InstanceError;
use super::instance::{limits, meta_shape, shapes, Egress, Maps, Writer, PATIENCE, PROGRAM};
use super::limits::Limits;
use super::lost_rows;
use super::mend::take_back;
use super::migrate::{settle, Settled};
use super::ours::{refuse_foreign, refuse_foreign_maps};
use crate::abi;
use crate::kernel::build::Build;
use crate::kernel::egress_object::Options;
use crate::kernel::exchange::ProgramPins;
use crate::kernel::map::{Map, Update};
use crate::kernel::netdev;
use crate::kernel::object::Object;
use crate::kernel::program::Program;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{
    AbiVersion, Draft, Section, StateDir, StateDirLock, StateError, EGRESS_META_MAP,
};
use crate::kernel::write_barrier::WriteBarrier;

/// Makes the kernel's side of an instance where there is none, or opens it to publish in it.
///
/// Loads the program and pins it with its maps; nothing is attached and no packet is touched.
/// Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
#[derive(Debug, Clone)]
pub struct Loader {
    pub(super) dir: StateDir,
    pub(super) limits: Option<Limits>,
    /// Of migrated state.
    pub(super) version: AbiVersion,
    pub(super) patience: Duration,
}

impl Loader {
    /// For the instance of this state directory, whatever it has room for; a new one gets the
    /// default limits.
    pub fn new(dir: &StateDir) -> Self {
        Self {
            dir: dir.clone(),
            limits: None,
            version: AbiVersion::EGRESS,
            patience: PATIENCE,
        }
    }

    /// Sizes the maps of a new instance; those of an existing one must be the same.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        let limits = Some(limits);
        Self { limits, ..self }
    }

    /// Has [`migrate`](Self::migrate) leave state of this version of the layout, for an older library
    /// that is to take over; without it, state has this library's version.
    #[must_use]
    pub fn version(self, version: AbiVersion) -> Self {
        Self { version, ..self }
    }

    /// Waits so long for another process that holds the instance's lock, instead of two seconds.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Makes or opens the instance and takes its lock, for which it waits up to two seconds.
    ///
    /// A new instance appears whole or not at all. In an existing one, a map that has lost its pin is
    /// pinned again, with all that is in it, if a pinned program uses it still; that takes
    /// CAP_SYS_ADMIN. A program or map that is missing beyond that is made again around those that are
    /// there. [`Writer::repairs`] says what was done.
    ///
    /// # Errors
    /// The lock is held by another process, the state is of another version or was made with other
    /// limits, a pinned object is not what its name says, the kernel refuses the program, or a map has
    /// lost its pin and the process may not ask the program for it.
    pub fn load(self) -> Result<Writer, InstanceError> {
        if !self.dir.exists()? {
            match self.create() {
                Err(InstanceError::State(StateError::Exists { .. })) => {}
                result => return result,
            }
        }
        self.open()
    }

    /// As [`load`](Self::load), where there is an instance: none is made.
    ///
    /// # Errors
    /// As there, and there is no instance.
    pub fn open(self) -> Result<Writer, InstanceError> {
        Ok(self.settle_and_open()?.0)
    }

    /// Ends a migration that was interrupted, and says whether there was one.
    pub(super) fn settle_and_open(self) -> Result<(Writer, Settled), InstanceError> {
        let mut lock = self.dir.lock_within(self.patience)?;
        self.dir.version()?;
        let settled = settle(&mut lock)?;
        lock.repair_sections()?;
        WriteBarrier::below(self.dir.path()).create()?;
        self.check_limits()?;
        let writer = match Egress::open(&self.dir) {
            Ok(egress) => Writer::new(egress, lock)?,
            Err(error) if error.is_repairable() => self.repair(lock)?,
            Err(error) => return Err(error),
        };
        Ok((writer, settled))
    }

    fn create(&self) -> Result<Writer, InstanceError> {
        let draft = self.dir.draft()?;
        let limits = self.limits.unwrap_or_default();
        let (program, maps) = pin_all(&draft, around(&limits, &[])?)?;
        store_meta(&draft, &self.dir, limits, AbiVersion::EGRESS)?;
        WriteBarrier::below(draft.path()).create()?;
        let lock = draft.publish()?;
        Writer::new(
            Egress {
                dir: self.dir.clone(),
                limits,
                program,
                maps,
                barrier: WriteBarrier::below(self.dir.path()),
            },
            lock,
        )
    }

    /// Takes back the maps that the program has still. If that is not all, loads it anew around the
    /// maps that are there, and pins what was missing.
    fn repair(&self, lock: StateDirLock) -> Result<Writer, InstanceError> {
        refuse_foreign(&self.dir)?;
        refuse_foreign_maps(&self.dir)?;
        let mut repairs = take_back(&lock)?;
        match Egress::open(&self.dir) {
            Err(error) if error.is_repairable() => {}
            opened => return Ok(Writer::new(opened?, lock)?.with(repairs)),
        }
        let (mut object, missing) = load_around(&self.dir)?;
        for &name in &missing {
            let map = object.take_map(name)?;
            lost_rows::note(&lock, name, &map)?;
            map.pin(&self.dir.pin(Section::Maps, name))?;
            repairs.push(Repair::empty_map(&self.dir, name, Maps::content(name)));
        }
        ProgramPins::open(&lock, PROGRAM)?.put(&object.program, &build())?;
        repairs.push(Repair::program(&self.dir, PROGRAM, object.program.id()));
        let writer = Writer::new(Egress::open(&self.dir)?, lock)?.with(repairs);
        writer.publish_stored(&missing)?;
        Ok(writer)
    }

    fn check_limits(&self) -> Result<(), InstanceError> {
        let Some(wanted) = self.limits else {
            return Ok(());
        };
        limits(&self.dir)?.require(&wanted)
    }
}

/// Loads this build's program around these maps and new ones in the place of all others. Nothing is
/// pinned or attached.
pub(super) fn around(limits: &Limits, reuse: &[Map]) -> Result<Object, InstanceError> {
    let options = Options {
        sizes: limits.sizes(),
        entries: &limits.entries(),
        reuse,
        ..Options::default()
    };
    Ok(options.load()?)
}

/// Pins a program and all of its maps.
pub(super) fn pin_all(draft: &Draft, mut object: Object) -> Result<(Program, Maps), InstanceError> {
    let pin = |name: &str| draft.pin(Section::Programs, name);
    object.program.pin(&pin(PROGRAM))?;
    build().store(&object.program, pin)?;
    let maps = Maps::from(|name| {
        let map = object.take_map(name)?;
        map.pin(&draft.pin(Section::Maps, name))?;
        Ok(map)
    })?;
    Ok((object.program, maps))
}

/// Says what the maps mean.
pub(super) fn store_meta(
    draft: &Draft,
    dir: &StateDir,
    limits: Limits,
    version: AbiVersion,
) -> Result<(), InstanceError> {
    let meta = limits.to_meta(abi::EgressMeta {
        magic: abi::Abi::GW_ABI_EGRESS_MAGIC.0,
        abi_major: version.major,
        abi_minor: version.minor,
        instance: *dir.instance().as_bytes(),
        namespace: netdev::namespace()?,
        ..Default::default()
    });
    let map = Map::create(&meta_shape(), None)?;
    map.update(&0_u32.to_ne_bytes(), bytemuck::bytes_of(&meta), Update::Any)?;
    map.freeze()?;
    map.pin(&draft.pin(Section::Maps, EGRESS_META_MAP))?;
    Ok(())
}

/// What this build's program is made of.
pub(super) fn build() -> Build {
    Options::default().build()
}

/// Loads this build's program around the maps of an instance that there are, each of which must have
/// the shape that the program wants; gives it with the names of those that there are not. Nothing is
/// pinned or attached.
pub(super) fn load_around(dir: &StateDir) -> Result<(Object, Vec<&'static str>), InstanceError> {
    let limits = limits(dir)?;
    let shapes = shapes(&limits)?;
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for name in Maps::NAMES {
        match dir.map(&shapes, name) {
            Ok(map) => present.push(map),
            Err(error) if error.is_not_found() => missing.push(name),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((around(&limits, &present)?, missing))
}
