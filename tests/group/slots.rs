// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Slots: kept by those who stay, the lowest free ones for those who come.

use guideway::group::{Counters, MemberState};
use proptest::prelude::*;

use crate::support::*;

/// In the order of texts, which is another one than that of numbers.
#[test]
fn newcomers_take_the_lowest_free_slots_in_the_order_of_keys() {
    let mut group = Group::new();
    group.publish(&shards("9 10 2 100"));
    assert_eq!(
        group.members(),
        rows(&[("100", 0, 1), ("10", 1, 2), ("2", 2, 3), ("9", 3, 4)])
    );
    group.publish(&shards("9 10 2 100 11"));
    assert_eq!(group.members().last(), rows(&[("11", 4, 5)]).last());
}

#[test]
fn slot_and_generation_outlast_draining_and_unreachability() {
    let mut group = Group::new();
    group.publish(&shards("10 11 12"));
    let first = group.members();
    for state in [draining("11"), unreachable("11"), weighing("11", 0)] {
        let plan = group.publish(&spec(&[active("12"), state, active("10")]));
        assert!(plan.is_changed());
        assert_eq!(group.members(), first);
        assert!(plan.joined().is_empty() && plan.left().is_empty());
    }
    group.restart();
    group.publish(&shards("10 11 12"));
    assert_eq!(group.members(), first);
    assert_eq!(group.snapshot().count(MemberState::Active), 3);
}

/// A slot that is left with the same publication is the last choice: its counters and late packets
/// belong to who left.
#[test]
fn a_slot_freed_by_the_same_publication_is_taken_last() {
    let mut group = Group::of(4);
    group.publish(&shards("10 11 12"));
    let plan = group.publish(&shards("11 12 13"));
    assert_eq!(
        group.members(),
        rows(&[("11", 1, 2), ("12", 2, 3), ("13", 3, 4)])
    );
    assert_eq!(plan.joined().len(), 1);
    assert_eq!(plan.left()[0].sid, sid("10"));
    // The next publication has it.
    group.publish(&shards("11 12 13 14"));
    assert_eq!(group.members()[0], rows(&[("14", 0, 5)])[0]);
    // All four slots are in use: there is no other.
    group.publish(&shards("11 12 13 15"));
    assert_eq!(group.members()[0], rows(&[("15", 0, 6)])[0]);
}

#[test]
fn who_leaves_and_comes_back_is_a_newcomer() {
    let mut group = Group::new();
    group.publish(&shards("10 11"));
    group.publish(&shards("11"));
    group.publish(&shards("10 11"));
    assert_eq!(group.members(), rows(&[("10", 0, 3), ("11", 1, 2)]));
}

/// A slot's counters go on; who gets the slot counts from what they showed then.
#[test]
fn a_newcomer_counts_from_zero() {
    let shown = |packets| Counters {
        packets,
        bytes: 100 * packets,
    };
    let mut group = Group::of(2);
    group.counters = vec![shown(5)];
    group.publish(&shards("10 11"));
    let bases = |group: &Group| -> Vec<_> {
        let members = group.snapshot().members.iter();
        members.map(|member| member.base).collect()
    };
    assert_eq!(bases(&group), [shown(5), shown(0)]);
    group.counters = vec![shown(70), shown(80)];
    // Who stays keeps its base: nothing is new, nothing is published.
    assert!(!group.plan(&shards("10 11")).expect("a plan").is_changed());
    group.publish(&shards("10 12"));
    assert_eq!(bases(&group), [shown(5), shown(80)]);
}

#[test]
fn the_numbers_of_a_snapshot_are_its_own() {
    let mut group = Group::new();
    let plan = group.publish(&spec(&[active("10"), draining("11"), unreachable("12")]));
    let snapshot = plan.snapshot();
    assert_eq!(snapshot.slots_used(), 3);
    let count = |state| snapshot.count(state);
    assert_eq!(count(MemberState::Active), 1);
    assert_eq!(count(MemberState::Draining), 1);
    assert_eq!(count(MemberState::Unreachable), 1);
    assert_eq!((snapshot.publication.get(), snapshot.published_ns), (1, 7));
    assert_eq!(plan.base(), None);
    let second = group.publish(&shards("12"));
    assert_eq!(second.base(), Some(snapshot.publication));
    assert_eq!(group.snapshot().publication.get(), 2);
    // Slots 0 and 1 are free, slot 2 is in use.
    assert_eq!(group.snapshot().slots_used(), 3);
    let slot = group.snapshot().members[0].slot;
    let member = group.snapshot().member(slot).expect("a member");
    assert_eq!(group.snapshot().member_by_sid(sid("12")), Some(member));
    assert_eq!(group.snapshot().member_by_sid(sid("10")), None);
}

proptest! {
    /// Whatever the order and the copies, the same shards are the same group.
    #[test]
    fn an_unchanged_input_publishes_nothing(
        nodes in prop::collection::btree_set(1_u16..0x100, 0..12),
        seed in any::<u64>(),
    ) {
        let candidates: Vec<_> = nodes
            .iter()
            .map(|node| match node % 4 {
                0 => draining(&format!("{node:x}")),
                1 => unreachable(&format!("{node:x}")),
                weight => weighing(&format!("{node:x}"), weight.into()),
            })
            .collect();
        let mut group = Group::new();
        let first = group.publish(&spec(&candidates));
        prop_assert!(first.is_changed());
        let mut shuffled = candidates.clone();
        shuffled.extend(candidates.first());
        let places = shuffled.len() as u64;
        for place in 0..shuffled.len() {
            let other = seed.rotate_left(place as u32) % places;
            shuffled.swap(place, other as usize);
        }
        for restart in [false, true] {
            if restart {
                group.restart();
            }
            let again = group.publish(&spec(&shuffled));
            prop_assert!(!again.is_changed());
            prop_assert_eq!(again.snapshot(), first.snapshot());
            prop_assert_eq!(again.disruption().moved, 0);
        }
    }
}
