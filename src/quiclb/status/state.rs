// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What there is of flow state, without a look at any entry.

use std::time::Duration;

use super::{AffinityStatus, CidState, FlowState, Sweep};
use crate::affinity::level::{Fill, LevelRules};
use crate::affinity::rules::Level;
use crate::kernel::clock;
use crate::kernel::map::Map;
use crate::plan::{looks_for_exact, Live};
use crate::quiclb::collector::{default_period, level_number, occupancy, LATE};
use crate::quiclb::error::InstanceError;
use crate::quiclb::finding::{Finding, FindingCode};
use crate::quiclb::instance::QuicLb;
use crate::quiclb::stats::{ServiceStats, Stats};

/// What keeps flow state small.
const RUN: &str = "start the collector: quiclb run";

/// Counters of newcomers that got no entry.
const REFUSED: [&str; 3] = ["refused_high", "refused_full", "refused_busy"];

pub(super) fn affinity(
    instance: &QuicLb,
    live: &Live,
    stats: &Stats,
    findings: &mut Vec<Finding>,
) -> Result<AffinityStatus, InstanceError> {
    let used = occupancy(instance)?;
    let fill = |used, map: &Map| Fill {
        used,
        capacity: map.shape().max_entries.into(),
    };
    let tables = [
        ("flows", fill(used.flows, instance.maps.flows.map())),
        ("cids", fill(used.cids, instance.maps.cids.map())),
    ];
    let levels = levels(instance, live, stats, findings)?;
    for (name, table) in tables {
        if LevelRules::default().alerts(table) {
            findings.push(Finding::new(
                FindingCode::StateFills,
                name,
                format!("{} of {} entries are used", table.used, table.capacity),
                format!("make limits/{name} larger, or the time shorter that silent flows have"),
            ));
        }
    }
    let marks = live.all_marks();
    let now_ns = clock::monotonic_ns();
    let has_state = used.flows + used.cids > 0 || marks.open + marks.held > 0;
    let last_sweep = last_sweep(instance, live, has_state, now_ns, findings)?;
    let refused = |names: &[&str]| {
        let services = stats.services.iter();
        services.map(|service| counted(service, names)).sum()
    };
    let [flows, cids] = tables.map(|(_, table)| table);
    Ok(AffinityStatus {
        flows: FlowState {
            used: flows.used,
            capacity: flows.capacity,
            level: Some(level_number(levels[0])),
            refused: refused(&REFUSED),
            open_slots: marks.open.into(),
            held_slots: marks.held.into(),
            oldest_window_seconds: live
                .oldest_opening_ns(now_ns)
                .map(|opened_ns| now_ns.saturating_sub(opened_ns) / 1_000_000_000),
        },
        cids: CidState {
            used: cids.used,
            capacity: cids.capacity,
            level: Some(level_number(levels[1])),
            refused: refused(&["cid_refused"]),
        },
        last_sweep,
    })
}

fn counted(service: &ServiceStats, names: &[&str]) -> u64 {
    let counters = names.iter().filter_map(|name| service.counters.get(name));
    counters.sum()
}

/// The highest levels of all services, for flows and connection IDs; a service that refuses anything
/// is a finding.
fn levels(
    instance: &QuicLb,
    live: &Live,
    stats: &Stats,
    findings: &mut Vec<Finding>,
) -> Result<[Level; 2], InstanceError> {
    let mut highest = [Level::All; 2];
    for (service, record) in live.placed() {
        let admission = instance.maps.levels.get(record.stats)?;
        let mut levels = [admission.flows, admission.cids].map(Level::from_abi);
        if !looks_for_exact(service, record) {
            // It has none to refuse.
            levels[1] = Level::All;
        }
        for (highest, level) in highest.iter_mut().zip(levels) {
            *highest = level.max(*highest);
        }
        let worst = levels[0].max(levels[1]);
        if worst == Level::All {
            continue;
        }
        let stats = stats.services.iter().find(|of| of.name == service.name);
        let refused = stats.map_or(0, |stats| {
            counted(stats, &REFUSED) + counted(stats, &["cid_refused"])
        });
        let known = live.flow_state().service(record.id);
        let rate = known
            .and_then(|known| known.mean_starts_per_second)
            .map(|rate| format!("; {rate:.1} flows per second have begun on average"))
            .unwrap_or_default();
        findings.push(Finding::new(
            FindingCode::Refusing,
            &service.name,
            format!(
                "admission level {}: {refused} packets got no entry{rate}",
                level_number(worst)
            ),
            "established flows keep their backends; if this is no flood, make the tables larger",
        ));
    }
    Ok(highest)
}

/// The last complete sweep; if it is long ago and there is something to sweep, that is a finding.
fn last_sweep(
    instance: &QuicLb,
    live: &Live,
    has_state: bool,
    now_ns: u64,
    findings: &mut Vec<Finding>,
) -> Result<Option<Sweep>, InstanceError> {
    let swept = instance.maps.collection.get(0)?;
    let period = match swept.sweep_period_ns {
        0 => default_period(live.spec()),
        period_ns => Duration::from_nanos(period_ns),
    };
    let never = swept.swept_ns == 0;
    let age_ns = match never {
        // Before that nothing could have been swept.
        true => clock::boot_ns().saturating_sub(live.record.published_ns),
        false => now_ns.saturating_sub(swept.swept_ns),
    };
    let age = Duration::from_nanos(age_ns);
    if has_state && age > period * LATE {
        let message = match never {
            true => "no sweep was ever completed".to_owned(),
            false => format!(
                "the last complete sweep was {} s ago, one is due every {:.0} s",
                age.as_secs(),
                period.as_secs_f64()
            ),
        };
        let object = instance.dir().path().display();
        let code = FindingCode::NoCollector;
        findings.push(Finding::new(code, object, message, RUN));
    }
    Ok((!never).then_some(Sweep {
        age_seconds: age.as_secs(),
        learned: swept.learned,
        registered: swept.registered,
        imported: swept.imported,
        blast_radius: swept.blast_radius,
        duration_ms: swept.sweep_duration_ns / 1_000_000,
    }))
}
