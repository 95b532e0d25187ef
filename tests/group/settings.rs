// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Limits and idle times: what is in range, and in which units the kernel gets it.

use guideway::group::{GroupId, HashMode, Limits, PinIdle, Settings};
use guideway::maglev::TableSize;
use proptest::prelude::*;

#[test]
fn limits_have_a_ceiling_and_a_default() {
    let default = Limits::default();
    let numbers = |limits: Limits| {
        let size = limits.table_size().get();
        (limits.groups(), limits.members(), size)
    };
    assert_eq!(numbers(default), (8, 64, 1021));
    let most = Limits::new(64, 256, TableSize::SERVICE).expect("the ceiling");
    assert_eq!(numbers(most), (64, 256, 65_537));
    let refusal = |groups, members, size| {
        let size = TableSize::new(size).expect("a prime");
        Limits::new(groups, members, size).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(0, 64, 1021),
        "number of groups 0 is not from 1 to 64"
    );
    assert_eq!(
        refusal(65, 64, 1021),
        "number of groups 65 is not from 1 to 64"
    );
    assert_eq!(
        refusal(8, 0, 1021),
        "number of members 0 is not from 1 to 256"
    );
    assert_eq!(
        refusal(8, 257, 1021),
        "number of members 257 is not from 1 to 256"
    );
    assert_eq!(
        refusal(8, 64, 65_539),
        "table size 65539 is not from 1 to 65537"
    );
    assert_eq!(GroupId::new(63).map(GroupId::get), Some(63));
    assert_eq!(GroupId::new(64), None);
}

#[test]
fn defaults_are_those_of_the_upstream_project_and_rfc_5382() {
    let settings = Settings::default();
    assert_eq!(settings.hash_mode, HashMode::Source);
    assert_eq!(settings.pin_idle.as_secs(), 2 * 3600 + 4 * 60);
    assert!(!settings.reject && !settings.ecn_normal);
    // 7,440 s are 6,929.04 ticks, a 64th of that is 108.27.
    assert_eq!(settings.pin_idle.ticks(), 6_930);
    assert_eq!(settings.pin_idle.refresh_ticks(), 109);
}

#[test]
fn idle_times_are_off_or_up_to_thirty_days() {
    assert_eq!(PinIdle::from_secs(0), Ok(PinIdle::OFF));
    assert!(PinIdle::OFF.is_off());
    assert_eq!((PinIdle::OFF.ticks(), PinIdle::OFF.refresh_ticks()), (0, 0));
    let second = PinIdle::from_secs(1).expect("in range");
    assert_eq!((second.ticks(), second.refresh_ticks()), (1, 1));
    assert!(PinIdle::from_secs(30 * 86_400).is_ok());
    assert_eq!(
        PinIdle::from_secs(30 * 86_400 + 1).unwrap_err().to_string(),
        "pin idle time of 2592001 s is neither 0 (no pins) nor from 1 s to 2592000 s (30 days)"
    );
}

proptest! {
    /// Never early, and late by less than a tick: 2^30 ns.
    #[test]
    fn ticks_are_rounded_up(seconds in 1_u64..=2_592_000) {
        let idle = PinIdle::from_secs(seconds).expect("in range");
        let tick = 1_u128 << 30;
        let exact = u128::from(seconds) * 1_000_000_000;
        let ticks = u128::from(idle.ticks()) * tick;
        prop_assert!(ticks >= exact && ticks < exact + tick);
        let exact = (exact / 64).max(1_000_000_000);
        let refresh = u128::from(idle.refresh_ticks()) * tick;
        prop_assert!(refresh >= exact && refresh < exact + tick);
    }
}
