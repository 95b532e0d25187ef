// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Times of building, comparing and digesting Maglev tables, in relation to other ways of doing it.

#[path = "../common/measure.rs"]
mod measure;

mod baseline;
mod harness;

use std::process::ExitCode;
use std::time::Duration;

use guideway::maglev::{build_into, Member, Scratch, Table, TableSize};

use harness::{medians, report, Row, Work};
use measure::Limits;

fn main() -> ExitCode {
    let mut limits = Limits::default();
    measure::pin();
    harness::print_header();
    for size in [65_537, 655_373] {
        for count in [10, 100, 400, 1000] {
            equal(&mut limits, size, count);
        }
    }
    written_out(&mut limits, 100, 0.05);
    written_out(&mut limits, 1000, 1.0 / 150.0);
    weighted(
        &mut limits,
        "weights 1..100",
        100,
        |number| number % 100 + 1,
        1.5,
    );
    weighted(
        &mut limits,
        "weights 1, one of 2^32 - 1",
        1000,
        |n| if n == 500 { u32::MAX } else { 1 },
        3.0,
    );
    weighted(
        &mut limits,
        "weights 2^0..2^31",
        1000,
        |number| 1 << (number % 32),
        3.0,
    );
    for (size, count) in [(65_537, 10), (65_537, 100), (65_537, 1000), (655_373, 1000)] {
        inspect(&mut limits, size, count);
    }
    largest(&mut limits);
    limits.verdict()
}

/// Keys in ascending order, as the baselines want them.
fn keys(count: usize) -> Vec<Vec<u8>> {
    let key = |number| format!("10.0.{}.{}", number / 256, number % 256).into_bytes();
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    keys
}

fn members(keys: &[Vec<u8>], weight: impl Fn(u32) -> u32) -> Vec<Member<'_, u16>> {
    (0u16..)
        .zip(keys)
        .map(|(n, key)| Member::new(key, n, weight(n.into())))
        .collect()
}

fn table_size(slots: u32) -> TableSize {
    TableSize::new(slots).expect("a prime")
}

