// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a specification or plan to an instance that forwards: everything that `apply` means.
//!
//! All that can be found wrong is found before anything is created: faults of the plan, checks of
//! the machine, a generation that another writer published meanwhile, a program of somebody else on
//! the interface. Then the instance is made or opened, the generation published, and only then the
//! program attached, so that no packet meets an instance without a generation.

use std::collections::BTreeSet;

use serde::Serialize;

use super::collector::Collector;
use super::error::{InstanceError, PlanError, PublishError};
use super::finding::{Finding, FindingCode};
use super::hardware::{is_on_card, HardwareAcknowledged, HardwareLb, HardwareWriter};
use super::instance::{QuicLb, Writer};
use super::loader::Loader;
use super::measure::Before;
use super::observe::observe_for;
use super::publish::Publication;
use super::root_array::refuse;
use super::status::{has_errors, Attachment, Status, APPLY};
use crate::error::ErrorKind;
use crate::id::InstanceId;
use crate::kernel::attach::{interface_index, AttachError};
use crate::kernel::clock;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::StateRoot;
use crate::plan::{
    plan, Base, Check, CheckCode, CheckResult, Live, Options, Plan, PlanFile, PlanResult,
    ServiceDisruption,
};
use crate::service::{Mode, Spec, Warning};

/// What is to be applied.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// A specification, planned against what is live now.
    Spec {
        /// What is wanted.
        spec: Spec,
        /// What the caller confirms.
        options: Options,
    },
    /// A plan made before: only as long as the generation it was made against is live.
    Plan(PlanFile),
}

impl Wanted {
    /// What is wanted.
    pub fn spec(&self) -> &Spec {
        match self {
            Self::Spec { spec, .. } => spec,
            Self::Plan(file) => &file.spec,
        }
    }

    fn options(&self) -> Options {
        match self {
            Self::Spec { options, .. } => *options,
            Self::Plan(file) => file.options,
        }
    }

    /// Refuses if what is wanted is a plan, and `made`, which was made anew from it, says anything
    /// else.
    fn agrees(&self, made: &Plan) -> Result<(), ApplyError> {
        let Self::Plan(file) = self else {
            return Ok(());
        };
        let live = &made.document().base;
        if file.base != *live {
            return Err(ApplyError::Stale {
                base: file.base.clone(),
                live: live.clone(),
            });
        }
        match file.difference(made) {
            Some(pointer) => Err(ApplyError::Differs { pointer }),
            None => Ok(()),
        }
    }
}

/// How to apply it.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Checks of the machine whose errors do not stand in the way.
    pub force: BTreeSet<CheckCode>,
    /// How many of the specifications before this one are kept, each as the last generation that had it;
    /// in mode `offload` how many records of generations.
    pub keep: usize,
    /// The caller's word that mode `offload` needs, and no other mode takes.
    pub hardware: Option<HardwareAcknowledged>,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            force: BTreeSet::new(),
            keep: super::publish::KEEP,
            hardware: None,
        }
    }
}

/// Why nothing, or not everything, was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Mode `offload` without the caller's word, or the word with another mode. Nothing was touched.
    #[error(
        "mode {mode} {}",
        if *mode == Mode::Offload {
            "runs the program on the network card, without a fallback: it must be acknowledged"
        } else {
            "does not run the program on the network card: there is nothing to acknowledge"
        }
    )]
    #[non_exhaustive]
    Acknowledgement {
        /// The mode that is wanted.
        mode: Mode,
    },
    /// No plan can be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan was made against another generation than the live one.
    #[error(
        "the plan was made against {}, live is {}; plan again",
        base_text(base),
        base_text(live)
    )]
    #[non_exhaustive]
    Stale {
        /// What it was made against.
        base: Option<Base>,
        /// What is live.
        live: Option<Base>,
    },
    /// The same specification comes out otherwise than the plan says. Nothing was changed.
    #[error(
        "the plan is not what would be published now: {pointer} differs; the machine or what is \
         live changed since, or the file was edited: plan again"
    )]
    #[non_exhaustive]
    Differs {
        /// JSON pointer to the first member of the plan that differs.
        pointer: String,
    },
    /// Checks of the machine found errors. Nothing was changed.
    #[error("redirected frames would be lost: {}", check_text(checks))]
    #[non_exhaustive]
    Preflight {
        /// The errors, at least one.
        checks: Vec<Check>,
    },
    /// The instance cannot be made, opened or read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The generation was not published. The one before it is still live.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// No specification before the live one was kept.
    #[error(
        "instance {instance} keeps no specification before the live one: nothing to go back to"
    )]
    #[non_exhaustive]
    NothingBefore {
        /// The instance.
        instance: InstanceId,
    },
    /// The program was not attached. If a generation was live before, the new one is.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

