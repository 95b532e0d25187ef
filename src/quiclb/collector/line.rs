// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a step did, as one line of a document.

use std::time::Duration;

use serde::Serialize;

use super::{Followed, LevelChange, Occupancy, Stepped, SweepReport};
use crate::affinity::rfc3339;
use crate::id::InstanceId;
use crate::kernel::clock;

/// What a step of a collector did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunLine {
    /// Names this form.
    pub schema: RunSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// When the step ended, in UTC (RFC 3339).
    pub time: String,
    /// Number of the generation that is live now; none if there is none.
    pub generation: Option<u64>,
    /// Entries before the step; none while nothing is published.
    pub occupancy: Option<Occupancy>,
    /// Levels of admission that changed.
    pub levels: Vec<LevelChange>,
    /// The sweep that was made, ended or taken further.
    pub sweep: Option<SweepReport>,
    /// A generation of the same specification that was published.
    pub published: Option<Followed>,
    /// What keeps such a generation from being published or had to be left as it was, or keeps the
    /// step from being made.
    pub problem: Option<String>,
}

/// Names the form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RunSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.run/v1")]
    V1,
}

impl RunLine {
    /// The line of a step that has just ended; none: it could not be made.
    pub fn new(instance: InstanceId, stepped: Option<Stepped>) -> Self {
        let stepped = stepped.unwrap_or_else(|| Stepped::nothing(Duration::ZERO));
        Self {
            schema: RunSchema::V1,
            instance_id: instance,
            time: rfc3339(clock::wall_ns() / 1_000_000_000),
            generation: stepped.generation,
            occupancy: stepped.occupancy,
            levels: stepped.levels,
            sweep: stepped.sweep,
            published: stepped.followed,
            problem: stepped.problem,
        }
    }

    /// Whether anything was changed or found out.
    pub fn says_something(&self) -> bool {
        !self.levels.is_empty()
            || self.sweep.is_some()
            || self.published.is_some()
            || self.problem.is_some()
    }
}
