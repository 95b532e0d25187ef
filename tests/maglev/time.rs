// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The time of a build depends on the numbers of slots and members, not on the weights.

use std::time::Duration;

use guideway::maglev::{build_into, Scratch, TableSize};
use nix::time::{clock_gettime, ClockId};

use crate::support::{backends, borrowed, members, Weighted};

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("the thread's clock")
        .into()
}

/// The least CPU time of a few builds.
fn build_time(weighted: &Weighted) -> Duration {
    let members = members(&borrowed(weighted));
    let size = TableSize::SERVICE;
    let mut scratch = Scratch::with_capacity(size, members.len());
    let mut out = vec![0; size.slots()];
    let build = |_| {
        let start = cpu_time();
        build_into(&mut out, &mut scratch, size, &members).expect("valid members");
        cpu_time() - start
    };
    (0..5).map(build).min().expect("a build")
}

/// A coarse guard, with a factor that covers a build without optimization. Going through the
/// rounds one by one would take some 65 million steps here, a hundred times the whole equal build.
#[test]
fn extreme_weights_take_a_similar_time() {
    let equal = build_time(&backends(1000));
    let heaviest = |weight: u32| {
        let mut weighted = backends(1000);
        weighted[500].1 = weight;
        build_time(&weighted)
    };
    let graded = {
        let mut weighted = backends(1000);
        weighted
            .iter_mut()
            .zip(0u32..)
            .for_each(|((_, weight), n)| *weight = 1 << (n % 32));
        build_time(&weighted)
    };
    for (name, time) in [
        ("2^32 - 1 : 1", heaviest(u32::MAX)),
        ("65536 : 1", heaviest(65_536)),
        ("powers of two", graded),
    ] {
        assert!(
            time < 6 * equal,
            "{name}: {time:?}; equal weights: {equal:?}"
        );
    }
}
