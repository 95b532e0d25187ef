// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shard groups, the pure side: identities, slots, generations, tables and transitions.
//!
//! `GW_LONG=1` plays ten times as many random histories.

mod classes;
mod generations;
mod image;
mod input;
mod life;
mod model;
mod places;
#[path = "../maglev/reference.rs"]
mod reference;
mod settings;
mod slots;
mod support;
mod table;
