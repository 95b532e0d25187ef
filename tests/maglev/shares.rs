// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shares: their bounds, and the summary of them.

use guideway::maglev::Table;
use proptest::prelude::*;

use crate::strategies::{fitting, fitting_equal};
use crate::support::{backends, borrowed, build, members, size, table};

fn count(owners: &[Option<&[u8]>], key: &[u8]) -> u32 {
    owners.iter().filter(|&&owner| owner == Some(key)).count() as u32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equal_weights_differ_by_at_most_one_slot((m, weighted) in fitting_equal(800, 200)) {
        let n = weighted.len() as u32;
        let owners = build(m, &borrowed(&weighted));
        for (key, _) in &weighted {
            let slots = count(&owners, key);
            prop_assert!(slots == m / n || slots == m.div_ceil(n), "{} slots", slots);
        }
    }

    /// Less than two slots below the ideal, and above it less than one and the part that a member
    /// takes of an incomplete round.
    #[test]
    fn weighted_shares_are_near_the_ideal((m, weighted) in fitting(800, 40)) {
        let placed = || weighted.iter().filter(|&&(_, weight)| weight > 0);
        let n = placed().count() as u128;
        let sum: u128 = placed().map(|&(_, weight)| u128::from(weight)).sum();
        let owners = build(m, &borrowed(&weighted));
        for (key, weight) in placed() {
            let slots = u128::from(count(&owners, key));
            let ideal = u128::from(m) * u128::from(*weight);
            prop_assert!(ideal < (slots + 2) * sum, "{} slots of weight {}", slots, weight);
            let above = sum + n * u128::from(*weight);
            prop_assert!(slots * sum < ideal + above, "{} slots of weight {}", slots, weight);
        }
    }

    #[test]
    fn the_summary_counts_what_is_there((m, weighted) in fitting(800, 40)) {
        let table = table(m, &borrowed(&weighted));
        let owners = build(m, &borrowed(&weighted));
        let shares = table.shares();
        let mut placed: Vec<_> = borrowed(&weighted);
        placed.retain(|&(_, weight)| weight > 0);
        placed.sort_unstable();
        let sum: u64 = placed.iter().map(|&(_, weight)| u64::from(weight)).sum();
        prop_assert_eq!(shares.weight_sum, sum);
        prop_assert_eq!(shares.size.get(), m);
        prop_assert_eq!(shares.below_rule, (m as usize) < 100 * placed.len());
        let found: Vec<_> = shares.members.iter().map(|s| (s.key, s.weight, s.slots)).collect();
        let expected: Vec<_> = placed.iter().map(|&(k, w)| (k, w, count(&owners, k))).collect();
        prop_assert_eq!(found, expected);
        let ppm = |&(key, weight): &(&[u8], u32)| {
            let slots = u128::from(count(&owners, key));
            slots * u128::from(sum) * 1_000_000 / (u128::from(m) * u128::from(weight))
        };
        let (min, max) = (placed.iter().map(ppm).min(), placed.iter().map(ppm).max());
        prop_assert_eq!(shares.spread.map(|s| s.min_ppm.into()), min);
        prop_assert_eq!(shares.spread.map(|s| s.max_ppm.into()), max);
    }
}

/// The one who outweighs many alike is above the ideal by the part of the round in which all those
/// have their turn, which is far more than a slot or two.
#[test]
fn a_heavy_member_among_many_light_ones() {
    let mut weighted = backends(100);
    weighted[0].1 = 100;
    let table = table(65_537, &borrowed(&weighted));
    assert_eq!(table.shares().members[0].slots, 32_966);
}

#[test]
fn shards_differ_by_at_most_one_slot() {
    for count in 2..=32 {
        let keys: Vec<_> = (10..10 + count)
            .map(|n| format!("2001:db8:ff09:{n}:e000::"))
            .collect();
        let weighted: Vec<_> = keys.iter().map(|key| (key.as_bytes(), 1)).collect();
        let table = table(1021, &weighted);
        let shares = table.shares();
        let slots = || shares.members.iter().map(|share| share.slots);
        assert!(
            slots().max() <= slots().min().map(|min| min + 1),
            "{count} shards"
        );
    }
}

#[test]
fn ratios_are_rounded_down() {
    // 1021 slots for three: 341 is 1.001958 of the ideal 340 1/3, and 340 is 0.999020.
    let keys = [
        "2001:db8:ff09:10:e000::",
        "2001:db8:ff09:11:e000::",
        "2001:db8:ff09:12:e000::",
    ];
    let weighted = keys.map(|key| (key.as_bytes(), 7));
    let table = table(1021, &weighted);
    let shares = table.shares();
    let spread = shares.spread.expect("members");
    assert_eq!((spread.min_ppm, spread.max_ppm), (999_020, 1_001_958));
    assert!(!shares.below_rule);
}

#[test]
fn an_empty_table_has_no_shares() {
    let table = Table::<u16>::build(size(1021), &[]).expect("no members");
    let shares = table.shares();
    assert!(shares.members.is_empty());
    assert_eq!(
        (shares.spread, shares.weight_sum, shares.below_rule),
        (None, 0, false)
    );
}

/// A size below the rule is built and marked.
#[test]
fn the_rule_is_shown_not_enforced() {
    for (count, below) in [(10, false), (11, true), (1021, true)] {
        let weighted = backends(count);
        let table =
            Table::build(size(1021), &members(&borrowed(&weighted))).expect("valid members");
        assert_eq!(table.shares().below_rule, below, "{count} members");
    }
}
