// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keeps flow state small, and the tables in order: the work that nobody's packet does.
//!
//! A [`Collector`] forgets what is idle, says how much may be remembered, and ends transitions: when
//! every live flow of a changed slot has its entry, the slot stops looking back, and when the last
//! such entry is gone, it stops looking at all. Without a collector nothing breaks, but state only
//! grows.
//!
//! It works in steps that are short and take the lock of the instance each for itself, so that
//! `apply` and others find it free:
//!
//! ```no_run
//! use guideway::kernel::clock::monotonic_ns;
//! use guideway::quiclb::{Collector, CollectorOptions, StateRoot};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = StateRoot::default().quiclb("1d9016f2-8957-42bc-9dd7-32d684d76446".parse()?);
//! let mut collector = Collector::new(&dir, CollectorOptions::default());
//! loop {
//!     let stepped = collector.step(monotonic_ns())?;
//!     if let Some(sweep) = &stepped.sweep {
//!         println!("{} entries, {} deleted", sweep.live, sweep.deleted.total());
//!     }
//!     std::thread::sleep(stepped.next);
//! }
//! # }
//! ```

mod batch;
mod follow;
mod levels;
mod line;
mod pass;
mod report;
mod rules;
mod tools;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::error::InstanceError;
use super::instance::{QuicLb, Writer};
use super::live::{cells_pin, CELLS};
use crate::abi;
use crate::affinity::level::LevelRules;
use crate::error::ErrorKind;
use crate::id::ServiceId;
use crate::kernel::clock::monotonic_ns;
use crate::kernel::map::ShapeError;
use crate::kernel::publish::Generation;
use crate::kernel::routine::LoadError;
use crate::kernel::statedir::{Section, StateDir};
use crate::kernel::SysError;
use crate::plan::{Live, ServiceSweep};
use crate::service::Spec;
use batch::{Batch, Bound};
use pass::Found;
use rules::Rules;
use tools::Tools;

pub use follow::{Cause, Followed};
pub(super) use levels::{number as level_number, occupancy};
pub use levels::{LevelChange, Occupancy, StateTable};
pub use line::{RunLine, RunSchema};
pub use report::{Deleted, SweepMethod, SweepReport, SweptService};

/// How a collector works.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CollectorOptions {
    /// Time from one sweep to the next: by default a quarter of the shortest time that a service
    /// remembers its flows, but at least a second and at most a minute.
    pub period: Option<Duration>,
    /// How much one step may do.
    pub budget: Budget,
    /// How to sweep: by default in the kernel, if it can and the budget has room for a pass.
    pub method: Option<SweepMethod>,
    /// When newcomers are refused.
    pub levels: LevelRules,
    /// Entries of flows that a service may have before its newcomers are refused, by the service's
    /// number; no bound for services that are not named. Held against what the last sweep counted.
    pub quotas: BTreeMap<ServiceId, u64>,
}

/// How much one step may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Entries that it looks at. A pass in the kernel cannot stop in the middle: it is only made
    /// where both tables together have no more.
    pub entries: u64,
    /// How long a sweep in batches goes on.
    pub time: Duration,
}

impl Default for Budget {
    /// Two million entries, a good quarter of a second of a pass; batches for 50 ms.
    fn default() -> Self {
        Self {
            entries: 2_000_000,
            time: Duration::from_millis(50),
        }
    }
}

impl Budget {
    /// So many entries, and so long for batches.
    pub fn new(entries: u64, time: Duration) -> Self {
        Self { entries, time }
    }
}

/// Time between two looks at how full the tables are.
const TICK: Duration = Duration::from_secs(1);
/// Periods after whose number a sweep is so late that nobody seems to collect.
pub(super) const LATE: u32 = 4;
/// Time from one part of a sweep in batches to the next, in which others find the lock free.
const GAP: Duration = Duration::from_millis(5);
/// When to come again after another writer held the lock.
const LOCKED: Duration = Duration::from_millis(100);

