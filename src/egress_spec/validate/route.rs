// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The routes of one tenant beside those of the classes, or in their place.

use std::collections::HashMap;

use super::super::members::{route as members, route_shard, tenant};
use super::super::scalar;
use super::super::spec::{Place, RouteSpec, RouteTo};
use super::class::ConfiguredClasses;
use super::next_hop;
use crate::document::fault::FaultCode::{self, Conflict, Duplicate, Missing};
use crate::document::origin::Origin;
use crate::document::reader::{all, Checked, Reader, Report};
use crate::document::tree::{Node, Value};
use crate::route::Prefix;

/// The routes in the order of their prefixes.
pub(super) fn read(
    parent: &Reader<'_>,
    classes: &ConfiguredClasses,
    report: &mut Report,
) -> Checked<Vec<RouteSpec>> {
    let Some(entries) = parent.list(&tenant::ROUTES, report)? else {
        return Ok(Vec::new());
    };
    let mut taken = HashMap::new();
    let routes = entries
        .iter()
        .map(|(index, node, pointer)| route(node, pointer, index, classes, &mut taken, report));
    let mut routes = all(routes)?;
    routes.sort_by_key(|route| route.prefix);
    Ok(routes)
}

fn route(
    node: &Node,
    pointer: String,
    index: usize,
    classes: &ConfiguredClasses,
    taken: &mut HashMap<Prefix, String>,
    report: &mut Report,
) -> Checked<RouteSpec> {
    let reader = Reader::open(&members::TABLE, node, pointer, report)?;
    let prefix = reader.get(&members::PREFIX, report);
    if let Ok(prefix) = prefix {
        if let Some(first) = taken.get(&prefix) {
            let message = format!("prefix {prefix} is already that of {first}");
            reader.fault(&members::PREFIX, Duplicate, message, report);
        } else {
            taken.insert(prefix, reader.pointer().to_owned());
        }
    }
    let to = to(&reader, report);
    if let Ok(to) = &to {
        destination(&reader, prefix, to, classes, report);
    }
    Ok(RouteSpec {
        prefix: prefix?,
        to: to?,
        origin: Origin(Place {
            at: reader.at(),
            index,
        }),
    })
}

fn to(parent: &Reader<'_>, report: &mut Report) -> Checked<RouteTo> {
    let Some((node, pointer)) = parent.raw(&members::TO) else {
        return Err(parent.missing(&members::TO, report));
    };
    if !matches!(node.value, Value::Object(_)) {
        return scalar::route_to(&node.value)
            .map_err(|problem| report.problem(node.at, pointer, problem));
    }
    let reader = Reader::open(&route_shard::TABLE, node, pointer, report)?;
    let sid = reader.get(&route_shard::SID, report);
    let next_hop = next_hop::read(&reader, &route_shard::NEXT_HOP, report);
    match next_hop? {
        Some(next_hop) => Ok(RouteTo::Shard {
            sid: sid?,
            next_hop,
        }),
        // Its shape has no null.
        None => Err(reader.fault(&route_shard::NEXT_HOP, Missing, "is missing", report)),
    }
}

/// Whether packets to this prefix may go there.
fn destination(
    reader: &Reader<'_>,
    prefix: Checked<Prefix>,
    to: &RouteTo,
    classes: &ConfiguredClasses,
    report: &mut Report,
) {
    if let RouteTo::Class(class) = to {
        if !classes.may_have(*class) {
            let message = format!("class {class} is not configured ({} are)", classes.names());
            reader.fault(&members::TO, FaultCode::Class, message, report);
            return;
        }
    }
    let Ok(prefix) = prefix else { return };
    let Some(own) = classes.of_route(prefix) else {
        return;
    };
    let refused = match to {
        RouteTo::Pass => "pass".to_owned(),
        RouteTo::Class(class) if *class != own => class.to_string(),
        _ => return,
    };
    let message = format!(
        "packets to {prefix} are those of {own}: they may go there, to a shard, or nowhere (block, \
         unreachable), got {refused}"
    );
    reader.fault(&members::TO, Conflict, message, report);
}
