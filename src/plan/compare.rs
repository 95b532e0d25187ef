// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What moves between two specifications, wherever and whenever they are applied.

use serde::Serialize;

use super::disruption::Disruption;
use super::document::{Change, PlanDocument};
use super::place::Tables;
use crate::service::{Faults, Spec};

/// What becomes of one service and its flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ServiceDisruption {
    /// The service's name.
    pub name: String,
    /// Its number.
    pub service_id: u32,
    /// What becomes of it.
    pub change: Change,
    /// What becomes of its flows.
    #[serde(flatten)]
    pub disruption: Disruption,
}

impl PlanDocument {
    /// What the plan does to each service.
    pub fn disruption(&self) -> Vec<ServiceDisruption> {
        let services = self.services.iter().map(|service| ServiceDisruption {
            name: service.name.clone(),
            service_id: service.service_id,
            change: service.change,
            disruption: service.disruption,
        });
        services.collect()
    }
}

/// What a change from `before` to `after` does to each service of either: those of `after` in the
/// order of their names, then those that go. The tables alone decide, so no machine is asked.
///
/// # Errors
/// A table cannot be built.
pub fn compare(before: &Spec, after: &Spec) -> Result<Vec<ServiceDisruption>, Faults> {
    let mut tables = Tables::default();
    let mut services = Vec::new();
    for service in after.services() {
        let old = before.services().iter().find(|old| old.id == service.id);
        let change = match old {
            None => Change::Added,
            Some(old) if old == service => Change::Unchanged,
            Some(_) => Change::Changed,
        };
        let old = old.map(|old| tables.anywhere(old)).transpose()?;
        let new = tables.anywhere(service)?;
        services.push(ServiceDisruption {
            name: service.name.clone(),
            service_id: service.id.get(),
            change,
            disruption: Disruption::between(old.as_deref(), Some(&new)),
        });
    }
    for service in before.services() {
        if after.services().iter().any(|new| new.id == service.id) {
            continue;
        }
        let old = tables.anywhere(service)?;
        services.push(ServiceDisruption {
            name: service.name.clone(),
            service_id: service.id.get(),
            change: Change::Removed,
            disruption: Disruption::between(Some(&old), None),
        });
    }
    Ok(services)
}
