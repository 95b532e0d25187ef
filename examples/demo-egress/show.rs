// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The picture of a moment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::fleet::Tally;
use super::node::Gauge;
use super::screen::bar;
use super::spec::State;

/// Cells of the longest bar.
const BAR: usize = 20;

/// One shard, as the picture shows it.
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) state: State,
    /// Its slots of the table before the last change and after it.
    pub(crate) slots: [u32; 2],
    /// Addresses that the table placed on it since.
    pub(crate) placed: usize,
    pub(crate) tally: Tally,
    /// Addresses that have gone to other shards.
    pub(crate) moved: usize,
    pub(crate) gauge: Gauge,
}

/// Everything that one picture shows.
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    /// Slots of the table.
    pub(crate) slots: u32,
    /// Of all connections.
    pub(crate) total: Tally,
    pub(crate) exchanges: u64,
}

/// The picture as text, at most 100 columns wide.
pub(crate) fn render(picture: &Picture, elapsed: Duration) -> String {
    let mut text = String::new();
    let mut line = |parts: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{parts}");
    };
    line(format_args!(
        "{:<88} {:>8.1} s",
        picture.title,
        elapsed.as_secs_f64()
    ));
    line(format_args!(
        "  shard       slots        addresses placed since{:>19}{:>6}{:>7}{:>6}{:>6}{:>9}",
        "alive", "ended", "broken", "moved", "pins", "packets"
    ));
    let placed: usize = picture.rows.iter().map(|row| row.placed).sum();
    let planned = |row: &Row| f64::from(row.slots[1]) / f64::from(picture.slots.max(1));
    let seen = |row: &Row| row.placed as f64 / placed.max(1) as f64;
    let widest = picture
        .rows
        .iter()
        .map(|row| planned(row).max(seen(row)))
        .fold(0.1, f64::max);
    for row in &picture.rows {
        let [before, after] = row.slots;
        line(format_args!(
            "  {:>2} {:<8} {before:>4} → {after:>4}  {:>5.1}% {:>4} {}{:>6}{:>6}{:>7}{:>6}{:>6}{:>9}",
            row.number,
            row.state.name(),
            planned(row) * 100.0,
            row.placed,
            bar(seen(row) / widest, planned(row) / widest, BAR),
            row.tally.alive,
            row.tally.ended,
            row.tally.broken(),
            row.moved,
            row.gauge.pins,
            row.gauge.packets
        ));
    }
    let total = &picture.total;
    line(format_args!(
        "  connections: {} opened, {} alive, {} ended, {} broken; {} exchanges, every number right",
        total.opened,
        total.alive,
        total.ended,
        total.broken(),
        picture.exchanges
    ));
    for (cause, count) in &total.broken {
        line(format_args!("  broken: {count} x {cause}"));
    }
    text
}

/// All connections together.
pub(crate) fn total(tallies: &BTreeMap<Option<u32>, Tally>) -> Tally {
    let mut total = Tally::default();
    for tally in tallies.values() {
        total.opened += tally.opened;
        total.alive += tally.alive;
        total.ended += tally.ended;
        for (cause, count) in &tally.broken {
            *total.broken.entry(cause.clone()).or_default() += count;
        }
    }
    total
}
