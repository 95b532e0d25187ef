// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads OpenMetrics text as its specification has it, and panics at whatever is against it.

#![allow(dead_code)] // each test binary uses a part

use std::collections::{BTreeMap, BTreeSet};

/// Label names and values, in their order.
type Labels = Vec<(String, String)>;

/// A family of metrics as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) unit: Option<String>,
    pub(crate) help: Option<String>,
    /// Name, labels and value.
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

impl Family {
    /// The samples as `name{label="value",...}`, labels sorted.
    pub(crate) fn series(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        self.samples
            .iter()
            .map(|(name, labels, value)| (series(name, labels), *value))
    }
}

fn series(name: &str, labels: &[(String, String)]) -> String {
    let mut labels: Vec<_> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    labels.sort();
    match labels.as_slice() {
        [] => name.to_owned(),
        labels => format!("{name}{{{}}}", labels.join(",")),
    }
}

/// All series of a text with their values.
pub(crate) fn numbers(text: &str) -> BTreeMap<String, f64> {
    let families = parse(text).into_values();
    families
        .flat_map(|family| family.series().collect::<Vec<_>>())
        .collect()
}

fn is_name(text: &str, colons: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (colons && c == ':');
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// The families of a text, by name.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    assert!(body.is_empty() || body.ends_with('\n'), "a line goes on");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in body.lines() {
        assert!(!line.is_empty() && !line.contains('\r'), "{line:?}");
        if let Some(meta) = line.strip_prefix("# ") {
            let mut parts = meta.splitn(3, ' ');
            let mut part = || parts.next().unwrap_or_else(|| panic!("{line:?}"));
            let (what, name, value) = (part(), part(), part());
            assert!(is_name(name, true), "{line:?}");
            if name != current {
                assert!(!families.contains_key(name), "{name} is in two places");
                families.insert(name.to_owned(), Family::default());
                current = name.to_owned();
            }
            let family = families.get_mut(name).expect("it was just put there");
            assert!(family.samples.is_empty(), "{line:?} after samples");
            match what {
                "TYPE" => {
                    assert!(family.kind.is_empty(), "{line:?} again");
                    assert!(
                        ["counter", "gauge", "histogram"].contains(&value),
                        "{line:?}"
                    );
                    family.kind = value.to_owned();
                }
                "UNIT" => {
                    assert!(family.unit.is_none(), "{line:?} again");
                    assert!(name.ends_with(&format!("_{value}")), "{line:?}");
                    family.unit = Some(value.to_owned());
                }
                "HELP" => {
                    assert!(family.help.is_none(), "{line:?} again");
                    family.help = Some(unescape(value));
                }
                _ => panic!("{line:?}"),
            }
            continue;
        }
        assert!(
            !line.starts_with('#'),
            "{line:?} is no comment of OpenMetrics"
        );
        let (name, labels, value) = sample(line);
        let family = families
            .get_mut(&current)
            .unwrap_or_else(|| panic!("{line:?} before any family"));
        let suffix = name
            .strip_prefix(current.as_str())
            .unwrap_or_else(|| panic!("{line:?} within {current}"));
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            kind => panic!("{current} is a {kind:?}"),
        };
        assert!(suffixes.contains(&suffix), "{line:?} of a {}", family.kind);
        if family.kind != "gauge" {
            assert!(value >= 0.0 && value.is_finite(), "{line:?}");
        }
        assert!(
            seen.insert(series(&name, &labels)),
            "{line:?} is there twice"
        );
        family.samples.push((name, labels, value));
    }
    for (name, family) in &families {
        assert!(!family.kind.is_empty(), "{name} has no type");
        assert!(!name.ends_with("_total"), "{name} is the name of a sample");
        if family.kind == "histogram" {
            histogram(name, family);
        }
    }
    families
}

