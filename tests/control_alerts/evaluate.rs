// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Values of expressions over series of samples, as Prometheus has them, and when an alert fires.

use std::collections::{BTreeMap, BTreeSet};

use crate::promql::{is_like, parse, Binary, Expr, Selector};

/// Labels by name; the metric is `__name__`.
pub(crate) type Labels = BTreeMap<String, String>;

const NAME: &str = "__name__";
/// How old a sample may be that stands for now.
const LOOKBACK: f64 = 300.0;

/// A series: its labels, and samples in the order of time. A sample that is no number ends it.
type Series = (Labels, Vec<(f64, f64)>);

/// Samples by metric.
#[derive(Debug, Default)]
pub(crate) struct Store(BTreeMap<String, Vec<Series>>);

impl Store {
    /// Takes in all that one target had at a time. What it had before and has no more ends there.
    pub(crate) fn scraped(&mut self, target: &str, time: f64, scrape: Vec<(Labels, f64)>) {
        for (labels, value) in scrape {
            let of = self.0.entry(labels[NAME].clone()).or_default();
            match of.iter_mut().find(|(of, _)| *of == labels) {
                Some((_, samples)) => samples.push((time, value)),
                None => of.push((labels, vec![(time, value)])),
            }
        }
        for (labels, samples) in self.0.values_mut().flatten() {
            let ours = labels.get("instance").is_some_and(|of| of == target);
            let last = samples.last().copied();
            if ours && last.is_some_and(|(last, value)| last < time && !value.is_nan()) {
                samples.push((time, f64::NAN));
            }
        }
    }

    fn select<'a>(
        &'a self,
        selector: &'a Selector,
    ) -> impl Iterator<Item = (&'a Labels, &'a [(f64, f64)])> {
        let matches = |labels: &Labels| {
            selector.matchers.iter().all(|(label, operator, wanted)| {
                let value = labels.get(label).map_or("", String::as_str);
                match operator.as_str() {
                    "=" => value == wanted,
                    "!=" => value != wanted,
                    "=~" => is_like(wanted, value),
                    _ => !is_like(wanted, value),
                }
            })
        };
        let found = self.0.get(&selector.name).into_iter().flatten();
        let found = found.filter(move |(labels, _)| matches(labels));
        found.map(|(labels, samples)| (labels, samples.as_slice()))
    }
}

/// What an expression is at a time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(f64),
    Vector(Vec<(Labels, f64)>),
}

impl Value {
    fn vector(self) -> Vec<(Labels, f64)> {
        match self {
            Self::Vector(vector) => vector,
            Self::Scalar(number) => panic!("{number} is a scalar"),
        }
    }
}

fn nameless(mut labels: Labels) -> Labels {
    labels.remove(NAME);
    labels
}

/// The value of an expression at a time.
pub(crate) fn value(expr: &Expr, store: &Store, now: f64) -> Value {
    match expr {
        Expr::Number(number) => Value::Scalar(*number),
        Expr::Select(selector) => {
            assert_eq!(selector.range, None, "a range is no value");
            let now = now - selector.offset;
            let latest = store.select(selector).filter_map(|(labels, samples)| {
                let until = samples.iter().rev().find(|(time, _)| *time <= now);
                let sample =
                    until.filter(|(time, value)| *time > now - LOOKBACK && !value.is_nan());
                Some((labels.clone(), sample?.1))
            });
            Value::Vector(latest.collect())
        }
        Expr::Call(name, arguments) => call(name, arguments, store, now),
        Expr::Aggregate { by, operation, of } => {
            let mut sets: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
            for (labels, value) in value(of, store, now).vector() {
                let kept = by.iter().filter_map(|label| {
                    let value = labels.get(label)?;
                    Some((label.clone(), value.clone()))
                });
                sets.entry(kept.collect()).or_default().push(value);
            }
            let of = |values: &[f64]| match operation.as_str() {
                "sum" => values.iter().sum(),
                "count" => values.len() as f64,
                other => panic!("{other} is not known"),
            };
            let sets = sets.into_iter();
            Value::Vector(sets.map(|(labels, values)| (labels, of(&values))).collect())
        }
        Expr::Binary(binary) => {
            let left = value(&binary.left, store, now);
            let right = value(&binary.right, store, now);
            combine(binary, left, right)
        }
    }
}

