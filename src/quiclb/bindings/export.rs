// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The bindings of an instance as a document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::View;
use crate::affinity::{
    rfc3339, AffinityDocument, Binding, BindingOrigin, CidBinding, CidKey, Origin, ServiceBindings,
};
use crate::id::{InstanceId, ServiceId};
use crate::kernel::clock;
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::QuicLb;

/// What was written by an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Exported {
    /// Names this form.
    pub schema: ExportSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Where the document went.
    pub file: String,
    /// Services with bindings in it.
    pub services: u64,
    /// Bindings in it.
    pub bindings: u64,
}

/// Names the form of what was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ExportSchema {
    /// The first form.
    #[serde(rename = "guideway.affinity.export/v1")]
    V1,
}

impl Exported {
    /// That `document` of an instance went to `file`.
    pub fn new(
        instance_id: InstanceId,
        file: impl Into<String>,
        document: &AffinityDocument,
    ) -> Self {
        Self {
            schema: ExportSchema::V1,
            instance_id,
            file: file.into(),
            services: document.services().len() as u64,
            bindings: document.bindings() as u64,
        }
    }
}

impl QuicLb {
    /// All bindings that packets follow: learned, registered and imported ones whose backend is in
    /// the generation that is live in the end. Changes nothing and takes no lock, reads the table once
    /// whoever publishes meanwhile; what changes in that time may be in it or not. Without a
    /// generation it is empty.
    ///
    /// # Errors
    /// The instance cannot be read.
    pub fn export(&self) -> Result<AffinityDocument, InstanceError> {
        let mut found = Vec::new();
        self.for_each_binding(|key, entry| found.push((*key, *entry)))?;
        let now_ns = clock::monotonic_coarse_ns();
        // Only now: to read again whenever somebody has published meanwhile might never end, and this
        // view has every backend that an entry was bound to, unless it has left.
        let services = match self.view()? {
            Some(view) => bound(&view, found, now_ns),
            None => Vec::new(),
        };
        let exported_at = rfc3339(clock::wall_ns() / 1_000_000_000);
        let instance = self.instance_id().to_string();
        Ok(AffinityDocument::new(exported_at, instance, services))
    }
}

/// The entries that bind connection IDs to backends in `view`, by service.
fn bound(view: &View, entries: Vec<(CidKey, Binding)>, now_ns: u64) -> Vec<ServiceBindings> {
    let mut found: BTreeMap<u32, Vec<CidBinding>> = BTreeMap::new();
    for (key, entry) in entries {
        let service = view.service(ServiceId::new(key.service));
        let backend = service.and_then(|(_, of)| of.bound(&entry));
        if let Some(backend) = backend.filter(|_| entry.holds(now_ns)) {
            found.entry(key.service).or_default().push(CidBinding {
                cid: key.cid,
                backend: backend.id,
                origin: BindingOrigin::from(entry.origin),
                last_seen_ns: last_seen_ns(&entry),
            });
        }
    }
    let services = found.into_iter().filter_map(|(id, mut bindings)| {
        let (spec, _) = view.service(ServiceId::new(id))?;
        // What was deleted and bound again meanwhile may have been seen in both places.
        bindings.sort_unstable_by_key(|of| (of.cid, std::cmp::Reverse(of.last_seen_ns)));
        bindings.dedup_by_key(|of| of.cid);
        Some(ServiceBindings {
            id: spec.id,
            name: spec.name.clone(),
            vip: spec.vip,
            protocol: spec.protocol,
            port: spec.port,
            bindings,
        })
    });
    services.collect()
}

/// Of a registered binding the time says when it ends, and nobody notes its packets.
fn last_seen_ns(entry: &Binding) -> u64 {
    match entry.origin {
        Origin::Registered => 0,
        Origin::Traffic | Origin::Imported => entry.seen_ns,
    }
}
