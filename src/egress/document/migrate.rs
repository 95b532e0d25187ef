// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Moving an instance into maps of other sizes.

use serde::Serialize;

use super::interfaces::{InterfaceName, Interfaces};
use super::Error;
use crate::egress::migrate::{CopiedRows, LimitChange, MigrationPlan, Settled};
use crate::egress::Loader;

/// What was migrated, or would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MigrateDocument {
    /// Names this form.
    pub schema: MigrateSchema,
    /// What came of it.
    pub result: MigrateResult,
    /// Limits that are others.
    pub limits: Vec<LimitChange>,
    /// Maps that were replaced.
    pub maps: Vec<String>,
    /// Version of the state before, `major.minor`.
    pub abi_before: String,
    /// Version of the state now.
    pub abi_after: String,
    /// What became of an earlier migration that was interrupted.
    pub interrupted: Settled,
    /// Interfaces that run the new program.
    pub interfaces: Vec<InterfaceName>,
    /// What was copied.
    pub copied: CopiedRows,
    /// Milliseconds that nobody else could write routes.
    pub held_ms: f64,
}

/// Names the form of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum MigrateSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.migrate/v1")]
    V1,
}

/// What came of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MigrateResult {
    /// It was asked for what would change.
    Planned,
    /// There was nothing to do.
    Unchanged,
    /// The instance has other maps.
    Migrated,
}

/// Gives an instance the limits that `loader` wants; see [`Loader::migrate`].
///
/// # Errors
/// As there.
pub fn migrate(loader: Loader) -> Result<MigrateDocument, Error> {
    let migrated = loader.migrate()?;
    let interfaces = Interfaces::read()?;
    let result = match migrated.plan.is_empty() {
        true => MigrateResult::Unchanged,
        false => MigrateResult::Migrated,
    };
    let names = migrated.interfaces.iter();
    Ok(MigrateDocument {
        interrupted: migrated.settled,
        interfaces: names.map(|&ifindex| interfaces.name(ifindex)).collect(),
        copied: migrated.copied,
        held_ms: migrated.held.as_secs_f64() * 1_000.0,
        ..document(result, migrated.plan)
    })
}

/// What [`migrate`] would do; changes nothing.
///
/// # Errors
/// As there.
pub fn plan_migration(loader: &Loader) -> Result<MigrateDocument, Error> {
    let plan = loader.plan_migration()?;
    Ok(document(MigrateResult::Planned, plan))
}

fn document(result: MigrateResult, plan: MigrationPlan) -> MigrateDocument {
    MigrateDocument {
        schema: MigrateSchema::V1,
        result,
        limits: plan.limits,
        maps: plan.maps,
        abi_before: plan.from.to_string(),
        abi_after: plan.to.to_string(),
        interrupted: Settled::Sound,
        interfaces: Vec::new(),
        copied: CopiedRows::default(),
        held_ms: 0.0,
    }
}
