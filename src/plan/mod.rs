// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a specification to everything that a publication needs, without touching any machine.
//!
//! [`plan`] is a pure function of what is live, what is wanted and what the machine offers: the
//! same three give the same plan, byte for byte. A [`Plan`] says what will move before anything
//! does ([`PlanDocument`]), and holds the [`Generation`] that the kernel will be given as an
//! [`Image`].

mod again;
mod assign;
mod capacity;
mod card;
mod cells;
mod checks;
mod compare;
mod contexts;
mod disruption;
mod document;
mod elements;
mod file;
mod forecast;
mod generation;
mod image;
mod live;
mod marks;
mod place;
mod preflight;
mod record;
mod transition;
mod warnings;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{to_raw_value, RawValue};

pub(crate) use again::plan_again;
pub use capacity::{room_cells, Capacity, MemoryUse, PredictedUse, Use};
pub(crate) use card::lacks;
pub use card::{CardUse, Lack};
pub(crate) use cells::measure;
pub use compare::{compare, ServiceDisruption};
pub use contexts::PlacedContext;
pub use disruption::Disruption;
pub use document::{
    BackendPlan, Base, Change, ConfigPlan, Options, PlanDocument, PlanResult, PlanSchema,
    ServicePlan, TablePlan,
};
pub use elements::Elements;
pub use file::PlanFile;
pub use generation::{Generation, PlacedBackend, PlacedServerId, PlacedService};
pub use image::{Image, ImageError};
pub use live::{FlowState, Live, ServiceFlowState, ServiceSweep};
pub(crate) use place::looks_for_exact;
pub(crate) use preflight::reach;
pub use preflight::{ifindex_drift, preflight, Check, CheckCode, CheckResult};
pub use record::RecordError;
pub(crate) use record::{Record, RecordSchema, ServiceRecord, SpecText};
pub use world::{Decryption, Device, Hook, Peer, Place, Shared, World};

use crate::affinity::Slots;
use crate::quic::lb::Key;
use crate::service::{Faults, Spec};
use assign::Assignment;
use forecast::Forecast;
use image::Layout;
use marks::Marks;
use place::{place, Placed, Tables};
use transition::Transition;

/// Everything that a publication needs, and what it will do.
#[derive(Debug, Clone)]
pub struct Plan {
    document: PlanDocument,
    generation: Generation,
    record: Record,
    /// The world's monotonic clock.
    now_ns: u64,
    /// The services of which some window ends, and how long it was.
    closes: BTreeMap<u32, u64>,
    /// What marks that could go would need to go, if there is no room for that.
    held_back: Option<Use>,
    /// Indices that interfaces had which are not there.
    absent: BTreeSet<u32>,
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
    let mut faults = checks::kernel(spec, world);
    faults.extend(card::faults(spec));
    faults.extend(checks::interfaces(spec, world));
    let mut assigned = assign::assign(live, spec, options, world);
    faults.append(&mut assigned.faults);
    let has_places = faults.is_empty();
    faults.extend(live.map_or_else(Vec::new, |live| {
        checks::continuity(live, spec, world, options)
    }));
    if !has_places {
        Faults::check(faults)?;
        faults = Vec::new();
    }

    place::resolve(&mut assigned.services, spec, world);
    let mut tables = Tables::default();
    let before = live.map(|live| placed(live, &mut tables)).transpose()?;
    let room = live.map_or_else(|| room_cells(spec.limits()), |live| live.room_cells);
    let change = live.zip(before.as_ref()).map(|(live, before)| Transition {
        live,
        before,
        spec,
        world,
        hold_back: false,
    });
    let (mut after, layout, held_back) = place_anew(change, spec, &assigned, room, &mut tables)?;
    faults.extend(change.map_or_else(Vec::new, |change| {
        let mut faults = change.open_slots(&after, &assigned.services, options);
        faults.extend(change.too_early(&after, options));
        faults
    }));
    keep_marks(&mut after, &mut assigned.services, world);
    let closes = change.map(|change| change.closes(&after, &assigned.services));
    let highest = assigned.highest_incarnation();
    let mark = live.map_or(0, |live| live.incarnation_mark).max(highest);
    after.generation.contexts = contexts::assign(live, spec, mark)?;

    let mut services = document::services(
        before.as_ref().map(|before| &before.generation),
        &after.generation,
    );
    Forecast {
        live,
        before: before.as_ref(),
        after: &after,
        spec,
        records: &assigned.services,
        world,
    }
    .complete(
        services
            .iter_mut()
            .map(|service| (service.service_id, &mut service.disruption)),
    );
    let capacity = capacity::capacity(
        &after.generation,
        &layout,
        room,
        live,
        before.as_ref(),
        &services,
    );
    faults.extend(capacity.faults(&after.generation, live, world));
    Faults::check(faults)?;

