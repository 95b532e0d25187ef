// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What cannot be placed on.

use thiserror::Error;

use crate::maglev::BuildError;
use crate::srv6::BaseSid;

/// Shards that do not make a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// One shard is given with two weights.
    #[error("shard {sid} is given with weight {first} and with weight {second}")]
    Weights {
        /// The shard.
        sid: BaseSid,
        /// The lower weight.
        first: u32,
        /// The higher one.
        second: u32,
    },
    /// More shards than a group can have.
    #[error("{given} shards were given; a group has {max} at most")]
    TooMany {
        /// Different shards given.
        given: usize,
        /// The greatest number.
        max: usize,
    },
    /// More slots than a group's table can have.
    #[error("table size {requested} is too large for a group; the largest is {max}")]
    TableTooLarge {
        /// The size.
        requested: u32,
        /// The largest.
        max: u32,
    },
    /// The table cannot be built: it has fewer slots than there are shards.
    #[error(transparent)]
    Build(#[from] BuildError),
}
