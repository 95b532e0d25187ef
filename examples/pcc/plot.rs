// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The outcome as two charts: what breaks, and what it takes.

use crate::contest::{Contest, Outcome};
use crate::svg::{page, Axis, Chart, Line};

/// Draws the charts.
pub(crate) fn draw(contests: &[Contest]) -> String {
    let mut contests: Vec<_> = contests.iter().collect();
    contests.sort_by_key(|contest| contest.updates_per_minute);
    page(&[
        chart(
            &contests,
            "Broken connections",
            "of each 100,000; none at the bottom",
            Contest::per_100k,
        ),
        chart(
            &contests,
            "Memory",
            "thousands of entries at the peak; none at the bottom",
            |_, outcome| outcome.entries_peak as f64 / 1_000.0,
        ),
    ])
}

fn chart(
    contests: &[&Contest],
    title: &str,
    label: &str,
    value: impl Fn(&Contest, &Outcome) -> f64,
) -> Chart {
    let rate = |contest: &Contest| f64::from(contest.updates_per_minute);
    let names = contests.first().map_or(&[][..], |first| first.printed());
    let lines: Vec<_> = (0..)
        .zip(names)
        .map(|(number, outcome): (usize, _)| Line {
            name: outcome.policy.clone(),
            points: contests
                .iter()
                .map(|contest| (rate(contest), value(contest, &contest.outcomes[number])))
                .collect(),
        })
        .collect();
    let mut x: Vec<f64> = contests.iter().map(|contest| rate(contest)).collect();
    if let [only] = x[..] {
        x = vec![only / 2.0, only, only * 2.0];
    }
    let values = lines.iter().flat_map(|line| &line.points);
    let y = powers_of_ten(values.map(|(_, value)| *value));
    Chart {
        title: title.into(),
        x: Axis::logarithmic("servers updated per minute", &x),
        y: Axis::logarithmic(label, &y),
        lines,
    }
}

/// Ticks for values of zero and more: beyond the highest, and far enough below the lowest that it
/// is told from zero.
fn powers_of_ten(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let power = |value: f64| value.log10().floor() as i32;
    let powers: Vec<_> = values.filter(|value| *value > 0.0).map(power).collect();
    let lowest = powers.iter().min().map_or(0, |lowest| lowest - 1);
    let highest = powers.iter().max().map_or(1, |highest| highest + 1);
    (lowest..=highest).map(|power| 10_f64.powi(power)).collect()
}
