// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! JSON Schemas (2020-12) of the [documents](super::document) of the egress datapath.
//!
//! They are made from the Rust types, with the feature `schema`; the texts here are always there.
//! Members may be added to a document without a new version of its form, so none is closed. The
//! schema of the specification, which is read, is
//! [`egress_spec::schema::SPEC`](crate::egress_spec::schema::SPEC).

/// The schema of a plan.
pub const PLAN: &str = include_str!("schema/plan.json");

/// The schema of what was applied.
pub const APPLY: &str = include_str!("schema/apply.json");

/// The schema of an explanation of an address.
pub const EXPLAIN: &str = include_str!("schema/explain.json");

/// The schema of a trace.
pub const TRACE: &str = include_str!("schema/trace.json");

/// Names of all schemas, that of the specification included.
pub const NAMES: &[&str] = &["spec", "plan", "apply", "explain", "trace"];

/// The schema of this name, if there is one.
pub fn named(name: &str) -> Option<&'static str> {
    match name {
        "spec" => Some(crate::egress_spec::schema::SPEC),
        "plan" => Some(PLAN),
        "apply" => Some(APPLY),
        "explain" => Some(EXPLAIN),
        "trace" => Some(TRACE),
        _ => None,
    }
}

/// The schema of this name, made from the types. [`named`] gives the same text.
#[cfg(feature = "schema")]
pub fn generate(name: &str) -> Option<String> {
    match name {
        "spec" => Some(crate::egress_spec::schema::generate_spec()),
        "plan" => Some(of::<super::document::PlanDocument>(name)),
        "apply" => Some(of::<super::document::ApplyDocument>(name)),
        "explain" => Some(of::<super::explain::AddressExplain>(name)),
        "trace" => Some(of::<super::trace::TraceDocument>(name)),
        _ => None,
    }
}

#[cfg(feature = "schema")]
fn of<T: schemars::JsonSchema>(name: &str) -> String {
    crate::document::schema::of::<T>("egress", name)
}
