// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a run ends by the library's errors.

use guideway::kernel::attach::AttachError;
use guideway::quiclb::ErrorFault;
use guideway::quiclb::{
    ApplyError, DetachError, InstanceError, PlanError, PublishError, UpgradeError,
};

use crate::tool::Failure;

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<InstanceError> for Failure {
    fn from(error: InstanceError) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<DetachError> for Failure {
    fn from(error: DetachError) -> Self {
        match error {
            DetachError::Instance(error) => error.into(),
            DetachError::Attach(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}

impl From<UpgradeError> for Failure {
    fn from(error: UpgradeError) -> Self {
        match error {
            UpgradeError::Instance(error) => error.into(),
            UpgradeError::Attach(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Faults(faults) => Self::invalid("the plan", &faults),
            PlanError::Instance(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Plan(error) => error.into(),
            ApplyError::Instance(error) | ApplyError::Publish(PublishError::Instance(error)) => {
                error.into()
            }
            ApplyError::Attach(error) => error.into(),
            ApplyError::Preflight { ref checks, .. } => {
                let message =
                    "checks of this machine found errors; --force CODE goes on in spite of one";
                let faults = checks.iter().map(|check| ErrorFault {
                    pointer: check.object.clone(),
                    code: check.code.to_string(),
                    message: match &check.remedy {
                        Some(remedy) => format!("{}; {remedy}", check.message),
                        None => check.message.clone(),
                    },
                });
                Self::new(error.kind(), message).with_faults(faults)
            }
            error => Self::new(error.kind(), &error),
        }
    }
}
