// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The picture of a moment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use guideway::reason::Reason;

use super::screen::bar;
use super::spec::Member;

/// Cells of the longest bar.
const BAR: usize = 32;

/// One backend, as the picture shows it.
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) member: Member,
    pub(crate) dead: bool,
    /// The share of new connections that the table gives it.
    pub(crate) planned: f64,
    /// Of the connections that were opened under the plan in force.
    pub(crate) landed: usize,
    pub(crate) alive: usize,
    pub(crate) broken: usize,
    /// Packets that the balancer sent it.
    pub(crate) packets: u64,
}

/// Everything that one picture shows.
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) opened: usize,
    pub(crate) alive: usize,
    pub(crate) broken: usize,
    pub(crate) echoes: u64,
    /// Packets that the balancer forwarded, by rule.
    pub(crate) rules: BTreeMap<&'static str, u64>,
    /// All its packets, by reason.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
}

/// The picture as text, at most 100 columns wide.
pub(crate) fn render(picture: &Picture, elapsed: Duration) -> String {
    let mut text = String::new();
    let mut line = |parts: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{parts}");
    };
    line(format_args!(
        "{:<76} {:>8.1} s",
        picture.title,
        elapsed.as_secs_f64()
    ));
    line(format_args!(
        "  backend    weight  plan   new connections under this plan{:>17}{:>7}{:>10}",
        "alive", "broken", "packets"
    ));
    let landed: usize = picture.rows.iter().map(|row| row.landed).sum();
    let share = |count: usize| count as f64 / landed.max(1) as f64;
    let widest = picture
        .rows
        .iter()
        .map(|row| row.planned.max(share(row.landed)))
        .fold(0.1, f64::max);
    for row in &picture.rows {
        let state = if row.dead {
            "dead"
        } else {
            row.member.state.name()
        };
        let number = row.number;
        line(format_args!(
            "  {number:>2} {state:<9} {:>3} {:>5.1}% {:>5} {:>5.1}% {}{:>5}{:>7}{:>10}",
            row.member.weight,
            row.planned * 100.0,
            row.landed,
            share(row.landed) * 100.0,
            bar(share(row.landed) / widest, row.planned / widest, BAR),
            row.alive,
            row.broken,
            row.packets
        ));
    }
    line(format_args!(
        "  connections: {} opened, {} alive, {} broken; {} echoes, every byte right",
        picture.opened, picture.alive, picture.broken, picture.echoes
    ));
    line(format_args!(
        "  packets by rule: {}; not forwarded: {}",
        list(&picture.rules, ""),
        list(&picture.reasons, Reason::Forwarded.name())
    ));
    text
}

/// The counts that are not 0, but for the one named `without`.
fn list(counts: &BTreeMap<&'static str, u64>, without: &str) -> String {
    let parts: Vec<_> = counts
        .iter()
        .filter(|(name, count)| **count > 0 && **name != without)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    match parts.is_empty() {
        true => "none".to_owned(),
        false => parts.join(", "),
    }
}
