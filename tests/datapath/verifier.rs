// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program costs the verifier.

use guideway::kernel::object::Options;

use crate::machine::Machine;
use crate::netns::isolated;

/// A fifth of what a program may cost, so that there is room for the next compiler and kernel. With
/// clang 14 to 19 on Linux 6.1 and 6.18 it is 10,000 to 11,500.
const BUDGET: u32 = 30_000;

#[test]
fn the_program_stays_within_its_budget() {
    isolated("datapath::budget", || {
        let used = Machine::new().verified_instructions();
        println!("verifier: {used} instructions");
        assert!(used > 1_000, "{used} instructions: is this the program?");
        assert!(used < BUDGET, "{used} instructions, of {BUDGET}");
    });
}

#[test]
fn the_program_without_keys_stays_within_it() {
    isolated("datapath::budget_plain", || {
        let plain = Options::default().load().expect("load").program;
        let used = plain.verified_instructions();
        println!("verifier: {used} instructions without keys");
        assert!(
            used > 1_000 && used < BUDGET,
            "{used} instructions, of {BUDGET}"
        );
    });
}

#[test]
fn the_tracing_program_stays_within_it_too() {
    isolated("datapath::budget_tracing", || {
        let used = Machine::tracing().verified_instructions();
        println!("verifier: {used} instructions with tracing");
        assert!(used < BUDGET, "{used} instructions, of {BUDGET}");
    });
}
