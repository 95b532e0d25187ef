// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schema (2020-12) of the loop's [document](super::document()).
//!
//! It is that of [`egress::schema::PLAN`](crate::egress::schema::PLAN) with one member more,
//! `control`: what reads plans of specifications reads those of the loop.

/// The schema of a plan of the loop.
pub const PLAN: &str = include_str!("schema/plan.json");

/// The same text, made from the types.
#[cfg(feature = "schema")]
#[must_use]
pub fn generate() -> String {
    crate::document::schema::of::<super::ControlDocument>("egress", "control-plan")
}
