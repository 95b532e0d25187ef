// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Quiet flows under floods.

use serde_json::json;

use crate::flood::{self, Scenario, Survival, SCENARIOS};
use crate::report::{Report, Truth};
use crate::table::Kind;
use crate::Extent;

/// Every scenario; returns what goes into the picture.
pub(crate) fn flood_all(extent: &Extent, report: &mut Report) -> Vec<(Scenario, Survival)> {
    println!("\nQuiet flows never evicted, %, after a flood of so many times the table's size (earlier):");
    let mut results = Vec::new();
    for scenario in SCENARIOS {
        let survival = flood::flood(&scenario, extent.flooded, extent.flood, extent.cpus);
        survived(&scenario, &survival, report);
        results.push((scenario, survival));
    }
    for scenario in SCENARIOS {
        // The plainest cases in a large table, as far as they change anything.
        let silent = scenario.quiet_percent == 25 && scenario.beat.is_none();
        if silent && matches!(scenario.kind, Kind::Lru | Kind::Hash) {
            let survival = flood::flood(&scenario, extent.large, 2.0, extent.cpus);
            survived(&scenario, &survival, report);
        }
    }
    let worst = |kind| {
        let of_kind = results.iter().filter(|(scenario, _)| scenario.kind == kind);
        of_kind
            .filter_map(|(_, survival)| survival.percent.last())
            .map(|(_, percent)| *percent)
            .fold(100.0, f64::min)
    };
    report.claim(
        "A full LRU table loses live quiet flows",
        (Truth::Holds, "ordinary churn leaves 0 % of silent flows"),
        (
            Truth::of(worst(Kind::Lru) < 100.0),
            format!("{:.1} % left in the worst case", worst(Kind::Lru)),
        ),
    );
    report.claim(
        "A plain HASH that refuses newcomers keeps every quiet flow",
        (Truth::Holds, "100 %"),
        (
            Truth::of(worst(Kind::Hash) == 100.0),
            format!("{:.1} % left", worst(Kind::Hash)),
        ),
    );
    results
}

fn survived(scenario: &Scenario, survival: &Survival, report: &Report) {
    let mut text = String::new();
    let mut alike = true;
    for (level, reference) in flood::LEVELS.into_iter().zip(scenario.reference) {
        if let Some(percent) = survival.at(level) {
            text += &format!(" {level} x: {percent:>5.1} ({reference})");
            // More than the order of things between two CPUs makes out.
            alike &= (percent - reference).abs() <= 10.0;
        }
    }
    let verdict = if alike { "holds" } else { "differs" };
    println!(
        "{verdict:<8} {} of {}\n        {text}",
        scenario.name(),
        survival.entries
    );
    report.row("survival", json!({
        "row": scenario.name(), "entries": survival.entries, "quiet": survival.quiet,
        "inserted": survival.inserted, "refused": survival.refused, "verdict": verdict,
        "percent": survival.percent, "reference": {"at": flood::LEVELS, "percent": scenario.reference},
    }));
}
