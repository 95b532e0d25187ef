// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The vectors, on whatever target this is built for.

// Both have more than the vectors need.
#[allow(dead_code)]
#[path = "../reference.rs"]
mod reference;
#[allow(dead_code)]
#[path = "../support.rs"]
mod support;
#[path = "../vectors.rs"]
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