fn call(name: &str, arguments: &[Expr], store: &Store, now: f64) -> Value {
    match (name, arguments) {
        ("time", []) => Value::Scalar(now),
        ("absent", [of @ Expr::Select(selector)]) => {
            if !value(of, store, now).vector().is_empty() {
                return Value::Vector(Vec::new());
            }
            let equal = selector.matchers.iter().filter(|(_, is, _)| is == "=");
            let labels = equal.map(|(label, _, value)| (label.clone(), value.clone()));
            Value::Vector(vec![(labels.collect(), 1.0)])
        }
        ("rate" | "increase", [Expr::Select(selector)]) => {
            let range = selector.range.expect("a range");
            let now = now - selector.offset;
            let rises = store.select(selector).filter_map(|(labels, samples)| {
                let within = |(time, value): &&(f64, f64)| {
                    *time > now - range && *time <= now && !value.is_nan()
                };
                let samples: Vec<_> = samples.iter().filter(within).collect();
                let (first, last) = (samples.first()?, samples.last()?);
                if samples.len() < 2 {
                    return None;
                }
                let rises = samples.windows(2).map(|two| match two[1].1 - two[0].1 {
                    // It began anew.
                    rise if rise < 0.0 => two[1].1,
                    rise => rise,
                });
                let per_second = rises.sum::<f64>() / (last.0 - first.0);
                let factor = if name == "rate" { 1.0 } else { range };
                Some((nameless(labels.clone()), per_second * factor))
            });
            Value::Vector(rises.collect())
        }
        _ => panic!("{name} is not known"),
    }
}

fn compute(operation: &str, left: f64, right: f64) -> Option<f64> {
    let only_if = |holds: bool| holds.then_some(left);
    match operation {
        "==" => only_if(left == right),
        "!=" => only_if(left != right),
        ">=" => only_if(left >= right),
        "<=" => only_if(left <= right),
        ">" => only_if(left > right),
        "<" => only_if(left < right),
        "+" => Some(left + right),
        "-" => Some(left - right),
        "*" => Some(left * right),
        "/" => Some(left / right),
        other => panic!("{other} is not known"),
    }
}

fn combine(binary: &Binary, left: Value, right: Value) -> Value {
    let operation = binary.operation.as_str();
    let filters = "=<>!".contains(&operation[..1]);
    let named = |labels: Labels| if filters { labels } else { nameless(labels) };
    let (left, right) = match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => {
            assert!(!filters, "two scalars are not compared");
            return Value::Scalar(compute(operation, left, right).expect("a number"));
        }
        (Value::Vector(left), Value::Scalar(right)) => {
            let all = left.into_iter().filter_map(|(labels, left)| {
                Some((named(labels), compute(operation, left, right)?))
            });
            return Value::Vector(all.collect());
        }
        (Value::Scalar(left), Value::Vector(right)) => {
            assert!(!filters, "a scalar is not kept");
            let all = right.into_iter().filter_map(|(labels, right)| {
                Some((named(labels), compute(operation, left, right)?))
            });
            return Value::Vector(all.collect());
        }
        (Value::Vector(left), Value::Vector(right)) => (left, right),
    };
    let key = |labels: &Labels| match &binary.on {
        None => nameless(labels.clone()),
        Some(on) => {
            let on = on.iter().filter_map(|label| {
                let value = labels.get(label)?;
                Some((label.clone(), value.clone()))
            });
            on.collect()
        }
    };
    let keys: BTreeSet<Labels> = right.iter().map(|(labels, _)| key(labels)).collect();
    let with = |wanted: bool| {
        let left = left.iter();
        let left = left.filter(|(labels, _)| keys.contains(&key(labels)) == wanted);
        left.cloned().collect::<Vec<_>>()
    };
    match operation {
        "and" => return Value::Vector(with(true)),
        "unless" => return Value::Vector(with(false)),
        "or" => {
            let taken: BTreeSet<Labels> = left.iter().map(|(labels, _)| key(labels)).collect();
            let more = right.into_iter();
            let more = more.filter(|(labels, _)| !taken.contains(&key(labels)));
            return Value::Vector(left.iter().cloned().chain(more).collect());
        }
        _ => {}
    }
    let mut ones: BTreeMap<Labels, f64> = BTreeMap::new();
    for (labels, value) in right {
        let key = key(&labels);
        assert!(ones.insert(key, value).is_none(), "several belong to one");
    }
    let mut seen = BTreeSet::new();
    let mut result = Vec::new();
    for (labels, value) in left {
        let key = key(&labels);
        let Some(other) = ones.get(&key) else {
            continue;
        };
        let fresh = seen.insert(key.clone());
        assert!(fresh || binary.group_left, "many belong to one");
        let Some(value) = compute(operation, value, *other) else {
            continue;
        };
        let labels = match binary.group_left || binary.on.is_none() {
            true => named(labels),
            false => key,
        };
        result.push((labels, value));
    }
    Value::Vector(result)
}

