// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations: never one twice, whatever fails, restarts or goes round.

use guideway::group::{Generation, HighWater};

use crate::support::*;

fn generation(group: &Group, node: &str) -> u32 {
    let member = group.snapshot().member_by_sid(sid(node));
    member.expect("a member").generation.get()
}

/// A is published, B's publication fails, C takes the same slot: three numbers.
#[test]
fn a_b_failed_c_distinct() {
    let mut group = Group::of(1);
    group.publish(&shards("a"));
    let a = generation(&group, "a");
    let failed = group.fail(&shards("b"));
    let b = failed.snapshot().members[0].generation.get();
    group.publish(&shards("c"));
    let c = generation(&group, "c");
    assert_eq!((a, b, c), (1, 2, 3));
    assert_eq!(group.snapshot().members[0].slot.get(), 0);
    assert_eq!(group.snapshot().next_slot_generation.get(), 4);
}

#[test]
fn failures_before_the_first_publication_burn_numbers_too() {
    let mut group = Group::new();
    group.fail(&shards("a"));
    group.fail(&shards("a b"));
    group.publish(&shards("c"));
    assert_eq!(generation(&group, "c"), 4);
}

/// A killed process may have burnt numbers; only those that nobody published come again.
#[test]
fn a_restart_goes_on_from_what_is_published() {
    let mut group = Group::of(1);
    group.publish(&shards("a"));
    group.fail(&shards("b"));
    group.restart();
    group.publish(&shards("c"));
    assert_eq!(generation(&group, "c"), 2);
}

#[test]
fn burnt_numbers_are_no_reason_to_publish() {
    let mut group = Group::new();
    group.publish(&shards("a"));
    group.fail(&shards("a b"));
    let plan = group.publish(&shards("a"));
    assert!(!plan.is_changed());
    assert_eq!(group.snapshot().next_slot_generation.get(), 2);
    // They are told with the next publication, and outlast the process from then on.
    group.publish(&spec(&[draining("a")]));
    assert_eq!(group.snapshot().next_slot_generation.get(), 3);
}

/// The counter belongs to the group, whoever has it.
#[test]
fn survive_disable_enable_restart() {
    let mut group = Group::new();
    group.publish(&shards("a b"));
    group.close();
    group.disable();
    assert_eq!(group.snapshot().next_slot_generation.get(), 3);
    group.restart();
    group.publish(&shards("a b"));
    assert_eq!(group.members(), rows(&[("a", 0, 3), ("b", 1, 4)]));
    group.close();
    group.disable();
    group.place.class = nat64("64:ff9b::/96");
    group.publish(&shards("a"));
    assert_eq!(group.members(), rows(&[("a", 0, 5)]));
}

#[test]
fn two_plans_cannot_both_have_the_same_numbers() {
    let mut group = Group::new();
    let one = group.plan(&shards("a")).expect("a plan");
    let two = group.plan(&shards("b")).expect("a plan");
    group.high_water.claim(&one).expect("the first");
    let refused = group.high_water.claim(&two).expect_err("the second");
    assert_eq!(
        refused.to_string(),
        "group 0: slot generations of this plan were used since, 2 is the next"
    );
    // Made again, it has others.
    let two = group.plan(&shards("b")).expect("a plan");
    assert_eq!(two.high_water(), group.high_water);
    assert_eq!(two.snapshot().members[0].generation.get(), 2);
    group.high_water.claim(&two).expect("made since");
    assert_eq!(group.high_water.next().map(Generation::get), Some(3));
    assert_eq!(HighWater::default().next(), None);
}

#[test]
fn numbers_are_compared_on_the_shorter_way_round() {
    let number = |value| Generation::new(value).expect("not 0");
    for (later, earlier) in [
        (2, 1),
        (1, u32::MAX),
        (5, 0xffff_fff0),
        (0x8000_0000, 1),
        (0x9000_0000, 0x1000_0001),
    ] {
        assert!(number(later).is_after(number(earlier)), "{later} {earlier}");
        assert!(
            !number(earlier).is_after(number(later)),
            "{later} {earlier}"
        );
    }
    assert!(!number(7).is_after(number(7)));
    assert_eq!(number(u32::MAX).next(), Generation::FIRST);
    assert_eq!(Generation::new(0), None);
}

