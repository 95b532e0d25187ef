// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What came of attaching one tenant's interface.

use std::collections::BTreeMap;

use serde::Serialize;

use super::status::AttachmentWay;
use crate::egress::{Attached, InterfaceWarning};
use crate::group::Class;
use crate::route::TableId;

/// An interface that has the program, and whose tenant is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AttachDocument {
    /// Names this form.
    pub schema: AttachSchema,
    /// Name of the interface.
    pub interface: String,
    /// Table of its tenant.
    pub table: u32,
    /// How the program is attached.
    pub attachment: ProgramAttached,
    /// Indices of the tenant's interfaces that are gone and were forgotten.
    pub replaced: Vec<u32>,
    /// Where the tenant's route of each configured class leads, in words.
    pub routes: BTreeMap<String, String>,
    /// What works but may not be what was meant.
    pub warnings: Vec<AttachWarning>,
}

/// Names the form of what was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AttachSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.attach/v1")]
    V1,
}

/// How the program came on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProgramAttached {
    /// By which way.
    pub way: AttachmentWay,
    /// The link, on TCX.
    pub link_id: Option<u32>,
    /// The filter's priority, with clsact.
    pub priority: Option<u16>,
    /// The filter's handle, with clsact.
    pub handle: Option<u32>,
}

impl From<&Attached> for ProgramAttached {
    fn from(attached: &Attached) -> Self {
        let (way, link_id, filter) = match *attached {
            Attached::Tcx { link_id } => (AttachmentWay::Tcx, Some(link_id), None),
            Attached::Clsact { filter } => (AttachmentWay::Clsact, None, Some(filter)),
        };
        Self {
            way,
            link_id,
            priority: filter.map(|filter| filter.priority.get()),
            handle: filter.map(|filter| filter.handle.get()),
        }
    }
}

/// Something about an interface that works and may not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AttachWarning {
    /// Machine name.
    pub code: &'static str,
    /// What it is, and what to do about it.
    pub message: String,
}

impl AttachDocument {
    /// That an interface was attached so for the tenant of a table, whose routes of classes lead to
    /// where `routes` says.
    pub fn new(
        interface: impl Into<String>,
        table: TableId,
        attached: &Attached,
        routes: impl IntoIterator<Item = (Class, String)>,
    ) -> Self {
        let routes = routes.into_iter();
        Self {
            schema: AttachSchema::V1,
            interface: interface.into(),
            table: table.get(),
            attachment: attached.into(),
            replaced: Vec::new(),
            routes: routes.map(|(class, to)| (class.to_string(), to)).collect(),
            warnings: Vec::new(),
        }
    }

    /// The same with interfaces that it took the place of.
    #[must_use]
    pub fn replaced(self, replaced: Vec<u32>) -> Self {
        Self { replaced, ..self }
    }

    /// The same with what is to be known of the interface.
    #[must_use]
    pub fn warned(self, warnings: &[InterfaceWarning]) -> Self {
        let warnings = warnings.iter().map(|warning| AttachWarning {
            code: warning.code(),
            message: warning.to_string(),
        });
        Self {
            warnings: warnings.collect(),
            ..self
        }
    }
}
