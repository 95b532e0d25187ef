// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Everything that can be checked about an instance, or about a specification before it is applied:
//! what is fine as well as what is not.

use serde::Serialize;

use super::apply::plan_here;
use super::attachment::refuse_occupied;
use super::error::{InstanceError, PlanError};
use super::finding::{FindingCode, Severity};
use super::instance::QuicLb;
use super::observe::observe;
use super::status::Status;
use crate::kernel::attach::AttachError;
use crate::kernel::statedir::{StateDir, StateRoot};
use crate::plan::{preflight, Check, CheckResult, Options};
use crate::service::Spec;

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
        let status = Status::of(dir)?;
        let mut checks: Vec<_> = status
            .findings
            .iter()
            .map(|finding| DoctorCheck {
                code: finding.code.to_string(),
                object: finding.object.clone(),
                result: match finding.severity {
                    Severity::Warning => CheckResult::Warning,
                    Severity::Error => CheckResult::Error,
                },
                message: finding.message.clone(),
                remedy: finding.remedy.clone(),
            })
            .collect();
        let object = dir.instance().to_string();
        let found = |code| status.findings.iter().any(|finding| finding.code == code);
        for &code in FindingCode::ALL {
            if !found(code) {
                // What needs a generation to be looked at was not, where there is none.
                let looked = status.generation.is_some() || !code.needs_generation();
                checks.push(DoctorCheck {
                    code: code.to_string(),
                    object: object.clone(),
                    result: if looked {
                        CheckResult::Ok
                    } else {
                        CheckResult::Unknown
                    },
                    message: if looked {
                        code.sound()
                    } else {
                        "no generation to go by"
                    }
                    .into(),
                    remedy: None,
                });
            }
        }
        if status.generation.is_some() {
            if let Some(live) = QuicLb::open(dir)?.live_record()? {
                checks.extend(machine(live.spec())?);
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
        checks.push(hook(&root.quiclb(spec.instance_id()), spec)?);
        checks.extend(machine(spec)?);
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

/// The checks of the machine for a specification.
fn machine(spec: &Spec) -> Result<Vec<DoctorCheck>, crate::kernel::SysError> {
    let world = observe()?;
    let checks = preflight(spec, &world).into_iter();
    Ok(checks.map(DoctorCheck::from).collect())
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
