// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes an instance, or opens and repairs one.

use std::collections::BTreeMap;

use super::bindings::Registry;
use super::error::InstanceError;
use super::hardware::refuse_card;
use super::instance::{entries, meta, shapes, Maps, QuicLb, Writer, PATIENCE, PROGRAM};
use super::layout::{self, require_current};
use super::mend::take_back;
use super::ours::refuse_foreign;
use crate::abi;
use crate::kernel::build::Build;
use crate::kernel::exchange::ProgramPins;
use crate::kernel::keys::{self, Contexts};
use crate::kernel::map::{Map, MapShape};
use crate::kernel::object::{self, Object};
use crate::kernel::program::Program;
use crate::kernel::random;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{AbiVersion, Section, StateDir, StateDirLock, StateError};
use crate::plan::room_cells;
use crate::service::Limits;

/// Makes the kernel's side of an instance where there is none, or opens it for changes.
///
/// Loads the program and pins it with its maps; nothing is attached and no packet is touched.
/// Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
#[derive(Debug, Clone)]
pub struct Loader {
    dir: StateDir,
    limits: Limits,
}

impl Loader {
    /// For the instance of this state directory; `limits` size its maps when it is made, and must
    /// be the same ever after.
    pub fn new(dir: &StateDir, limits: &Limits) -> Self {
        Self {
            dir: dir.clone(),
            limits: *limits,
        }
    }

    pub(super) fn into_parts(self) -> (StateDir, Limits) {
        (self.dir, self.limits)
    }

    /// Makes or opens the instance and takes its lock, for which it waits up to two seconds.
    ///
    /// A new instance appears whole or not at all. In an existing one, a map that has lost its pin is
    /// pinned again, with all that is in it, if a program of the instance uses it still; that takes
    /// CAP_SYS_ADMIN. A program or map that is missing beyond that is made again around those that are
    /// there. [`Writer::repairs`] says what was done.
    ///
    /// # Errors
    /// The lock is held by another process, the state is of another version, a pinned object is
    /// not what its name says, the kernel refuses the program, or a map has lost its pin and the
    /// process may not ask the program for it.
    pub fn load(self) -> Result<Writer, InstanceError> {
        if !self.dir.exists()? {
            match self.create() {
                Err(InstanceError::State(StateError::Exists { .. })) => {}
                result => return result,
            }
        }
        let lock = self.dir.lock_within(PATIENCE)?;
        require_current(&self.dir)?;
        refuse_card(&self.dir)?;
        refuse_foreign(&self.dir)?;
        lock.repair_sections()?;
        layout::remove_older_maps(&lock)?;
        self.check_limits()?;
        let mut repairs = take_back(&lock)?;
        let mut writer = match QuicLb::open(&self.dir) {
            // Made by a build that could not, or before the kernel could.
            Ok(balancer) if balancer.maps.contexts.is_none() && decrypts() => self.repair(lock),
            Ok(balancer) => Writer::new(balancer, lock),
            Err(error) if error.is_repairable() => self.repair(lock),
            Err(error) => Err(error),
        }?;
        repairs.append(&mut writer.repairs);
        writer.repairs = repairs;
        Ok(writer)
    }

    fn create(&self) -> Result<Writer, InstanceError> {
        let draft = self.dir.draft()?;
        let limits = self.limits;
        let meta = abi::Meta {
            magic: abi::Abi::GW_ABI_MAGIC.0,
            abi_major: AbiVersion::QUICLB.major,
            abi_minor: AbiVersion::QUICLB.minor,
            instance: *self.dir.instance().as_bytes(),
            flows: limits.flows,
            cids: limits.cids,
            slots: limits.slots,
            cells: room_cells(&limits),
            ..Default::default()
        };
        let entries = entries(&meta);
        let options = object::Options {
            cells: Some(meta.cells),
            entries: &entries,
            keys: decrypts(),
            ..Default::default()
        };
        let object = options.load()?;
        object.program.pin(&draft.pin(Section::Programs, PROGRAM))?;
        options
            .build()
            .store(&object.program, |name| draft.pin(Section::Programs, name))?;
        let (program, maps) = take(object, |map, name| {
            Ok(map.pin(&draft.pin(Section::Maps, name))?)
        })?;
        draw_seed(&maps)?;
        maps.meta.set(0, &meta)?;
        let lock = draft.publish()?;
        let balancer = QuicLb {
            dir: self.dir.clone(),
            program,
            maps,
            registry: Registry::default(),
        };
        Ok(Writer::unsettled(balancer, lock))
    }

