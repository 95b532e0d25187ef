// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a migration would change, and whether it can. Nothing here asks the kernel.

use std::collections::BTreeMap;
use std::fmt;

use super::error::MigrateError;
use super::usage::Usage;
use crate::egress::Limits;
use crate::kernel::map::MapShape;
use crate::kernel::statedir::AbiVersion;

/// A limit that is to be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitChange {
    /// Which.
    pub limit: &'static str,
    /// What the instance was made with.
    pub before: u32,
    /// What is wanted.
    pub after: u32,
    /// How much of it is in use; 0 where any size will do.
    pub used: u32,
}

/// A limit below what is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// Which.
    pub limit: &'static str,
    /// How much of it is in use.
    pub used: u32,
    /// What is wanted.
    pub wanted: u32,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            used,
            wanted,
        } = self;
        write!(f, "{used} {limit} are in use, {wanted} are wanted")
    }
}

/// What a migration would change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// Limits that would be others.
    pub limits: Vec<LimitChange>,
    /// Names of the maps that would be replaced.
    pub maps: Vec<String>,
    /// The version that made the state.
    pub from: AbiVersion,
    /// The version that the state would have.
    pub to: AbiVersion,
}

impl MigrationPlan {
    /// Plans a migration between these limits and versions, with the shapes of the maps of each.
    pub(super) fn new(
        (before, after): (&Limits, &Limits),
        used: &Usage,
        (from, to): (AbiVersion, AbiVersion),
        shapes: (&BTreeMap<String, MapShape>, &BTreeMap<String, MapShape>),
    ) -> Result<Self, MigrateError> {
        let named = before.named().into_iter().zip(after.named());
        let limits = named.filter(|((_, before), (_, after))| before != after);
        let limits: Vec<_> = limits
            .map(|((limit, before), (_, after))| LimitChange {
                limit,
                before,
                after,
                used: used.named(limit),
            })
            .collect();
        // Another table leads packets without pins to other shards.
        if let Some(table) = limits.iter().find(|change| change.limit == "table size") {
            return Err(MigrateError::TableSize {
                found: table.before,
                wanted: table.after,
            });
        }
        let short = limits.iter().filter(|change| change.used > change.after);
        let shortages: Vec<_> = short
            .map(|change| Shortage {
                limit: change.limit,
                used: change.used,
                wanted: change.after,
            })
            .collect();
        if !shortages.is_empty() {
            return Err(MigrateError::TooSmall { shortages });
        }
        let (old, new) = shapes;
        let inner = |limits: &Limits| limits.sizes().snapshot_shape();
        let snapshots = inner(before) != inner(after);
        let differs = |(name, shape): &(&String, &MapShape)| {
            old.get(*name) != Some(*shape) || (*name == "gw_groups" && snapshots)
        };
        let maps = new.iter().filter(differs).map(|(name, _)| name.clone());
        Ok(Self {
            maps: maps.collect(),
            limits,
            from,
            to,
        })
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.maps.is_empty() && self.from == self.to
    }

    /// Whether a map of this name would be replaced.
    #[must_use]
    pub fn replaces(&self, map: &str) -> bool {
        self.maps.iter().any(|name| name == map)
    }
}
