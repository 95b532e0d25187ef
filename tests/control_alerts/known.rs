// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a node exports: whether names, labels and values that somebody relies on exist.

use std::collections::{BTreeMap, BTreeSet};

use guideway::control::metrics::{render, Format, METRICS};

use crate::fleet::healthy;
use crate::promql::{is_like, Expr, Selector};
use crate::strict::{parse, Family};

/// Labels that Prometheus itself gives to whatever it scrapes.
const OF_TARGETS: [&str; 2] = ["instance", "job"];
/// Labels whose values nobody knows beforehand.
const OPEN: [&str; 5] = ["class", "shard_sid", "digest", "group", "incarnation"];

/// Each series' name with the values that each of its labels has.
pub(crate) struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Exported {
    /// What a node exports that has something to tell of most.
    pub(crate) fn new() -> Self {
        let node = healthy(5.0);
        let text = render(&node.counters, &node.reading, Format::OpenMetrics);
        let Self(mut names) = Self::by(parse(&text));
        // Where a node has nothing to tell there is no series, but the metric exists.
        for metric in METRICS {
            let labels = metric.labels.iter();
            let labels = labels.map(|label| ((*label).to_owned(), BTreeSet::new()));
            if !names.keys().any(|name| name.starts_with(metric.name())) {
                names.insert(metric.name().to_owned(), labels.collect());
            }
        }
        Self(names)
    }

    /// What was scraped, and nothing else.
    pub(crate) fn by(families: BTreeMap<String, Family>) -> Self {
        let mut names: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for (name, labels, _) in families.into_values().flat_map(|of| of.samples) {
            let of = names.entry(name).or_default();
            for (label, value) in labels {
                of.entry(label).or_default().insert(value);
            }
        }
        Self(names)
    }

    /// The labels of all series that an expression selects.
    pub(crate) fn labels(&self, expr: &Expr) -> BTreeSet<String> {
        let mut labels = BTreeSet::from(OF_TARGETS.map(str::to_owned));
        expr.selectors(&mut |selector| {
            let of = self.0.get(&selector.name).into_iter();
            labels.extend(of.flat_map(BTreeMap::keys).cloned());
        });
        labels
    }

    /// What an expression names that does not exist.
    pub(crate) fn unknown(&self, expr: &Expr) -> Vec<String> {
        let mut unknown = Vec::new();
        let labels = self.labels(expr);
        expr.selectors(&mut |selector| {
            if selector.name == "up" {
                return;
            }
            match self.0.get(&selector.name) {
                None => unknown.push(selector.name.clone()),
                Some(of) => unknown.extend(bad_matchers(selector, of)),
            }
        });
        expr.labels(&mut |label| {
            if !labels.contains(label) {
                unknown.push(format!("label {label}"));
            }
        });
        unknown
    }
}

/// Alternatives of matchers that no series has.
fn bad_matchers(selector: &Selector, labels: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut bad = Vec::new();
    for (label, _, pattern) in &selector.matchers {
        if OF_TARGETS.contains(&label.as_str()) {
            continue;
        }
        let Some(values) = labels.get(label) else {
            bad.push(format!("{}{{{label}}}", selector.name));
            continue;
        };
        if OPEN.contains(&label.as_str()) {
            continue;
        }
        let missing = pattern
            .split('|')
            .filter(|one| !values.iter().any(|value| is_like(one, value)));
        bad.extend(missing.map(|one| format!("{}{{{label}={one:?}}}", selector.name)));
    }
    bad
}

#[test]
fn what_does_not_exist_is_seen() {
    let exported = Exported::new();
    let unknown = |text: &str| exported.unknown(&crate::promql::parse(text));
    assert_eq!(
        unknown(
            "sum by (reason) (rate(guideway_egress_drops_total{reason=~\"parse|group_.*\"}[5m]))"
        ),
        [""; 0]
    );
    for (text, expected) in [
        ("guideway_egress_drops", "guideway_egress_drops"),
        (
            "guideway_egress_drops_total{cause=\"full\"}",
            "guideway_egress_drops_total{cause}",
        ),
        (
            "guideway_egress_drops_total{reason=\"no\"}",
            "guideway_egress_drops_total{reason=\"no\"}",
        ),
        (
            "guideway_egress_drops_total{reason=~\"parse|pool_.*\"}",
            "guideway_egress_drops_total{reason=\"pool_.*\"}",
        ),
        ("sum by (tenant) (guideway_egress_pins)", "label tenant"),
    ] {
        assert_eq!(unknown(text), [expected]);
    }
}
