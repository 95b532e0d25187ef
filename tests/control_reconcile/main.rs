// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop plans, without a kernel: which shards are whose members, what is done while
//! they are not known, where routes are moved in either mode, and that it comes to an end from
//! whatever there is.
//!
//! `GW_LONG=1` starts from ten times as many random states.

mod damaged;
mod document;
mod effect;
mod eligibility;
mod fake;
mod fixture;
mod gates;
mod hashed;
mod leftovers;
mod order;
mod ordered;
mod random;
mod transitions;
mod world;