/// The mark of a process is past the end of the round, what is published is not.
#[test]
fn the_mark_may_be_in_the_next_round_already() {
    let mut group = Group::late(4, "a", u32::MAX);
    group.fail(&shards("a b"));
    assert_eq!(group.high_water.next().map(Generation::get), Some(1));
    let plan = group.publish(&shards("a c"));
    // 1 is a's.
    assert_eq!(generation(&group, "c"), 2);
    // The failed publication may not have got as far as removing pins.
    assert!(plan.purge().is_some());
}

#[test]
fn generation_wrap() {
    let mut group = Group::late(8, "a", 0xffff_fffe);
    let plan = group.publish(&shards("a b"));
    assert_eq!((generation(&group, "b"), plan.purge()), (0xffff_fffe, None));

    // The round ends: 0 is no number, and 1 is a's. What is pinned to the members may stay.
    let plan = group.publish(&shards("a b c d"));
    assert_eq!(generation(&group, "a"), 1);
    assert_eq!(generation(&group, "c"), 0xffff_ffff);
    assert_eq!(generation(&group, "d"), 2);
    let kept = plan.purge().expect("the end of a round");
    let kept: Vec<_> = kept.iter().map(|(s, g)| (s.get(), g.get())).collect();
    assert_eq!(kept, [(0, 1), (1, 0xffff_fffe)]);
    assert_eq!(group.snapshot().next_slot_generation.get(), 3);

    let plan = group.publish(&shards("a b c d e"));
    assert_eq!((generation(&group, "e"), plan.purge()), (3, None));
}

#[test]
fn after_the_last_number_comes_the_first() {
    let mut group = Group::late(4, "", u32::MAX);
    let plan = group.publish(&shards("a b"));
    assert_eq!(group.members(), rows(&[("a", 0, u32::MAX), ("b", 1, 1)]));
    assert_eq!(plan.purge(), Some(&[][..]));
}

/// The last number of a round is given out alone: the next publication is in the next round and
/// cannot tell, so pins go now.
#[test]
fn pins_are_removed_before_the_last_number_is_published() {
    let mut group = Group::late(4, "", u32::MAX);
    let plan = group.publish(&shards("a"));
    assert!(plan.purge().is_some());
    let plan = group.publish(&shards("a b"));
    assert_eq!((generation(&group, "b"), plan.purge()), (1, None));
}

/// Who leaves in the next round leaves pins behind that name a number which is still to come.
#[test]
fn a_number_of_the_former_round_leaves_with_its_member() {
    let mut group = Group::late(8, "a b c", u32::MAX);
    group.publish(&shards("a b c d"));
    assert_eq!(generation(&group, "c"), 3);
    assert_eq!(group.snapshot().next_slot_generation, Generation::FIRST);
    // c leaves in the new round, before the round is at 3.
    group.publish(&shards("a b d"));
    assert_eq!(group.snapshot().next_slot_generation.get(), 4);
    let plan = group.publish(&shards("a b d e"));
    assert_eq!(group.members()[2], rows(&[("e", 2, 4)])[0]);
    assert_eq!(plan.purge(), None);
    // A number of the end of the former round is far ahead, and takes nothing with it.
    group.publish(&shards("a b e"));
    assert_eq!(group.snapshot().next_slot_generation.get(), 5);
}

/// Before the round ends, members that leave are found by the removal of pins at its end.
#[test]
fn who_leaves_before_the_end_of_the_round_takes_nothing_with_it() {
    let mut group = Group::late(8, "a b", 0xffff_fffe);
    group.publish(&shards("b"));
    assert_eq!(group.snapshot().next_slot_generation.get(), 0xffff_fffe);
    let plan = group.publish(&shards("b c d"));
    let kept: Vec<_> = plan.purge().expect("the end of a round").to_vec();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].1.get(), 2);
}