fn base_text(base: &Option<Base>) -> String {
    match base {
        None => "no generation".to_owned(),
        Some(base) => format!("generation {} ({})", base.generation, base.digest),
    }
}

fn check_text(checks: &[Check]) -> String {
    let texts: Vec<_> = checks
        .iter()
        .map(|check| format!("{} {}: {}", check.code, check.object, check.message))
        .collect();
    texts.join("; ")
}

impl ApplyError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Acknowledgement { .. } => ErrorKind::Usage,
            Self::Plan(error) => error.kind(),
            Self::Stale { .. } | Self::Differs { .. } => ErrorKind::StalePlan,
            Self::Preflight { .. } => ErrorKind::Preflight,
            Self::Instance(error) => error.kind(),
            Self::Publish(error) => error.kind(),
            Self::NothingBefore { .. } => ErrorKind::NotFound,
            Self::Attach(error) => error.kind(),
        }
    }
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Applied {
    /// Names this form.
    pub schema: ApplySchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Whether anything was published, mended or attached.
    pub result: ApplyResult,
    /// Number of the generation that is live now.
    pub generation: u64,
    /// Number of the one that was live before.
    pub previous_generation: Option<u64>,
    /// Milliseconds that the publication took, the wait for the last packets of the old generation
    /// included.
    pub publish_ms: f64,
    /// What the published tables did to the flows of each service, as read back from the kernel;
    /// how many flows there are is the plan's estimate.
    pub disruption: Vec<ServiceDisruption>,
    /// What may not be meant, as the plan has it.
    pub warnings: Vec<Warning>,
    /// What the instance had lost, and has again.
    pub repaired: Vec<Repair>,
    /// What holds the program on its interface.
    pub attachment: Attachment,
    /// What is not as it should be all the same, except what [`ApplyOptions::force`] names.
    pub findings: Vec<Finding>,
}

/// Names the form of what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ApplySchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.apply/v1")]
    V1,
}

/// Whether anything was published, mended or attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ApplyResult {
    /// The first generation of the instance.
    Created,
    /// Another generation.
    Changed,
    /// Nothing was published, as the live generation says the same, but what had been lost is back.
    Repaired,
    /// Nothing was published, as the live generation says the same, but the program is attached again:
    /// it was detached, its link has lost its pin, or its interface was made again.
    Attached,
    /// Nothing: the live generation says the same.
    Unchanged,
}

impl Applied {
    /// Whether some finding is an error.
    pub fn has_errors(&self) -> bool {
        has_errors(&self.findings)
    }
}

/// Plans the change from what is live, which may be nothing, to `spec`, on this machine as it is
/// now. Changes nothing. The interfaces are those of the calling thread's network namespace.
///
/// # Errors
/// Everything that stands against the plan, or what kept it from being made.
pub fn plan_here(root: &StateRoot, spec: &Spec, options: Options) -> Result<Plan, PlanError> {
    let dir = root.quiclb(spec.instance_id());
    if is_on_card(&dir) {
        HardwareLb::open(&dir)?.plan(spec, options)
    } else if dir.exists().map_err(InstanceError::from)? {
        QuicLb::open(&dir)?.plan(spec, options)
    } else {
        Ok(plan(None, spec, &observe_for(&dir, spec)?, options)?)
    }
}

