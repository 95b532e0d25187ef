// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Cost of a packet on each path of the load balancer, beside a floor: a program that parses to the
//! UDP header, reads a row of an array, writes a MAC address and redirects.
//!
//! Every program is called by a driver that writes another client into the packet each time; what
//! the driver costs by itself, with as many clients, is subtracted. All cases are measured in turn,
//! round by round, and what they decide is checked outside the timed part. Needs root.

#[path = "../common/measure.rs"]
mod measure;

mod kernel;
mod keys;

use std::os::fd::AsFd;

use guideway::reason::Rule;
use kernel::{frame, Balancer, Bench, Outcome, BACKEND, BY_SERVER_ID, BY_TUPLE, VIPS};
use keys::{Cipher, Passes};
use serde_json::json;

const ROUNDS: usize = 15;
const REPEAT: u32 = 1_000_000;
const FLOWS: [u32; 2] = [1, 1 << 20];

const PASS: u32 = 2;
const TRANSMIT: u32 = 3;
const REDIRECT: u32 = 4;

struct Case {
    name: &'static str,
    frame: Vec<u8>,
    action: u32,
    rule: Option<Rule>,
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
    let forwarded = |name, frame, rule| Case {
        name,
        frame,
        action: REDIRECT,
        rule: Some(rule),
    };
    let short = short_header();
    let mut cases = vec![
        forwarded("server_id", frame(v4, BY_SERVER_ID, &short), Rule::ServerId),
        forwarded(
            "server_id_v6",
            frame(v6, BY_SERVER_ID, &short),
            Rule::ServerId,
        ),
        forwarded("tuple", frame(v4, BY_TUPLE, &short), Rule::Table),
        forwarded("tuple_v6", frame(v6, BY_TUPLE, &short), Rule::Table),
        forwarded("initial", frame(v4, BY_SERVER_ID, &initial()), Rule::Table),
        Case {
            name: "no_service",
            frame: frame(v4, 53, &short),
            action: PASS,
            rule: None,
        },
    ];
    if balancer.contexts.is_some() {
        cases.extend(Passes::ALL.map(|passes| {
            let payload = keys::short_header(&balancer.spec, passes);
            let frame = frame(v4, BY_SERVER_ID, &payload);
            forwarded(passes.case(), frame, Rule::ServerId)
        }));
    } else {
        println!("encrypted server IDs: not measured, programs cannot decrypt here");
    }
    cases
}

fn main() {
    // `cargo test` builds and runs benches too, with this flag: that they run is enough there.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let (rounds, repeat) = if quick { (1, 1000) } else { (ROUNDS, REPEAT) };
    measure::pin();
    let bench = Bench::load();
    let balancer = Balancer::load();
    let cases = cases(&balancer);
    let cipher = balancer.contexts.as_ref().map(Cipher::load);
    let floor_frame = frame(VIPS[0], BY_TUPLE, &short_header());
    println!(
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "case", "flows", "ns", "floor", "spread", "cipher"
    );
    for flows in FLOWS {
        let mut floors = Vec::new();
        let mut times = vec![Vec::new(); cases.len()];
        let mut ciphers = Passes::ALL.map(|_| Vec::new());
        for _ in 0..rounds {
            let ns = |program, frame: &[u8], expected: Outcome| {
                let (driver, _) = bench.run(bench.nothing.as_fd(), frame, flows, repeat);
                let (time, outcome) = bench.run(program, frame, flows, repeat);
                assert_eq!(outcome, expected);
                time - driver
            };
            let redirected = || Outcome {
                action: REDIRECT,
                destination: BACKEND,
            };
            floors.push(ns(bench.floor.as_fd(), &floor_frame, redirected()));
            for (case, times) in cases.iter().zip(&mut times) {
                let before = case.rule.map(|rule| balancer.placed(rule));
                let expected = match case.rule {
                    Some(_) => redirected(),
                    None => sent_back(case.action),
                };
                times.push(ns(balancer.program(), &case.frame, expected));
                let after = case.rule.map(|rule| balancer.placed(rule));
                let placed = after.zip(before).map(|(after, before)| after - before);
                assert!(
                    placed.is_none_or(|n| n == u64::from(repeat)),
                    "{}: {placed:?}",
                    case.name
                );
            }
            if let Some(cipher) = &cipher {
                for (passes, times) in Passes::ALL.into_iter().zip(&mut ciphers) {
                    let [calls, none] = cipher
                        .programs(passes)
                        .map(|program| ns(program.as_fd(), &floor_frame, sent_back(TRANSMIT)));
                    times.push(calls - none);
                }
            }
        }
        let (floor, _) = measure::summary(&mut floors);
        for (case, times) in cases.iter().zip(&mut times) {
            let (ns, spread) = measure::summary(times);
            // Of a case with keys: what the cipher takes of it.
            let passes = Passes::ALL
                .iter()
                .position(|passes| passes.case() == case.name);
            let cipher = passes.map(|passes| measure::summary(&mut ciphers[passes]).0);
            println!(
                "{:<16} {flows:>8} {ns:>8.1} {floor:>8.1} {spread:>8.1} {:>8}",
                case.name,
                cipher.map_or("-".into(), |ns| format!("{ns:.1}")),
            );
            if !quick {
                measure::report(&json!({
                    "part": "quiclb", "case": case.name,
                    "flows": if flows == 1 { 1 } else { 1_000_000 },
                    "ns": ns, "floor_ns": floor, "spread_ns": spread, "cipher_ns": cipher,
                }));
            }
        }
    }
}

/// The end of a packet that nobody writes to.
fn sent_back(action: u32) -> Outcome {
    Outcome {
        action,
        destination: [2, 0, 0, 0, 0, 0xfe],
    }
}
