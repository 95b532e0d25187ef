// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Costs, in relation to those of a plain table.

use serde_json::json;

use crate::costs::{self, Costs, Operation, Setting, KINDS, OPERATIONS};
use crate::report::{Report, Truth};
use crate::table::Kind;
use crate::Extent;

/// All operations in all kinds of table, on one CPU at a time and on two at once.
pub(crate) fn compare(extent: &Extent, report: &mut Report) {
    for parallel in [false, true] {
        for entries in [extent.flooded, extent.large] {
            let setting = Setting {
                entries,
                parallel,
                cpus: extent.cpus,
                possible_cpus: extent.possible_cpus,
                // One of the long rounds is enough.
                rounds: if entries == extent.large && parallel {
                    1
                } else {
                    extent.rounds
                },
            };
            compare_in(&setting, report);
        }
    }
}

fn compare_in(setting: &Setting, report: &mut Report) {
    let found = costs::measure(setting);
    println!(
        "\nns an operation (in relation to HASH), {} entries, {}:",
        setting.entries,
        if setting.parallel {
            "both CPUs at once"
        } else {
            "one CPU at a time"
        }
    );
    print!("{:<20}", "");
    for operation in OPERATIONS {
        print!(" {:>17}", operation.name());
    }
    println!();
    for (kind, costs) in KINDS.into_iter().zip(found) {
        let line = |name: &str, costs: Costs, base: Costs| {
            print!("{name:<20}");
            for (ns, base) in costs.into_iter().zip(base) {
                print!(" {ns:>10.0} ({:>4.2})", ns / base);
            }
            println!();
        };
        line(kind.name(), costs, found[0]);
        let earlier = (!setting.parallel).then(|| costs::reference(setting.entries, kind));
        let base = costs::reference(setting.entries, Kind::Hash);
        if let (Some(earlier), Some(base)) = (earlier.flatten(), base) {
            line("  earlier", earlier, base);
        }
        for ((operation, ns), base) in OPERATIONS.into_iter().zip(costs).zip(found[0]) {
            report.row(
                "cost",
                json!({
                    "table": kind.name(), "entries": setting.entries, "operation": operation.name(),
                    "cpus": if setting.parallel { 2 } else { 1 }, "ns": ns, "ratio": ns / base,
                }),
            );
        }
    }
    cost_claims(setting, &found, report);
}

fn cost_claims(setting: &Setting, found: &[Costs; KINDS.len()], report: &mut Report) {
    let [hash, no_prealloc, lru, _] = found;
    let hit = OPERATIONS
        .iter()
        .position(|o| *o == Operation::Hit)
        .unwrap_or(0);
    let update = OPERATIONS
        .iter()
        .position(|o| *o == Operation::Update)
        .unwrap_or(0);
    let size = setting.entries;
    if setting.parallel {
        return report.claim(
            &format!("With two CPUs at once an LRU table is dearer to update ({size} entries)"),
            (
                Truth::Holds,
                "3.5 times a plain table at 1,048,576, 5.6 times at 65,536",
            ),
            (
                Truth::of(lru[update] > 1.5 * hash[update]),
                format!("{:.1} times a plain table", lru[update] / hash[update]),
            ),
        );
    }
    report.claim(
        &format!("Never evicting costs nothing on a hit ({size} entries)"),
        (
            Truth::Holds,
            "hit in a plain table 1.3 times one in an LRU at 1,048,576, 1.1 times at 65,536",
        ),
        (
            Truth::of(hash[hit] < 1.5 * lru[hit]),
            format!("{:.2} times one in an LRU table", hash[hit] / lru[hit]),
        ),
    );
    report.claim(
        &format!("Without preallocation everything takes twice as long ({size} entries)"),
        (
            Truth::Refuted,
            "look-ups equal; updates 1.2 times at 1,048,576, 2.1 to 2.4 times at 65,536",
        ),
        (
            Truth::of(no_prealloc[hit] > 1.5 * hash[hit]),
            format!(
                "hit {:.2}, update {:.2} times that of a preallocated table",
                no_prealloc[hit] / hash[hit],
                no_prealloc[update] / hash[update]
            ),
        ),
    );
}
