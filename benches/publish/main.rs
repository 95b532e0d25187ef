// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Time from a specification to a live generation, and the memory it takes. Needs root and a bpffs.

#[path = "../common/measure.rs"]
mod measure;

use std::process::ExitCode;
use std::time::Instant;

use guideway::plan::{plan, Device, Options, World};
use guideway::quiclb::{Loader, Spec, StateRoot, Step, Writer};
use serde_json::json;

const INSTANCE: &str = "5d0f0a7c-2f5f-4c55-9a6e-0b5a1e7d0b01";

/// `services` services of `backends` backends; `round` changes the weights, so that no table
/// stays.
fn specification(services: u32, backends: u32, slots: u32, round: u32) -> Spec {
    let services: Vec<_> = (0..services)
        .map(|service| {
            let backends: Vec<_> = (1..=backends)
                .map(|id| {
                    // Different in each service: every table is built.
                    let weight = 1 + (id * 7 + service + round) % 5;
                    json!({"id": id, "interface": "lo", "weight": weight,
                           "mac": format!("02:00:00:{:02x}:{:02x}:{:02x}", service >> 8, service & 0xff, id)})
                })
                .collect();
            json!({"name": format!("service-{service}"), "vip": "203.0.113.80",
                   "port": 1000 + service, "maglev_table_size": slots, "backends": backends})
        })
        .collect();
    let document = json!({"instance_id": INSTANCE, "interface": "edge0", "services": services});
    Spec::from_json(document.to_string().as_bytes()).expect("a valid specification")
}

fn world() -> World {
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    World::new(vec![device("edge0", 77), device("lo", 1)], Vec::new(), 1)
}

/// One change, in milliseconds: to plan it, to publish it, of that to wait in the swap; and the CPU
/// time of all, which has no waiting in it.
fn change(writer: &mut Writer, spec: &Spec) -> [f64; 4] {
    let ms = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let (start, cpu) = (Instant::now(), measure::cpu_time());
    let live = writer.live_record().expect("readable");
    let plan = plan(live.as_ref(), spec, &world(), Options::default()).expect("a plan");
    let planned = ms(start);
    let start = Instant::now();
    let (mut swap, mut swapped) = (start, start);
    let observe = |step| {
        match step {
            Step::Swap => swap = Instant::now(),
            Step::FoldCounters => swapped = Instant::now(),
            _ => {}
        }
        Ok(())
    };
    let done = writer
        .publish_observed(&plan, 0, observe)
        .expect("published");
    assert!(done.untidy.is_none(), "{:?}", done.untidy);
    [
        planned,
        ms(start),
        swapped.duration_since(swap).as_secs_f64() * 1e3,
        (measure::cpu_time() - cpu).as_secs_f64() * 1e3,
    ]
}

/// Services, backends and slots of the case with a limit, and what a change may take there beside the
/// wait in the swap.
const LIMITED: (u32, u32, u32) = (64, 100, 4093);
const LIMIT_MS: f64 = 100.0;

fn main() -> ExitCode {
    let quick = !measure::is_full();
    let cases: &[(u32, u32, u32)] = match quick {
        true => &[(2, 10, 251)],
        false => &[
            (1, 100, 65_537),
            LIMITED,
            (500, 100, 4093),
            (64, 100, 65_537),
        ],
    };
    let mut limits = measure::Limits::default();
    measure::pin();
    println!(
        "{:<28} {:>9} {:>11} {:>9} {:>9} {:>9} {:>11}",
        "services x backends x slots",
        "plan ms",
        "publish ms",
        "swap ms",
        "CPU ms",
        "fastest",
        "memory MiB"
    );
    for &(services, backends, slots) in cases {
        let root = StateRoot::default();
        root.mount().expect("a bpffs");
        let first = specification(services, backends, slots, 0);
        let dir = root.quiclb(first.instance_id());
        let mut writer = Loader::new(&dir, first.limits())
            .load()
            .expect("an instance");
        let mut samples = [const { Vec::new() }; 4];
        let rounds = if quick { 1 } else { 5 };
        for round in 0..=rounds {
            let times = change(
                &mut writer,
                &specification(services, backends, slots, round),
            );
            // The first is a creation and not a change.
            if round > 0 {
                samples
                    .iter_mut()
                    .zip(times)
                    .for_each(|(samples, time)| samples.push(time));
            }
        }
        // Of the change that was disturbed least.
        let fastest = samples[3].iter().copied().fold(f64::INFINITY, f64::min);
        let [plan_ms, publish_ms, swap_ms, cpu_ms] = samples
            .each_mut()
            .map(|samples| measure::summary(samples).0);
        let live = writer
            .live_memory_bytes()
            .expect("the kernel's figure")
            .unwrap_or(0);
        let case = format!("{services} x {backends} x {slots}");
        let mib = live as f64 / 1024.0 / 1024.0;
        println!("{case:<28} {plan_ms:>9.1} {publish_ms:>11.1} {swap_ms:>9.1} {cpu_ms:>9.1} {fastest:>9.1} {mib:>11.1}");
        if !quick {
            measure::report(&json!({
                "part": "publish", "case": case, "ms": plan_ms + publish_ms, "plan_ms": plan_ms,
                "publish_ms": publish_ms, "swap_ms": swap_ms, "cpu_ms": cpu_ms, "fastest_cpu_ms": fastest,
                "generation_bytes": live,
            }));
        }
        if (services, backends, slots) == LIMITED {
            limits.at_most(
                LIMIT_MS,
                format!("{case}, ms of CPU time, without waits"),
                fastest,
            );
        }
        writer.purge().expect("removed");
    }
    limits.verdict()
}
