// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Specifications, plans that follow each other, and what can be read from them.

use guideway::affinity::rules::{Slot, SlotKind};
use guideway::affinity::MarkCount;
use guideway::plan::{plan, Device, Disruption, Live, Options, Plan, PlanResult, World};
use guideway::service::{Faults, Spec};
use serde_json::{json, Value};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// A flow of the services here may be silent for two minutes; slots stay open for two seconds more.
pub(crate) const WINDOW: u64 = 122;
/// By how much at most a window is longer, because openings are rounded.
pub(crate) const GRID: u64 = WINDOW / 64 + 1;

pub(crate) fn world_at(seconds: u64) -> World {
    let device = |name: &str, index| {
        let mac = "02:ff:00:00:00:01".parse().expect("an address");
        Device::new(name.parse().expect("a name"), index, Some(mac), 1500)
    };
    let devices = vec![device("edge0", 3), device("lo", 1)];
    World::new(devices, Vec::new(), seconds * SECOND)
}

pub(crate) fn backend(id: u32) -> Value {
    json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"})
}

pub(crate) fn backends(ids: impl IntoIterator<Item = u32>) -> Value {
    ids.into_iter().map(backend).collect()
}

/// The backends 1 to `count`, of which one has another member.
pub(crate) fn with_one(count: u32, id: u32, name: &str, value: Value) -> Value {
    let mut all = backends(1..=count);
    all[id as usize - 1][name] = value;
    all
}

/// An instance with these services: backends and other members.
pub(crate) fn instance(services: &[(Value, Value)]) -> Spec {
    instance_with(services, json!({}))
}

pub(crate) fn instance_with(services: &[(Value, Value)], members: Value) -> Spec {
    let services: Vec<Value> = (1..)
        .zip(services)
        .map(|(port, (backends, members))| {
            let mut service = json!({
                "name": format!("s{port}"), "vip": "203.0.113.80", "port": port, "protocol": "tcp",
                "maglev_table_size": 4093, "flow_idle": "2m", "backends": backends,
            });
            merge(&mut service, members);
            service
        })
        .collect();
    let mut document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
        "services": services,
    });
    merge(&mut document, &members);
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn merge(object: &mut Value, members: &Value) {
    for (name, value) in members.as_object().expect("an object") {
        object[name] = value.clone();
    }
}

/// One TCP service that tracks exceptions.
pub(crate) fn spec(backends: Value) -> Spec {
    instance(&[(backends, json!({}))])
}

pub(crate) fn plan_at(live: Option<&Live>, spec: &Spec, seconds: u64) -> Plan {
    plan(live, spec, &world_at(seconds), Options::default())
        .unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn refused(live: &Live, spec: &Spec, seconds: u64) -> Faults {
    plan(Some(live), spec, &world_at(seconds), Options::default()).expect_err("refused")
}

/// The first publication of `spec`, one second after boot.
pub(crate) fn published(spec: &Spec) -> Live {
    plan_at(None, spec, 1).as_live(1)
}

/// The words of the first service's slots, with ids of backends instead of rows: owner and kind.
pub(crate) fn words(plan: &Plan) -> Vec<(Option<u32>, Kind)> {
    let service = &plan.generation().services[0];
    let id = |row: u16| service.backend(row).map(|backend| backend.id.get());
    let word = |word: &guideway::abi::Slot| {
        let slot = Slot::from_abi(*word);
        let kind = match slot.kind {
            SlotKind::Plain => Kind::Plain,
            SlotKind::Held => Kind::Held,
            SlotKind::Open { base } => Kind::Open(id(base).expect("the base is a backend")),
        };
        (slot.owner.and_then(id), kind)
    };
    service.slots.iter().map(word).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Held,
    Open(u32),
}

pub(crate) fn owners(plan: &Plan) -> Vec<Option<u32>> {
    words(plan).into_iter().map(|(owner, _)| owner).collect()
}

pub(crate) fn marks(plan: &Plan) -> MarkCount {
    guideway::affinity::count_marks(&plan.generation().services[0].slots)
}

pub(crate) fn disruption(plan: &Plan) -> Disruption {
    plan.document().services[0].disruption
}

pub(crate) fn result(plan: &Plan) -> PlanResult {
    plan.document().result
}

pub(crate) fn id(spec: &Spec) -> u32 {
    spec.services()[0].id.get()
}

/// What the rules say of slots that were plain, from the two tables alone: a slot opens if its
/// owner changes, unless nobody's flows depend on the owner before.
pub(crate) fn expected(
    before: &[Option<u32>],
    after: &[Option<u32>],
    removed: &[u32],
) -> Vec<Kind> {
    let kind = |(old, new): (&Option<u32>, &Option<u32>)| match old {
        Some(id) if old != new && !removed.contains(id) => Kind::Open(*id),
        _ => Kind::Plain,
    };
    before.iter().zip(after).map(kind).collect()
}

pub(crate) fn kinds(plan: &Plan) -> Vec<Kind> {
    words(plan).into_iter().map(|(_, kind)| kind).collect()
}
