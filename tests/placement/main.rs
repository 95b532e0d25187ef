// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement of tenants' packets on shards, against vectors and against a transcription of the
//! rules that shares nothing with the crate.

mod fleet;
mod properties;
mod reference;
mod shards;
mod spread;
mod vectors;

#[path = "../maglev/reference.rs"]
#[allow(dead_code)] // it has more than is needed here
mod tables;