/// Why a step could not be made, or not be ended. Everything is as safe as before: the next step
/// does what this one could not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The instance cannot be opened or read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The programs cannot be loaded, and nothing else may be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A program came back without having done its work.
    #[error("{program} refused generation {generation} with result {result}")]
    #[non_exhaustive]
    Refused {
        /// The program.
        program: String,
        /// The generation that it was to work for.
        generation: u64,
        /// What it returned.
        result: u32,
    },
    /// The live generation is not what its record says.
    #[error("generation {number} has no service {service}, or is another one")]
    #[non_exhaustive]
    Generation {
        /// Its number in the record.
        number: u64,
        /// A service of the record.
        service: String,
    },
    /// A map of a program has another shape than its source says.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl CollectError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Refused { .. } => ErrorKind::Kernel,
            Self::Generation { .. } | Self::Shape(_) => ErrorKind::Incompatible,
            Self::Sys(error) => error.kind(),
        }
    }

    /// Whether a later step may do what this one could not. If not, the instance is gone or of
    /// another version, or the process lacks rights.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Generation { .. } | Self::Shape(_) => false,
            Self::Instance(error) => error.may_pass(),
            Self::Load(error) => error.kind().may_pass(),
            Self::Sys(error) => error.kind() != ErrorKind::Permission,
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stepped {
    /// Another writer held the lock: nothing was done.
    pub locked: bool,
    /// Number of the live generation; none if there is none, or nobody could look.
    pub generation: Option<u64>,
    /// How full the tables are.
    pub occupancy: Option<Occupancy>,
    /// Levels that were changed.
    pub levels: Vec<LevelChange>,
    /// The sweep that was made, ended or taken further.
    pub sweep: Option<SweepReport>,
    /// A generation of the same specification that was published.
    pub followed: Option<Followed>,
    /// What stands against such a publication, or had to be left as it was, in words.
    pub problem: Option<String>,
    /// When to call again, at the latest.
    pub next: Duration,
}

impl Stepped {
    fn nothing(next: Duration) -> Self {
        Self {
            locked: false,
            generation: None,
            occupancy: None,
            levels: Vec::new(),
            sweep: None,
            followed: None,
            problem: None,
            next,
        }
    }
}

/// Collects the flow state of one instance; see the [module](self).
#[derive(Debug)]
pub struct Collector {
    dir: StateDir,
    options: CollectorOptions,
    /// It makes single steps, and somebody else may collect.
    is_guest: bool,
    tools: Option<Tools>,
    /// A sweep in batches that is under way.
    batch: Option<Batch>,
    /// What the last complete sweep counted.
    counted: Option<Counted>,
    /// The generation since which nothing is left of publications that died.
    tidied: Option<u64>,
    /// No plan is made before this time, unless for another cause than the last one.
    follow_ns: u64,
    /// What the last plan was made for.
    tried: Vec<Cause>,
    /// What stood against it.
    stands: Option<String>,
}

/// What a complete sweep counted, for estimates between sweeps.
#[derive(Debug, Clone, Default)]
struct Counted {
    /// Entries of flows by service.
    flows: BTreeMap<u32, u64>,
    /// Inserts that all services had counted by then.
    inserted: Occupancy,
}

impl Collector {
    /// For the instance of this state directory. Nothing is done yet.
    pub fn new(dir: &StateDir, options: CollectorOptions) -> Self {
        Self {
            dir: dir.clone(),
            options,
            is_guest: false,
            tools: None,
            batch: None,
            counted: None,
            tidied: None,
            follow_ns: 0,
            tried: Vec::new(),
            stands: None,
        }
    }

    /// For single steps beside whoever collects, with options that are not known: if somebody does,
    /// sweeps are due when that one says, and levels, which depend on its marks and quotas, are its
    /// affair.
    pub(super) fn guest(dir: &StateDir) -> Self {
        Self {
            is_guest: true,
            ..Self::new(dir, CollectorOptions::default())
        }
    }

