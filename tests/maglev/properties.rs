// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What holds for every table.

use guideway::maglev::{Member, Table};
use proptest::prelude::*;

use crate::strategies::{fitting, fitting_equal};
use crate::support::{borrowed, build, members, owners, size, table};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_slots_belong_to_placed_members_or_none_to_anyone((m, weighted) in fitting(800, 40)) {
        let table = table(m, &borrowed(&weighted));
        let placed = |key: &[u8]| weighted.iter().any(|(k, weight)| k == key && *weight > 0);
        let empty = weighted.iter().all(|&(_, weight)| weight == 0);
        prop_assert_eq!(table.is_empty(), empty);
        for owner in owners(&table) {
            prop_assert_eq!(owner.is_none(), empty);
            prop_assert!(owner.is_none_or(placed));
        }
        prop_assert!(table.slots().iter().all(|&slot| (slot == u32::MAX) == empty));
    }

    /// A member that is not eligible, or has no weight, might as well not be there.
    #[test]
    fn members_without_part_leave_no_trace(
        (m, weighted) in fitting(600, 30),
        eligible in prop::collection::vec(any::<bool>(), 30),
    ) {
        let mut given = members(&borrowed(&weighted));
        for (member, eligible) in given.iter_mut().zip(eligible) {
            member.eligible = eligible;
        }
        let part = |m: &&Member<'_, u32>| m.eligible && m.weight > 0;
        let placed: Vec<_> = given.iter().filter(part).copied().collect();
        let (all, placed) = (Table::build(size(m), &given), Table::build(size(m), &placed));
        prop_assert_eq!(all.unwrap(), placed.unwrap());
    }

    #[test]
    fn indices_do_not_influence_placement(
        (m, weighted) in fitting(600, 30),
        first in 0u32..0xffff_0000,
        step in 1u32..2000,
    ) {
        let expected = table(m, &borrowed(&weighted));
        let mut given = members(&borrowed(&weighted));
        given.iter_mut().for_each(|member| member.index = first + member.index * step);
        let found = Table::build(size(m), &given).unwrap();
        prop_assert_eq!(owners(&found), owners(&expected));
        prop_assert_eq!(found.digest(), expected.digest());
        prop_assert_eq!(found.diff(&expected).unwrap().moved(), 0);
        for (slot, owner) in (0..m).zip(owners(&found)) {
            let index = given.iter().find(|member| Some(member.key) == owner).map(|m| m.index);
            prop_assert_eq!(found.slots()[slot as usize], index.unwrap_or(u32::MAX));
        }
    }

    /// Weights count in relation to each other, up to the largest that there is.
    #[test]
    fn a_common_factor_changes_nothing((m, weighted) in fitting(600, 30), factor in any::<u32>()) {
        let mut weighted = borrowed(&weighted);
        weighted.iter_mut().for_each(|(_, weight)| *weight %= 5000);
        let expected = build(m, &weighted);
        let max = weighted.iter().map(|&(_, weight)| weight).max().unwrap_or(1).max(1);
        let largest = u32::MAX / max;
        for factor in [2, factor % largest + 1, largest] {
            let scaled: Vec<_> = weighted.iter().map(|&(key, w)| (key, w * factor)).collect();
            prop_assert!(build(m, &scaled) == expected, "factor {}", factor);
        }
    }

    #[test]
    fn equal_weights_of_any_value_are_alike((m, mut weighted) in fitting_equal(600, 60), w in 1u32..) {
        let expected = build(m, &borrowed(&weighted)).iter().map(|o| o.map(<[u8]>::to_vec)).collect::<Vec<_>>();
        weighted.iter_mut().for_each(|(_, weight)| *weight = w);
        let found = build(m, &borrowed(&weighted)).iter().map(|o| o.map(<[u8]>::to_vec)).collect::<Vec<_>>();
        prop_assert!(found == expected);
    }

    /// More weight never means fewer slots, even if it changes the largest weight.
    #[test]
    fn raising_a_weight_never_takes_slots(
        (m, weighted) in fitting(800, 40),
        raised in any::<prop::sample::Index>(),
        to in any::<u32>(),
    ) {
        prop_assume!(!weighted.is_empty());
        let mut weighted = borrowed(&weighted);
        let raised = raised.index(weighted.len());
        let slots = |weighted: &[(&[u8], u32)]| {
            build(m, weighted).iter().filter(|&&owner| owner == Some(weighted[raised].0)).count()
        };
        let before = slots(&weighted);
        for by in [1, to % 16, to % 4096, to] {
            weighted[raised].1 = weighted[raised].1.saturating_add(by);
            let after = slots(&weighted);
            prop_assert!(after >= before, "{} slots, then {}", before, after);
        }
    }

    /// No input whatever makes the builder panic, and a refusal says so rather than a table.
    #[test]
    fn nothing_panics(
        size in 0u32..5000,
        given in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..6), 0u16..60, any::<u32>(), any::<bool>()),
            0..50,
        ),
        wild in any::<bool>(),
    ) {
        let Ok(size) = guideway::maglev::TableSize::new(size) else { return Ok(()) };
        let members: Vec<_> = given.iter().map(|(key, index, weight, eligible)| Member {
            key,
            index: if wild { u16::MAX - *index } else { *index },
            weight: *weight,
            eligible: *eligible,
        }).collect();
        match Table::build(size, &members) {
            Ok(table) => prop_assert_eq!(table.slots().len(), size.slots()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
