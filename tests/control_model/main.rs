// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loop beside those who write routes, in random order: writers stop at any step, or die; the
//! loop's operations fail, or are its last; modes, classes, shards and ways change meanwhile.
//!
//! One interleaving is a round of the loop, before each operation of which writers may take steps.
//! After every step of anybody no route may lead to what forwards nothing, or to another class's
//! group, and no route of a configured class may be missing.
//!
//! A process that starts again may know of no shard yet: then it publishes nothing.
//!
//! `GW_LONG=1` runs ten times as many. `GW_SEED=N` takes another walk than those that are always taken;
//! the seed of one that goes wrong is told.

mod walk;

#[path = "../control_reconcile/fixture.rs"]
#[allow(dead_code)] // this binary uses a part
mod fixture;

use walk::{Barrier, Walk};

/// Two threads of so many each.
const INTERLEAVINGS: u64 = 50_000;

#[test]
fn nothing_goes_wrong_in_any_order() {
    let long = std::env::var_os("GW_LONG").is_some();
    let rounds = if long {
        10 * INTERLEAVINGS
    } else {
        INTERLEAVINGS
    };
    let seeds = match std::env::var("GW_SEED") {
        Ok(seed) => vec![seed.parse().expect("GW_SEED is a number")],
        Err(_) => vec![1, 2],
    };
    let seen = std::thread::scope(|scope| {
        let walk = |seed| {
            println!("seed {seed}");
            scope.spawn(move || (seed, Walk::new(seed, Barrier::Kept).run(rounds)))
        };
        let walks: Vec<_> = seeds.into_iter().map(walk).collect();
        let walks = walks.into_iter();
        walks
            .map(|walk| walk.join().expect("no panic"))
            .collect::<Vec<(u64, _)>>()
    });
    for (seed, seen) in seen {
        let seen = seen.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert_eq!(seen.rounds, rounds);
        // Everything happened often enough to mean something.
        for (what, count) in seen.counts() {
            assert!(
                count > rounds / 1000,
                "seed {seed}: {what}: {count} of {rounds}"
            );
        }
    }
}

/// Without the barrier a route to a disabled group is found soon.
#[test]
fn the_barrier_is_what_keeps_them_apart() {
    let wrong = Walk::new(3, Barrier::Ignored).run(INTERLEAVINGS);
    let wrong = wrong.expect_err("a writer that was stopped between ticket and write");
    assert!(wrong.contains("forwards nothing"), "{wrong}");
}
