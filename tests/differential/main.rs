// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program against its model: random frames under random specifications, and frames with
//! names.
//!
//! `GW_LONG=1` runs 1,000,000 frames instead of 24,000. A failure names the seed of its
//! specification; `GW_SEED=<seed>` runs that one alone.

#[allow(dead_code)] // a builder for several test programs
#[path = "../flow_parse/build.rs"]
mod build;
mod cases;
mod compare;
mod coverage;
mod frames;
mod kernel;
mod keys;
mod marks;
#[path = "../common/netns.rs"]
mod netns;
mod nodes;
mod payloads;
mod pool;
mod random;
mod specs;
mod state;

use compare::agree;
use coverage::Coverage;
use guideway::kernel::clock::monotonic_coarse_ns;
use kernel::Machine;
use netns::isolated;
use pool::Pool;
use random::Random;

/// The least that a program can be run on, and that any driver has in one piece.
const LEAST_FRAME: usize = 14;

#[test]
fn random_frames_under_random_specifications() {
    isolated("differential", || {
        let mut machine = Machine::new();
        let mut coverage = Coverage::default();
        if let Ok(seed) = std::env::var("GW_SEED") {
            let seed = seed.trim_start_matches("0x");
            let seed = u64::from_str_radix(seed, 16).expect("hexadecimal digits");
            under_one_specification(&mut machine, seed, 10_000, &mut coverage);
            return;
        }
        let is_long = std::env::var("GW_LONG").is_ok_and(|value| value == "1");
        let (specifications, frames) = if is_long { (2_500, 400) } else { (240, 100) };
        let mut seeds = Random::new(0x6775_6964_6577_6179);
        for _ in 0..specifications {
            under_one_specification(&mut machine, seeds.next(), frames, &mut coverage);
        }
        machine.assert_sums_of_counters();
        coverage.assert_complete();
    });
}

fn under_one_specification(
    machine: &mut Machine,
    seed: u64,
    frames: usize,
    coverage: &mut Coverage,
) {
    let mut random = Random::new(seed);
    let since_ns = monotonic_coarse_ns();
    let (document, generation) = marks::generation(&mut random, machine.world(), since_ns);
    let pool = Pool::new(&mut random, &generation);
    let mut state = state::random(
        &mut random,
        &generation,
        &pool,
        machine.cid_seed(),
        since_ns,
    );
    machine.set_state(&state);
    machine.publish(&generation);
    for number in 0..frames {
        let frame = frames::frame(&mut random, &generation, &pool);
        let linear = match random.percent(10) {
            true => random.between(LEAST_FRAME, frame.len()),
            false => frame.len(),
        };
        let frame = (&frame[..], linear);
        let verdict =
            agree(machine, &generation, &mut state, since_ns, frame).unwrap_or_else(|difference| {
                panic!(
                    "frame {number} under seed {seed:#x}, {linear} bytes linear: {difference}\n\
                     specification: {document}",
                )
            });
        coverage.add(&generation, &verdict);
    }
}
