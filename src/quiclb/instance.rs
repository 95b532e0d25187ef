// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The handles of one instance: one that looks, one that changes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use super::bindings::Registry;
use super::contexts;
use super::diff::Foreseen;
use super::error::{InstanceError, PlanError};
use super::hardware::refuse_card;
use super::layout::require_current;
use super::observe::observe_for;
use super::ours::refuse_foreign_maps;
use crate::abi;
use crate::id::InstanceId;
use crate::kernel::clock;
use crate::kernel::exchange::Settled;
use crate::kernel::keys::{self, Contexts};
use crate::kernel::map::{Map, MapShape};
use crate::kernel::object;
use crate::kernel::program::Program;
use crate::kernel::publish::Slot;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDir, StateDirLock, META_MAP};
use crate::kernel::typed::{Array, DevMap, Hash, PerCpuArray};
use crate::plan::{plan, Live, Options, Plan, World};
use crate::service::Spec;

/// The map that leads to the live generation.
pub(super) const GENERATION_MAP: &str = "gw_ql_gen";
/// Maps whose sizes are the instance's own.
pub(super) const FLOW_MAP: &str = "gw_ql_flow";
pub(super) const CID_MAP: &str = "gw_ql_cid";

/// Name under which the program is pinned.
pub(super) const PROGRAM: &str = "gw_quiclb";

/// An instance to look at: its program, maps and counters.
///
/// Reading takes no lock and never changes anything. `Send` and `Sync`.
#[derive(Debug)]
pub struct QuicLb {
    pub(super) dir: StateDir,
    pub(super) program: Program,
    pub(super) maps: Maps,
    pub(super) registry: Registry,
}

/// The maps of an instance, all pinned.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) slot: Slot,
    pub(super) reasons: PerCpuArray<abi::ReasonStats>,
    pub(super) services: PerCpuArray<abi::ServiceStats>,
    pub(super) backends: PerCpuArray<abi::BackendStats>,
    pub(super) removed: Array<u64>,
    pub(super) bound: Array<abi::Bound>,
    pub(super) targets: DevMap,
    pub(super) meta: Array<abi::Meta>,
    pub(super) buckets: PerCpuArray<abi::EventBucket>,
    pub(super) events: Map,
    pub(super) trace: Map,
    pub(super) flows: Hash<abi::FlowKey, abi::Binding>,
    pub(super) cids: Hash<abi::CidKey, abi::Binding>,
    pub(super) levels: Array<abi::Admission>,
    pub(super) collection: Array<abi::Collection>,
    /// None if the program was loaded without decryption.
    pub(super) contexts: Option<Contexts>,
}

impl Maps {
    /// Name of each map, the same as its pin's.
    pub(super) const NAMES: [&'static str; 15] = [
        GENERATION_MAP,
        "gw_ql_reason",
        "gw_ql_stats",
        "gw_ql_backend",
        "gw_ql_removed",
        "gw_ql_bound",
        "gw_ql_dev",
        "gw_ql_meta",
        "gw_ql_bucket",
        "gw_ql_events",
        "gw_ql_trace",
        FLOW_MAP,
        CID_MAP,
        "gw_ql_level",
        "gw_ql_collect2",
    ];

    /// Whether programs use the map of this name; the others are user space's alone.
    pub(super) fn is_programs(name: &str) -> bool {
        !matches!(name, META_MAP | "gw_ql_removed" | "gw_ql_bound")
    }

    /// Whether each program of this build uses it. The one for tracing is compiled out of those that
    /// are not loaded for that.
    pub(super) fn is_held(name: &str) -> bool {
        Self::is_programs(name) && name != "gw_ql_trace"
    }

