// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the README says of alerts and metrics is what is shipped.

use guideway::control::metrics::METRICS;
use guideway::control::source::SourceErrorReason;

use crate::rules;

const README: &str = include_str!("../../README.md");

/// The rows of the table of alerts: name, what it means, what to do.
fn table() -> Vec<[&'static str; 3]> {
    let rows = README
        .lines()
        .skip_while(|line| !line.starts_with("| alert |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        <[&str; 3]>::try_from(cells).expect("three cells")
    });
    rows.collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_alert_is_in_the_table_and_no_other() {
    let table = table();
    let listed: Vec<_> = table
        .iter()
        .map(|[name, ..]| name.trim_matches('`'))
        .collect();
    assert_eq!(listed, rules::names());
    for [name, means, what] in table {
        assert!(!means.is_empty() && !what.is_empty(), "{name}");
    }
    // Nor is there one of them anywhere else.
    let names = rules::names();
    for word in quoted(README).filter(|word| word.starts_with("GuidewayEgress")) {
        assert!(names.iter().any(|name| name == word), "{word}");
    }
}

#[test]
fn the_metrics_that_it_names_exist() {
    let has = |word: &str| {
        let mut metrics = METRICS.iter();
        metrics.any(|metric| metric.name().strip_prefix("guideway_egress_") == Some(word))
    };
    let ends = ["_total", "_info", "_ratio", "_seconds"];
    let is_metric = |word: &&str| ends.iter().any(|end| word.ends_with(end));
    let named: Vec<_> = quoted(README).filter(is_metric).collect();
    assert!(named.len() >= 2, "{named:?}");
    for word in named {
        assert!(has(word), "{word}");
    }
}

#[test]
fn it_tells_why_a_source_may_not_be_read() {
    for reason in SourceErrorReason::ALL {
        let reason = reason.name();
        assert!(quoted(README).any(|word| word == reason), "{reason}");
    }
}
