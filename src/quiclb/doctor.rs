// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Everything that can be checked about an instance, or about a specification before it is applied:
//! what is fine as well as what is not.

use serde::Serialize;

use super::apply::plan_here;
use super::attachment::refuse_occupied;
use super::error::{InstanceError, PlanError};
use super::finding::{Finding, FindingCode, Severity};
use super::instance::QuicLb;
use super::observe::observe;
use super::probe::InterfaceProbe;
use super::root_array::shared;
use super::status::{Health, Status, APPLY};
use crate::kernel::attach::AttachError;
use crate::kernel::statedir::{StateDir, StateRoot};
use crate::plan::{preflight, Check, CheckResult, Options, World};
use crate::service::{Mode, Spec};

/// What was checked, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Diagnosis {
    /// Names this form.
    pub schema: DoctorSchema,
    /// What was examined: an instance, or what the caller calls a specification.
    pub object: String,
    /// The worst of the results.
    pub result: CheckResult,
    /// Everything that was looked at.
    pub checks: Vec<DoctorCheck>,
}

/// Names the form of a diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DoctorSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.doctor/v1")]
    V1,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DoctorCheck {
    /// Machine name: of a finding of the status, of a check of the machine, of a fault or warning
    /// of a plan.
    pub code: String,
    /// What was looked at.
    pub object: String,
    /// What was found.
    pub result: CheckResult,
    /// That in words.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Diagnosis {
    /// Examines an instance: its pins, its attachment, its counters, and the machine around it.
    /// Changes nothing.
    ///
    /// # Errors
    /// No such instance, state of another version or of somebody else, or a call that failed.
    pub fn of_instance(dir: &StateDir) -> Result<Self, InstanceError> {
        let leftovers = leftovers(dir)?;
        // What the making of an instance left behind is all there is of it.
        if !leftovers.is_empty() && !dir.exists()? {
            return Ok(Self::new(dir.instance().to_string(), leftovers));
        }
        let status = Status::of(dir)?;
        let mut checks: Vec<_> = status.findings.iter().map(DoctorCheck::from).collect();
        checks.extend(leftovers);
        let object = dir.instance().to_string();
        checks.push(attached(&status));
        let live = match status.generation {
            Some(_) => QuicLb::open(dir)?.live_record().ok().flatten(),
            None => None,
        };
        let in_sight = !has(&status, FindingCode::OtherNamespace);
        let machine = match &live {
            Some(live) if in_sight => machine(live.spec(), observe()?),
            _ => Vec::new(),
        };
        // Of what the machine's checks look at, they tell more.
        let found = |code: FindingCode| {
            let mut all = checks.iter().chain(&machine);
            all.any(|check| check.code == code.as_str())
        };
        let sound: Vec<_> = FindingCode::ALL
            .iter()
            .filter(|code| !found(**code))
            .filter(|code| !code.needs_root_array() || status.attachment.root_array.is_some())
            .map(|&code| match unseen(code, &status, live.is_some()) {
                Some(why) => DoctorCheck::new(code, &object, CheckResult::Unknown, why),
                None => DoctorCheck::new(code, &object, CheckResult::Ok, code.sound()),
            })
            .collect();
        checks.extend(sound);
        for check in machine {
            let known =
                |other: &DoctorCheck| other.code == check.code && other.object == check.object;
            if !checks.iter().any(known) {
                checks.push(check);
            }
        }
        Ok(Self::new(object, checks))
    }

    /// Examines what would become of a specification here: everything that stands against it, and
    /// the machine. `object` is what the caller calls it. Changes nothing.
    ///
    /// # Errors
    /// A live instance that cannot be read, or a call that failed.
    pub fn of_spec(
        root: &StateRoot,
        object: impl Into<String>,
        spec: &Spec,
    ) -> Result<Self, PlanError> {
        let mut checks = match plan_here(root, spec, Options::default()) {
            Ok(plan) => {
                let warnings = plan.document().warnings.iter();
                let warnings = warnings.map(|warning| DoctorCheck {
                    code: warning.code.to_string(),
                    object: warning.pointer.clone(),
                    result: CheckResult::Warning,
                    message: warning.message.clone(),
                    remedy: None,
                });
                warnings.collect()
            }
            Err(PlanError::Faults(faults)) => faults
                .into_iter()
                .map(|fault| DoctorCheck {
                    code: fault.code.to_string(),
                    object: fault.pointer,
                    result: CheckResult::Error,
                    message: fault.message,
                    remedy: None,
                })
                .collect::<Vec<_>>(),
            Err(error) => return Err(error),
        };
        let dir = root.quiclb(spec.instance_id());
        checks.extend(leftovers(&dir)?);
        let mut world = observe()?;
        match spec.root_array() {
            Some(place) => {
                let shared = shared(&dir, place, spec.interface());
                world.root_array = Some(shared.map_err(InstanceError::from)?);
            }
            None => checks.push(hook(&dir, spec)?),
        }
        if spec.mode() == Mode::Offload {
            checks.extend(card(spec)?);
        }
        // A hook has a check of its own above.
        checks.extend(machine(spec, world));
        Ok(Self::new(object.into(), checks))
    }

    fn new(object: String, checks: Vec<DoctorCheck>) -> Self {
        Self {
            schema: DoctorSchema::V1,
            object,
            result: checks
                .iter()
                .map(|check| check.result)
                .max()
                .unwrap_or(CheckResult::Ok),
            checks,
        }
    }
}

