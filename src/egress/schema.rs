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

/// The schema of a status.
pub const STATUS: &str = include_str!("schema/status.json");

/// The schema of what was attached for one tenant.
pub const ATTACH: &str = include_str!("schema/attach.json");

/// The schema of what was detached.
pub const DETACH: &str = include_str!("schema/detach.json");

/// The schema of what became of a program that was to be exchanged.
pub const UPGRADE: &str = include_str!("schema/upgrade.json");

/// The schema of a line of pins.
pub const PIN: &str = include_str!("schema/pin.json");

/// The schema of what a pass over pins came to.
pub const SWEEP: &str = include_str!("schema/sweep.json");

/// The schema of what was migrated.
pub const MIGRATE: &str = include_str!("schema/migrate.json");

/// The schema of what was retired.
pub const RETIRE: &str = include_str!("schema/retire.json");

/// Names of all schemas, that of the specification included.
pub const NAMES: &[&str] = &[
    "spec", "plan", "apply", "explain", "trace", "status", "attach", "detach", "upgrade", "pin",
    "sweep", "migrate", "retire",
];

/// The schema of this name, if there is one.
pub fn named(name: &str) -> Option<&'static str> {
    match name {
        "spec" => Some(crate::egress_spec::schema::SPEC),
        "plan" => Some(PLAN),
        "apply" => Some(APPLY),
        "explain" => Some(EXPLAIN),
        "trace" => Some(TRACE),
        "status" => Some(STATUS),
        "attach" => Some(ATTACH),
        "detach" => Some(DETACH),
        "upgrade" => Some(UPGRADE),
        "pin" => Some(PIN),
        "sweep" => Some(SWEEP),
        "migrate" => Some(MIGRATE),
        "retire" => Some(RETIRE),
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
        "status" => Some(of::<super::document::StatusDocument>(name)),
        "attach" => Some(of::<super::document::AttachDocument>(name)),
        "detach" => Some(of::<super::document::DetachDocument>(name)),
        "upgrade" => Some(of::<super::Upgraded>(name)),
        "pin" => Some(of::<super::document::PinDocument>(name)),
        "sweep" => Some(of::<super::document::SweepDocument>(name)),
        "migrate" => Some(of::<super::document::MigrateDocument>(name)),
        "retire" => Some(of::<super::document::RetireDocument>(name)),
        _ => None,
    }
}

#[cfg(feature = "schema")]
fn of<T: schemars::JsonSchema>(name: &str) -> String {
    crate::document::schema::of::<T>("egress", name)
}
