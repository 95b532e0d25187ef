// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The builder finds the slots that the rules name.

use guideway::maglev::{build_into, Member, Scratch, SlotIndex, Table};
use proptest::prelude::*;

use crate::reference;
use crate::strategies::{fitting, fitting_equal};
use crate::support::{backends, borrowed, build, members, size, table};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_weights((slots, weighted) in fitting(1200, 40)) {
        let weighted = borrowed(&weighted);
        let expected = reference::build(slots, &weighted);
        prop_assert!(build(slots, &weighted) == expected);
        prop_assert_eq!(table(slots, &weighted).digest().get(), reference::digest(&expected));
    }

    #[test]
    fn equal_weights((slots, weighted) in fitting_equal(1200, 150)) {
        let weighted = borrowed(&weighted);
        prop_assert!(build(slots, &weighted) == reference::build(slots, &weighted));
    }

    /// As many members as slots, or nearly, and from there down past the number of free slots with
    /// which the search changes its method.
    #[test]
    fn few_slots_each(
        (slots, count) in crate::strategies::prime(300).prop_flat_map(|m| (Just(m), 1..=m as usize)),
        step in 1u32..4,
    ) {
        let mut weighted = backends(count);
        weighted.iter_mut().zip(0..).for_each(|((_, weight), number)| *weight += number % step);
        let weighted = borrowed(&weighted);
        prop_assert!(build(slots, &weighted) == reference::build(slots, &weighted));
    }
}

#[test]
fn every_small_size_with_every_number_of_members() {
    for slots in [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37] {
        for count in 0..=slots as usize {
            let weighted = backends(count);
            let weighted = borrowed(&weighted);
            let expected = reference::build(slots, &weighted);
            assert_eq!(
                build(slots, &weighted),
                expected,
                "{count} members, {slots} slots"
            );
        }
    }
}

/// Members around the number of free slots with which the search changes its method, where some
/// have had their last turn before and some have not.
#[test]
fn members_around_the_change_of_method() {
    for slots in [1021u32, 4093] {
        let change = (2 * slots).isqrt() as usize;
        for count in change - 3..=change + 3 {
            let weighted = backends(count);
            let weighted = borrowed(&weighted);
            let expected = reference::build(slots, &weighted);
            assert!(
                build(slots, &weighted) == expected,
                "{count} members, {slots} slots"
            );
        }
    }
}

#[test]
fn more_owners_than_two_bytes_number() {
    let weighted = backends(70_001);
    let weighted = borrowed(&weighted);
    let expected = reference::build(131_071, &weighted);
    assert!(build(131_071, &weighted) == expected);
    assert_eq!(
        table(131_071, &weighted).digest().get(),
        reference::digest(&expected)
    );
}

fn narrow<'k, S: SlotIndex + TryFrom<u32>>(wide: &[Member<'k, u32>]) -> Vec<Member<'k, S>> {
    let index = |wide| S::try_from(wide).ok().expect("a small index");
    let narrow = |member: &Member<'k, u32>| Member {
        key: member.key,
        index: index(member.index),
        weight: member.weight,
        eligible: member.eligible,
    };
    wide.iter().map(narrow).collect()
}

proptest! {
    /// One scratch for all sizes and slot types, growing and shrinking, gives what a fresh one
    /// gives; so do a table and a caller's buffer.
    #[test]
    fn slot_types_buffers_and_scratches_agree(
        cases in prop::collection::vec(fitting(1500, 60), 2..8)
    ) {
        let mut scratch = Scratch::with_capacity(size(97), 3);
        for (slots, weighted) in &cases {
            let wide = members(&borrowed(weighted));
            let (medium, small) = (narrow::<u16>(&wide), narrow::<u8>(&wide));
            let size = size(*slots);
            let table = Table::build(size, &wide).unwrap();
            let digest = table.digest();

            let mut out = vec![0u32; size.slots()];
            let built = build_into(&mut out, &mut scratch, size, &wide).unwrap();
            prop_assert_eq!(table.slots(), &out[..]);
            prop_assert_eq!(built.is_empty(), table.is_empty());
            let shares = table.shares();
            prop_assert_eq!(built.placed, shares.members.len());
            prop_assert_eq!(built.owners, shares.members.iter().filter(|s| s.slots > 0).count());
            prop_assert_eq!(built.weight_sum, shares.weight_sum);

            let medium = Table::build_with(&mut scratch, size, &medium).unwrap();
            let small = Table::build_with(&mut scratch, size, &small).unwrap();
            prop_assert_eq!(medium.digest(), digest);
            prop_assert_eq!(small.digest(), digest);
            for slot in 0..*slots {
                prop_assert_eq!(table.owner(slot), medium.owner(slot));
                prop_assert_eq!(table.owner(slot), small.owner(slot));
            }
        }
    }
}