/// Whether the interface is free for the program of this instance.
fn hook(dir: &StateDir, spec: &Spec) -> Result<DoctorCheck, InstanceError> {
    let code = FindingCode::ForeignProgram;
    let (result, message) = match refuse_occupied(dir, spec.interface()) {
        Ok(()) => (CheckResult::Ok, code.sound().to_owned()),
        Err(error @ AttachError::Occupied { .. }) => (CheckResult::Error, error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let remedy = "take it off if it is not needed, or use another interface".to_owned();
    Ok(DoctorCheck {
        code: code.to_string(),
        object: spec.interface().to_string(),
        result,
        message,
        remedy: Some(remedy).filter(|_| result == CheckResult::Error),
    })
}

/// What stands against it that the interface's card runs the program; none where there is no such
/// interface.
fn card(spec: &Spec) -> Result<Vec<DoctorCheck>, InstanceError> {
    let check = |result, message: String| DoctorCheck {
        code: "offload".to_owned(),
        object: spec.interface().to_string(),
        result,
        message,
        remedy: None,
    };
    let offload = match InterfaceProbe::of(spec.interface()) {
        Ok(probe) => probe.offload,
        Err(AttachError::NoInterface { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if offload.blockers.is_empty() {
        let message = "nothing but a load that succeeds proves that the card takes the program";
        return Ok(vec![check(CheckResult::Unknown, message.to_owned())]);
    }
    let blockers = offload.blockers.into_iter().map(|blocker| DoctorCheck {
        remedy: Some("use another mode, or an interface of a card that runs programs".to_owned()),
        ..check(CheckResult::Error, blocker)
    });
    Ok(blockers.collect())
}

/// The checks of the machine for a specification.
fn machine(spec: &Spec, world: World) -> Vec<DoctorCheck> {
    let checks = preflight(spec, &world).into_iter();
    checks.map(DoctorCheck::from).collect()
}

/// What processes that died while they made or removed the instance have left behind.
fn leftovers(dir: &StateDir) -> Result<Vec<DoctorCheck>, InstanceError> {
    let paths = dir.leftovers()?.into_iter();
    let checks = paths.map(|path| DoctorCheck {
        remedy: Some(format!("detach {} --purge", dir.instance())),
        ..DoctorCheck::new(
            FindingCode::Leftover,
            path.display(),
            CheckResult::Warning,
            "left behind by a process that died while it made or removed the instance",
        )
    });
    Ok(checks.collect())
}

fn attached(status: &Status) -> DoctorCheck {
    let check = |result, message: &str| DoctorCheck {
        code: "attached".to_owned(),
        object: status.instance_id.to_string(),
        result,
        message: message.to_owned(),
        remedy: None,
    };
    match status.health {
        Health::Detached => DoctorCheck {
            remedy: Some(APPLY.to_owned()),
            ..check(
                CheckResult::Warning,
                "detached: the program is on no interface",
            )
        },
        _ => check(CheckResult::Ok, "the program is on an interface"),
    }
}

fn has(status: &Status, code: FindingCode) -> bool {
    status.findings.iter().any(|finding| finding.code == code)
}

/// Why nobody looked for this; none if somebody did.
fn unseen(code: FindingCode, status: &Status, live: bool) -> Option<&'static str> {
    if has(status, FindingCode::OtherNamespace) && code.needs_interfaces() {
        Some("the interfaces are in another network namespace")
    } else if !live && code.needs_generation() {
        Some("no generation to go by")
    } else if status.health == Health::Detached && code.needs_attachment() {
        Some("the program is on no interface")
    } else {
        None
    }
}

impl DoctorCheck {
    fn new(
        code: FindingCode,
        object: impl ToString,
        result: CheckResult,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code: code.to_string(),
            object: object.to_string(),
            result,
            message: message.into(),
            remedy: None,
        }
    }
}

impl From<&Finding> for DoctorCheck {
    fn from(finding: &Finding) -> Self {
        Self {
            code: finding.code.to_string(),
            object: finding.object.clone(),
            result: match finding.severity {
                Severity::Warning => CheckResult::Warning,
                Severity::Error => CheckResult::Error,
            },
            message: finding.message.clone(),
            remedy: finding.remedy.clone(),
        }
    }
}

impl From<Check> for DoctorCheck {
    fn from(check: Check) -> Self {
        Self {
            code: check.code.to_string(),
            object: check.object,
            result: check.result,
            message: check.message,
            remedy: check.remedy,
        }
    }
}
