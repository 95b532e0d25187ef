// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is refused, in which words, and that nothing comes of it.

use guideway::group::{Candidate, PlanError, Slot};

use crate::support::*;

fn refusal(group: &Group, candidates: &[Candidate]) -> String {
    let mut messages: Vec<_> = [candidates.to_vec(), candidates.to_vec()]
        .into_iter()
        .map(|candidates| {
            let refused = group.plan(&spec(&candidates));
            refused.expect_err("a refusal").to_string()
        })
        .collect();
    messages.dedup();
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

#[test]
fn copies_that_agree_are_one_and_drain_if_any_does() {
    let mut group = Group::of(1);
    group.publish(&spec(&[active("10"), active("10")]));
    assert_eq!(group.members(), rows(&[("10", 0, 1)]));
    assert!(!group.snapshot().members[0].draining);
    for copies in [
        [active("10"), draining("10")],
        [draining("10"), active("10")],
    ] {
        group.publish(&spec(&copies));
        assert!(group.snapshot().members[0].draining);
        assert_eq!(group.snapshot().members.len(), 1);
    }
}

/// A SID announced with an Argument is the same shard.
#[test]
fn copies_are_found_by_the_base_of_their_sids() {
    let mut group = Group::new();
    let mut copy = active("10");
    copy.sid = "2001:db8:ff09:10:e123:4::".parse().expect("a SID");
    group.publish(&spec(&[active("10"), copy]));
    assert_eq!(group.snapshot().members.len(), 1);
}

#[test]
fn copies_that_contradict_each_other_are_refused() {
    let group = Group::new();
    assert_eq!(
        refusal(
            &group,
            &[weighing("10", 3), active("11"), weighing("10", 4)]
        ),
        "shard 2001:db8:ff09:10:e000:: is given twice, with weights 3 and 4"
    );
    assert_eq!(
        refusal(&group, &[active("10"), unreachable("10")]),
        "shard 2001:db8:ff09:10:e000:: is given twice, with next hops \"ifindex 1, \
         02:00:00:00:00:01 to 02:00:00:00:00:02, MTU 0\" and \"unreachable\""
    );
    let elsewhere = Candidate::new(sid("10"), hop(2));
    let refused = group.plan(&spec(&[active("10"), draining("10"), elsewhere]));
    assert_eq!(
        refused.map(|plan| plan.change()),
        Err(PlanError::DuplicateNextHop {
            sid: sid("10"),
            first: Some(hop(1)),
            second: Some(hop(2)),
        })
    );
}

#[test]
fn more_members_than_slots_are_refused_with_both_numbers() {
    let mut group = Group::of(2);
    group.publish(&shards("10 11"));
    let before = group.snapshot().clone();
    assert_eq!(
        refusal(&group, &[active("10"), active("11"), unreachable("12")]),
        "group 0 (nat66): 3 shards, but there is room for 2"
    );
    assert_eq!(group.snapshot(), &before);
    // Copies count once.
    assert!(group
        .plan(&spec(&[active("10"), active("11"), active("10")]))
        .is_ok());
}

#[test]
fn more_active_members_than_the_table_has_slots_are_refused_with_both_numbers() {
    let mut group = Group::new();
    group.limits = limits(8, 64, 2);
    assert_eq!(
        refusal(&group, &[active("10"), active("11"), active("12")]),
        "group 0 (nat66): 3 active shards, but the table has 2 slots"
    );
    assert!(group
        .plan(&spec(&[active("10"), active("11"), draining("12")]))
        .is_ok());
}

#[test]
fn a_limit_below_what_is_in_use_is_refused_with_both_numbers() {
    let mut group = Group::new();
    group.publish(&shards("10 11 12"));
    group.publish(&shards("10 12"));
    group.limits = limits(8, 2, 1021);
    assert_eq!(
        refusal(&group, &[active("10"), active("12")]),
        "group 0: slot 2 is in use, but there is room for 2 members"
    );
    group.limits = limits(8, 3, 1021);
    assert!(group.plan(&shards("10 12")).is_ok());
}

#[test]
fn a_plan_for_another_group_or_class_is_refused() {
    let mut group = Group::new();
    group.publish(&shards("10"));
    group.place.group = id(1);
    assert_eq!(
        refusal(&group, &[active("10")]),
        "the plan is for group 1, but what is published is group 0"
    );
    group.place.group = id(0);
    group.place.class = nat64("64:ff9b::/96");
    assert_eq!(
        refusal(&group, &[active("10")]),
        "group 0 is open for nat66, not for nat64:64:ff9b::/96"
    );
    group.close();
    assert_eq!(
        refusal(&group, &[active("10")]),
        "group 0 is closing for nat66, not for nat64:64:ff9b::/96"
    );
    assert_eq!(Slot::new(256), None);
}
