// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What moves between two specifications, wherever and whenever they are applied.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::disruption::Disruption;
use super::document::{Change, PlanDocument};
use super::place::Tables;
use super::transition::default_window_ns;
use crate::affinity::{advance, SlotChange, Slots};
use crate::id::BackendId;
use crate::maglev::Table;
use crate::service::{Faults, Service, Spec};

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
/// order of their names, then those that go. The tables alone decide, so no machine is asked, and
/// nothing is known of flows or of earlier changes.
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
        let rows = Rows::of(old, Some(service));
        let new_table = rows.table(service, &mut tables)?;
        let old = old.map(|old| Ok::<_, Faults>((old, rows.table(old, &mut tables)?)));
        let old = old.transpose()?;
        let table = old.as_ref().map(|(_, table)| &**table);
        let mut disruption = Disruption::between(table, Some(&new_table));
        let goes = |old: &Service| {
            let mut backends = old.backends.iter();
            backends.any(|old| service.backend(old.id).is_none())
        };
        disruption.bindings_lost = old.as_ref().is_none_or(|(old, _)| !goes(old)).then_some(0);
        let rehashed =
            |old: &Service| before.hash_seed() != after.hash_seed() || old.hash != service.hash;
        match &old {
            Some((old, table)) if !rehashed(old) => {
                rows.mark((old, table), (service, &new_table), &mut disruption);
            }
            _ => {}
        }
        services.push(ServiceDisruption {
            name: service.name.clone(),
            service_id: service.id.get(),
            change,
            disruption,
        });
    }
    for service in before.services() {
        if after.services().iter().any(|new| new.id == service.id) {
            continue;
        }
        let old = Rows::of(Some(service), None).table(service, &mut tables)?;
        services.push(ServiceDisruption {
            name: service.name.clone(),
            service_id: service.id.get(),
            change: Change::Removed,
            disruption: Disruption::between(Some(&old), None),
        });
    }
    Ok(services)
}

/// Rows for the backends of two specifications of a service; who is in both has one.
struct Rows(BTreeMap<BackendId, u16>);

impl Rows {
    fn of(before: Option<&Service>, after: Option<&Service>) -> Self {
        let services = before.into_iter().chain(after);
        let ids: BTreeSet<_> = services
            .flat_map(|service| service.backends.iter().map(|backend| backend.id))
            .collect();
        // The specification allows fewer backends than half the values of a row.
        Self(ids.into_iter().zip(0..).collect())
    }

    fn row(&self, id: BackendId) -> u16 {
        self.0.get(&id).copied().unwrap_or(u16::MAX)
    }

    fn table(
        &self,
        service: &Service,
        tables: &mut Tables,
    ) -> Result<std::sync::Arc<Table<u16>>, Faults> {
        tables.with_rows(service, |id| self.row(id))
    }

    /// The slots that open, and for how long, if nothing is marked before.
    fn mark(
        &self,
        (old, before): (&Service, &Table<u16>),
        (new, after): (&Service, &Table<u16>),
        disruption: &mut Disruption,
    ) {
        let gone = old
            .backends
            .iter()
            .filter(|old| new.backend(old.id).is_none());
        let window_ns = default_window_ns(old).max(default_window_ns(new));
        let slots = advance(
            &Slots::plain(before.slots()),
            &SlotChange {
                owners: after.slots(),
                removed: &gone.map(|gone| self.row(gone.id)).collect(),
                now_ns: 0,
                returned_ns: None,
                window_ns,
                refused_ns: None,
                differing: None,
                before: old.tracking,
                after: new.tracking,
            },
        );
        let marked = slots.count();
        disruption.slots_open = marked.open;
        disruption.slots_held = marked.held;
        if marked.open > 0 {
            disruption.window_seconds = window_ns.div_ceil(1_000_000_000);
        }
    }
}