    let generation = after.generation;
    let mut warnings = spec.warnings();
    warnings.append(&mut assigned.warnings);
    warnings.extend(warnings::warnings(live, &generation, world));
    warnings.extend(capacity.warning());
    let ifindex = world.device(spec.interface()).map(|device| device.index);
    let digest = spec.digest().to_string();
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
        contexts: generation.contexts.iter().map(Into::into).collect(),
    };
    let result = match (live, &before) {
        (Some(live), Some(before))
            if live.record.says_the_same(&record, world.boot_ns)
                && before.generation.has_ids_and_slots_of(&generation) =>
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
        lacks: card::lacks(spec.mode()),
        preflight: preflight(spec, world),
        warnings,
        options,
    };
    Ok(Plan {
        document,
        generation,
        record,
        now_ns: world.monotonic_ns,
        closes: closes.unwrap_or_default(),
        held_back,
        absent: BTreeSet::new(),
    })
}

/// The live generation, built again from its record.
fn placed(live: &Live, tables: &mut Tables) -> Result<Placed, Faults> {
    place(
        Arc::new(live.spec.clone()),
        live.number(),
        &live.record.services,
        &live.record.quarantine,
        tables,
        |_, record, owners| record.marks.restore(owners),
    )
}

/// What is wanted in the places that were given to it, and its layout. Marks that could go stay if
/// the cells of the instance, `room`, do not suffice otherwise: services whose slots are alike share
/// them, and would no longer. Then it also says how many are needed.
fn place_anew(
    change: Option<Transition<'_>>,
    spec: &Spec,
    assigned: &Assignment,
    room: u32,
    tables: &mut Tables,
) -> Result<(Placed, Layout, Option<Use>), Faults> {
    let spec = Arc::new(spec.clone());
    let mut build = |change: Option<Transition<'_>>| {
        let slots = |service: &_, record: &_, owners: &[u16]| {
            Ok(match &change {
                Some(change) => change.slots(service, record, owners),
                None => Slots::plain(owners),
            })
        };
        let (records, quarantine) = (&assigned.services, &assigned.quarantine);
        let placed = place(spec.clone(), 0, records, quarantine, tables, slots)?;
        let layout = Layout::of(&placed.generation).map_err(checks::image)?;
        Ok::<_, Faults>((placed, layout))
    };
    let (placed, layout) = build(change)?;
    match change {
        Some(change) if layout.cells > room as usize => {
            let needed = Use {
                used: layout.cells as u64,
                limit: room.into(),
            };
            let (placed, layout) = build(Some(Transition {
                hold_back: true,
                ..change
            }))?;
            Ok((placed, layout, Some(needed)))
        }
        _ => Ok((placed, layout, None)),
    }
}

/// Puts into the record what the next plan must know of the slots, and lets a handshake grace begin
/// where slots open.
fn keep_marks(after: &mut Placed, records: &mut [ServiceRecord], world: &World) {
    let services = after.generation.spec.services();
    let placed = after.generation.services.iter_mut().zip(&after.slots);
    for ((service, (placed, slots)), record) in services.iter().zip(placed).zip(records) {
        record.marks = Marks::of(slots);
        if record.marks.opens() {
            record.begin_grace(service, world.monotonic_ns);
            placed.grace_until_ns = record.grace_until_ns;
        }
    }
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

    /// What would be live if this had been published as generation `number`, and had returned, when
    /// it was planned: to plan the change after it without a kernel.
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
            exact: BTreeSet::new(),
            flow_state: FlowState {
                returned_ns: Some(self.now_ns),
                ..FlowState::default()
            },
        }
    }

    /// The services of which some window ends with it, each with the time for which no insert may
    /// have been refused, in nanoseconds.
    pub(crate) fn closes(&self) -> &BTreeMap<u32, u64> {
        &self.closes
    }

    /// Why marks stay that could go, in words; none if none does.
    pub(crate) fn held_back(&self) -> Option<String> {
        self.held_back.map(capacity::cells_text)
    }

    /// Indices in it that belong to no interface: nothing is redirected to them, even if there is one
    /// with such an index by then.
    pub(crate) fn absent(&self) -> &BTreeSet<u32> {
        &self.absent
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }
}

/// The JSON text of a value that cannot fail to have one: plain data with text keys.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
