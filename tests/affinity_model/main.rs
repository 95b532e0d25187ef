// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! No live flow moves: the rules of packets and of publications played against each other at
//! random, and each rule left out once, to see that its absence is noticed.
//!
//! `GW_LONG=1` plays ten times as many runs. A failure prints the fewest steps that lead to it.

mod model;
mod steps;
mod variant;

use std::cell::RefCell;

use model::{Model, Tally};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use steps::{steps, Step};
use variant::{Protocol, Variant};

const STEPS: usize = 1_000;

/// Plays `runs` runs, the same ones every time.
fn play(variant: Variant, runs: u32) -> Result<Tally, (String, Vec<Step>)> {
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let total = RefCell::new(Tally::default());
    let result = runner.run(&steps(STEPS), |steps| {
        let tally = Model::run(variant, &steps).map_err(TestCaseError::fail)?;
        total.borrow_mut().add(&tally);
        Ok(())
    });
    match result {
        Ok(()) => Ok(total.into_inner()),
        Err(TestError::Fail(why, steps)) => Err((why.message().to_owned(), steps)),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

#[track_caller]
fn holds(variant: Variant) -> Tally {
    let runs = match std::env::var("GW_LONG").is_ok_and(|value| value == "1") {
        true => 1_500,
        false => 150,
    };
    let tally = play(variant, runs)
        .unwrap_or_else(|(why, steps)| panic!("{why}\nafter {steps:#?}\n{variant:?}"));
    // Runs in which nothing happens would prove nothing.
    assert!(tally.packets > 200 * u64::from(runs), "{tally:?}");
    assert!(tally.opened > u64::from(runs), "{tally:?}");
    assert!(tally.closed > u64::from(runs), "{tally:?}");
    assert!(tally.unmarked > u64::from(runs), "{tally:?}");
    tally
}

#[track_caller]
fn is_noticed(variant: Variant) {
    let found = play(variant, 3_000);
    let (why, steps) = found.expect_err("nothing was noticed");
    assert!(steps.len() < 60, "{} steps: {why}", steps.len());
}

#[test]
fn no_tcp_flow_moves() {
    let tally = holds(Variant::sound(Protocol::Tcp));
    assert_eq!((tally.moved_at_risk, tally.moved_handshakes), (0, 0));
}

#[test]
fn no_quic_flow_moves_but_for_handshakes_that_straddle_a_drain() {
    let tally = holds(Variant::sound(Protocol::Quic));
    assert_eq!(tally.moved_at_risk, 0);
    assert!(tally.moved_handshakes > 0);
}

#[test]
fn in_a_full_table_every_flow_that_moves_was_counted_before() {
    for protocol in [Protocol::Tcp, Protocol::Quic] {
        let tally = holds(Variant {
            capacity: 4,
            ..Variant::sound(protocol)
        });
        assert!(tally.moved_at_risk > 0, "{tally:?}");
        assert_eq!(tally.most_entries, 4);
    }
}

#[test]
fn windows_that_close_despite_refusals_are_noticed() {
    is_noticed(Variant {
        capacity: 4,
        closes_despite_refusals: true,
        ..Variant::sound(Protocol::Tcp)
    });
}

#[test]
fn windows_that_close_without_a_word_are_noticed() {
    is_noticed(Variant {
        capacity: 4,
        says_that_it_closes: false,
        ..Variant::sound(Protocol::Tcp)
    });
}

#[test]
fn a_missing_handshake_grace_is_noticed() {
    is_noticed(Variant {
        grace: false,
        ..Variant::sound(Protocol::Quic)
    });
}

#[test]
fn a_sweep_before_the_barrier_is_noticed() {
    is_noticed(Variant {
        sweeps_before_return: true,
        ..Variant::sound(Protocol::Tcp)
    });
}

#[test]
fn a_base_that_moves_with_the_second_change_is_noticed() {
    is_noticed(Variant {
        moves_base: true,
        ..Variant::sound(Protocol::Tcp)
    });
}

#[test]
fn inserts_that_are_skipped_in_open_slots_are_noticed() {
    is_noticed(Variant {
        inserts: false,
        ..Variant::sound(Protocol::Tcp)
    });
}

/// In an unmarked slot nobody looks at entries, and its flows are not theirs: one that is left
/// there misleads the packets that find it when the slot is open again.
#[test]
fn entries_that_are_left_in_unmarked_slots_are_noticed() {
    is_noticed(Variant {
        keeps_redundant: true,
        ..Variant::sound(Protocol::Tcp)
    });
}
