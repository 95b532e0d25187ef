// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a run ends by the library's errors.

use guideway::egress::document::Error;

use crate::tool::Failure;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), &error).remedy(error.remedy())
    }
}