fn unescape(text: &str) -> String {
    let mut result = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => result.push(match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => panic!("{other:?} is escaped in {text:?}"),
            }),
            '"' => panic!("a quote is not escaped in {text:?}"),
            c => result.push(c),
        }
    }
    result
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line:?}"));
    let (name, rest) = line.split_at(end);
    assert!(is_name(name, true), "{line:?}");
    let mut labels = Vec::new();
    let rest = match rest.strip_prefix('{') {
        None => rest,
        Some(mut rest) => loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line:?}"));
            assert!(
                is_name(label, false) && !label.starts_with("__"),
                "{line:?}"
            );
            let mut escaped = false;
            let end = after.find(|c| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            let (value, after) = after.split_at(end.unwrap_or_else(|| panic!("{line:?}")));
            assert!(labels.iter().all(|(name, _)| name != label), "{line:?}");
            labels.push((label.to_owned(), unescape(value)));
            match after.strip_prefix("\",") {
                Some(after) => rest = after,
                None => {
                    break after
                        .strip_prefix("\"}")
                        .unwrap_or_else(|| panic!("{line:?}"))
                }
            }
        },
    };
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line:?}"));
    let number = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
    (name.to_owned(), labels, number)
}

/// Buckets rise, the last is for everything, and it is the count.
fn histogram(name: &str, family: &Family) {
    let mut by_labels: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let (bounds, others): (Vec<_>, Vec<_>) =
            labels.iter().cloned().partition(|(label, _)| label == "le");
        let bound = bounds.first().map(|(_, bound)| bound.clone());
        assert_eq!(bound.is_some(), sample.ends_with("_bucket"), "{sample}");
        let key = series(name, &others);
        by_labels
            .entry(key)
            .or_default()
            .push((sample, bound, *value));
    }
    for (key, samples) in by_labels {
        let of = |suffix: &str| {
            let name = format!("{name}{suffix}");
            let found: Vec<_> = samples.iter().filter(|(of, ..)| **of == name).collect();
            found
        };
        let buckets = of("_bucket");
        let bounds: Vec<f64> = buckets
            .iter()
            .map(|(_, bound, _)| match bound.as_deref().expect("a bound") {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().expect("a number"),
            })
            .collect();
        assert!(
            bounds.windows(2).all(|two| two[0] < two[1]),
            "{key}: {bounds:?}"
        );
        assert_eq!(bounds.last(), Some(&f64::INFINITY), "{key}");
        assert!(buckets.windows(2).all(|two| two[0].2 <= two[1].2), "{key}");
        let [count] = of("_count")[..] else {
            panic!("{key} has no count");
        };
        assert_eq!(buckets.last().map(|last| last.2), Some(count.2), "{key}");
        assert_eq!(of("_sum").len(), 1, "{key}");
    }
}

#[test]
fn what_is_against_the_rules_is_seen() {
    let good = "# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n# HELP a_seconds b\\\\c\\n\n\
        a_seconds_bucket{x=\"1\\\"}\",le=\"0.5\"} 1\na_seconds_bucket{x=\"1\\\"}\",le=\"+Inf\"} 2\n\
        a_seconds_count{x=\"1\\\"}\"} 2\na_seconds_sum{x=\"1\\\"}\"} 1.5\n\
        # TYPE b counter\nb_total 1\n# TYPE c gauge\nc{y=\"\"} -1\n# EOF\n";
    assert_eq!(parse(good)["a_seconds"].help.as_deref(), Some("b\\c\n"));
    assert_eq!(numbers(good).len(), 6);
    for (from, to) in [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF"),
        ("b_total 1", "b 1"),
        ("b_total 1", "b_total -1"),
        ("b_total 1", "b_total 1\nb_total 2"),
        ("b_total 1", "b_total one"),
        ("b_total 1", "b_total{} 1"),
        ("b_total 1", "b_total 1\n\n"),
        ("# TYPE c gauge\n", ""),
        ("# TYPE c gauge", "# TYPE b gauge"),
        ("# TYPE c gauge", "# TYPE c gauges"),
        ("# TYPE c gauge", "#TYPE c gauge"),
        ("# TYPE c gauge", "# TYPE c_total gauge"),
        ("c{y=\"\"}", "c{y=\"\\t\"}"),
        ("c{y=\"\"}", "c{y=\"\",y=\"\"}"),
        ("c{y=\"\"}", "c{1y=\"\"}"),
        ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
        ("le=\"0.5\"} 1", "le=\"0.5\"} 3"),
        (",le=\"+Inf\"} 2", ",le=\"7\"} 2"),
        ("_count{x=\"1\\\"}\"} 2", "_count{x=\"1\\\"}\"} 3"),
        ("a_seconds_sum{x=\"1\\\"}\"} 1.5\n", ""),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        let seen = std::panic::catch_unwind(|| parse(&bad));
        assert!(seen.is_err(), "{from:?} -> {to:?}");
    }
}
