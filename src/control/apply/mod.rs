// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Does what a plan says, step by step.

mod report;
mod routes;
mod run;

pub use report::{Applied, Deadline, Outcome, RouteCounts, StepReport};
pub use run::apply;
