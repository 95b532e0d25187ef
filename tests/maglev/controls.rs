// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Order, removal and return of members, and that the checks of these notice a wrong builder.

use guideway::maglev::Table;
use proptest::prelude::*;

use crate::reference::{self, fnv1a_64};
use crate::strategies::{equal, fitting};
use crate::support::{backends, borrowed, build, members, size, table, Builder};

/// A builder that takes members in the order given.
fn unsorted<'k>(m: u32, members: &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>> {
    let placed: Vec<_> = members
        .iter()
        .copied()
        .filter(|&(_, weight)| weight > 0)
        .collect();
    reference::fill(m, &placed, |key| reference::offset_and_skip(key, m.into()))
}

/// A builder whose hash state goes on from one member to the next.
fn reused_hasher<'k>(m: u32, members: &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>> {
    let mut placed: Vec<_> = members
        .iter()
        .copied()
        .filter(|&(_, weight)| weight > 0)
        .collect();
    placed.sort_unstable();
    let mut so_far = Vec::new();
    reference::fill(m, &placed, |key| {
        let mut hash = |seed: u64| {
            so_far.extend([key, &seed.to_be_bytes()].concat());
            fnv1a_64(&[&so_far])
        };
        let m = u64::from(m);
        (
            hash(0xda7a5eed0ffce7e5) % m,
            hash(0x5eedda7a1ceb00c5) % (m - 1) + 1,
        )
    })
}

/// The order of members makes no difference.
fn same_in_any_order(build: Builder, m: u32, members: &[(&[u8], u32)]) -> bool {
    let mut turned = members.to_vec();
    turned.reverse();
    let expected = build(m, members);
    let reversed = build(m, &turned);
    turned.rotate_left(members.len() / 3);
    reversed == expected && build(m, &turned) == expected
}

/// All slots of a member that leaves go to others, and at most `bound` slots of others move.
fn removal_is_contained(
    build: Builder,
    m: u32,
    members: &[(&[u8], u32)],
    leaver: usize,
    bound: usize,
) -> bool {
    let gone = members[leaver].0;
    let mut rest = members.to_vec();
    rest.remove(leaver);
    let (before, after) = (build(m, members), build(m, &rest));
    let extra = before
        .iter()
        .zip(&after)
        .filter(|&(&old, new)| old != Some(gone) && old != *new);
    !after.contains(&Some(gone)) && after.iter().all(Option::is_some) && extra.count() <= bound
}

/// A member that leaves and comes back, as the last of the input, gets its slots back.
fn return_restores(build: Builder, m: u32, members: &[(&[u8], u32)], leaver: usize) -> bool {
    let mut returned = members.to_vec();
    let member = returned.remove(leaver);
    returned.push(member);
    build(m, members) == build(m, &returned)
}

#[test]
fn order_makes_no_difference() {
    for (m, count) in [(1021, 8), (4093, 100)] {
        let members = backends(count);
        let members = borrowed(&members);
        assert!(same_in_any_order(build, m, &members));
        assert!(!same_in_any_order(unsorted, m, &members));
    }
}

#[test]
fn leaving_moves_few_slots_of_others() {
    // Bounds: what was measured for these keys, rounded up.
    for (m, count, bound) in [(1021, 4, 16), (1021, 16, 41), (4093, 100, 150)] {
        let members = backends(count);
        let members = borrowed(&members);
        for leaver in (0..count).step_by(count / 4) {
            assert!(
                removal_is_contained(build, m, &members, leaver, bound),
                "{leaver} of {count}"
            );
            assert!(
                return_restores(build, m, &members, leaver),
                "{leaver} of {count}"
            );
        }
        assert!(!removal_is_contained(reused_hasher, m, &members, 0, bound));
        assert!(!return_restores(unsorted, m, &members, 0));
    }
}

/// A hash state that goes on makes the members depend on each other, so that a wrong order shows
/// even if the turns are sorted.
#[test]
fn a_reused_hasher_depends_on_the_order_of_hashing() {
    fn hashed_in_input_order<'k>(m: u32, members: &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>> {
        let mut so_far = Vec::new();
        let mut lists = std::collections::HashMap::new();
        for &(key, _) in members {
            let mut hash = |seed: u64| {
                so_far.extend([key, &seed.to_be_bytes()].concat());
                fnv1a_64(&[&so_far])
            };
            let m = u64::from(m);
            let list = (
                hash(0xda7a5eed0ffce7e5) % m,
                hash(0x5eedda7a1ceb00c5) % (m - 1) + 1,
            );
            lists.insert(key, list);
        }
        let mut placed = members.to_vec();
        placed.sort_unstable();
        reference::fill(m, &placed, |key| lists[key])
    }
    let members = backends(8);
    assert!(!same_in_any_order(
        hashed_in_input_order,
        1021,
        &borrowed(&members)
    ));
}

/// The slots of others that move when one member leaves, at the size of a service.
#[test]
fn leaving_a_service_moves_as_many_slots_as_measured() {
    for (count, bound) in [(10, 239), (100, 409), (400, 686), (1000, 425)] {
        let all = backends(count);
        let all = borrowed(&all);
        let old = table(65_537, &all);
        for leaver in (0..count).step_by((count / 10).max(1)) {
            let mut rest = members(&all);
            let gone = rest.remove(leaver);
            let new = Table::build(size(65_537), &rest).expect("valid members");
            let diff = old.diff(&new).expect("equal sizes");
            let of_leaver = old.shares().members[leaver].slots;
            assert_eq!(diff.forced(), of_leaver, "{leaver} of {count}");
            assert!(
                diff.extra() <= bound,
                "{leaver} of {count}: {}",
                diff.extra()
            );
            rest.push(gone);
            let restored = Table::build(size(65_537), &rest).expect("valid members");
            assert_eq!(restored.digest(), old.digest(), "{leaver} of {count}");
        }
    }
}

proptest! {
    #[test]
    fn any_order_gives_the_same_owners(
        (m, shuffled) in fitting(1000, 30),
        indices in any::<prop::sample::Index>(),
    ) {
        let sorted = {
            let mut sorted = shuffled.clone();
            sorted.sort();
            sorted
        };
        let expected = table(m, &borrowed(&sorted));
        let mut turned = borrowed(&shuffled);
        if !turned.is_empty() {
            let by = indices.index(turned.len());
            turned.rotate_left(by);
        }
        let found = table(m, &turned);
        prop_assert_eq!(crate::support::owners(&found), crate::support::owners(&expected));
        prop_assert_eq!(found.digest(), expected.digest());
    }

    #[test]
    fn a_return_restores_the_table(
        members in equal(40),
        leaver in any::<prop::sample::Index>(),
    ) {
        let members = borrowed(&members);
        prop_assert!(return_restores(build, 1021, &members, leaver.index(members.len())));
    }
}