    /// Does what is due at `now_ns` of the monotonic clock. Minimum kernel: 6.1; takes CAP_BPF.
    ///
    /// Takes the lock of the instance for the time of the step. If another writer holds it, nothing
    /// is done, which is no error.
    ///
    /// # Errors
    /// [`CollectError`]; among others there is no such instance.
    pub fn step(&mut self, now_ns: u64) -> Result<Stepped, CollectError> {
        match Writer::open_now(&self.dir) {
            Ok(mut writer) => self.step_with(&mut writer, now_ns),
            Err(error) if error.kind() == ErrorKind::Locked => Ok(Stepped {
                locked: true,
                ..Stepped::nothing(LOCKED)
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`step`](Self::step), for those who hold the lock already.
    ///
    /// # Errors
    /// As there.
    pub fn step_with(&mut self, writer: &mut Writer, now_ns: u64) -> Result<Stepped, CollectError> {
        let Some(mut live) = writer.live_record()? else {
            return Ok(Stepped::nothing(TICK));
        };
        if live.flow_state().returned_ns.is_none() {
            // Whoever published it did not come to that.
            writer.note_return(live.number())?;
            live.flow_state_mut().returned_ns = Some(monotonic_ns());
        }
        if self.tidied != Some(live.number()) {
            writer.end_publication(&live.record)?;
            self.tidied = Some(live.number());
        }
        if !self.tools.as_ref().is_some_and(|tools| tools.fit(writer)) {
            self.tools = Some(Tools::load(writer)?);
            self.batch = None;
            self.counted = None;
        }
        let host = self.host(writer, now_ns)?;
        let period = host.unwrap_or_else(|| self.period(live.spec()));
        let mut stepped = Stepped::nothing(TICK.min(period));
        stepped.generation = Some(live.number());
        let occupancy = self.occupancy(writer)?;
        stepped.occupancy = Some(occupancy);
        if host.is_none() {
            stepped.levels = self.set_levels(writer, &live, occupancy, now_ns)?;
        }
        if self.sweep_is_due(writer, period, now_ns)? {
            let (report, found) = self.sweep(writer, &live, occupancy, period, now_ns)?;
            match found {
                Some(found) => live = live.with_sweep(report.generation, found),
                None => stepped.next = GAP,
            }
            stepped.sweep = Some(report);
        }
        (stepped.followed, stepped.problem) = self.follow(writer, &live, now_ns)?;
        if let Some(followed) = &stepped.followed {
            stepped.generation = Some(followed.generation);
        }
        Ok(stepped)
    }

    /// Time from one sweep to the next.
    fn period(&self, spec: &Spec) -> Duration {
        self.options.period.unwrap_or_else(|| default_period(spec))
    }

    /// The time between the sweeps of another collector that is at work, if this one is its guest.
    fn host(&self, instance: &QuicLb, now_ns: u64) -> Result<Option<Duration>, CollectError> {
        if !self.is_guest {
            return Ok(None);
        }
        let collection = instance.maps.collection.get(0)?;
        let period = Duration::from_nanos(collection.sweep_period_ns);
        let since = Duration::from_nanos(now_ns.saturating_sub(collection.swept_ns));
        Ok((collection.swept_ns > 0 && since <= period * LATE).then_some(period))
    }

    fn sweep_is_due(
        &self,
        instance: &QuicLb,
        period: Duration,
        now_ns: u64,
    ) -> Result<bool, CollectError> {
        let collection = instance.maps.collection.get(0)?;
        let since_ns = now_ns.saturating_sub(collection.swept_ns);
        let is_over = collection.swept_ns == 0 || u128::from(since_ns) >= period.as_nanos();
        Ok(is_over || self.batch.is_some())
    }

    /// Sweeps, or takes the sweep that is under way further; what was found of each service once it
    /// is complete.
    fn sweep(
        &mut self,
        writer: &Writer,
        live: &Live,
        occupancy: Occupancy,
        period: Duration,
        now_ns: u64,
    ) -> Result<(SweepReport, Option<BTreeMap<u32, ServiceSweep>>), CollectError> {
        let Some(tools) = &self.tools else {
            // The step has just loaded them.
            return Err(SysError::new("find", "its programs", nix::libc::ENOENT).into());
        };
        let path = writer
            .dir
            .pin(Section::Generations, &cells_pin(live.number()));
        let cells = Generation::open(&path, CELLS).map_err(InstanceError::from)?;
        let cid_seed = writer.maps.collection.get(0)?.cid_seed;
        let fits = occupancy.total() <= self.options.budget.entries;
        let passes = match (self.options.method, &tools.passes) {
            (Some(SweepMethod::Batch), _) => None,
            (Some(SweepMethod::Kernel), Err(error)) => return Err(error.clone().into()),
            (Some(SweepMethod::Kernel), Ok(passes)) => Some(passes),
            (None, passes) => passes.as_ref().ok().filter(|_| fits),
        };
        if let (Some(passes), None) = (passes, &self.batch) {
            let rules = Rules::of(live, &cells)?;
            let found = pass::sweep(passes, &rules, now_ns, cid_seed)?;
            self.note(writer, &rules, &found, period, now_ns)?;
            let report = SweepReport::of(SweepMethod::Kernel, true, &rules, &found);
            return Ok((report, Some(follow::sweeps(&rules, &found))));
        }
        // What was found of another generation's slots says nothing about those of this one.
        let mut batch = match self.batch.take() {
            Some(batch) if batch.rules.generation == live.number() => batch,
            _ => Batch::new(Rules::of(live, &cells)?, cells.read()?, cid_seed),
        };
        let bound = Bound {
            entries: self.options.budget.entries,
            until: Instant::now() + self.options.budget.time,
        };
        let before = batch.so_far().clone();
        let complete = batch.go_on(&writer.maps, now_ns, bound)?;
        self.count(&batch.rules, &before, batch.so_far())?;
        if !complete {
            let report = SweepReport::of(SweepMethod::Batch, false, &batch.rules, batch.so_far());
            self.batch = Some(batch);
            return Ok((report, None));
        }
        let (rules, found) = batch.finish()?;
        self.note(writer, &rules, &found, period, now_ns)?;
        let report = SweepReport::of(SweepMethod::Batch, true, &rules, &found);
        Ok((report, Some(follow::sweeps(&rules, &found))))
    }

    /// Adds what a part of a sweep in batches has deleted to the counters of its services.
    fn count(&self, rules: &Rules, before: &Found, after: &Found) -> Result<(), CollectError> {
        let Some(count) = self.tools.as_ref().and_then(|tools| tools.count.as_ref()) else {
            return Ok(());
        };
        let services = rules.services.iter();
        for (service, (before, after)) in services.zip(before.services.iter().zip(&after.services))
        {
            let mut account = abi::SweepAccount {
                stats: service.record.stats,
                ..Default::default()
            };
            for (before, after) in [(&before.flows, &after.flows), (&before.cids, &after.cids)] {
                let deleted = before.deleted.iter().zip(&after.deleted);
                for (sum, (before, after)) in account.deleted.iter_mut().zip(deleted) {
                    *sum += after - before;
                }
                account.resurrected += after.resurrected - before.resurrected;
            }
            if account.resurrected > 0 || account.deleted.iter().any(|&deleted| deleted > 0) {
                count.call(&mut account)?;
            }
        }
        Ok(())
    }

    /// Keeps what a complete sweep found: for `status`, and for what is estimated until the next.
    fn note(
        &mut self,
        writer: &Writer,
        rules: &Rules,
        found: &Found,
        period: Duration,
        now_ns: u64,
    ) -> Result<(), CollectError> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        writer.maps.bound.set_first(&found.bound)?;
        let mut collection = writer.maps.collection.get(0)?;
        found.fill(&mut collection);
        collection.swept_ns = now_ns.max(1);
        collection.sweep_duration_ns = nanoseconds(found.duration);
        collection.sweep_period_ns = nanoseconds(period);
        writer.maps.collection.set(0, &collection)?;
        let services = rules.services.iter().zip(&found.services);
        self.counted = Some(Counted {
            flows: services
                .map(|(service, found)| (service.id, found.flows.entries))
                .collect(),
            inserted: levels::inserted(writer)?,
        });
        Ok(())
    }
}

/// Time from one sweep to the next, unless the collector was told another.
pub(super) fn default_period(spec: &Spec) -> Duration {
    let services = spec.services().iter();
    let shortest = services.map(|service| match service.reads_quic() {
        true => service.flow_idle.min(service.cid_idle),
        false => service.flow_idle,
    });
    let shortest = shortest.min().unwrap_or(Duration::MAX);
    (shortest / 4).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

#[cfg(test)]
mod tests;
