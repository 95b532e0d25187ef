// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Each path of the load balancer that needs no flow state, beside a floor.

use std::os::fd::AsFd;

use guideway::reason::Rule;
use serde_json::{json, Value};

use super::kernel::{
    backends, datagram, decrypts, segment, Balancer, Bench, Outcome, PASS, TRANSMIT, VIPS,
};
use super::keys::{self, Cipher, Passes};
use super::measure::{self, Limits, Rounds};

const FLOWS: [u32; 2] = [1, 1 << 20];
/// Port of the service routed by server ID, and of those routed by flow.
const BY_SERVER_ID: u16 = 443;
const BY_TUPLE: u16 = 8443;
const TCP: u16 = 8080;
const NOBODYS: u16 = 53;

struct Case {
    name: &'static str,
    frame: Vec<u8>,
    /// None: it passes to the host.
    rule: Option<Rule>,
}

/// The same program takes up to a quarter longer on the same machine another day.
const DAYS: f64 = 1.25;
/// In nanoseconds: over the floor, and over the path in clear and the cipher together.
const FORWARDED: f64 = 45.0 * DAYS;
const NO_SERVICE: f64 = 12.0 * DAYS;
const KEYED: f64 = 30.0 * DAYS;
/// A million flows over one.
const MANY: f64 = 1.3;
/// The paths that nearly all packets take.
const LIMITED: [&str; 6] = [
    "server_id",
    "server_id_v6",
    "tuple",
    "tuple_v6",
    "tcp",
    "tcp_v6",
];

pub(crate) fn measure(bench: &Bench, limits: &mut Limits) {
    // Many short rounds: some of them meet a machine that does nothing else.
    let (rounds, repeat) = if measure::is_full() {
        (100, 100_000)
    } else {
        (1, 1000)
    };
    let balancer = Balancer::load(1, &services(), |_| {});
    let cases = cases(&balancer);
    let cipher = balancer.contexts.as_ref().map(Cipher::load);
    let mut times = FLOWS.map(|_| Rounds::default());
    for _ in 0..rounds {
        for (flows, times) in FLOWS.into_iter().zip(&mut times) {
            let work = (flows, repeat);
            round(bench, &balancer, &cases, cipher.as_ref(), work, times);
        }
    }
    println!(
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "case", "flows", "ns", "floor", "spread", "cipher"
    );
    for (flows, times) in FLOWS.into_iter().zip(&times) {
        cases.iter().for_each(|case| print(case, flows, times));
    }
    check(&cases, &times, limits);
}

/// Everything once.
fn round(
    bench: &Bench,
    balancer: &Balancer,
    cases: &[Case],
    cipher: Option<&Cipher>,
    work: (u32, u32),
    times: &mut Rounds,
) {
    let floor = datagram(VIPS[0], BY_TUPLE, &short_header());
    times.push("driver", bench.driver(&floor, work));
    let redirected = Outcome::redirected();
    let ns = bench.time(bench.floor.as_fd(), &floor, work, redirected);
    times.push("floor", ns);
    for case in cases {
        let placed = |rule: Rule| balancer.counters().rules[usize::from(rule.number())];
        let before = case.rule.map(placed);
        let expected = match case.rule {
            Some(_) => Outcome::redirected(),
            None => Outcome::untouched(PASS),
        };
        let ns = bench.time(balancer.program(), &case.frame, work, expected);
        times.push(case.name, ns);
        let placed = case.rule.map(placed).zip(before);
        let placed = placed.map(|(after, before)| after - before);
        assert!(
            placed.is_none_or(|n| n == u64::from(work.1)),
            "{}: {placed:?}",
            case.name
        );
    }
    for passes in Passes::ALL {
        let Some(cipher) = cipher else { continue };
        let [calls, none] = cipher.programs(passes).map(|program| {
            let untouched = Outcome::untouched(TRANSMIT);
            bench.time(program.as_fd(), &floor, work, untouched)
        });
        times.push(passes.cipher(), calls);
        times.push("no_cipher", none);
    }
}

fn print(case: &Case, flows: u32, times: &Rounds) {
    let (_, spread) = times.summary(case.name);
    let between = |name, other| times.median(|of| of(name) - of(other));
    let ns = between(case.name, "driver");
    let floor = between("floor", "driver");
    // Of a case with keys: what the cipher takes of it.
    let passes = Passes::ALL.into_iter().find(|of| of.case() == case.name);
    let cipher = passes.map(|passes| between(passes.cipher(), "no_cipher"));
    println!(
        "{:<16} {flows:>8} {ns:>8.1} {floor:>8.1} {spread:>8.1} {:>8}",
        case.name,
        cipher.map_or("-".into(), |ns| format!("{ns:.1}")),
    );
    if measure::is_full() {
        measure::report(&json!({
            "part": "quiclb", "case": case.name,
            "flows": if flows == 1 { 1 } else { 1_000_000 },
            "ns": ns, "floor_ns": floor, "spread_ns": spread, "cipher_ns": cipher,
        }));
    }
}

