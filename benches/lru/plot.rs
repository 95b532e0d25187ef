// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The picture: what survives a flood, and what is lost while a table fills up.

use super::flood::{Scenario, Survival};
use super::occupancy::{Filling, Plan, LEVELS};
use super::svg::{page, Axis, Chart, Line};

/// Both charts as SVG.
pub(crate) fn draw(floods: &[(Scenario, Survival)], fillings: &[(Plan, Filling)]) -> String {
    let survival = Chart {
        title: "Quiet flows during a flood of new ones".into(),
        x: Axis::linear(
            "new flows, in units of the table's size",
            &[0.0, 1.0, 2.0, 4.0, 6.0, 8.0],
        ),
        y: Axis::linear(
            "quiet flows never evicted, %",
            &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
        ),
        lines: floods
            .iter()
            .map(|(scenario, survival)| Line {
                name: scenario.name(),
                points: survival.percent.clone(),
            })
            .collect(),
    };
    let filling = Chart {
        title: "Live flows lost while a table fills up".into(),
        x: Axis::linear(
            "flows inserted, % of the table's size",
            &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
        ),
        y: Axis::linear(
            "of these lost, %",
            &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        ),
        lines: fillings
            .iter()
            .map(|(plan, filling)| Line {
                name: format!(
                    "{}, {} entries, {}",
                    plan.kind.name(),
                    plan.entries,
                    plan.pattern.name()
                ),
                points: lost(plan, filling),
            })
            .collect(),
    };
    page(&[survival, filling])
}

fn lost(plan: &Plan, filling: &Filling) -> Vec<(f64, f64)> {
    let of = |(level, lost): (u32, u32)| {
        let inserted = f64::from(super::occupancy::part(plan.entries, level));
        (f64::from(level), f64::from(lost) * 100.0 / inserted)
    };
    let found = LEVELS.into_iter().zip(filling.lost).map(of);
    std::iter::once((0.0, 0.0)).chain(found).collect()
}
