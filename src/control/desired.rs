// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a node's egress should be.

use std::collections::BTreeMap;

use super::known::Known;
use super::shard::ShardList;
use crate::encap::Encap;
use crate::group::{Classes, Settings};
use crate::srv6::BaseSid;

/// How tenants' packets find their shard. It is always said, and follows from nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All go to the first shard of a list that is reached.
    Ordered,
    /// They are spread over groups of shards.
    Hashed,
}

/// What a node's egress should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// How packets find their shard.
    pub mode: Mode,
    /// The classes that each tenant has routes for.
    pub classes: Classes,
    /// How groups treat packets.
    pub settings: Settings,
    /// How packets are encapsulated.
    pub encap: Encap,
    /// The shards that a source lists; nothing in ordered mode depends on them.
    pub shards: Known<ShardList>,
    /// The shards of ordered mode, the preferred ones first. In hashed mode, shards whose routes are
    /// the loop's to move.
    pub static_sids: Vec<BaseSid>,
    /// The rest.
    pub policy: Policy,
    /// What others say of single shards, against what the node sees.
    pub overrides: BTreeMap<BaseSid, Verdict>,
}

/// What does not say where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Fewer active members of a group are worth a warning, and nothing else.
    pub pool_min_active: u32,
    /// In hashed mode, members that were published before follow their routes and neighbours also
    /// while no list of shards is known.
    pub liveness_before_sync: bool,
}

impl Default for Policy {
    /// One active member; nothing before the first list.
    fn default() -> Self {
        Self {
            pool_min_active: 1,
            liveness_before_sync: false,
        }
    }
}

/// What a health check says of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It works. Where the node finds no way to it, the one that is published stays.
    Alive,
    /// It does not work, whatever the node sees.
    Dead,
}
