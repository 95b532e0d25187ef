// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Live rates: what an instance did between two looks at it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::finding::Finding;
use super::stats::{ServiceStats, Stats};

/// What an instance did in one interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WatchLine {
    /// Names this form.
    pub schema: WatchSchema,
    /// When the interval ended, in UTC, in the form of RFC 3339.
    pub time: String,
    /// How long it was.
    pub interval_seconds: f64,
    /// The services of the live generation, in the order of their names.
    pub services: Vec<ServiceRates>,
    /// Packets per second by what became of them; reasons without a packet are left out.
    pub reasons: BTreeMap<&'static str, f64>,
    /// What was not as it should be at the end.
    pub findings: Vec<Finding>,
    /// What stood in the way of the work of `run` at the end; none if nothing did, or it was left
    /// to others.
    pub problem: Option<String>,
}

/// Names the form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WatchSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.watch/v1")]
    V1,
}

/// What one service did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ServiceRates {
    /// Its name.
    pub name: String,
    /// Packets per second that found it.
    pub packets_per_second: f64,
    /// Bytes per second of these: frame lengths.
    pub bytes_per_second: f64,
    /// Forwarded packets per second by the rule that placed them; rules without one are left out.
    pub rules: BTreeMap<&'static str, f64>,
    /// Its backends in the order of their ids.
    pub backends: Vec<BackendRates>,
}

/// What one backend got.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BackendRates {
    /// Its number.
    pub id: u32,
    /// Packets per second.
    pub packets_per_second: f64,
    /// As a fraction of what all backends of the service got; 0 where none got any.
    pub share: f64,
}

impl WatchLine {
    /// The rates between two looks, `interval` apart. What is only in `after` counts from zero.
    pub fn between(
        before: &Stats,
        after: &Stats,
        interval: Duration,
        time: String,
        findings: Vec<Finding>,
    ) -> Self {
        // An empty interval has no rates; nothing is divided by zero.
        let seconds = interval.as_secs_f64().max(f64::MIN_POSITIVE);
        let services = after.services.iter().map(|service| {
            let old = before.services.iter().find(|old| old.name == service.name);
            service_rates(old, service, seconds)
        });
        Self {
            schema: WatchSchema::V1,
            time,
            interval_seconds: interval.as_secs_f64(),
            services: services.collect(),
            reasons: rates(Some(&before.reasons), &after.reasons, seconds),
            findings,
            problem: None,
        }
    }
}

fn service_rates(
    before: Option<&ServiceStats>,
    after: &ServiceStats,
    seconds: f64,
) -> ServiceRates {
    let counter = |name: &str| {
        let read = |stats: &ServiceStats| stats.counters.get(name).copied().unwrap_or(0);
        grown(before.map_or(0, read), read(after))
    };
    let packets: Vec<_> = after
        .backends
        .iter()
        .map(|backend| {
            let old = before.and_then(|before| {
                let mut backends = before.backends.iter();
                backends.find(|old| old.id == backend.id)
            });
            grown(old.map_or(0, |old| old.packets), backend.packets)
        })
        .collect();
    let all: u64 = packets.iter().sum();
    let backends = after.backends.iter().zip(&packets);
    ServiceRates {
        name: after.name.clone(),
        packets_per_second: counter("packets") as f64 / seconds,
        bytes_per_second: counter("bytes") as f64 / seconds,
        rules: rates(before.map(|before| &before.rules), &after.rules, seconds),
        backends: backends
            .map(|(backend, &packets)| BackendRates {
                id: backend.id,
                packets_per_second: packets as f64 / seconds,
                share: packets as f64 / all.max(1) as f64,
            })
            .collect(),
    }
}

/// How much a counter rose. One that fell was begun anew: by a service or backend that left and
/// came back between the looks.
fn grown(before: u64, after: u64) -> u64 {
    after.checked_sub(before).unwrap_or(after)
}

fn rates(
    before: Option<&BTreeMap<&'static str, u64>>,
    after: &BTreeMap<&'static str, u64>,
    seconds: f64,
) -> BTreeMap<&'static str, f64> {
    let old = |name: &str| before.and_then(|before| before.get(name)).copied();
    let rates = after.iter().filter_map(|(name, &count)| {
        let packets = grown(old(name).unwrap_or(0), count);
        (packets > 0).then(|| (*name, packets as f64 / seconds))
    });
    rates.collect()
}

#[cfg(test)]
mod tests {
    use super::super::stats::BackendStats;
    use super::*;

    fn stats(packets: u64, backends: &[(u32, u64)], table: u64) -> Stats {
        let backends = backends.iter().map(|&(id, packets)| BackendStats {
            id,
            packets,
            bytes: 0,
        });
        Stats {
            reasons: BTreeMap::from([("forwarded", packets), ("no_service", 7)]),
            services: vec![ServiceStats {
                name: "web".into(),
                rules: BTreeMap::from([("table", table), ("flow", 0)]),
                counters: BTreeMap::from([("packets", packets), ("bytes", 100 * packets)]),
                backends: backends.collect(),
            }],
            ..Stats::default()
        }
    }

    fn between(before: &Stats, after: &Stats, seconds: u64) -> WatchLine {
        let time = "2026-07-31T08:00:00Z".to_owned();
        WatchLine::between(before, after, Duration::from_secs(seconds), time, vec![])
    }

    #[test]
    fn rates_are_what_came_in_the_interval() {
        let before = stats(100, &[(1, 60), (2, 40)], 100);
        let after = stats(140, &[(1, 90), (2, 50)], 140);
        let line = between(&before, &after, 2);
        let service = &line.services[0];
        assert_eq!(service.packets_per_second, 20.0);
        assert_eq!(service.bytes_per_second, 2000.0);
        assert_eq!(service.rules, BTreeMap::from([("table", 20.0)]));
        let shares: Vec<_> = service
            .backends
            .iter()
            .map(|backend| (backend.id, backend.packets_per_second, backend.share))
            .collect();
        assert_eq!(shares, [(1, 15.0, 0.75), (2, 5.0, 0.25)]);
        assert_eq!(line.reasons, BTreeMap::from([("forwarded", 20.0)]));
    }

    #[test]
    fn what_began_anew_counts_from_zero_and_nothing_is_divided_by_it() {
        let before = stats(100, &[(1, 60)], 100);
        let after = stats(10, &[(1, 4), (3, 6)], 10);
        let line = between(&before, &after, 1);
        assert_eq!(line.services[0].packets_per_second, 10.0);
        assert_eq!(line.services[0].backends[1].share, 0.6);
        let idle = between(&after, &after, 1);
        assert_eq!(idle.services[0].backends[0].share, 0.0);
        assert!(idle.reasons.is_empty());
        let new = between(&Stats::default(), &after, 1);
        assert_eq!(new.services[0].packets_per_second, 10.0);
        assert!(between(&after, &after, 0).services[0]
            .packets_per_second
            .is_finite());
    }
}
