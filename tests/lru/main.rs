// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the guide says about the kernel's LRU tables and plain ones, on the kernel that runs this.
//! The measurements are those of the bench, in small.

#[path = "../../benches/common/measure.rs"]
mod measure;
#[path = "../common/netns.rs"]
mod netns;

#[path = "../../benches/lru/flood.rs"]
#[allow(dead_code)]
mod flood;
#[path = "../../benches/lru/occupancy.rs"]
#[allow(dead_code)]
mod occupancy;
#[path = "../common/programs.rs"]
mod programs;
#[path = "../../benches/lru/table.rs"]
#[allow(dead_code)]
mod table;

use std::io::Write;

use flood::{flood, Scenario};
use guideway::kernel::probe;
use occupancy::{fill, first_loss, lost_to_updates, Pattern, Plan, LEVELS, PATTERNS};
use table::{two_cpus, Kind};

const ENTRIES: u32 = 16_384;

/// Gives two CPUs to a test that may load programs, or skips it loudly.
fn on_two_cpus(name: &str, test: impl FnOnce([usize; 2]) + Send + 'static) {
    let Some(cpus) = two_cpus() else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{name} needs two CPUs"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: one CPU");
        return;
    };
    netns::isolated(name, move || test(cpus));
}

fn plan(kind: Kind, entries: u32, pattern: Pattern, cpus: [usize; 2]) -> Plan {
    Plan {
        kind,
        entries,
        pattern,
        touched: false,
        cpus,
    }
}

#[test]
fn a_plain_table_loses_nothing_and_refuses_exactly_at_its_size() {
    on_two_cpus("lru::plain", |cpus| {
        for entries in [1000, 4096, 10_007] {
            for pattern in PATTERNS {
                let filling = fill(&plan(Kind::Hash, entries, pattern, cpus));
                assert_eq!(filling.lost, [0; LEVELS.len()], "{pattern:?}");
                // A hundredth more, none of which the kernel takes.
                let more = u64::from(entries / 100);
                assert_eq!(filling.beyond, (0, more), "{entries} {pattern:?}");
                assert_eq!(filling.lost_beyond, 0, "{pattern:?}");
            }
        }
    });
}

#[test]
fn an_lru_table_loses_nothing_until_it_is_nearly_full_and_then_says_nothing() {
    on_two_cpus("lru::filling", |cpus| {
        for pattern in PATTERNS {
            for touched in [false, true] {
                let filling = fill(&Plan {
                    touched,
                    ..plan(Kind::Lru, ENTRIES, pattern, cpus)
                });
                assert_eq!(filling.lost[..5], [0; 5], "{pattern:?} {touched}");
                // All of them taken, though there is no room for any.
                let more = u64::from(ENTRIES / 100);
                assert_eq!(filling.beyond, (more, 0), "{pattern:?} {touched}");
                assert!(
                    u64::from(filling.lost_beyond) >= more,
                    "{pattern:?} {touched}: {filling:?}"
                );
            }
        }
    });
}

#[test]
fn without_common_lists_one_hot_cpu_has_its_share_of_the_table_and_no_more() {
    on_two_cpus("lru::no_common", |cpus| {
        let share = ENTRIES / probe::possible_cpus().expect("a number") as u32;
        let filling = fill(&plan(Kind::LruNoCommon, ENTRIES, Pattern::OneCpu, cpus));
        for (level, lost) in LEVELS.into_iter().zip(filling.lost) {
            let inserted = ENTRIES * level / 100;
            let surplus = inserted.saturating_sub(share);
            // Four are evicted at a time.
            assert!(
                (surplus..surplus + 8).contains(&lost),
                "{lost} lost of {inserted} with room for {share}"
            );
        }
        assert!(filling.lost[2] > 0, "{:?} lost", filling.lost);
        assert_eq!(filling.beyond.1, 0, "refused");
    });
}

#[test]
fn small_lru_tables_lose_flows_early() {
    on_two_cpus("lru::small", |cpus| {
        let possible = probe::possible_cpus().expect("a number") as u32;
        for entries in [256, 1024] {
            // So many are set aside by the CPU of the first flow, which uses one of them. Linux 6.17
            // has the second rule, and some stable kernels before it.
            let aside = [128, (entries / possible / 2).clamp(1, 128)];
            let rules = if probe::release().at_least(6, 17) {
                &aside[1..]
            } else {
                &aside[..]
            };
            let inserted = first_loss(entries, &cpus);
            let room = |aside: &u32| entries - (aside - 1);
            assert!(
                rules
                    .iter()
                    .any(|aside| (room(aside) + 1..room(aside) + 8).contains(&inserted)),
                "{inserted} of {entries}, {rules:?} set aside"
            );
        }
    });
}

#[test]
fn updates_in_a_full_lru_table_evict_others() {
    on_two_cpus("lru::updates", |cpus| {
        assert!(lost_to_updates(ENTRIES, 100, cpus[1]) > 0);
        assert_eq!(lost_to_updates(ENTRIES, 95, cpus[1]), 0);
    });
}

/// The percentage of quiet flows, a quarter of the table, that a flood of twice its size leaves.
fn left(kind: Kind, beat: Option<f64>, two_packets: bool, cpus: [usize; 2]) -> f64 {
    let scenario = Scenario {
        kind,
        quiet_percent: 25,
        beat,
        two_packets,
        reference: [f64::NAN; 4],
    };
    let survival = flood(&scenario, ENTRIES, 2.0, cpus);
    if kind != Kind::LruNoCommon {
        assert_eq!(survival.at(0.75), Some(100.0), "exactly full: {survival:?}");
    }
    if kind == Kind::Hash {
        assert_eq!(survival.inserted, u64::from(ENTRIES - survival.quiet));
        // The rest of the flood has asked in vain with every packet, but for the last second ones.
        let packets = if two_packets { 2 } else { 1 };
        let rest = u64::from(2 * ENTRIES) - survival.inserted;
        assert!(survival.refused > rest * packets - 1024, "{survival:?}");
        assert!(survival.refused <= rest * packets, "{survival:?}");
    } else if kind != Kind::Guarded {
        assert_eq!(survival.refused, 0, "{survival:?}");
    }
    survival.at(2.0).expect("counted at twice the size")
}

#[test]
fn a_full_lru_table_loses_live_quiet_flows_and_a_plain_one_none() {
    on_two_cpus("lru::flood", |cpus| {
        let silent = None;
        assert!(left(Kind::Lru, silent, false, cpus) < 75.0);
        assert!(left(Kind::Lru, silent, true, cpus) < 1.0);
        // A packet each time that half the table's size in new flows has come.
        assert!(left(Kind::Lru, Some(0.5), true, cpus) > 90.0);
        assert!(left(Kind::Lru, Some(1.0), true, cpus) < 50.0);
        assert!(left(Kind::LruNoCommon, Some(1.0), true, cpus) < 50.0);
        for two_packets in [false, true] {
            assert!(left(Kind::Hash, silent, two_packets, cpus) == 100.0);
            assert!(left(Kind::Guarded, silent, two_packets, cpus) == 100.0);
        }
    });
}