    /// What it means that what was in the map of this name is gone.
    pub(super) fn content(name: &str) -> &'static str {
        match name {
            GENERATION_MAP => "what is live has to be published again",
            FLOW_MAP => "flows that had entries go by the table",
            CID_MAP => "connection IDs that were learned, registered or imported are forgotten",
            "gw_ql_collect2" => {
                "connection IDs that were learned, registered or imported are not found any more, and \
                 sweeps begin anew"
            }
            "gw_ql_bound" => "the entries of each backend are counted by the next sweep",
            "gw_ql_reason" | "gw_ql_stats" | "gw_ql_backend" | "gw_ql_removed" => {
                "what it counted begins at zero"
            }
            _ => "what was in it is made again as it is needed",
        }
    }

    /// Takes each map from where `take` finds it.
    pub(super) fn from(
        mut take: impl FnMut(&'static str) -> Result<Map, InstanceError>,
    ) -> Result<Self, InstanceError> {
        let [slot, reasons, services, backends, removed, bound, targets, meta, buckets, events, trace, flows, cids, levels, collection] =
            Self::NAMES;
        Ok(Self {
            slot: Slot::new(take(slot)?)?,
            reasons: PerCpuArray::new(take(reasons)?)?,
            services: PerCpuArray::new(take(services)?)?,
            backends: PerCpuArray::new(take(backends)?)?,
            removed: Array::new(take(removed)?)?,
            bound: Array::new(take(bound)?)?,
            targets: DevMap::new(take(targets)?)?,
            meta: Array::new(take(meta)?)?,
            buckets: PerCpuArray::new(take(buckets)?)?,
            events: take(events)?,
            trace: take(trace)?,
            flows: Hash::new(take(flows)?)?,
            cids: Hash::new(take(cids)?)?,
            levels: Array::new(take(levels)?)?,
            collection: Array::new(take(collection)?)?,
            contexts: None,
        })
    }

    /// Id and name of every map.
    pub(super) fn ids(&self) -> [(u32, &'static str); 15] {
        let maps = [
            self.slot.map(),
            self.reasons.map(),
            self.services.map(),
            self.backends.map(),
            self.removed.map(),
            self.bound.map(),
            self.targets.map(),
            self.meta.map(),
            self.buckets.map(),
            &self.events,
            &self.trace,
            self.flows.map(),
            self.cids.map(),
            self.levels.map(),
            self.collection.map(),
        ];
        std::array::from_fn(|index| (maps[index].id(), Self::NAMES[index]))
    }
}

impl QuicLb {
    /// Opens an instance to look at it. Minimum kernel: 6.1; takes CAP_BPF.
    ///
    /// # Errors
    /// No such instance, state of another version, or pins that are missing or do not fit.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        require_current(dir)?;
        refuse_card(dir)?;
        let instance = Self::open_prepared(dir)?;
        instance.check_program(&instance.program, PROGRAM)?;
        Ok(instance)
    }

    /// Opens an instance that has every map of this layout, whatever version it tells and whichever
    /// of them its program uses.
    pub(super) fn open_prepared(dir: &StateDir) -> Result<Self, InstanceError> {
        let program = Program::open(&dir.pin(Section::Programs, PROGRAM));
        Self::around(dir, program?)
    }

    /// The same with this program, wherever that is pinned.
    pub(super) fn around(dir: &StateDir, program: Program) -> Result<Self, InstanceError> {
        let shapes = shapes(dir)?;
        let mut maps = Maps::from(|name| Ok(dir.map(&shapes, name)?))?;
        maps.contexts = contexts::pinned(dir)?;
        Ok(Self {
            dir: dir.clone(),
            program,
            maps,
            registry: Registry::default(),
        })
    }

    /// The instance's name.
    pub fn instance_id(&self) -> InstanceId {
        self.dir.instance()
    }

    /// Where its objects are pinned.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Plans the change from what is live to `spec`, on this machine as it is now.
    ///
    /// Changes nothing. The interfaces are those of the calling thread's network namespace.
    ///
    /// # Errors
    /// Everything that stands against the plan, or what kept it from being made.
    pub fn plan(&self, spec: &Spec, options: Options) -> Result<Plan, PlanError> {
        let live = self.live_before(spec)?;
        let world = observe_for(&self.dir, spec)?;
        Ok(plan(live.as_ref(), spec, &world, options)?)
    }

    /// What `spec` in the place of what is live would do to flows. Asks nothing of this machine but
    /// what is live: interfaces may be missing, and nothing needs to be confirmed.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), for what stands against such a change on any machine.
    pub fn foresee(&self, spec: &Spec) -> Result<Foreseen, PlanError> {
        let live = self.live_before(spec)?;
        let mut world = World::offline();
        (world.boot_ns, world.monotonic_ns) = (clock::boot_ns(), clock::monotonic_ns());
        let options = Options {
            disruptive: true,
            reuse_server_id: true,
        };
        let plan = plan(live.as_ref(), spec, &world, options)?;
        Ok(Foreseen {
            disruption: plan.document().disruption(),
            warnings: plan.document().warnings.clone(),
        })
    }

    /// What is live, with all that a plan of `spec` wants to know of it.
    fn live_before(&self, spec: &Spec) -> Result<Option<Live>, InstanceError> {
        let mut live = self.live_record()?;
        if let Some(live) = &mut live {
            if live.loses_backends(spec) {
                live.know_entries(self.count_by_row(live)?);
            }
        }
        Ok(live)
    }

    /// A program that uses other maps than those pinned beside it, under this name, counts and routes
    /// elsewhere.
    pub(super) fn check_program(&self, program: &Program, pin: &str) -> Result<(), InstanceError> {
        let used = program.map_ids();
        let mixed = |map| {
            refuse_foreign_maps(&self.dir)?;
            let path = self.dir.pin(Section::Programs, pin);
            let path = path.display().to_string();
            Err(InstanceError::Mixed { path, map })
        };
        let maps = self.maps.ids().into_iter();
        let maps = maps.filter(|(_, name)| Maps::is_programs(name));
        if !program.works_on(&maps.map(|(id, _)| id).collect::<Vec<_>>()) {
            let path = self.dir.pin(Section::Programs, pin);
            return Err(InstanceError::ForeignProgram {
                path: path.display().to_string(),
                id: program.id(),
                name: program.name().to_owned(),
            });
        }
        let unused = |contexts: &Contexts| !used.contains(&contexts.map().id());
        if self.maps.contexts.as_ref().is_some_and(unused) {
            return mixed(keys::MAP);
        }
        let mut maps = self.maps.ids().into_iter();
        match maps.find(|(id, name)| Maps::is_held(name) && !used.contains(id)) {
            Some((_, map)) => mixed(map),
            None => Ok(()),
        }
    }
}

