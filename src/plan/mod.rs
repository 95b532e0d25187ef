// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a specification to everything that a publication needs, without touching any machine.
//!
//! [`plan`] is a pure function of what is live, what is wanted and what the machine offers: the
//! same three give the same plan, byte for byte. A [`Plan`] says what will move before anything
//! does ([`PlanDocument`]), and holds the [`Generation`] that the kernel will be given as an
//! [`Image`].

mod assign;
mod capacity;
mod checks;
mod compare;
mod disruption;
mod document;
mod file;
mod generation;
mod image;
mod place;
mod preflight;
mod record;
mod warnings;
mod world;

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{to_raw_value, RawValue};

pub use capacity::{room_cells, Capacity, MemoryUse, PredictedUse, Use};
pub use compare::{compare, ServiceDisruption};
pub use disruption::Disruption;
pub use document::{
    BackendPlan, Base, Change, ConfigPlan, Options, PlanDocument, PlanResult, PlanSchema,
    ServicePlan, TablePlan,
};
pub use file::PlanFile;
pub use generation::{Generation, PlacedBackend, PlacedServerId, PlacedService};
pub use image::{Image, ImageError};
pub(crate) use preflight::reach;
pub use preflight::{ifindex_drift, preflight, Check, CheckCode, CheckResult};
pub use record::{Live, RecordError};
pub(crate) use record::{Record, RecordSchema, SpecText};
pub use world::{Device, Hook, Peer, World};

use crate::quic::lb::Key;
use crate::service::{Faults, Spec};
use place::{place, Tables};

/// Everything that a publication needs, and what it will do.
#[derive(Debug, Clone)]
pub struct Plan {
    document: PlanDocument,
    generation: Generation,
    record: Record,
}

/// Plans the change from `live`, which is nothing on a new instance, to `spec`.
///
/// # Errors
/// Everything about this machine and what is live that stands against it, at once; the
/// specification itself is valid already.
pub fn plan(
    live: Option<&Live>,
    spec: &Spec,
    world: &World,
    options: Options,
) -> Result<Plan, Faults> {
    let mut faults = checks::kernel(spec);
    faults.extend(checks::interfaces(spec, world));
    faults.extend(
        live.map(|live| checks::continuity(live, spec, options))
            .unwrap_or_default(),
    );
    let mut assigned = assign::assign(live, spec, options, world.boot_ns);
    faults.append(&mut assigned.faults);
    Faults::check(faults)?;

    place::resolve(&mut assigned.services, spec, world);
    let mut tables = Tables::default();
    let before = live
        .map(|live| {
            let spec = Arc::new(live.spec.clone());
            place(
                spec,
                live.number(),
                &live.record.services,
                &live.record.quarantine,
                &mut tables,
            )
        })
        .transpose()?;
    let shared = Arc::new(spec.clone());
    let generation = place(
        shared,
        0,
        &assigned.services,
        &assigned.quarantine,
        &mut tables,
    )?;

    let layout = image::Layout::of(&generation).map_err(checks::image)?;
    let room = live.map_or_else(|| room_cells(spec.limits()), |live| live.room_cells);
    let capacity = capacity::capacity(&generation, &layout, room, before.as_ref());
    Faults::check(capacity.faults(&generation))?;

    let mut warnings = spec.warnings();
    warnings.append(&mut assigned.warnings);
    warnings.extend(warnings::warnings(live, &generation, world));
    let ifindex = world.device(spec.interface()).map(|device| device.index);
    let digest = spec.digest().to_string();
    let services = document::services(before.as_ref(), &generation);
    let record = Record {
        schema: RecordSchema::V1,
        number: 0,
        digest: digest.clone(),
        spec: SpecText(String::from_utf8_lossy(&spec.to_canonical_json()).into_owned()),
        published_ns: 0,
        published_unix: 0,
        ifindex: ifindex.unwrap_or(0),
        services: assigned.services,
        tables: services.iter().filter_map(document::table_record).collect(),
        retired: assigned.retired,
        quarantine: assigned.quarantine,
        folds: assigned.folds,
    };
    let result = match (live, &before) {
        (Some(live), Some(before))
            if live.record.says_the_same(&record, world.boot_ns)
                && before.has_server_ids_of(&generation) =>
        {
            PlanResult::Unchanged
        }
        (Some(_), _) => PlanResult::Change,
        (None, _) => PlanResult::Create,
    };
    let document = PlanDocument {
        schema: PlanSchema::V1,
        instance_id: spec.instance_id().to_string(),
        interface: spec.interface().clone(),
        ifindex,
        mode: spec.mode(),
        digest,
        base: live.map(Live::base),
        result,
        spec: raw(&spec.redacted(Key::kcv)),
        services,
        capacity,
        preflight: preflight(spec, world),
        warnings,
        options,
    };
    Ok(Plan {
        document,
        generation,
        record,
    })
}

impl Plan {
    /// What the plan says, without secrets.
    pub fn document(&self) -> &PlanDocument {
        &self.document
    }

    /// What packets will see; its number is 0 until it is published.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The specification it fulfils.
    pub fn spec(&self) -> &Spec {
        &self.generation.spec
    }

    /// Whether it was made without asking any machine, and therefore cannot be applied.
    pub fn is_offline(&self) -> bool {
        self.document.ifindex.is_none()
    }

    /// The document with its secrets, for a file that only its owner may read: enough to make the
    /// same plan again.
    pub fn to_file(&self) -> Vec<u8> {
        let mut document = self.document.clone();
        document.spec = raw(&RawValue::from_string(self.record.spec.0.clone()).ok());
        // Plain data with text keys always serialises.
        serde_json::to_vec_pretty(&document).unwrap_or_default()
    }

    /// What would be live if this were published now: to plan the change after it without a
    /// kernel.
    pub fn as_live(&self, number: u64) -> Live {
        let record = Record {
            number,
            ..self.record.clone()
        };
        let incarnation_mark = record.highest_incarnation();
        Live {
            record,
            spec: self.spec().clone(),
            incarnation_mark,
            room_cells: u32::try_from(self.document.capacity.cells.limit).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }
}

/// The JSON text of a value that cannot fail to have one: plain data with text keys.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
