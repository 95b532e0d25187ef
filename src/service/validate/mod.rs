// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a document to a specification: every rule, and every fault in one go.
//!
//! A rule between members is judged where all of them are sound; a member that is not has a fault
//! of its own.

mod across;
mod backend;
mod quic;
mod service;

use super::members::{limits, root, root_array};
use super::spec::{Limits, Mode, RootArray, Spec};
use crate::document::fault::{FaultCode, Faults};
use crate::document::origin::Origin;
use crate::document::reader::{Checked, Reader, Report};
use crate::document::tree::Node;

/// The specification that a document describes.
pub(super) fn document(node: &Node) -> Result<Spec, Faults> {
    let mut report = Report::default();
    let spec = specification(node, &mut report);
    report.finish(spec)
}

fn specification(node: &Node, report: &mut Report) -> Checked<Spec> {
    let reader = Reader::open(&root::TABLE, node, String::new(), report)?;
    let instance_id = reader.get(&root::INSTANCE_ID, report);
    let interface = reader.get(&root::INTERFACE, report);
    let mode = reader.get(&root::MODE, report);
    let root_array = root_array_of(&reader, mode, report);
    let hash_seed = reader.get(&root::HASH_SEED, report);
    let source_mac = reader.get(&root::SOURCE_MAC, report);
    let events_per_second = reader.get(&root::EVENTS_PER_SECOND, report);
    let limits = limits_of(&reader, report);
    // A faulty limit allows the largest tables, so that it adds no faults to sound services.
    let max_slots = limits.map_or(limits::MAX_SLOTS, |limits| limits.slots);

    let entries = reader.list(&root::SERVICES, report);
    let mut found = Vec::new();
    if let Ok(Some(entries)) = &entries {
        found.reserve(entries.len());
        for (index, node, pointer) in entries.iter() {
            let part = service::Part::read(node, pointer, Origin(index), max_slots, report);
            found.extend(part);
        }
    }
    across::check(&found, report);
    let mut services = found
        .into_iter()
        .map(|part| part.service)
        .collect::<Checked<Vec<_>>>()?;
    services.sort_by(|a, b| a.name.cmp(&b.name));

    entries?;
    Ok(Spec {
        instance_id: instance_id?,
        interface: interface?,
        mode: mode?,
        root_array: root_array?,
        hash_seed: hash_seed?,
        source_mac: source_mac?,
        events_per_second: events_per_second?,
        limits: limits?,
        services,
    })
}

fn root_array_of(
    parent: &Reader<'_>,
    mode: Checked<Mode>,
    report: &mut Report,
) -> Checked<Option<RootArray>> {
    let Some(reader) = parent.object(&root::ROOT_ARRAY, report)? else {
        return Ok(None);
    };
    if mode == Ok(Mode::Offload) {
        let message = "mode \"offload\" runs on the network card, where no other program calls it";
        return Err(parent.fault(&root::ROOT_ARRAY, FaultCode::Conflict, message, report));
    }
    let path = reader.get(&root_array::PATH, report);
    let index = reader.get(&root_array::INDEX, report);
    Ok(Some(RootArray {
        path: path?,
        index: index?,
    }))
}

fn limits_of(parent: &Reader<'_>, report: &mut Report) -> Checked<Limits> {
    let reader = parent.object_or_empty(&root::LIMITS, report)?;
    let flows = reader.get(&limits::FLOWS, report);
    let cids = reader.get(&limits::CIDS, report);
    let slots = reader.get(&limits::SLOTS, report);
    let memory_mib = reader.get(&limits::MEMORY_MIB, report);
    Ok(Limits {
        flows: flows?,
        cids: cids?,
        slots: slots?,
        memory_mib: memory_mib?,
    })
}