/// The sizes of flow state, for loading.
pub(super) fn entries(meta: &abi::Meta) -> [(&'static str, u32); 2] {
    [(FLOW_MAP, meta.flows), (CID_MAP, meta.cids)]
}

/// What an instance was made with.
pub(super) fn meta(dir: &StateDir) -> Result<abi::Meta, InstanceError> {
    let map = dir.map(&object::Options::default().shapes()?, META_MAP)?;
    Ok(Array::new(map)?.get(0)?)
}

/// The shapes that the maps of an instance must have.
pub(super) fn shapes(dir: &StateDir) -> Result<BTreeMap<String, MapShape>, InstanceError> {
    let options = object::Options {
        entries: &entries(&meta(dir)?),
        keys: keys::BUILT,
        ..Default::default()
    };
    Ok(options.shapes()?)
}

/// How long a writer waits for another, which may be a collector in the middle of a step.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// An instance to change: the only one, as long as it lives.
///
/// Holds the exclusive lock on the state directory. Everything that [`QuicLb`] offers is there
/// too. Dropping it changes nothing: what was published and attached stays.
#[derive(Debug)]
pub struct Writer {
    pub(super) balancer: QuicLb,
    pub(super) lock: StateDirLock,
    /// What an exchange came to that was found interrupted, until somebody exchanges again.
    pub(super) settled: Settled,
    /// What had been lost.
    pub(super) repairs: Vec<Repair>,
}

impl Deref for Writer {
    type Target = QuicLb;

    fn deref(&self) -> &QuicLb {
        &self.balancer
    }
}

impl Writer {
    /// Opens an existing instance to change it, and takes its lock, for which it waits up to two
    /// seconds: a collector holds it for less. The [`Loader`](super::Loader) also makes and repairs.
    ///
    /// # Errors
    /// As [`QuicLb::open`], and the lock is held by another process.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        Self::with(dir, dir.lock_within(PATIENCE)?)
    }

    /// As [`open`](Self::open), but without waiting, and what an exchange of the program has left
    /// stays: who asks for another one is to find it, however often the collector came by.
    pub(super) fn open_now(dir: &StateDir) -> Result<Self, InstanceError> {
        let lock = dir.lock()?;
        Ok(Self::unsettled(QuicLb::open(dir)?, lock))
    }

    fn with(dir: &StateDir, lock: StateDirLock) -> Result<Self, InstanceError> {
        Self::new(QuicLb::open(dir)?, lock)
    }

    /// Finishes or undoes what an interrupted exchange of the program has left.
    pub(super) fn new(balancer: QuicLb, lock: StateDirLock) -> Result<Self, InstanceError> {
        let mut writer = Self::unsettled(balancer, lock);
        writer.settle()?;
        Ok(writer)
    }

    pub(super) fn unsettled(balancer: QuicLb, lock: StateDirLock) -> Self {
        Self {
            balancer,
            lock,
            settled: Settled::Sound,
            repairs: Vec::new(),
        }
    }

    /// What the instance had lost, and has again since this writer was made.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Path of a pin, for those who make one.
    pub(super) fn pin(&self, section: Section, name: &str) -> PathBuf {
        self.lock.dir().pin(section, name)
    }
}
