// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What was changed.

use std::time::Duration;

use serde::Serialize;

use super::interfaces::{InterfaceAdvice, InterfaceName, Interfaces};
use super::Error;
use crate::egress::apply::{Applied, How};
use crate::egress::{resolve, InstanceError, Limits, Loader, Published};
use crate::egress_spec::{Spec, SpecDigest, Warning};
use crate::error::ErrorKind;
use crate::group::{Change, Class};
use crate::kernel::repair::Repair;
use crate::kernel::statedir::StateDir;

/// What applying a specification changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ApplyDocument {
    /// Names this form.
    pub schema: ApplySchema,
    /// Digest of the specification's canonical form.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub digest: SpecDigest,
    /// What it came to.
    pub result: ApplyResult,
    /// What the instance had lost, and has again.
    pub repaired: Vec<Repair>,
    /// Why it was not done to its end; null if it was.
    pub not_applied: Option<NotApplied>,
    /// Whether another configuration was published.
    pub configuration: bool,
    /// Groups that were published.
    pub groups: Vec<GroupApplied>,
    /// Indices of groups that were disabled.
    pub retired: Vec<u8>,
    /// Routes that were written.
    pub routes_written: u64,
    /// Routes that were removed.
    pub routes_removed: u64,
    /// Interfaces whose row was written.
    pub interfaces_written: Vec<InterfaceName>,
    /// Interfaces whose row was removed.
    pub interfaces_removed: Vec<InterfaceName>,
    /// Tenants that are gone, with their routes and pins.
    pub tenants_removed: Vec<u32>,
    /// Interfaces that the program was attached to.
    pub attached: Vec<InterfaceName>,
    /// Interfaces that it was taken off.
    pub detached: Vec<InterfaceName>,
    /// What is to be known of tenants' interfaces.
    pub interface_warnings: Vec<InterfaceAdvice>,
    /// What works but may not be what was meant.
    pub warnings: Vec<Warning>,
}

/// Names the form of what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ApplySchema {
    /// The first form.
    #[serde(rename = "guideway.egress.apply/v1")]
    V1,
}

/// What applying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ApplyResult {
    /// There was no instance: it was made.
    Created,
    /// Something was changed.
    Changed,
    /// Everything was as the specification says, but for what had been lost, and is back.
    Repaired,
    /// Everything was as the specification says.
    Unchanged,
    /// Some of it was done; applying it again does the rest.
    Partial,
}

/// Why a specification was not applied to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NotApplied {
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// The step that failed.
    pub message: String,
}

/// A group that was published.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupApplied {
    /// Index of the group.
    pub group: u8,
    /// Whose it is.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// What changed.
    pub change: Change,
    /// Number of the publication.
    pub publication: u32,
    /// How long the batch took that it was published in, in milliseconds; the wait for the last
    /// packets of the snapshot before is part of it.
    pub publish_ms: f64,
}

impl From<&Published> for GroupApplied {
    fn from(published: &Published) -> Self {
        Self {
            group: published.group.get(),
            class: published.class,
            change: published.change,
            publication: published.publication.get(),
            publish_ms: published.duration.as_secs_f64() * 1000.0,
        }
    }
}

/// Applies `spec` to the instance of `dir`, which is made if there is none, on the interfaces of
/// the calling thread's network namespace. Waits for the instance's lock as long as `lock` says.
///
/// # Errors
/// Nothing was changed: faults of the specification on this machine, other limits than those of the
/// instance, another writer, somebody else's program in the place of the first interface. Where some
/// of it was done the document says so in [`not_applied`](ApplyDocument::not_applied).
pub fn apply(
    dir: &StateDir,
    spec: &Spec,
    how: &How,
    lock: Duration,
) -> Result<ApplyDocument, Error> {
    let interfaces = Interfaces::read()?;
    let wanted = resolve(spec)?;
    let limits = Limits::try_from(spec.limits())?;
    let existed = dir.exists().map_err(InstanceError::from)?;
    let mut writer = Loader::new(dir).limits(limits).patience(lock).load()?;
    let (applied, not_applied) = match writer.apply(&wanted, how) {
        Ok(applied) => (applied, None),
        // An instance was made, if nothing else.
        Err(error) if existed && error.applied.is_empty() => return Err(error.into()),
        Err(error) => {
            let not_applied = NotApplied {
                kind: error.error.kind(),
                message: error.to_string(),
            };
            (*error.applied, Some(not_applied))
        }
    };
    // What a loop was told is nothing to judge this by. What stays is found stale some time.
    let _ = writer.end_loop();
    let result = match (&not_applied, existed) {
        (Some(_), _) => ApplyResult::Partial,
        (None, false) => ApplyResult::Created,
        (None, true) if !applied.is_empty() => ApplyResult::Changed,
        (None, true) if !writer.repairs().is_empty() => ApplyResult::Repaired,
        (None, true) => ApplyResult::Unchanged,
    };
    let tenants = wanted.tenants.iter();
    let tenants = tenants.flat_map(|tenant| tenant.interfaces.keys());
    Ok(ApplyDocument {
        result,
        repaired: writer.repairs().to_vec(),
        not_applied,
        interface_warnings: interfaces.advice(tenants),
        ..ApplyDocument::of(&applied, &interfaces, spec)
    })
}

impl ApplyDocument {
    /// All of it done, where there was something to do.
    fn of(applied: &Applied, interfaces: &Interfaces, spec: &Spec) -> Self {
        Self {
            schema: ApplySchema::V1,
            digest: spec.digest(),
            result: ApplyResult::Changed,
            repaired: Vec::new(),
            not_applied: None,
            configuration: applied.encap,
            groups: applied.published.iter().map(GroupApplied::from).collect(),
            retired: applied.retired.iter().map(|group| group.get()).collect(),
            routes_written: applied.routes_written as u64,
            routes_removed: applied.routes_removed as u64,
            interfaces_written: interfaces.names(&applied.interfaces_written),
            interfaces_removed: interfaces.names(&applied.interfaces_removed),
            tenants_removed: applied
                .tenants_removed
                .iter()
                .map(|table| table.get())
                .collect(),
            attached: interfaces.names(&applied.attached),
            detached: interfaces.names(&applied.detached),
            interface_warnings: Vec::new(),
            warnings: spec.warnings(),
        }
    }
}
