// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The collector of `run` and of `watch --repair`, which goes on after what may pass.

use std::time::Duration;

use guideway::id::InstanceId;
use guideway::kernel::clock::monotonic_ns;
use guideway::quiclb::collector::{CollectError, Stepped};
use guideway::quiclb::{Collector, CollectorOptions, StateRoot};

use crate::tool::Failure;

pub(crate) struct Collecting {
    instance: InstanceId,
    collector: Collector,
}

/// What a step came to.
pub(crate) struct Step {
    /// What it did; none if it could not be made or ended.
    pub(crate) done: Option<Stepped>,
    /// What stands in its way.
    pub(crate) problem: Option<String>,
    /// When the next is due, at the latest.
    pub(crate) next: Duration,
}

impl Collecting {
    /// When to try again after a failure.
    pub(crate) const AGAIN: Duration = Duration::from_secs(1);

    pub(crate) fn new(instance: InstanceId, root: &StateRoot) -> Self {
        let options = CollectorOptions::default();
        Self {
            instance,
            collector: Collector::new(&root.quiclb(instance), options),
        }
    }

    /// Makes a step.
    pub(crate) fn step(&mut self) -> Result<Step, Failure> {
        match self.collector.step(monotonic_ns()) {
            Ok(stepped) => Ok(Step {
                problem: stepped.problem.clone(),
                next: stepped.next,
                done: Some(stepped),
            }),
            Err(error) if error.may_pass() => Ok(Step {
                done: None,
                problem: Some(error.to_string()),
                next: Self::AGAIN,
            }),
            Err(error) => Err(Failure::from(error).about(self.instance)),
        }
    }
}

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Instance(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}
