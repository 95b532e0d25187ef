// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! JSON Schemas (2020-12) of the documents that the load balancer writes.
//!
//! They are made from the Rust types, with the feature `schema`; the texts here are always there.
//! Members may be added to a document without a new version of its form, so none is closed. The
//! schema of the specification, which is read, is
//! [`service::schema::SPEC`](crate::service::schema::SPEC).

/// The schema of a plan.
pub const PLAN: &str = include_str!("schema/plan.json");

/// The schema of a status.
pub const STATUS: &str = include_str!("schema/status.json");

/// The schema of a trace.
pub const TRACE: &str = include_str!("schema/trace.json");

/// The schema of a line of events.
pub const EVENT: &str = include_str!("schema/event.json");

/// The schema of what was applied.
pub const APPLY: &str = include_str!("schema/apply.json");

/// The schema of the list of instances.
pub const LIST: &str = include_str!("schema/list.json");

/// The schema of what was detached.
pub const DETACH: &str = include_str!("schema/detach.json");

/// The schema of what became of a program that was to be exchanged.
pub const UPGRADE: &str = include_str!("schema/upgrade.json");

/// The schema of a difference between two specifications.
pub const DIFF: &str = include_str!("schema/diff.json");

/// The schema of a diagnosis.
pub const DOCTOR: &str = include_str!("schema/doctor.json");

/// The schema of what an interface offers.
pub const PROBE: &str = include_str!("schema/probe.json");

/// The schema of a line of live rates.
pub const WATCH: &str = include_str!("schema/watch.json");

/// The schema of an error.
pub const ERROR: &str = include_str!("schema/error.json");

/// The schema of a line of the collector.
pub const RUN: &str = include_str!("schema/run.json");

/// The schema of the document in which bindings travel. Unlike the others it is read, too.
pub const AFFINITY: &str = include_str!("schema/affinity.json");

/// The schema of what was exported.
pub const AFFINITY_EXPORT: &str = include_str!("schema/affinity-export.json");

/// The schema of what was imported.
pub const AFFINITY_IMPORT: &str = include_str!("schema/affinity-import.json");

/// The schema of the status of an instance on a network card.
pub const CARD: &str = include_str!("schema/card.json");

/// The schema of a step in the age of flows on a network card.
pub const CARD_RUN: &str = include_str!("schema/card-run.json");

/// Names of all schemas, that of the specification included.
pub const NAMES: &[&str] = &[
    "spec",
    "plan",
    "status",
    "trace",
    "event",
    "apply",
    "list",
    "detach",
    "upgrade",
    "diff",
    "doctor",
    "probe",
    "watch",
    "error",
    "run",
    "affinity",
    "affinity-export",
    "affinity-import",
    "card",
    "card-run",
];

/// The schema of this name, if there is one.
pub fn named(name: &str) -> Option<&'static str> {
    match name {
        "spec" => Some(crate::service::schema::SPEC),
        "plan" => Some(PLAN),
        "status" => Some(STATUS),
        "trace" => Some(TRACE),
        "event" => Some(EVENT),
        "apply" => Some(APPLY),
        "list" => Some(LIST),
        "detach" => Some(DETACH),
        "upgrade" => Some(UPGRADE),
        "diff" => Some(DIFF),
        "doctor" => Some(DOCTOR),
        "probe" => Some(PROBE),
        "watch" => Some(WATCH),
        "error" => Some(ERROR),
        "run" => Some(RUN),
        "affinity" => Some(AFFINITY),
        "affinity-export" => Some(AFFINITY_EXPORT),
        "affinity-import" => Some(AFFINITY_IMPORT),
        "card" => Some(CARD),
        "card-run" => Some(CARD_RUN),
        _ => None,
    }
}

/// The schema of this name, made from the types. [`named`] gives the same text.
#[cfg(feature = "schema")]
pub fn generate(name: &str) -> Option<String> {
    match name {
        "spec" => Some(crate::service::schema::generate_spec()),
        "plan" => Some(of::<crate::plan::PlanDocument>(name)),
        "status" => Some(of::<super::Status>(name)),
        "trace" => Some(of::<super::trace::TraceDocument>(name)),
        "event" => Some(of::<super::EventLine>(name)),
        "apply" => Some(of::<super::Applied>(name)),
        "list" => Some(of::<super::InstanceList>(name)),
        "detach" => Some(of::<super::Detached>(name)),
        "upgrade" => Some(of::<super::Upgraded>(name)),
        "diff" => Some(of::<super::SpecDiff>(name)),
        "doctor" => Some(of::<super::Diagnosis>(name)),
        "probe" => Some(of::<super::InterfaceProbe>(name)),
        "watch" => Some(of::<super::WatchLine>(name)),
        "error" => Some(of::<super::ErrorDocument>(name)),
        "run" => Some(of::<super::collector::RunLine>(name)),
        "affinity" => Some(of::<crate::affinity::AffinityDocument>(name)),
        "affinity-export" => Some(of::<super::Exported>(name)),
        "affinity-import" => Some(of::<super::Imported>(name)),
        "card" => Some(of::<super::CardStatus>(name)),
        "card-run" => Some(of::<super::hardware::Aged>(name)),
        _ => None,
    }
}

#[cfg(feature = "schema")]
fn of<T: schemars::JsonSchema>(name: &str) -> String {
    crate::document::schema::of::<T>("quiclb", name)
}
