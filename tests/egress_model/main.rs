// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The model of the egress program by itself: the published vectors, and the rules one by one.

mod answers;
#[path = "../egress/frames.rs"]
#[allow(dead_code)]
mod frames;
mod mss;
mod pins;
mod rules;
mod scene;