/// Nanoseconds are compared in the rounds that were disturbed least: whatever else runs on the machine
/// takes of its caches, and makes all of it slower, by up to a half.
fn check(cases: &[Case], times: &[Rounds; 2], limits: &mut Limits) {
    for (times, flows) in times.iter().zip(["one flow", "1,000,000 flows"]) {
        let ns = |name| times.fastest(name);
        for name in cases.iter().map(|case| case.name) {
            let passes = Passes::ALL.into_iter().find(|of| of.case() == name);
            if let Some(passes) = passes {
                let cipher = ns(passes.cipher()) - ns("no_cipher");
                let what = format!("{name}, {flows}, ns over server_id and cipher");
                limits.at_most(KEYED, what, ns(name) - ns("server_id") - cipher);
            } else if name == "no_service" || LIMITED.contains(&name) {
                let limit = match name {
                    "no_service" => NO_SERVICE,
                    _ => FORWARDED,
                };
                let what = format!("{name}, {flows}, ns over the floor");
                limits.at_most(limit, what, ns(name) - ns("floor"));
            }
        }
    }
    for name in LIMITED {
        let [one, million] = times
            .each_ref()
            .map(|times| times.median(|of| of(name) - of("driver")));
        let ratio = million / one;
        limits.at_most(MANY, format!("{name}, 1,000,000 flows over one"), ratio);
    }
}

/// Services of both families, with keys or without.
fn services() -> Value {
    let mut configs = vec![json!({"config_id": 0, "server_id_len": 4, "nonce_len": 7})];
    if decrypts() {
        configs.extend(keys::configs());
    }
    let server_ids = |id| {
        Some(match decrypts() {
            true => keys::server_ids(id),
            false => json!(format!("{id:08x}")),
        })
    };
    let of_vip = |(index, vip): (usize, &&str)| {
        [
            json!({"name": format!("server-id-{index}"), "vip": vip, "port": BY_SERVER_ID,
                   "backends": backends(server_ids), "quic": {"routing": "server-id",
                                                              "configs": configs}}),
            json!({"name": format!("tuple-{index}"), "vip": vip, "port": BY_TUPLE,
                   "backends": backends(|_| None), "quic": {"routing": "tuple"}}),
            json!({"name": format!("tcp-{index}"), "vip": vip, "port": TCP, "protocol": "tcp",
                   "backends": backends(|_| None)}),
        ]
    };
    VIPS.iter().enumerate().flat_map(of_vip).collect()
}

/// A short header whose connection ID carries the server ID of backend 7, and bytes to follow.
fn short_header() -> Vec<u8> {
    let mut payload = vec![0x40, 0x00, 0, 0, 0, 7];
    payload.extend([0xa5; 40]);
    payload
}

/// A first flight: a long header of version 1 with a connection ID that names no server.
fn initial() -> Vec<u8> {
    let mut payload = vec![0xc0, 0, 0, 0, 1, 8];
    payload.extend([0xe3; 8]);
    payload.extend([0; 1200 - 14]);
    payload
}

fn cases(balancer: &Balancer) -> Vec<Case> {
    let [v4, v6] = VIPS;
    let short = short_header();
    let by_server_id = datagram(v4, BY_SERVER_ID, &short);
    let by_server_id_v6 = datagram(v6, BY_SERVER_ID, &short);
    let initial = datagram(v4, BY_SERVER_ID, &initial());
    let mut cases: Vec<_> = [
        ("server_id", by_server_id, Some(Rule::ServerId)),
        ("server_id_v6", by_server_id_v6, Some(Rule::ServerId)),
        ("tuple", datagram(v4, BY_TUPLE, &short), Some(Rule::Table)),
        (
            "tuple_v6",
            datagram(v6, BY_TUPLE, &short),
            Some(Rule::Table),
        ),
        ("tcp", segment(v4, TCP), Some(Rule::Table)),
        ("tcp_v6", segment(v6, TCP), Some(Rule::Table)),
        ("initial", initial, Some(Rule::Table)),
        ("no_service", datagram(v4, NOBODYS, &short), None),
    ]
    .into_iter()
    .map(|(name, frame, rule)| Case { name, frame, rule })
    .collect();
    if balancer.contexts.is_some() {
        cases.extend(Passes::ALL.map(|passes| {
            let payload = keys::short_header(&balancer.spec, passes);
            Case {
                name: passes.case(),
                frame: datagram(v4, BY_SERVER_ID, &payload),
                rule: Some(Rule::ServerId),
            }
        }));
    } else {
        println!("encrypted server IDs: not measured, programs cannot decrypt here");
    }
    cases
}
