// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Removing pins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::pins::PinFilter;
use super::Error;
use crate::egress::pins::{Fate, Held, Pin, Removed, Report, Rules, Scope, Standings, Tick};
use crate::egress::{InstanceError, Loader, Writer};
use crate::kernel::statedir::StateDir;

/// What a pass over pins came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SweepDocument {
    /// Names this form.
    pub schema: SweepSchema,
    /// Which pins were to go.
    pub rule: SweepRule,
    /// Whether nothing is left of what was to be removed when it was found.
    pub complete: bool,
    /// The pins that it was about, as they were found.
    pub found: Standings,
    /// Those that were removed, by the reason that is counted.
    pub removed: Removed,
    /// Left alone, as packets renewed or bound them meanwhile, or they were gone.
    pub changed: u64,
    /// Left alone, as they are not what they seem.
    pub torn: u64,
    /// Left, as their part of the table was locked.
    pub busy: u64,
    /// Removed, and their tenant's count had no more of them.
    pub uncounted: u64,
    /// How long the pass took, in milliseconds.
    pub duration_ms: f64,
    /// By table, how much was added to counts of tenants' pins that were wrong; expiry makes them right.
    pub recounted: BTreeMap<u32, i64>,
}

/// Names the form of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SweepSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.sweep/v1")]
    V1,
}

/// Which pins are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SweepRule {
    /// Those that are idle or of a tenure that is over.
    Expire,
    /// Those that somebody names, in use or not.
    Remove,
}

impl SweepDocument {
    fn of(rule: SweepRule, report: &Report) -> Self {
        Self {
            schema: SweepSchema::V1,
            rule,
            complete: report.is_complete(),
            found: report.found,
            removed: report.removed,
            changed: report.changed,
            torn: report.torn,
            busy: report.busy,
            uncounted: report.uncounted,
            duration_ms: report.duration.as_secs_f64() * 1000.0,
            recounted: BTreeMap::new(),
        }
    }
}

/// Removes pins that are idle or of tenures that are over. Those that packets use stay. Then counts of
/// tenants' pins are made right.
///
/// # Errors
/// No instance, another writer, or the pass was not made to its end.
pub fn expire(dir: &StateDir, lock: Duration) -> Result<SweepDocument, Error> {
    let mut writer = Loader::new(dir).patience(lock).open()?;
    let report = writer.sweeper()?.expire(Tick::now())?;
    let mended = writer.recount_pins()?.mended.into_iter();
    Ok(SweepDocument {
        recounted: mended.map(|(table, more)| (table.get(), more)).collect(),
        ..SweepDocument::of(SweepRule::Expire, &report)
    })
}

/// Removes the pins that `filter` lets through, and of these, if `held` says so, only those that are
/// held to that tenure of a slot. They may be in use: their next packets go where the table says.
///
/// # Errors
/// As [`expire`].
pub fn remove(
    dir: &StateDir,
    filter: &PinFilter,
    held: Option<Held>,
    lock: Duration,
) -> Result<SweepDocument, Error> {
    let mut writer = Loader::new(dir).patience(lock).open()?;
    let scope = match (filter.table, filter.group, filter.source, held) {
        (None, None, None, None) => Some(Scope::All),
        (Some(table), None, None, None) => Some(Scope::Tenant(table)),
        (None, Some(group), None, None) => Some(Scope::Group(group)),
        (None, Some(group), None, Some(held)) => Some(Scope::Member(group, held)),
        _ => None,
    };
    let report = match scope {
        Some(scope) => writer.sweeper()?.remove(scope, Tick::now())?,
        None => one_by_one(&mut writer, |pin| {
            filter.matches(pin) && held.is_none_or(|held| held == pin.held)
        })?,
    };
    Ok(SweepDocument::of(SweepRule::Remove, &report))
}

/// Removes those of which `goes` says so.
fn one_by_one(writer: &mut Writer, goes: impl Fn(&Pin) -> bool) -> Result<Report, Error> {
    let started = Instant::now();
    let mut report = Report::default();
    let mut going = Vec::new();
    let read = writer.pins()?.for_each(|pin| {
        going.extend(pin.ok().filter(&goes));
        ControlFlow::Continue(())
    });
    read.map_err(InstanceError::from)?;
    let rules = Rules::new(&writer.groups_as_they_are()?.known);
    let now = Tick::now();
    let sweeper = writer.sweeper()?;
    for pin in &going {
        report.found.count(rules.standing(pin, now));
        match sweeper.remove_pin(pin)? {
            Fate::Removed => report.removed.called += 1,
            // What was to go is gone.
            Fate::Gone => {}
            Fate::Changed => report.changed += 1,
            Fate::Torn => report.torn += 1,
            Fate::Busy => report.busy += 1,
        }
    }
    report.duration = started.elapsed();
    Ok(report)
}
