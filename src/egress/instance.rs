// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The handles of one instance: one that looks and writes routes, one that publishes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use super::error::InstanceError;
use super::limits::Limits;
use super::migrate::settle;
use super::ours::refuse_foreign_maps;
use super::pins::Sweeper;
use crate::abi;
use crate::group::{GroupId, HighWater};
use crate::kernel::egress_object::Options;
use crate::kernel::exchange::Settled;
use crate::kernel::map::{Map, MapKind, MapShape};
use crate::kernel::netdev;
use crate::kernel::program::Program;
use crate::kernel::repair::Repair;
use crate::kernel::snapshot::Slots;
use crate::kernel::statedir::{Section, StateDir, StateDirLock, EGRESS_META_MAP};
use crate::kernel::typed::{Array, Hash, PerCpuArray, Trie};
use crate::kernel::write_barrier::WriteBarrier;

/// Name under which the program is pinned.
pub(super) const PROGRAM: &str = "gw_egress";

/// The egress datapath of a node: its program, maps and counters.
///
/// Looking takes no lock and changes nothing. Tenants and their routes are written through
/// [`write_routes`](Self::write_routes), by any number of processes; groups and the configuration
/// through a [`Writer`]. It belongs to the network namespace that it was made in. `Send` and `Sync`.
#[derive(Debug)]
pub struct Egress {
    pub(super) dir: StateDir,
    pub(super) limits: Limits,
    pub(super) program: Program,
    pub(super) maps: Maps,
    pub(super) barrier: WriteBarrier,
}

/// The maps of an instance, all pinned.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) tenants: Hash<u32, abi::Tenant>,
    pub(super) routes: Trie<abi::RouteKey, abi::Route>,
    pub(super) groups: Slots,
    pub(super) config: Slots,
    pub(super) pins: Hash<abi::PinKey, abi::Pin>,
    pub(super) flow_pins: Hash<abi::FlowPinKey, abi::Pin>,
    pub(super) pin_use: Hash<u32, abi::PinUse>,
    pub(super) shards: PerCpuArray<abi::ShardStats>,
    pub(super) counters: PerCpuArray<u64>,
    pub(super) events: Map,
}

impl Maps {
    /// Name of each map, the same as its pin's.
    pub(super) const NAMES: [&'static str; 10] = [
        "gw_tenants",
        "gw_routes",
        "gw_groups",
        "gw_eg_config",
        "gw_pins",
        "gw_flow_pins",
        "gw_pin_use",
        "gw_shardstat",
        "gw_eg_stat",
        "gw_eg_events",
    ];

    /// What it means that what was in the map of this name is gone.
    pub(super) fn content(name: &str) -> &'static str {
        match name {
            "gw_pins" | "gw_flow_pins" => "pins are forgotten, and addresses go by the table",
            "gw_tenants" => "interfaces are no tenants' until they are served again",
            "gw_routes" => "routes have to be written again",
            "gw_groups" | "gw_eg_config" => "what was in force is published again",
            "gw_pin_use" | "gw_shardstat" | "gw_eg_stat" => "what it counted begins at zero",
            _ => "what was in it is made again as it is needed",
        }
    }

    /// Takes each map from where `take` finds it.
    pub(super) fn from(
        mut take: impl FnMut(&'static str) -> Result<Map, InstanceError>,
    ) -> Result<Self, InstanceError> {
        let [tenants, routes, groups, config, pins, flow_pins, pin_use, shards, counters, events] =
            Self::NAMES;
        Ok(Self {
            tenants: Hash::new(take(tenants)?)?,
            routes: Trie::new(take(routes)?)?,
            groups: Slots::new(take(groups)?)?,
            config: Slots::new(take(config)?)?,
            pins: Hash::new(take(pins)?)?,
            flow_pins: Hash::new(take(flow_pins)?)?,
            pin_use: Hash::new(take(pin_use)?)?,
            shards: PerCpuArray::new(take(shards)?)?,
            counters: PerCpuArray::new(take(counters)?)?,
            events: take(events)?,
        })
    }

    /// Each map, in the order of the names.
    pub(super) fn all(&self) -> [&Map; 10] {
        [
            self.tenants.map(),
            self.routes.map(),
            self.groups.map(),
            self.config.map(),
            self.pins.map(),
            self.flow_pins.map(),
            self.pin_use.map(),
            self.shards.map(),
            self.counters.map(),
            &self.events,
        ]
    }
}

