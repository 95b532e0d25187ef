// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a run ends by the library's errors.

use guideway::control::InstallError;
use guideway::egress::document::Error;
use guideway::egress::explain::ExplainError;
use guideway::egress::trace::TraceError;
use guideway::egress::{AttachmentError, GuardError, InstanceError, RouteError, UpgradeError};
use guideway::kernel::statedir::StateError;
use guideway::kernel::SysError;

use crate::tool::Failure;

/// Of those that say all with their kind and their text.
macro_rules! plain {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.kind(), &error)
            }
        }
    )*};
}

plain!(GuardError, InstallError, RouteError, SysError);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<AttachmentError> for Failure {
    fn from(error: AttachmentError) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<InstanceError> for Failure {
    fn from(error: InstanceError) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<UpgradeError> for Failure {
    fn from(error: UpgradeError) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        InstanceError::from(error).into()
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Instance(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Instance(error) => error.into(),
            error => Self::new(error.kind(), &error),
        }
    }
}
