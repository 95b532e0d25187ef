// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tables that fill up, and updates of what is in them.

use serde_json::json;

use crate::occupancy::{self, Filling, Pattern, Plan, PATTERNS};
use crate::report::{Report, Truth};
use crate::table::Kind;
use crate::Extent;

/// Every way to fill a table; returns those that go into the picture.
pub(crate) fn fill_up(extent: &Extent, report: &mut Report) -> Vec<(Plan, Filling)> {
    println!("Live flows lost when a table is filled to a percentage of its size:");
    print!(
        "{:<20} {:>8} {:<14} {:<7}",
        "table", "entries", "inserted by", "packets"
    );
    for level in occupancy::LEVELS {
        print!(" {level:>7}");
    }
    println!(" {:>9} {:>9}", "+1: lost", "refused");
    let plan = |kind, entries, pattern, touched| Plan {
        kind,
        entries,
        pattern,
        touched,
        cpus: extent.cpus,
    };
    let mut plans = Vec::new();
    for &entries in extent.sizes {
        for pattern in PATTERNS {
            for touched in [false, true] {
                plans.push(plan(Kind::Lru, entries, pattern, touched));
            }
        }
        for kind in [Kind::LruNoCommon, Kind::Hash] {
            plans.push(plan(kind, entries, Pattern::OneCpu, false));
            plans.push(plan(kind, entries, Pattern::Parallel, false));
        }
    }
    let large = extent.large;
    plans.push(plan(Kind::Lru, large, Pattern::OneCpu, false));
    plans.push(plan(Kind::Lru, large, Pattern::Halves, true));
    plans.push(plan(Kind::Lru, large, Pattern::Turns, false));
    plans.push(plan(Kind::Lru, large, Pattern::Parallel, true));
    plans.push(plan(Kind::LruNoCommon, large, Pattern::OneCpu, false));
    plans.push(plan(Kind::Hash, large, Pattern::OneCpu, false));
    let mut results = Vec::new();
    for plan in plans {
        let filling = occupancy::fill(&plan);
        let packets = if plan.touched { 2 } else { 1 };
        print!(
            "{:<20} {:>8} {:<14} {packets:<7}",
            plan.kind.name(),
            plan.entries,
            plan.pattern.name()
        );
        for lost in filling.lost {
            print!(" {lost:>7}");
        }
        println!(" {:>9} {:>9}", filling.lost_beyond, filling.beyond.1);
        report.row("lost", json!({
            "table": plan.kind.name(), "entries": plan.entries, "inserted_by": plan.pattern.name(),
            "packets": packets, "fill_percent": occupancy::LEVELS, "lost": filling.lost,
            "lost_beyond": filling.lost_beyond, "refused_beyond": filling.beyond.1,
        }));
        results.push((plan, filling));
    }
    filling_claims(&results, report);
    results.retain(|(plan, _)| plan.entries == large && plan.pattern == Pattern::OneCpu);
    results
}

fn filling_claims(results: &[(Plan, Filling)], report: &mut Report) {
    let of = |kind| results.iter().filter(move |(plan, _)| plan.kind == kind);
    let most = of(Kind::Lru).map(|(_, filling)| filling.lost[..5].iter().max().copied());
    let most = most.flatten().max().unwrap_or(0);
    let ways = of(Kind::Lru).count();
    report.claim(
        "An LRU_HASH evicts live flows at 40 % of its size",
        (
            Truth::Refuted,
            "0 lost at 40, 60, 80, 95 % in 354 cases; 24 to 157 at exactly 100 %",
        ),
        (
            Truth::of(most > 0),
            format!("{most} lost at 40, 50, 60, 80, 95 % in {ways} ways to fill a table"),
        ),
    );
    let one = |kind| {
        let of_kind = of(kind).filter(|(plan, _)| plan.pattern == Pattern::OneCpu);
        of_kind.max_by_key(|(plan, _)| plan.entries)
    };
    if let Some((plan, filling)) = one(Kind::LruNoCommon) {
        let [_, _, at_60, at_80, at_95, at_100] = filling.lost;
        report.claim(
            "BPF_F_NO_COMMON_LRU evicts live flows below its size when one CPU is hot",
            (
                Truth::Holds,
                "of 1,048,576: 104,860 lost at 60 %, 314,572 at 80, 471,860 at 95, 524,288 at 100",
            ),
            (
                Truth::of(at_60 > 0),
                format!(
                    "of {}: {at_60} lost at 60 %, {at_80} at 80, {at_95} at 95, {at_100} at 100",
                    plan.entries
                ),
            ),
        );
    }
    if let Some((plan, filling)) = one(Kind::Lru) {
        report.claim(
            "An LRU table gives no sign of an eviction",
            (Truth::Holds, "no error, counter or event"),
            (
                Truth::of(filling.beyond.1 == 0 && filling.lost_beyond > 0),
                format!(
                    "of {}: {} live flows gone, all updates returned 0",
                    plan.entries, filling.lost_beyond
                ),
            ),
        );
    }
    let plain = of(Kind::Hash);
    let lost = plain.clone().map(|(_, filling)| filling.lost_beyond).max();
    let exact = plain.clone().filter(|(_, filling)| filling.beyond.0 == 0);
    let (exact, all) = (exact.count(), plain.count());
    report.claim(
        "A plain HASH loses nothing and refuses with -E2BIG exactly at its size",
        (Truth::Holds, "exact, with two CPUs as well"),
        (
            Truth::of(lost == Some(0) && exact == all),
            format!(
                "{} lost, exact in {exact} of {all} cases",
                lost.unwrap_or(0)
            ),
        ),
    );
}

/// Where small tables lose their first flow.
pub(crate) fn small_tables(extent: &Extent, report: &mut Report) {
    let sizes = [64, 256, 1024, 16_384];
    let cpus = &extent.all_cpus;
    let found = sizes.map(|entries| (entries, occupancy::first_loss(entries, cpus)));
    let texts = found.map(|(entries, inserted)| {
        let percent = f64::from(inserted) * 100.0 / f64::from(entries);
        report.row(
            "first_loss",
            json!({"entries": entries, "cpus": cpus.len(), "fill_percent": percent}),
        );
        format!("{entries} entries at {percent:.1} %")
    });
    let early = found
        .iter()
        .any(|(entries, inserted)| inserted * 10 < entries * 9);
    report.claim(
        "Small LRU tables evict early",
        (
            Truth::Holds,
            "1,024 entries, 8 CPUs: at 13 % before Linux 6.17, later not before 51 %",
        ),
        (
            Truth::of(early),
            format!("{} CPUs, the first loss: {}", cpus.len(), texts.join(", ")),
        ),
    );
}

/// Updates of every flow in full and nearly full tables.
pub(crate) fn updates(extent: &Extent, report: &mut Report) {
    let mut texts = Vec::new();
    let mut all = true;
    for &entries in extent.sizes.iter().chain([&extent.large]) {
        let [below, full] =
            [95, 100].map(|level| occupancy::lost_to_updates(entries, level, extent.cpus[1]));
        report.row(
            "updates",
            json!({"entries": entries, "lost_at_95": below, "lost_when_full": full}),
        );
        texts.push(format!("{full} of {entries} ({below} when 95 % full)"));
        all &= full > 0 && below == 0;
    }
    report.claim(
        "Updates of existing keys in a full LRU table evict others",
        (Truth::Holds, "one update of every key: 73, 27, 128 lost of 16,384, 65,536, 1,048,576; 0 when 95 % full"),
        (
            Truth::of(all),
            format!("one update of every key: {} lost", texts.join(", ")),
        ),
    );
}