    /// Loads the program around the maps that are there, and pins what was missing.
    fn repair(&self, lock: StateDirLock) -> Result<Writer, InstanceError> {
        let loaded = load_around(&self.dir)?;
        let build = loaded.build.clone();
        let absent = loaded.absent();
        let mut repairs: Vec<_> = absent
            .map(|name| Repair::empty_map(&self.dir, name, Maps::content(name)))
            .collect();
        let (program, maps) = loaded.take(&self.dir)?;
        draw_seed(&maps)?;
        ProgramPins::open(&lock, PROGRAM)?.put(&program, &build)?;
        repairs.push(Repair::program(&self.dir, PROGRAM, program.id()));
        let balancer = QuicLb {
            dir: self.dir.clone(),
            program,
            maps,
            registry: Registry::default(),
        };
        let mut writer = Writer::new(balancer, lock)?;
        writer.repairs = repairs;
        Ok(writer)
    }

    fn check_limits(&self) -> Result<(), InstanceError> {
        let limits = self.limits;
        let meta = meta(&self.dir)?;
        let made = [
            ("flows", meta.flows, limits.flows),
            ("cids", meta.cids, limits.cids),
            ("slots", meta.slots, limits.slots),
        ];
        match made.into_iter().find(|(_, found, wanted)| found != wanted) {
            Some((limit, found, wanted)) => Err(InstanceError::Limits {
                limit,
                found,
                wanted,
            }),
            None => Ok(()),
        }
    }
}

/// This build's program, loaded around the maps of an instance that there are.
pub(super) struct LoadedAround {
    object: Object,
    /// What the program is made of.
    pub(super) build: Build,
    /// Names of the maps that there were.
    present: Vec<&'static str>,
}

/// Loads this build's program around the maps of an instance that there are, each of which must have
/// the shape that the program wants. Nothing is pinned or attached.
pub(super) fn load_around(dir: &StateDir) -> Result<LoadedAround, InstanceError> {
    let shapes = shapes(dir)?;
    let meta = meta(dir)?;
    let entries = entries(&meta);
    let keys = decrypts();
    let (mut present, mut reuse) = (Vec::new(), Vec::new());
    for name in Maps::NAMES.into_iter().chain(keys.then_some(keys::MAP)) {
        if let Some(map) = open_if_there(dir, &shapes, name)? {
            present.push(name);
            reuse.push(map);
        }
    }
    let options = object::Options {
        cells: Some(meta.cells),
        entries: &entries,
        keys,
        reuse: &reuse,
        ..Default::default()
    };
    Ok(LoadedAround {
        object: options.load()?,
        build: options.build(),
        present,
    })
}

impl LoadedAround {
    /// Names of the maps that there were not.
    fn absent(&self) -> impl Iterator<Item = &'static str> + '_ {
        let names = Maps::NAMES.into_iter();
        names.filter(|name| !self.present.contains(name))
    }

    /// The program and the maps; those that there were not are pinned.
    pub(super) fn take(self, dir: &StateDir) -> Result<(Program, Maps), InstanceError> {
        let present = self.present;
        take(self.object, |map, name| {
            if !present.contains(&name) {
                map.pin(&dir.pin(Section::Maps, name))?;
            }
            Ok(())
        })
    }
}

fn open_if_there(
    dir: &StateDir,
    shapes: &BTreeMap<String, MapShape>,
    name: &'static str,
) -> Result<Option<Map>, InstanceError> {
    match dir.map(shapes, name) {
        Ok(map) => Ok(Some(map)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the program is made of that this build loads on this machine.
pub(super) fn build() -> Build {
    build_with(decrypts())
}

/// What this build's program is made of, with decryption or without.
pub(super) fn build_with(keys: bool) -> Build {
    let options = object::Options {
        keys,
        ..Default::default()
    };
    options.build()
}

/// Draws the secret of the tags of connection IDs, unless there is one.
pub(super) fn draw_seed(maps: &Maps) -> Result<(), InstanceError> {
    let mut collection = maps.collection.get(0)?;
    if collection.cid_seed == 0 {
        collection.cid_seed = random::word()?.max(1);
        maps.collection.set(0, &collection)?;
    }
    Ok(())
}

/// Whether the program that decrypts server IDs can be loaded.
fn decrypts() -> bool {
    keys::support() == keys::Support::Works
}

/// Takes a loaded object apart; `each` sees every map once.
fn take(
    mut object: Object,
    mut each: impl FnMut(&Map, &'static str) -> Result<(), InstanceError>,
) -> Result<(Program, Maps), InstanceError> {
    let mut take = |name| {
        let map = object.take_map(name)?;
        each(&map, name)?;
        Ok(map)
    };
    let mut maps = Maps::from(&mut take)?;
    match take(keys::MAP) {
        Ok(map) => maps.contexts = Some(Contexts::new(map)?),
        Err(InstanceError::Sys(error)) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok((object.program, maps))
}
