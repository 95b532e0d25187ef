// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The outcome as text and as JSON.

use std::fmt::{self, Display, Write};

use serde::Serialize;

use crate::contest::{Contest, Outcome, Setup, SMALL_SHARE};

/// The JSON object.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    rows: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceptions: Option<Vec<Exceptions>>,
}

/// What came of one policy at one rate.
#[derive(Debug, Serialize)]
struct Row<'a> {
    policy: &'a str,
    updates_per_minute: u32,
    connections: u32,
    violations: u64,
    violations_per_100k: f64,
    entries_peak: usize,
    at_risk: u64,
}

/// How much tracking only exceptions saves, and what a table does that is too small for them.
#[derive(Debug, Serialize)]
struct Exceptions {
    updates_per_minute: u32,
    updates: u64,
    entries_mean: f64,
    entries_peak: usize,
    hash_entries_mean: f64,
    hash_entries_peak: usize,
    open_slots_mean: f64,
    open_slots_peak: f64,
    small_table: SmallTable,
}

#[derive(Debug, Serialize)]
struct SmallTable {
    entries_peak: usize,
    violations: u64,
    at_risk: u64,
    violations_not_at_risk: u64,
}

impl<'a> Document<'a> {
    pub(crate) fn new(contests: &'a [Contest], details: bool) -> Self {
        let rows = contests.iter().flat_map(|contest| {
            contest.printed().iter().map(|outcome| Row {
                policy: &outcome.policy,
                updates_per_minute: contest.updates_per_minute,
                connections: contest.connections,
                violations: outcome.violations,
                violations_per_100k: tenths(contest.per_100k(outcome)),
                entries_peak: outcome.entries_peak,
                at_risk: outcome.at_risk,
            })
        });
        Self {
            rows: rows.collect(),
            exceptions: details.then(|| contests.iter().map(Exceptions::new).collect()),
        }
    }
}

impl Exceptions {
    fn new(contest: &Contest) -> Self {
        let (exceptions, hash) = (contest.of("exceptions"), contest.of("hash"));
        let small = contest.small();
        Self {
            updates_per_minute: contest.updates_per_minute,
            updates: contest.updates,
            entries_mean: tenths(exceptions.entries_mean),
            entries_peak: exceptions.entries_peak,
            hash_entries_mean: tenths(hash.entries_mean),
            hash_entries_peak: hash.entries_peak,
            open_slots_mean: exceptions.open_mean,
            open_slots_peak: exceptions.open_peak,
            small_table: SmallTable {
                entries_peak: small.entries_peak,
                violations: small.violations,
                at_risk: small.at_risk,
                violations_not_at_risk: small.unforeseen,
            },
        }
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Contest {
    /// Violations of a policy for each 100,000 connections.
    pub(crate) fn per_100k(&self, outcome: &Outcome) -> f64 {
        outcome.violations as f64 * 100_000.0 / f64::from(self.connections.max(1))
    }

    /// The policies of the table: all but the one whose table is too small.
    pub(crate) fn printed(&self) -> &[Outcome] {
        self.outcomes
            .split_last()
            .map_or(&[], |(_, printed)| printed)
    }

    fn small(&self) -> &Outcome {
        self.outcomes.last().expect("there are policies")
    }

    fn of(&self, policy: &str) -> &Outcome {
        let mut outcomes = self.outcomes.iter();
        outcomes
            .find(|outcome| outcome.policy == policy)
            .expect("every policy takes part")
    }
}

/// The outcome for people.
pub(crate) fn text(setup: &Setup, contests: &[Contest]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut out, setup, contests);
    out
}

fn write_text(out: &mut String, setup: &Setup, contests: &[Contest]) -> fmt::Result {
    writeln!(
        out,
        "{} servers, drained for {} s; {} connections at a time; {} s, seed {}",
        setup.servers, setup.drain, setup.connections, setup.seconds, setup.seed
    )?;
    line(out, "", contests, |contest| {
        format!("{}/min", contest.updates_per_minute)
    })?;
    line(out, "servers that went", contests, |of| of.updates)?;
    line(out, "connections", contests, |of| of.connections)?;

    for (title, value) in [
        (
            "broken connections of each 100,000",
            (|contest, outcome| format!("{:.0}", contest.per_100k(outcome)))
                as fn(&Contest, &Outcome) -> String,
        ),
        ("entries at the peak", |_, outcome| {
            outcome.entries_peak.to_string()
        }),
    ] {
        writeln!(out, "\n{title}")?;
        for (number, outcome) in contests.iter().flat_map(Contest::printed).enumerate() {
            // Each contest has the same policies: the first one names them.
            if number < contests[0].printed().len() {
                line(out, &outcome.policy, contests, |contest| {
                    value(contest, &contest.outcomes[number])
                })?;
            }
        }
    }

    writeln!(out, "\nexceptions beside hash")?;
    line(out, "entries, mean", contests, |contest| {
        format!("{:.0}", contest.of("exceptions").entries_mean)
    })?;
    line(out, "of hash, mean", contests, |contest| {
        format!("{:.0}", contest.of("hash").entries_mean)
    })?;
    line(out, "open slots, mean", contests, |contest| {
        percent(contest.of("exceptions").open_mean)
    })?;
    line(out, "open slots, peak", contests, |contest| {
        percent(contest.of("exceptions").open_peak)
    })?;

    writeln!(
        out,
        "\nexceptions with a table for {:.0} % of the connections",
        SMALL_SHARE * 100.0
    )?;
    line(out, "broken of 100,000", contests, |contest| {
        format!("{:.0}", contest.per_100k(contest.small()))
    })?;
    line(out, "at risk", contests, |contest| contest.small().at_risk)?;
    line(out, "broken", contests, |contest| {
        contest.small().violations
    })?;
    line(out, "of them not at risk", contests, |contest| {
        contest.small().unforeseen
    })?;

    writeln!(
        out,
        "\n8lb-import exchanges bindings of connection IDs before paths change; rows of flows are \
         not exchanged."
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn line<T: Display>(
    out: &mut String,
    name: &str,
    contests: &[Contest],
    value: impl Fn(&Contest) -> T,
) -> fmt::Result {
    write!(out, "{name:20}")?;
    for contest in contests {
        write!(out, "{:>11}", value(contest).to_string())?;
    }
    writeln!(out)
}