/// From when on an alert that is evaluated every `step` seconds fires, and for which labels, until the
/// end of the time.
pub(crate) fn firing(
    expr: &str,
    hold: f64,
    store: &Store,
    times: impl Iterator<Item = f64>,
) -> BTreeMap<Labels, f64> {
    let expr = parse(expr);
    let mut pending: BTreeMap<Labels, f64> = BTreeMap::new();
    let mut fired: BTreeMap<Labels, f64> = BTreeMap::new();
    for now in times {
        let active = value(&expr, store, now).vector().into_iter();
        let active: BTreeSet<_> = active.map(|(labels, _)| nameless(labels)).collect();
        pending.retain(|labels, _| active.contains(labels));
        for labels in active {
            let since = *pending.entry(labels.clone()).or_insert(now);
            if now - since >= hold {
                fired.entry(labels).or_insert(now);
            }
        }
    }
    fired
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, labels, and a value for each minute.
    type Given<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [f64]);

    fn store(series: &[Given<'_>]) -> Store {
        let mut store = Store::default();
        for (name, labels, values) in series {
            let mut all = Labels::from([(NAME.to_owned(), (*name).to_owned())]);
            all.extend(
                labels
                    .iter()
                    .map(|(l, v)| ((*l).to_owned(), (*v).to_owned())),
            );
            for (minute, value) in (0..).zip(*values) {
                let scrape = vec![(all.clone(), *value)];
                store.scraped("none", f64::from(minute) * 60.0, scrape);
            }
        }
        store
    }

    fn of(expr: &str, store: &Store, minute: f64) -> Vec<(String, f64)> {
        let all = value(&parse(expr), store, minute * 60.0)
            .vector()
            .into_iter();
        all.map(|(labels, value)| {
            let labels = labels.iter().map(|(l, v)| format!("{l}={v}"));
            (labels.collect::<Vec<_>>().join(","), value)
        })
        .collect()
    }

    #[test]
    fn a_counter_that_began_anew_rose_all_the_same() {
        let store = store(&[("c", &[], &[0.0, 60.0, 30.0])]);
        assert_eq!(of("increase(c[3m])", &store, 2.0), [(String::new(), 135.0)]);
        assert_eq!(of("rate(c[2m])", &store, 2.0), [(String::new(), 0.5)]);
        assert_eq!(of("rate(c[1m])", &store, 2.0), []);
        assert_eq!(
            of("rate(c[2m] offset 1m)", &store, 2.0),
            [(String::new(), 1.0)]
        );
    }

    #[test]
    fn a_series_that_its_target_has_no_more_is_gone_at_once() {
        let series = |name: &str| {
            let labels = [(NAME, name), ("instance", "x")];
            let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
            (Labels::from(labels), 1.0)
        };
        let mut store = Store::default();
        store.scraped("x", 0.0, vec![series("a"), series("b")]);
        store.scraped("y", 10.0, Vec::new());
        assert_eq!(of("a", &store, 1.0).len(), 1);
        store.scraped("x", 60.0, vec![series("b")]);
        assert_eq!(
            (of("a", &store, 1.0).len(), of("b", &store, 1.0).len()),
            (0, 1)
        );
        assert_eq!(of("increase(a[5m])", &store, 1.0), []);
    }

    #[test]
    fn a_series_that_ends_is_gone_after_a_while() {
        let store = store(&[("g", &[], &[1.0])]);
        assert_eq!(of("g", &store, 4.0).len(), 1);
        assert_eq!(of("g", &store, 6.0), []);
        assert_eq!(
            of("absent(g{a=\"b\"})", &store, 6.0),
            [("a=b".to_owned(), 1.0)]
        );
    }

    #[test]
    fn vectors_meet_by_labels() {
        let store = store(&[
            ("a", &[("i", "1"), ("c", "x")], &[1.0]),
            ("a", &[("i", "1"), ("c", "y")], &[5.0]),
            ("a", &[("i", "2"), ("c", "x")], &[1.0]),
            ("b", &[("i", "1")], &[2.0]),
        ]);
        let all = |expr| of(expr, &store, 0.0);
        let x1 = ("__name__=a,c=x,i=1".to_owned(), 1.0);
        for expr in ["a < on (i) group_left () b", "a == 1 and on (i) b"] {
            assert_eq!(all(expr).as_slice(), std::slice::from_ref(&x1));
        }
        assert_eq!(all("a / on (i) group_left () b").len(), 2);
        assert_eq!(all("count by (c) (a) > 1"), [("c=x".to_owned(), 2.0)]);
        assert_eq!(all("a{i=\"2\"} or a{c=~\"y|z\"}").len(), 2);
        assert_eq!(all("10 - b"), [("i=1".to_owned(), 8.0)]);
    }
}