/// A build into memory that has been used before.
fn build<'w>(size: TableSize, members: &'w [Member<'w, u16>]) -> Work<'w> {
    let mut scratch = Scratch::new();
    let mut out = vec![0; size.slots()];
    Box::new(move || {
        let built = build_into(&mut out, &mut scratch, size, members).expect("valid members");
        u64::from(out[0]) + built.placed as u64
    })
}

fn row(
    limits: &mut Limits,
    case: impl Into<String>,
    (members, size): (usize, u32),
    (time, other): (Duration, Duration),
    against: &'static str,
    target: impl Into<Option<f64>>,
) {
    let (time, other) = (time.as_secs_f64(), other.as_secs_f64());
    let row = Row {
        part: "maglev",
        case: case.into(),
        members,
        size,
        ms: time * 1e3,
        ratio: time / other,
        against,
        target: target.into(),
    };
    report(&row, limits);
}

fn equal(limits: &mut Limits, slots: u32, count: usize) {
    let keys = keys(count);
    let members = members(&keys, |_| 1);
    let size = table_size(slots);

    let table = Table::build(size, &members).expect("valid members");
    let (mut wide, mut narrow) = (Vec::new(), Vec::new());
    baseline::textbook(&mut narrow, slots, &members);
    assert!(narrow == table.slots(), "the textbook has another table");
    baseline::v2(&mut wide, slots, &members);
    // Beyond 2^16 slots the 32-bit products may overflow, and the table is another one then.
    let same = wide
        .iter()
        .zip(table.slots())
        .all(|(&wide, &slot)| wide == i32::from(slot));
    assert!(
        same || slots > 65_537,
        "the v2-style builder has another table"
    );

    let works: [Work<'_>; 3] = [
        build(size, &members),
        Box::new(|| {
            baseline::v2(&mut wide, slots, &members);
            wide[0] as u64
        }),
        Box::new(|| {
            baseline::textbook(&mut narrow, slots, &members);
            narrow[0].into()
        }),
    ];
    let [crate_time, v2, textbook] = medians(if slots > 100_000 { 11 } else { 41 }, works);
    row(
        limits,
        "build",
        (count, slots),
        (crate_time, v2),
        "v2-style",
        0.6,
    );
    row(
        limits,
        "  v2-style",
        (count, slots),
        (v2, v2),
        "v2-style",
        None,
    );
    row(
        limits,
        "  textbook",
        (count, slots),
        (textbook, v2),
        "v2-style",
        None,
    );
}

fn written_out(limits: &mut Limits, count: usize, target: f64) {
    let slots = 65_537;
    let keys = keys(count);
    let members = members(&keys, |_| 1);
    let mut out = Vec::new();
    let works: [Work<'_>; 2] = [
        build(table_size(slots), &members),
        Box::new(|| {
            baseline::materialized(&mut out, slots, &members);
            out[0].into()
        }),
    ];
    let [crate_time, other] = medians(5, works);
    row(
        limits,
        "build",
        (count, slots),
        (crate_time, other),
        "lists written out",
        target,
    );
    row(
        limits,
        "  lists written out",
        (count, slots),
        (other, other),
        "lists written out",
        None,
    );
}

fn weighted(
    limits: &mut Limits,
    case: &str,
    count: usize,
    weight: impl Fn(u32) -> u32,
    target: f64,
) {
    let size = TableSize::SERVICE;
    let keys = keys(count);
    let (weighted, equal) = (members(&keys, weight), members(&keys, |_| 1));
    let [weighted, equal] = medians(41, [build(size, &weighted), build(size, &equal)]);
    let case = format!("build, {case}");
    row(
        limits,
        case,
        (count, size.get()),
        (weighted, equal),
        "equal weights",
        target,
    );
}

/// What can be asked of a table, in relation to the time to build it.
fn inspect(limits: &mut Limits, slots: u32, count: usize) {
    let size = table_size(slots);
    let keys = keys(count);
    let members = members(&keys, |_| 1);
    let old = Table::build(size, &members).expect("valid members");
    let new = Table::build(size, &members[1..]).expect("valid members");
    let others: Vec<_> = keys.iter().map(|key| [key, &b"x"[..]].concat()).collect();
    let others = self::members(&others, |_| 1);
    let others = Table::build(size, &others).expect("valid members");
    let works: [Work<'_>; 5] = [
        build(size, &members),
        Box::new(|| old.diff(&new).expect("equal sizes").moved().into()),
        Box::new(|| old.diff(&others).expect("equal sizes").moved().into()),
        Box::new(|| old.shares().members.len() as u64),
        Box::new(|| old.digest().get()),
    ];
    let [build, diff, disjoint, shares, digest] = medians(21, works);
    let mut print =
        |case, time, target| row(limits, case, (count, slots), (time, build), "build", target);
    print("diff, one member leaves", diff, 0.5);
    print("diff, no member in common", disjoint, 0.5);
    print("shares", shares, 0.5);
    print("digest", digest, 1.0);
}

fn largest(limits: &mut Limits) {
    let count = 20_000;
    let slots = TableSize::MAX;
    let keys = keys(count);
    let members = members(&keys, |_| 1);
    let mut out = Vec::new();
    let works: [Work<'_>; 2] = [
        build(table_size(slots), &members),
        Box::new(|| {
            baseline::textbook(&mut out, slots, &members);
            out[0].into()
        }),
    ];
    let [crate_time, textbook] = medians(5, works);
    row(
        limits,
        "build",
        (count, slots),
        (crate_time, textbook),
        "textbook",
        None,
    );
    row(
        limits,
        "  textbook",
        (count, slots),
        (textbook, textbook),
        "textbook",
        None,
    );
}