impl Egress {
    /// Opens the instance to look at it and to write routes. Minimum kernel: 6.1; takes CAP_BPF and
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// No instance, state of another version, or pins that are missing or do not fit.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        loop {
            let before = dir.identity();
            let opened = Self::open_now(dir).map_err(|error| error.with_all_lost(dir));
            // Migrated between two looks: what was opened may be of both.
            if dir.identity() == before || before.is_none() {
                return opened;
            }
        }
    }

    fn open_now(dir: &StateDir) -> Result<Self, InstanceError> {
        dir.version()?;
        let limits = limits(dir)?;
        let shapes = shapes(&limits)?;
        let maps = Maps::from(|name| Ok(dir.map(&shapes, name)?))?;
        let program = Program::open(&dir.pin(Section::Programs, PROGRAM))?;
        let egress = Self {
            dir: dir.clone(),
            limits,
            program,
            maps,
            barrier: WriteBarrier::below(dir.path()),
        };
        egress.check_program(&egress.program, PROGRAM)?;
        Ok(egress)
    }

    /// A program that uses other maps than those pinned beside it, under this name, counts and routes
    /// elsewhere.
    pub(super) fn check_program(&self, program: &Program, pin: &str) -> Result<(), InstanceError> {
        let used = program.map_ids();
        if !program.works_on(&self.maps.all().map(Map::id)) {
            let path = self.dir.pin(Section::Programs, pin);
            return Err(InstanceError::ForeignProgram {
                path: path.display().to_string(),
                id: program.id(),
                name: program.name().to_owned(),
            });
        }
        let mut maps = self.maps.all().into_iter().zip(Maps::NAMES);
        match maps.find(|(map, _)| !used.contains(&map.id())) {
            Some((_, map)) => {
                refuse_foreign_maps(&self.dir)?;
                let path = self.dir.pin(Section::Programs, pin);
                let path = path.display().to_string();
                Err(InstanceError::Mixed { path, map })
            }
            None => Ok(()),
        }
    }

    /// Whether what is pinned in the directory still are these maps. They are not when the state was
    /// removed, perhaps made anew, or a map was: whoever looks goes on with what is pinned now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let maps = self.maps.all().into_iter();
        let mut named = maps.zip(Maps::NAMES);
        named.all(|(map, name)| {
            let pinned = Map::open_any(&self.dir.pin(Section::Maps, name));
            pinned.is_ok_and(|pinned| pinned.id() == map.id())
        })
    }

    /// Makes sure that these maps are those which are pinned still.
    pub(super) fn check_pinned(&self, names: &[&'static str]) -> Result<(), InstanceError> {
        for (name, ours) in Maps::NAMES.into_iter().zip(self.maps.all()) {
            if !names.contains(&name) {
                continue;
            }
            match Map::open_any(&self.dir.pin(Section::Maps, name)) {
                Ok(pinned) if pinned.id() == ours.id() => {}
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {
                    let path = self.dir.path().display().to_string();
                    return Err(InstanceError::Replaced { path, map: name });
                }
            }
        }
        Ok(())
    }

    /// Where its objects are pinned.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// How much it has room for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Every group that there is room for.
    pub(super) fn group_ids(&self) -> impl Iterator<Item = GroupId> {
        (0..self.limits.groups.groups().into()).filter_map(GroupId::new)
    }

    /// Kernel memory of the maps in bytes, as the kernel accounts it; without the snapshots.
    ///
    /// # Errors
    /// The kernel's account cannot be read.
    pub fn memory_bytes(&self) -> Result<u64, InstanceError> {
        let maps = self.maps.all();
        let bytes = maps.iter().map(|map| map.memory_bytes());
        Ok(bytes.sum::<Result<u64, _>>()?)
    }
}

/// The shape of the map that tells what the others mean.
pub(super) fn meta_shape() -> MapShape {
    MapShape {
        name: EGRESS_META_MAP.to_owned(),
        kind: MapKind::ARRAY,
        key_size: 4,
        value_size: size_of::<abi::EgressMeta>() as u32,
        max_entries: 1,
        flags: 0,
    }
}

/// What the instance was made for, if that is this network namespace.
pub(super) fn limits(dir: &StateDir) -> Result<Limits, InstanceError> {
    let map = Map::open(&dir.pin(Section::Maps, EGRESS_META_MAP), &meta_shape())?;
    let meta = Array::<abi::EgressMeta>::new(map)?.get(0)?;
    // Interfaces are known by their indices, which mean others elsewhere.
    if meta.namespace != netdev::namespace()? {
        let path = dir.path().display().to_string();
        return Err(InstanceError::OtherNamespace { path });
    }
    Limits::from_meta(&meta).map_err(InstanceError::Meta)
}

/// The shape of each map of an instance with these limits.
pub(super) fn shapes(limits: &Limits) -> Result<BTreeMap<String, MapShape>, InstanceError> {
    let options = Options {
        sizes: limits.sizes(),
        entries: &limits.entries(),
        ..Options::default()
    };
    Ok(options.shapes()?)
}

/// How long a writer waits for another.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The instance to publish groups and the configuration in: the only one, as long as it lives.
///
/// Holds the exclusive lock on the state directory. Everything that [`Egress`] offers is there too.
/// Dropping it changes nothing: what was published and attached stays.
#[derive(Debug)]
pub struct Writer {
    pub(super) egress: Egress,
    pub(super) lock: StateDirLock,
    /// By group.
    pub(super) marks: Vec<HighWater>,
    pub(super) sweeper: Option<Sweeper>,
    /// What an exchange came to that was found interrupted, until somebody exchanges again.
    pub(super) settled: Settled,
    repairs: Vec<Repair>,
}

impl Deref for Writer {
    type Target = Egress;

    fn deref(&self) -> &Egress {
        &self.egress
    }
}

impl Writer {
    /// Opens an existing instance to publish in it, and takes its lock, for which it waits up to two
    /// seconds. The [`Loader`](super::Loader) also makes and repairs.
    ///
    /// # Errors
    /// As [`Egress::open`], and the lock is held by another process.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        let mut lock = dir.lock_within(PATIENCE)?;
        dir.version()?;
        settle(&mut lock)?;
        Self::new(Egress::open(dir)?, lock)
    }

    /// Finishes or undoes what an interrupted exchange of the program has left.
    pub(super) fn new(egress: Egress, lock: StateDirLock) -> Result<Self, InstanceError> {
        let marks = vec![HighWater::default(); egress.limits.groups.groups().into()];
        let mut writer = Self {
            egress,
            lock,
            marks,
            sweeper: None,
            settled: Settled::Sound,
            repairs: Vec::new(),
        };
        writer.settle_program()?;
        writer.forget_found_rows()?;
        Ok(writer)
    }

    pub(super) fn with(self, repairs: Vec<Repair>) -> Self {
        Self { repairs, ..self }
    }

    /// That something which the instance had lost is there again.
    pub(super) fn repaired(&mut self, repair: Repair) {
        self.repairs.push(repair);
    }

    /// What the instance had lost, and has again since this writer was made.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }
}
