// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Services with equal slots share them in the generation.

use std::collections::BTreeMap;
use std::sync::Arc;

use guideway::affinity::SlotSet;
use guideway::plan::{Image, Plan, PlanResult, ServiceSweep};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::support::*;

#[test]
fn services_with_equal_slots_share_them_through_changes() {
    let two = |ids: Value| instance(&[(ids.clone(), json!({})), (ids, json!({}))]);
    let shared = |plan: &Plan| {
        let services = &plan.generation().services;
        Arc::ptr_eq(&services[0].slots, &services[1].slots)
    };
    let live = published(&two(backends(1..=5)));
    let wanted = two(with_one(5, 2, "state", json!("draining")));
    let drained = plan_at(Some(&live), &wanted, 100);
    assert!(shared(&drained) && marks(&drained).open > 0);
    let closed = plan_at(Some(&drained.as_live(2)), &wanted, 300);
    assert!(shared(&closed) && marks(&closed).held > 0);
    let cells = Image::build(closed.generation()).expect("an image").cells();
    let live = closed.as_live(3).with_sweep(
        3,
        BTreeMap::from([(
            id(&wanted),
            ServiceSweep::new(1, 0, SlotSet::from_iter(0..4093)),
        )]),
    );
    let apart = plan_at(Some(&live), &wanted, 301);
    assert!(!shared(&apart));
    let more = Image::build(apart.generation()).expect("an image").cells() - cells;
    assert_eq!(more, 4093_u32.div_ceil(64));
}

#[test]
fn marks_stay_where_dropping_them_would_need_more_room_than_there_is() {
    // 24 services of 65,537 slots in an instance with room for the tables of four of them.
    let members = json!({"maglev_table_size": 65537});
    let services = |ids: Value| -> Spec {
        let services: Vec<_> = (0..24).map(|_| (ids.clone(), members.clone())).collect();
        instance_with(
            &services,
            json!({"limits": {"memory_mib": 24, "flows": 1024, "cids": 1024}}),
        )
    };
    let live = published(&services(backends(1..=5)));
    let wanted = services(with_one(5, 2, "state", json!("draining")));
    let drained = plan_at(Some(&live), &wanted, 100);
    let mut live = drained.as_live(2);
    // Each service is refused at another time, so that each would close at another.
    for (service, seconds) in wanted.services().iter().zip(0..) {
        live.flow_state_mut()
            .service_mut(service.id.get())
            .refused_ns = (seconds % 4 == 0).then_some(290 * SECOND);
    }
    let next = plan_at(Some(&live), &wanted, 300);
    let counts = |plan: &Plan| {
        let services = &plan.generation().services;
        services
            .iter()
            .map(|service| guideway::affinity::count_marks(&service.slots))
            .collect::<Vec<_>>()
    };
    // Two kinds of slots fit: those that close, and those that must not.
    assert!(counts(&next)
        .iter()
        .zip(0..)
        .all(|(count, index)| (count.open > 0) == (index % 4 == 0)));
    // A sweep that found another slot of every service to differ would make as many tables.
    let live = plan_at(Some(&drained.as_live(2)), &wanted, 300).as_live(3);
    let found = wanted.services().iter().zip(0..);
    let found = found.map(|(service, slot)| {
        let all: SlotSet = (0..65537).filter(|other| other % 24 != slot).collect();
        (service.id.get(), ServiceSweep::new(1, 0, all))
    });
    let next = plan_at(Some(&live.with_sweep(3, found.collect())), &wanted, 301);
    assert_eq!(result(&next), PlanResult::Unchanged);
    assert!(counts(&next).iter().all(|count| count.held > 0));
}
