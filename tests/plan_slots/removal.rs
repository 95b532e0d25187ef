// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan says before live flows break: of backends that are removed, of routing that changes.

use std::collections::BTreeMap;

use guideway::plan::{Live, Plan};
use serde_json::{json, Value};

use crate::support::*;

/// Pointers and messages of the warnings with this code.
fn warned(plan: &Plan, code: &str) -> Vec<(String, String)> {
    let warnings = plan.document().warnings.iter();
    warnings
        .filter(|warning| warning.code.as_str() == code)
        .map(|warning| (warning.pointer.clone(), warning.message.clone()))
        .collect()
}

/// As if somebody had counted so many entries in these rows; rows are in the order of ids.
fn counted(mut live: Live, rows: &[(u16, u64)]) -> Live {
    let id = live.spec().services()[0].id.get();
    let rows = rows.iter().copied().collect::<BTreeMap<_, _>>();
    live.flow_state_mut().service_mut(id).by_row = Some(rows);
    live
}

/// What is said when backend 3 of the five is removed.
fn said(live: &Live, members: Value, seconds: u64) -> Option<String> {
    let wanted = instance(&[(backends([1, 2, 4, 5]), members)]);
    let mut warned = warned(&plan_at(Some(live), &wanted, seconds), "backend-in-use");
    assert!(warned.len() <= 1, "{warned:?}");
    let (pointer, message) = warned.pop()?;
    assert_eq!(pointer, "/services/0/backends");
    Some(message)
}

#[test]
fn a_backend_in_use_is_not_removed_without_a_word() {
    let none = json!({});
    let ready = published(&spec(backends(1..=5)));
    let drain = "live flows of it break, so drain it first, and wait until status shows it empty";
    let message = |what: &str, then: &str| Some(format!("backend 3 is removed: {what}; {then}"));
    assert_eq!(
        said(&ready, none.clone(), 100),
        message(
            "nobody has counted what is bound to it, it takes new flows, which have no entry",
            drain
        )
    );
    assert_eq!(
        said(
            &counted(ready.clone(), &[(1, 5), (2, 12)]),
            none.clone(),
            100
        ),
        message(
            "12 entries are bound to it, it takes new flows, which have no entry",
            drain
        )
    );
    assert_eq!(
        said(&counted(ready, &[(1, 5)]), none.clone(), 100),
        message("it takes new flows, which have no entry", drain)
    );

    // Where all are tracked, who has no entry has no flow.
    let all = json!({"tracking": "all"});
    let tracked = published(&instance(&[(backends(1..=5), all.clone())]));
    assert_eq!(
        said(&counted(tracked.clone(), &[(1, 5)]), all.clone(), 100),
        None
    );
    assert_eq!(
        said(&counted(tracked, &[(2, 1)]), all, 100),
        message("1 entries are bound to it", drain)
    );

    // Nobody goes to one that is dead.
    let dead = published(&spec(with_one(5, 3, "state", json!("unhealthy"))));
    assert_eq!(said(&dead, none, 100), None);
}

#[test]
fn a_backend_that_was_drained_is_removed_when_it_is_empty() {
    let none = json!({});
    let first = published(&spec(backends(1..=5)));
    let drained = plan_at(
        Some(&first),
        &spec(with_one(5, 3, "state", json!("draining"))),
        100,
    );
    let slots = words(&drained)
        .iter()
        .filter(|(_, kind)| *kind == Kind::Open(3))
        .count();
    assert!(slots > 500, "{slots}");
    let live = drained.as_live(2);
    let wait = "live flows of it break, so wait until status shows it empty";
    assert_eq!(
        said(&counted(live.clone(), &[(2, 12)]), none.clone(), 110),
        Some(format!(
            "backend 3 is removed: 12 entries are bound to it, {slots} open slots look back to it; \
             {wait}"
        ))
    );
    // Its flows may be silent, and have no entry yet.
    assert_eq!(
        said(&counted(live.clone(), &[]), none.clone(), 110),
        Some(format!(
            "backend 3 is removed: {slots} open slots look back to it; {wait}"
        ))
    );
    let wanted = spec(with_one(5, 3, "state", json!("draining")));
    let closed = plan_at(Some(&live), &wanted, 100 + WINDOW + GRID).as_live(3);
    assert_eq!(said(&counted(closed, &[]), none, 300), None);
}

#[test]
fn a_service_in_use_is_not_removed_without_a_word() {
    let live = counted(published(&spec(backends(1..=5))), &[(1, 5), (2, 12)]);
    let other = instance(&[(backends(1..=5), json!({"name": "other"}))]);
    let warned = warned(&plan_at(Some(&live), &other, 100), "backend-in-use");
    let message = "service s1 is removed: 17 entries are bound to it, it takes new flows, which \
                   have no entry; live flows of it break, so drain it first, and wait until \
                   status shows it empty";
    assert_eq!(warned, [("/services".to_owned(), message.to_owned())]);
}

#[test]
fn bindings_are_followed_after_connection_ids_are_no_longer_learned() {
    let quic = |routing: &str| {
        let members = json!({"protocol": "udp", "short_dcid_len": 8, "tracking": "all",
                             "quic": {"routing": routing}});
        instance(&[(backends(1..=5), members)])
    };
    let exact = |plan: &Plan| plan.generation().services[0].exact;
    let text = |plan: &Plan| {
        let mut warned = warned(plan, "routing-change");
        assert_eq!(warned.len(), 1);
        warned.remove(0).1
    };
    let learned = published(&quic("learned"));
    // It is what it was, and nothing is to be published.
    let again = plan_at(Some(&learned), &quic("learned"), 50);
    assert_eq!(
        again.document().result,
        guideway::plan::PlanResult::Unchanged
    );
    let tuple = plan_at(Some(&learned), &quic("tuple"), 100);
    assert!(exact(&tuple), "packets look for what was learned");
    assert_eq!(
        text(&tuple),
        "routing changes from learned to tuple: connection IDs that are bound stay so, and no more \
         are learned"
    );
    let later = plan_at(Some(&tuple.as_live(2)), &quic("tuple"), 200);
    assert!(exact(&later));
    let back = plan_at(Some(&later.as_live(3)), &quic("learned"), 300);
    assert_eq!(
        text(&back),
        "routing changes from tuple to learned: connections stay with their flows"
    );

    let plain = published(&quic("tuple"));
    assert!(!exact(&plan_at(Some(&plain), &quic("tuple"), 100)));
}
