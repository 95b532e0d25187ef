// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a document to a specification: every rule, and every fault in one go.
//!
//! A rule between members is judged where all of them are sound; a member that is not has a fault
//! of its own.

mod class;
mod encap;
mod limits;
mod next_hop;
mod route;
mod tenant;

use super::members::root;
use super::spec::{Limits, Spec, TenantSpec};
use crate::document::fault::FaultCode::Capacity;
use crate::document::fault::Faults;
use crate::document::reader::{Checked, Reader, Report};
use crate::document::tree::Node;
use class::ConfiguredClasses;

/// The specification that a document describes.
pub(super) fn document(node: &Node) -> Result<Spec, Faults> {
    let mut report = Report::default();
    let spec = specification(node, &mut report);
    report.finish(spec)
}

fn specification(node: &Node, report: &mut Report) -> Checked<Spec> {
    let reader = Reader::open(&root::TABLE, node, String::new(), report)?;
    let schema = reader.get(&root::SCHEMA, report);
    let node_sid = reader.get(&root::NODE_SID, report);
    let encap = encap::read(&reader, node_sid, report);
    let limits = limits::Part::read(&reader, report);
    let node_ecn = encap.map(|encap| encap.ecn);
    let classes = class::read(&reader, &limits, node_ecn, report);
    let limits = limits.whole(&classes);
    let tenants = tenant::read(&reader, &limits, &classes, report);
    if let (Ok(limits), Ok(tenants)) = (&limits, &tenants) {
        capacity(&reader, limits, &classes, tenants, report);
    }
    schema?;
    Ok(Spec {
        encap: encap?,
        limits: limits?,
        classes: classes.whole?,
        tenants: tenants?,
    })
}

/// Whether the tenants fit the maps.
fn capacity(
    reader: &Reader<'_>,
    limits: &Limits,
    classes: &ConfiguredClasses,
    tenants: &[TenantSpec],
    report: &mut Report,
) {
    let interfaces: usize = tenants.iter().map(|tenant| tenant.interfaces.len()).sum();
    if interfaces as u64 > u64::from(limits.tenants) {
        let allowed = limits.tenants;
        let message = format!("have {interfaces} interfaces, more than limits.tenants {allowed}");
        reader.fault(&root::TENANTS, Capacity, message, report);
    }
    let Ok(whole) = &classes.whole else { return };
    let of_classes = tenants.len() * whole.len();
    let own = tenants.iter().flat_map(|tenant| &tenant.routes);
    let own = own.filter(|route| classes.of_route(route.prefix).is_none());
    let routes = of_classes + own.count();
    if routes as u64 > u64::from(limits.routes) {
        let allowed = limits.routes;
        let message = format!(
            "have {routes} routes, {of_classes} of them to the prefixes of classes, more than \
             limits.routes {allowed}"
        );
        reader.fault(&root::TENANTS, Capacity, message, report);
    }
}
