// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Comparisons of tables.

use std::collections::BTreeMap;

use guideway::maglev::{DiffError, Member, Table};
use proptest::prelude::*;

use crate::strategies::{prime, weighted};
use crate::support::{borrowed, members, owners, size, table};

type Counts<'k> = BTreeMap<Option<&'k [u8]>, (u32, u32)>;

/// Slots lost and gained by each owner, nobody included, slot by slot.
fn counts<'k>(old: &[Option<&'k [u8]>], new: &[Option<&'k [u8]>]) -> Counts<'k> {
    let mut counts = Counts::new();
    for (&old, &new) in old.iter().zip(new) {
        if old != new {
            counts.entry(old).or_default().0 += 1;
            counts.entry(new).or_default().1 += 1;
        }
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_moved_slot_is_counted(
        m in prime(600).prop_filter("room for all members", |&m| m > 30),
        a in weighted(30),
        b in weighted(30),
        large_indices in any::<bool>(),
    ) {
        let build = |weighted: &[(&[u8], u32)], first: u32| {
            let mut members = members(weighted);
            members.iter_mut().for_each(|member| member.index += first);
            Table::build(size(m), &members).unwrap()
        };
        // Indices of one table mean other members in the other.
        let (a, b) = (borrowed(&a), borrowed(&b));
        let old = build(&a, 0);
        let new = build(&b, if large_indices { 0xfff0_0000 } else { 7 });
        let diff = old.diff(&new).unwrap();
        let expected = counts(&owners(&old), &owners(&new));

        let moved: u32 = expected.values().map(|&(lost, _)| lost).sum();
        let forced: u32 = expected.values().map(|&(lost, gained)| lost.saturating_sub(gained)).sum();
        prop_assert_eq!((diff.moved(), diff.forced()), (moved, forced));
        prop_assert!(diff.moved() >= diff.forced());
        prop_assert_eq!(diff.extra(), moved - forced);
        prop_assert_eq!(diff.is_empty(), moved == 0);
        prop_assert_eq!(new.diff(&old).unwrap().moved(), moved);

        let mut placed: Vec<_> =
            a.iter().chain(&b).filter(|&&(_, weight)| weight > 0).map(|&(key, _)| key).collect();
        placed.sort_unstable();
        placed.dedup();
        let found: Vec<_> = diff.members().map(|m| (m.key, (m.lost, m.gained))).collect();
        let expected: Vec<_> = placed
            .iter()
            .map(|&key| (key, expected.get(&Some(key)).copied().unwrap_or_default()))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_table_does_not_differ_from_itself(
        m in prime(600).prop_filter("room for all members", |&m| m > 30),
        weighted in weighted(30),
    ) {
        let table = table(m, &borrowed(&weighted));
        let diff = table.diff(&table.clone()).unwrap();
        prop_assert_eq!((diff.moved(), diff.forced(), diff.extra()), (0, 0, 0));
        prop_assert!(diff.members().all(|member| (member.lost, member.gained) == (0, 0)));
    }
}

#[test]
fn filling_an_empty_table_moves_every_slot() {
    let empty = Table::<u16>::build(size(1021), &[]).expect("no members");
    let full = Table::build(
        size(1021),
        &[Member::new(b"a", 3, 1), Member::new(b"b", 4, 1)],
    )
    .expect("valid members");
    let diff = empty.diff(&full).expect("equal sizes");
    assert_eq!((diff.moved(), diff.forced(), diff.extra()), (1021, 1021, 0));
    let gained: Vec<_> = diff
        .members()
        .map(|member| (member.lost, member.gained))
        .collect();
    assert_eq!(gained, [(0, 511), (0, 510)]);
    let back = full.diff(&empty).expect("equal sizes");
    assert_eq!((back.moved(), back.forced(), back.extra()), (1021, 1021, 0));
    assert_eq!(empty.diff(&empty).expect("equal sizes").moved(), 0);
}

/// An index that goes to another member moves all its slots, although no slot's value changes.
#[test]
fn a_reused_index_is_another_owner() {
    let one = Table::<u16>::build(size(13), &[Member::new(b"a", 5, 1)]).expect("a member");
    let other = Table::<u16>::build(size(13), &[Member::new(b"b", 5, 1)]).expect("a member");
    assert_eq!(one.slots(), other.slots());
    assert_eq!(one.diff(&other).expect("equal sizes").moved(), 13);
    assert_ne!(one.digest(), other.digest());
}

#[test]
fn sizes_must_agree() {
    let build = |m| Table::<u16>::build(size(m), &[]).expect("no members");
    let error = build(13).diff(&build(1021)).expect_err("different sizes");
    assert_eq!(error, DiffError::SizeMismatch { old: 13, new: 1021 });
    assert_eq!(
        error.to_string(),
        "tables of 13 and 1021 slots cannot be compared slot by slot"
    );
}