/// Makes `wanted` live and attaches the program.
///
/// Everything that can be found wrong is found before anything is created. An instance whose first
/// generation this is and that cannot be published or attached is removed again.
///
/// # Errors
/// [`ApplyError`]; its variants say what has changed.
pub fn apply(
    root: &StateRoot,
    wanted: &Wanted,
    options: &ApplyOptions,
) -> Result<Applied, ApplyError> {
    let spec = wanted.spec();
    let mode = spec.mode();
    if (mode == Mode::Offload) != options.hardware.is_some() {
        return Err(ApplyError::Acknowledgement { mode });
    }
    let dir = root.quiclb(spec.instance_id());
    if let Wanted::Plan(PlanFile { offline: true, .. }) = wanted {
        return Err(PublishError::Offline.into());
    }
    if let Some(acknowledged) = options.hardware {
        return apply_on_card(root, wanted, options, acknowledged);
    }
    let load = || Loader::new(&dir, spec.limits()).load();
    let (plan, repaired) = match plan_here(root, spec, wanted.options()) {
        Err(PlanError::Instance(error)) if error.is_repairable() => {
            refuse(&dir, spec)?;
            let writer = load()?;
            (writer.plan(spec, wanted.options())?, Some(writer))
        }
        plan => (plan?, None),
    };
    wanted.agrees(&plan)?;
    refuse(&dir, spec)?;
    preflight(&plan, &options.force)?;

    let (mut writer, plan) = match repaired {
        Some(writer) => (writer, plan),
        None => {
            // The lock is taken only now, because taking it makes an instance that is not there.
            let writer = load()?;
            let plan = current(&writer, wanted, plan, options)?;
            (writer, plan)
        }
    };
    match publish_and_attach(&mut writer, &plan, options.keep) {
        Ok((before, published, was_attached)) => {
            let disruption = before.disruption(&writer, &plan)?;
            // What was asked for is done, whatever becomes of this.
            let collected = Collector::guest(&dir).step_with(&mut writer, clock::monotonic_ns());
            let mut applied = report(&writer, &plan, &published, disruption)?;
            if applied.result == ApplyResult::Unchanged && !was_attached {
                applied.result = ApplyResult::Attached;
            }
            let problem = match collected {
                Ok(stepped) => {
                    applied.generation = stepped.generation.unwrap_or(applied.generation);
                    let problem = stepped.problem;
                    problem.map(|problem| format!("what is due was not published: {problem}"))
                }
                Err(error) => Some(format!("flow state was not collected: {error}")),
            };
            applied.findings.extend(problem.map(|problem| {
                let object = dir.path().display();
                Finding::new(FindingCode::NoCollector, object, problem, APPLY)
            }));
            // What the caller has named is no news.
            let named = |finding: &Finding| {
                let mut force = options.force.iter();
                force.any(|code| code.as_str() == finding.code.as_str())
            };
            applied.findings.retain(|finding| !named(finding));
            Ok(applied)
        }
        Err(error) => {
            // Nothing was live before, so nothing stays: a specification with another mode or other
            // limits, which no live instance takes, must be possible next.
            if plan.document().base.is_none() {
                // What it cannot remove is there to be detached; why it has to is what matters.
                let _ = writer.purge();
            }
            Err(error)
        }
    }
}

/// Makes the specification before the live one live again, as a new generation. A second time, the
/// newer one comes back.
///
/// # Errors
/// As of [`apply`]; [`ApplyError::NothingBefore`] where none was kept.
pub fn rollback_spec(
    root: &StateRoot,
    instance: InstanceId,
    plan: Options,
    options: &ApplyOptions,
) -> Result<Applied, ApplyError> {
    let previous = QuicLb::open(&root.quiclb(instance))?.previous_record()?;
    let Some(previous) = previous else {
        return Err(ApplyError::NothingBefore { instance });
    };
    let wanted = Wanted::Spec {
        spec: previous.spec().clone(),
        options: plan,
    };
    apply(root, &wanted, options)
}

