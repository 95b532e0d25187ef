// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The vectors of tables, on whatever target this is built for.

// Both have more than the vectors need.
#[allow(dead_code)]
#[path = "../maglev/reference.rs"]
mod reference;
#[allow(dead_code)]
#[path = "../maglev/support.rs"]
mod support;
#[path = "../maglev/vectors.rs"]
mod vectors;

#[test]
fn target() {
    println!(
        "{} bits, {}",
        usize::BITS,
        if cfg!(target_endian = "big") {
            "big-endian"
        } else {
            "little-endian"
        }
    );
}
