// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Each path of the egress program.

use guideway::encap::{Dscp, Encap};
use guideway::reason::egress::{End, Selection};
use serde_json::json;

use super::driver::{Driver, Sources, MANY, PASS, REDIRECT};
use super::measure::{self, Limits, Rounds};
use super::node::{Node, Way};

/// Over the floor's own cost.
const SHARD_OVER_FLOOR: f64 = 3.6;
/// Over the bare look-up of a pin at the same place, which is the kernel's: 16 ns on the machine for
/// which 30 were set, more where each return from a function is guarded against speculation.
const PIN_HIT: f64 = 30.0 / 16.0;
/// In nanoseconds.
const STANDARD: f64 = 8.0;
/// In all caches, and so many that it does not matter which of them share a bucket of the table.
const FEW: Sources = Sources {
    first: 0,
    count: 64,
};

struct Case {
    name: &'static str,
    way: Way,
    sources: Sources,
    standard: bool,
    end: End,
    /// What each packet counts beside its end.
    counted: &'static [Selection],
}

const HIT: &[Selection] = &[Selection::PinHit];
const BY_TABLE: &[Selection] = &[Selection::Maglev];
const NEW: &[Selection] = &[Selection::Maglev, Selection::PinNew];

fn cases() -> Vec<Case> {
    let case = |name, way, sources, end, counted| Case {
        name,
        way,
        sources,
        standard: false,
        end,
        counted,
    };
    let many = Sources {
        first: 0,
        count: MANY,
    };
    vec![
        case("shard", Way::Shard, FEW, End::Shard, &[]),
        Case {
            standard: true,
            ..case("shard_standard", Way::Shard, FEW, End::Shard, &[])
        },
        case("table", Way::Unpinned, FEW, End::Group, BY_TABLE),
        case("pin_hit", Way::Pinned, FEW, End::Group, HIT),
        case("pin_hit_many", Way::Pinned, many, End::Group, HIT),
        case("pin_insert", Way::Newcomers, many, End::Group, NEW),
        case("flow_pin_hit", Way::Flows, FEW, End::Group, HIT),
        case("flow_pin_hit_many", Way::Flows, many, End::Group, HIT),
    ]
}

fn standard(encap: Encap) -> Encap {
    Encap {
        dscp: Dscp::Copy,
        flow_label: true,
        ..encap
    }
}

/// An IPv6/UDP packet of 112 bytes in its frame, without a flow label of its own.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    frame.extend([0x6b, 0xa0, 0, 0, 0, 72, 17, 64]);
    frame.extend([
        0x20, 0x01, 0x0d, 0xb8, 0xaa, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x03, 0xe8, 0, 53, 0, 72, 0, 0]);
    frame.resize(126, 0x5a);
    frame
}

pub(crate) fn measure(limits: &mut Limits) {
    let (rounds, repeat) = if measure::is_full() {
        (100, 20_000)
    } else {
        (1, 1000)
    };
    let node = Node::new();
    let driver = Driver::load(&node);
    let (frame, cases) = (frame(), cases());
    // Everybody who is to have a pin gets it.
    for way in [Way::Pinned, Way::Flows] {
        node.direct(way, |encap| encap);
        let sources = Sources {
            first: 0,
            count: MANY,
        };
        driver.time(&driver.egress, &frame, sources, MANY, REDIRECT);
    }
    let mut times = Rounds::default();
    for _ in 0..rounds {
        round(&node, &driver, &frame, &cases, repeat, &mut times);
    }
    print(&cases, &times);
    check(&times, limits);
}

/// Everything once.
fn round(
    node: &Node,
    driver: &Driver,
    frame: &[u8],
    cases: &[Case],
    repeat: u32,
    times: &mut Rounds,
) {
    let time = |program, action| driver.time(program, frame, FEW, repeat, action);
    times.push("return", time(&driver.nothing, PASS));
    times.push("undo", driver.undo());
    times.push("grow", time(&driver.grow, PASS));
    times.push("floor", time(&driver.floor, REDIRECT));
    node.direct(Way::Shard, |encap| encap);
    times.push("bare_pin", time(&driver.bare_pin, REDIRECT));
    for case in cases {
        node.direct(case.way, |encap| match case.standard {
            true => standard(encap),
            false => encap,
        });
        let before = node.counters();
        let ns = driver.time(&driver.egress, frame, case.sources, repeat, REDIRECT);
        times.push(case.name, ns);
        let after = node.counters();
        let counted = case.counted.iter().map(|counter| counter.number());
        let expected: Vec<_> = [case.end.number()].into_iter().chain(counted).collect();
        for (number, (before, after)) in (0_u8..).zip(before.iter().zip(&after)) {
            let packets = if expected.contains(&number) {
                u64::from(repeat)
            } else {
                0
            };
            assert_eq!(after - before, packets, "{}: counter {number}", case.name);
        }
        if case.way == Way::Newcomers {
            node.forget();
        }
    }
}

/// What the harness takes of a run that makes room: the driver, and what it undoes.
fn harness(of: &dyn Fn(&str) -> f64) -> f64 {
    of("return") + of("undo")
}

fn print(cases: &[Case], times: &Rounds) {
    println!("{:<20} {:>8} {:>8} {:>8}", "case", "ns", "net", "spread");
    let programs = ["return", "undo", "grow", "floor", "bare_pin"].into_iter();
    for name in programs.chain(cases.iter().map(|case| case.name)) {
        let (ns, spread) = times.summary(name);
        let net = match name {
            "return" | "undo" => None,
            _ => Some(times.median(|of| of(name) - harness(of))),
        };
        let shown = net.map_or("-".into(), |net| format!("{net:.1}"));
        println!("{name:<20} {ns:>8.1} {shown:>8} {spread:>8.1}");
        if measure::is_full() {
            measure::report(&json!({
                "part": "egress", "case": name, "ns": ns, "net_ns": net, "spread_ns": spread,
            }));
        }
    }
}

/// Compared in the rounds that were disturbed least, as the load balancer is.
fn check(times: &Rounds, limits: &mut Limits) {
    let ns = |name: &str| times.fastest(name);
    let net = |name: &str| ns(name) - harness(&ns);
    let ratio = net("shard") / net("floor");
    limits.at_most(SHARD_OVER_FLOOR, "egress, a shard over the floor", ratio);
    let over_shard = |name: &str| ns(name) - ns("shard");
    let ratio = over_shard("pin_hit") / over_shard("bare_pin");
    limits.at_most(PIN_HIT, "egress, a pin over its bare look-up", ratio);
    let over = over_shard("shard_standard");
    limits.at_most(STANDARD, "egress, ns of profile standard over compat", over);
}