/// The same on a network card: program and maps are bound to it, or nothing is made.
fn apply_on_card(
    root: &StateRoot,
    wanted: &Wanted,
    options: &ApplyOptions,
    acknowledged: HardwareAcknowledged,
) -> Result<Applied, ApplyError> {
    let spec = wanted.spec();
    let dir = root.quiclb(spec.instance_id());
    let plan = plan_here(root, spec, wanted.options())?;
    wanted.agrees(&plan)?;
    refuse(&dir, spec)?;
    preflight(&plan, &options.force)?;

    let ifindex = interface_index(spec.interface().as_str())?;
    let loader = Loader::new(&dir, spec.limits()).hardware(acknowledged);
    let mut writer = loader.load(ifindex)?;
    let publish = |writer: &mut HardwareWriter| {
        let published = writer.publish_observed(&plan, options.keep, |_| Ok(()))?;
        let attached = writer.attach(spec.interface())?;
        Ok::<_, ApplyError>((published, attached))
    };
    match publish(&mut writer) {
        Ok((published, attached)) => Ok(Applied {
            schema: ApplySchema::V1,
            instance_id: dir.instance(),
            result: published.result.into(),
            generation: published.generation,
            previous_generation: published.previous,
            publish_ms: published.duration.as_secs_f64() * 1_000.0,
            disruption: Vec::new(),
            warnings: plan.document().warnings.clone(),
            repaired: Vec::new(),
            attachment: Attachment::of_card(&attached),
            findings: Vec::new(),
        }),
        Err(error) => {
            // As elsewhere: nothing was live before, so nothing stays.
            if plan.document().base.is_none() {
                let _ = writer.purge();
            }
            Err(error)
        }
    }
}

impl From<PlanResult> for ApplyResult {
    fn from(result: PlanResult) -> Self {
        match result {
            PlanResult::Create => Self::Created,
            PlanResult::Change => Self::Changed,
            PlanResult::Unchanged => Self::Unchanged,
        }
    }
}

/// Gives what was before, also whether the program was attached.
fn publish_and_attach(
    writer: &mut Writer,
    plan: &Plan,
    keep: usize,
) -> Result<(Before, Publication, bool), ApplyError> {
    let before = Before::of(writer)?;
    let published = writer.publish_observed(plan, keep, |_| Ok(()))?;
    let spec = plan.spec();
    let was_attached = match spec.root_array() {
        Some(place) => {
            let there = writer.attached_at(place)?;
            writer.attach_at(place)?;
            there.is_some()
        }
        None => {
            let there = writer.attached(spec.interface())?;
            writer.attach(spec.interface(), spec.mode().into())?;
            there.is_some()
        }
    };
    Ok((before, published, was_attached))
}

/// The plan as it is under the writer's lock: made again if another writer published meanwhile.
fn current(
    writer: &Writer,
    wanted: &Wanted,
    plan: Plan,
    options: &ApplyOptions,
) -> Result<Plan, ApplyError> {
    let live = writer.live_record()?;
    if live.as_ref().map(Live::base) == plan.document().base {
        return Ok(plan);
    }
    let plan = writer.plan(wanted.spec(), wanted.options())?;
    wanted.agrees(&plan)?;
    preflight(&plan, &options.force)?;
    Ok(plan)
}

/// Refuses if the machine loses frames for a reason that the caller has not named.
fn preflight(plan: &Plan, force: &BTreeSet<CheckCode>) -> Result<(), ApplyError> {
    let checks = plan.document().preflight.iter();
    let errors: Vec<_> = checks
        .filter(|check| check.result == CheckResult::Error && !force.contains(&check.code))
        .cloned()
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApplyError::Preflight { checks: errors })
    }
}

fn report(
    writer: &Writer,
    plan: &Plan,
    published: &Publication,
    disruption: Vec<ServiceDisruption>,
) -> Result<Applied, ApplyError> {
    let status = Status::of(writer.dir())?;
    let repaired = writer.repairs().to_vec();
    let result = match published.result.into() {
        ApplyResult::Unchanged if !repaired.is_empty() => ApplyResult::Repaired,
        result => result,
    };
    Ok(Applied {
        schema: ApplySchema::V1,
        instance_id: writer.instance_id(),
        result,
        generation: published.generation,
        previous_generation: published.previous,
        publish_ms: published.duration.as_secs_f64() * 1_000.0,
        disruption,
        warnings: plan.document().warnings.clone(),
        repaired,
        attachment: status.attachment,
        findings: status.findings,
    })
}
