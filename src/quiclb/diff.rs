// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What differs between two specifications, member by member, and what the difference moves.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::plan::{compare, ServiceDisruption};
use crate::service::{Faults, Spec, Warning};

/// What differs between two specifications.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SpecDiff {
    /// Names this form.
    pub schema: DiffSchema,
    /// What the caller calls the first.
    pub from: String,
    /// What the caller calls the second.
    pub to: String,
    /// Whether they say the same.
    pub identical: bool,
    /// Every member that differs. Secrets are not shown: that they differ is.
    pub changes: Vec<MemberChange>,
    /// What the change from one to the other does to the flows of each service: by the tables
    /// alone, unless the first is what is live.
    pub disruption: Vec<ServiceDisruption>,
    /// What is allowed, and perhaps not meant: of the second alone, unless the first is what is live.
    pub warnings: Vec<Warning>,
}

/// What a change of an instance does to flows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Foreseen {
    /// By service.
    pub disruption: Vec<ServiceDisruption>,
    /// What is allowed, and perhaps not meant.
    pub warnings: Vec<Warning>,
}

/// Names the form of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DiffSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.diff/v1")]
    V1,
}

/// One member that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemberChange {
    /// JSON pointer (RFC 6901) to it in the second canonical document, in the first if it is
    /// removed.
    pub pointer: String,
    /// What happens to it.
    pub op: Op,
    /// Its value in the first; null if it is added, and for secrets.
    pub from: Value,
    /// Its value in the second; null if it is removed, and for secrets.
    pub to: Value,
}

/// What happens to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Only the second has it.
    Add,
    /// Only the first has it.
    Remove,
    /// Both have it, with different values.
    Replace,
}

/// Members whose value is a secret.
const SECRETS: [&str; 2] = ["hash_seed", "key"];

/// By what the entries of a list are the same one, by the list's name. Entries of other lists are
/// the same if they are equal.
const IDENTITIES: [(&str, &str); 3] = [
    ("services", "name"),
    ("backends", "id"),
    ("configs", "config_id"),
];

impl SpecDiff {
    /// Compares two specifications; `from` and `to` are what the caller calls them.
    ///
    /// # Errors
    /// A table of either cannot be built.
    pub fn between(
        (from, before): (impl Into<String>, &Spec),
        (to, after): (impl Into<String>, &Spec),
    ) -> Result<Self, Faults> {
        let mut changes = Vec::new();
        walk("", "", &document(before), &document(after), &mut changes);
        Ok(Self {
            schema: DiffSchema::V1,
            from: from.into(),
            to: to.into(),
            identical: before == after,
            changes,
            disruption: compare(before, after)?,
            warnings: after.warnings(),
        })
    }

    /// With what an instance on which the first is live [foresees](super::QuicLb::foresee).
    #[must_use]
    pub fn foreseen(mut self, foreseen: Foreseen) -> Self {
        for mut foreseen in foreseen.disruption {
            let id = foreseen.service_id;
            let mut services = self.disruption.iter_mut();
            if let Some(service) = services.find(|service| service.service_id == id) {
                // What is planned for any machine differs from what is live on one in any case.
                foreseen.change = service.change;
                *service = foreseen;
            }
        }
        self.warnings = foreseen.warnings;
        self
    }
}

fn document(spec: &Spec) -> Value {
    // The canonical text is JSON.
    serde_json::from_slice(&spec.to_canonical_json()).unwrap_or_default()
}

/// Notes what differs between two values that both documents have at one place; `name` is the
/// member that holds them.
fn walk(pointer: &str, name: &str, from: &Value, to: &Value, changes: &mut Vec<MemberChange>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => members(pointer, from, to, changes),
        (Value::Array(from), Value::Array(to)) => {
            match IDENTITIES.iter().find(|(list, _)| *list == name) {
                Some((_, identity)) => entries(pointer, identity, from, to, changes),
                None if from != to => changes.push(MemberChange {
                    pointer: pointer.to_owned(),
                    op: Op::Replace,
                    from: Value::Array(from.clone()),
                    to: Value::Array(to.clone()),
                }),
                None => {}
            }
        }
        (from, to) if from != to => changes.push(MemberChange {
            pointer: pointer.to_owned(),
            op: Op::Replace,
            from: shown(name, from),
            to: shown(name, to),
        }),
        _ => {}
    }
}

fn members(
    pointer: &str,
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    changes: &mut Vec<MemberChange>,
) {
    let names: BTreeSet<_> = from.keys().chain(to.keys()).collect();
    for name in names {
        let below = format!("{pointer}/{}", escaped(name));
        match (from.get(name), to.get(name)) {
            (Some(from), Some(to)) => walk(&below, name, from, to, changes),
            (Some(gone), None) => changes.push(removed(below, name, gone)),
            (None, Some(new)) => changes.push(added(below, name, new)),
            (None, None) => {}
        }
    }
}

/// Entries of a list that are the same one by a member of theirs.
fn entries(
    pointer: &str,
    identity: &str,
    from: &[Value],
    to: &[Value],
    changes: &mut Vec<MemberChange>,
) {
    let find = |entries: &[Value], entry: &Value| {
        let same = |other: &Value| other.get(identity) == entry.get(identity);
        entries.iter().position(same)
    };
    for (index, entry) in from.iter().enumerate() {
        if find(to, entry).is_none() {
            changes.push(removed(format!("{pointer}/{index}"), "", entry));
        }
    }
    for (index, entry) in to.iter().enumerate() {
        let below = format!("{pointer}/{index}");
        match find(from, entry).and_then(|index| from.get(index)) {
            Some(before) => walk(&below, "", before, entry, changes),
            None => changes.push(added(below, "", entry)),
        }
    }
}

fn added(pointer: String, name: &str, value: &Value) -> MemberChange {
    MemberChange {
        pointer,
        op: Op::Add,
        from: Value::Null,
        to: shown(name, value),
    }
}

fn removed(pointer: String, name: &str, value: &Value) -> MemberChange {
    MemberChange {
        pointer,
        op: Op::Remove,
        from: shown(name, value),
        to: Value::Null,
    }
}

/// A value without the secrets in it.
fn shown(name: &str, value: &Value) -> Value {
    match value {
        _ if SECRETS.contains(&name) => Value::Null,
        Value::Object(members) => {
            let members = members.iter();
            let shown = members.map(|(name, value)| (name.clone(), shown(name, value)));
            Value::Object(shown.collect())
        }
        Value::Array(entries) => entries.iter().map(|entry| shown("", entry)).collect(),
        value => value.clone(),
    }
}

/// A member's name as a token of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
