// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The dashboard: what it shows exists.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::known::Exported;
use crate::promql;

const FILE: &str = include_str!("../../examples/egressd/dashboard.json");

fn dashboard() -> Value {
    serde_json::from_str(FILE).expect("JSON")
}

/// Panels that show something, with their titles.
fn panels(dashboard: &Value) -> Vec<(&str, &Value)> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let shown = panels.iter().filter(|panel| panel["type"] != "row");
    let shown = shown.map(|panel| (panel["title"].as_str().expect("a title"), panel));
    shown.collect()
}

/// The expressions of a panel, with variables that stand for something.
fn expressions(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().expect("targets");
    let expressions = targets.iter().map(|target| {
        let expression = target["expr"].as_str().expect("an expression");
        expression
            .replace("$node", ".*")
            .replace("$class", ".*")
            .replace("$__rate_interval", "2m")
    });
    expressions.collect()
}

#[test]
fn every_subject_has_a_panel() {
    let dashboard = dashboard();
    for (subject, metrics) in [
        ("members by state", &["pool_members"][..]),
        ("share per shard", &["shard_packets_total"]),
        ("moved slots", &["last_publish_moved_slots_ratio"]),
        ("selections", &["shard_selections_total"]),
        ("drops by reason", &["drops_total"]),
        ("skips by reason", &["skips_total"]),
        ("pins and room", &["pins", "pins_capacity"]),
        ("pins refused", &["pin_refused_total"]),
        ("pins at risk", &["pins_at_risk"]),
        ("sweeps", &["sweeps_total", "sweep_errors_total"]),
        ("sweep age", &["last_successful_sweep_timestamp_seconds"]),
        ("source state", &["shard_watch_synced"]),
        ("source errors", &["source_errors_total"]),
        ("publication time", &["publication_duration_seconds_bucket"]),
        ("barrier time", &["barrier_wait_seconds_bucket"]),
    ] {
        let shows = |panel: &Value| {
            let mut names = BTreeSet::new();
            for expression in expressions(panel) {
                promql::parse(&expression).selectors(&mut |of| {
                    names.insert(of.name.clone());
                });
            }
            let mut metrics = metrics.iter();
            metrics.all(|metric| names.contains(&format!("guideway_egress_{metric}")))
        };
        let panels = panels(&dashboard);
        assert!(panels.iter().any(|(_, panel)| shows(panel)), "{subject}");
    }
}

#[test]
fn all_that_the_panels_show_is_exported() {
    assert_exported(&Exported::new());
}

/// Insists that panels and variables name nothing that is not exported.
pub(crate) fn assert_exported(exported: &Exported) {
    let dashboard = dashboard();
    for (title, panel) in panels(&dashboard) {
        let legends = panel["targets"].as_array().expect("targets").iter();
        let legends = legends.map(|target| target["legendFormat"].as_str().expect("a legend"));
        for (expression, legend) in expressions(panel).iter().zip(legends) {
            let expr = promql::parse(expression);
            assert_eq!(exported.unknown(&expr), [""; 0], "{title}: {expression}");
            let labels = exported.labels(&expr);
            for named in legend.split("{{").skip(1) {
                let (label, _) = named.split_once("}}").expect("an end");
                assert!(labels.contains(label), "{title}: {legend}");
            }
        }
    }
    for (_, query) in queries(&dashboard) {
        let query = query.strip_prefix("label_values(").expect("a query");
        let (series, label) = query.rsplit_once(", ").expect("series and a label");
        let expr = promql::parse(&series.replace("$node", ".*"));
        assert_eq!(exported.unknown(&expr), [""; 0], "{query}");
        let label = label.strip_suffix(')').expect("an end");
        assert!(exported.labels(&expr).contains(label), "{query}");
    }
}

/// The variables that are asked for, each with its query.
fn queries(dashboard: &Value) -> Vec<(&str, &str)> {
    let variables = dashboard["templating"]["list"].as_array();
    let variables = variables.expect("variables").iter();
    let queries = variables.filter(|variable| variable["type"] == "query");
    let queries = queries.map(|variable| {
        let text = |key: &str| variable[key].as_str().expect("a text");
        (text("name"), text("definition"))
    });
    queries.collect()
}

#[test]
fn panels_follow_the_node_and_the_class() {
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    let expected = [
        ("node", "label_values(guideway_egress_mode, instance)"),
        (
            "class",
            "label_values(guideway_egress_class_configured{instance=~\"$node\"}, class)",
        ),
    ];
    assert_eq!(queries, expected);
    for (title, panel) in panels(&dashboard) {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            promql::parse(
                &expression
                    .replace("$__rate_interval", "2m")
                    .replace('$', ""),
            )
            .selectors(&mut |selector| {
                let has = |label: &str| selector.matchers.iter().any(|(of, ..)| of == label);
                assert!(has("instance"), "{title}: {expression}");
                let metric = selector.name.strip_prefix("guideway_egress_");
                let of_class = [
                    "pool_members",
                    "shard_packets_total",
                    "pins_at_risk",
                    "table_imbalance_ratio",
                    "last_publish_moved_slots_ratio",
                    "group_routes",
                ];
                let of_class = metric.is_some_and(|of| of_class.contains(&of));
                assert_eq!(has("class"), of_class, "{title}: {expression}");
            });
        }
    }
}

#[test]
fn panels_do_not_lie_on_each_other() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("a number")));
        let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(place("x") + place("w") <= 24);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{}", panel["title"]);
            }
        }
    }
}
