// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A plan that was written to a file: read back, and compared with the same plan made again.
//!
//! Only the specification, the base and what was confirmed are acted on. Everything else in the
//! file follows from these and the machine, so it is made again and must come out the same: what
//! was read before the plan was applied is what becomes of it.

use serde::Deserialize;
use serde_json::Value;

use super::document::{Base, Change, Options, PlanDocument, PlanResult};
use super::Plan;
use crate::service::{Fault, FaultCode, Faults, Spec};

/// A plan as read back from a file: what it takes to make it again and to see that it is the same.
#[derive(Debug, Clone)]
pub struct PlanFile {
    /// What was wanted.
    pub spec: Spec,
    /// The generation it was made against.
    pub base: Option<Base>,
    /// What its maker confirmed.
    pub options: Options,
    /// Whether it was made without asking any machine.
    pub offline: bool,
    /// What it said would become of the tables.
    outcome: Outcome,
}

impl PlanFile {
    /// Whether these bytes are a plan and not a specification: whether they say so.
    pub fn recognises(bytes: &[u8]) -> bool {
        serde_json::from_slice::<Value>(bytes)
            .is_ok_and(|value| value.get("schema").is_some_and(Value::is_string))
    }

    /// Reads what [`Plan::to_file`] wrote.
    ///
    /// # Errors
    /// What is wrong with it; a plan that was printed lacks its secrets and says so.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Faults> {
        let form = |pointer: &str, message: &str| {
            Faults::from(Fault::new(pointer, FaultCode::Type, message))
        };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            let message = format!("line {} column {}: {error}", error.line(), error.column());
            Faults::from(Fault::new("", FaultCode::Json, message))
        })?;
        if value.get("schema").and_then(Value::as_str) != Some("guideway.quiclb.plan/v1") {
            return Err(form("/schema", "must be \"guideway.quiclb.plan/v1\""));
        }
        let member = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
        let read = |name: &str| {
            let pointer = format!("/{name}");
            move |error: serde_json::Error| form(&pointer, &error.to_string())
        };
        let spec = member("spec");
        if spec.get("hash_seed") == Some(&Value::Null) {
            return Err(form(
                "/spec/hash_seed",
                "is not in this plan: it was printed; apply the file that plan writes",
            ));
        }
        let spec = Spec::from_json(spec.to_string().as_bytes()).map_err(|faults| {
            let moved = faults.into_iter().map(|fault| {
                Fault::new(format!("/spec{}", fault.pointer), fault.code, fault.message)
            });
            Faults::check(moved.collect())
                .err()
                .unwrap_or_else(|| form("/spec", "is not valid"))
        })?;
        let options = match member("options") {
            Value::Null => Options::default(),
            options => serde_json::from_value(options).map_err(read("options"))?,
        };
        contradictions(&spec, &value)?;
        Ok(Self {
            base: serde_json::from_value(member("base")).map_err(read("base"))?,
            options,
            offline: member("ifindex").is_null(),
            outcome: Outcome::read(&value)?,
            spec,
        })
    }

    /// Where the file foretells something else than `plan`, as a JSON pointer; nowhere as long as
    /// the machine and what is live are those that the file was made for.
    pub fn difference(&self, plan: &Plan) -> Option<String> {
        self.outcome.difference(&Outcome::of(plan.document()))
    }
}

/// Insists that what the file repeats of its specification is what that says.
fn contradictions(spec: &Spec, file: &Value) -> Result<(), Faults> {
    let repeated = [
        ("instance_id", spec.instance_id().to_string()),
        ("interface", spec.interface().to_string()),
        ("mode", spec.mode().to_string()),
        ("digest", spec.digest().to_string()),
    ];
    let faults = repeated.into_iter().filter_map(|(name, said)| {
        let found = file.get(name).unwrap_or(&Value::Null);
        let message = format!("is {found}, that of the specification in this plan is \"{said}\"");
        (found.as_str() != Some(&said))
            .then(|| Fault::new(format!("/{name}"), FaultCode::Conflict, message))
    });
    Faults::check(faults.collect())
}

/// What a plan foretells of packets' ways.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Outcome {
    ifindex: Option<u32>,
    result: PlanResult,
    services: Vec<ServiceOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ServiceOutcome {
    service_id: u32,
    change: Change,
    table: TableOutcome,
    disruption: Moves,
    backends: Vec<BackendOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct TableOutcome {
    size: u32,
    digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Moves {
    slots_moved: u32,
    slots_forced: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct BackendOutcome {
    id: u32,
    row: u16,
    incarnation: u32,
    ifindex: Option<u32>,
    slots: u32,
    change: Change,
}

impl Outcome {
    fn read(file: &Value) -> Result<Self, Faults> {
        Self::deserialize(file).map_err(|error| {
            let message = format!("is no plan that was written by plan: {error}");
            Fault::new("", FaultCode::Type, message).into()
        })
    }

    fn of(document: &PlanDocument) -> Self {
        let services = document.services.iter().map(|service| ServiceOutcome {
            service_id: service.service_id,
            change: service.change,
            table: TableOutcome {
                size: service.table.size,
                digest: service.table.digest.clone(),
            },
            disruption: Moves {
                slots_moved: service.disruption.slots_moved,
                slots_forced: service.disruption.slots_forced,
            },
            backends: service
                .backends
                .iter()
                .map(|backend| BackendOutcome {
                    id: backend.id,
                    row: backend.row,
                    incarnation: backend.incarnation,
                    ifindex: backend.ifindex,
                    slots: backend.slots,
                    change: backend.change,
                })
                .collect(),
        });
        Self {
            ifindex: document.ifindex,
            result: document.result,
            services: services.collect(),
        }
    }

    /// Pointer to the first member that differs.
    fn difference(&self, made: &Self) -> Option<String> {
        if self.ifindex != made.ifindex {
            return Some("/ifindex".into());
        }
        // Between the other two time alone decides, as windows end, if everything else is the same.
        if (self.result == PlanResult::Create) != (made.result == PlanResult::Create) {
            return Some("/result".into());
        }
        if self.services.len() != made.services.len() {
            return Some("/services".into());
        }
        let mut services = self.services.iter().zip(&made.services).enumerate();
        services.find_map(|(index, (said, made))| {
            Some(format!("/services/{index}{}", said.difference(made)?))
        })
    }
}

impl ServiceOutcome {
    fn difference(&self, made: &Self) -> Option<String> {
        let members = [
            ("/service_id", self.service_id == made.service_id),
            ("/change", self.change == made.change),
            ("/table", self.table == made.table),
            ("/disruption", self.disruption == made.disruption),
            ("/backends", self.backends.len() == made.backends.len()),
        ];
        if let Some((name, _)) = members.into_iter().find(|(_, same)| !same) {
            return Some(name.into());
        }
        let backends = self.backends.iter().zip(&made.backends);
        let differs = |(said, made): (&BackendOutcome, &BackendOutcome)| said != made;
        let index = backends.into_iter().position(differs)?;
        Some(format!("/backends/{index}"))
    }
}
