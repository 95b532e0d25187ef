// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How bad what was found is.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; packets go where they should.
    Warning,
    /// Packets do not go where the specification sends them, or will not after the next fault.
    Error,
}
