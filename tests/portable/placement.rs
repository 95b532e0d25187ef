// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The vectors of placement, on whatever target this is built for.

// They have more than the vectors need.
#[allow(dead_code)]
#[path = "../placement/fleet.rs"]
mod fleet;
#[allow(dead_code)]
#[path = "../placement/reference.rs"]
mod reference;
#[allow(dead_code)]
#[path = "../maglev/reference.rs"]
mod tables;
#[path = "../placement/vectors.rs"]
mod vectors;
