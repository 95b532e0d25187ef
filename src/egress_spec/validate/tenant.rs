// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tenants and their interfaces.

use std::collections::HashMap;
use std::hash::Hash;

use super::super::members::{interface, root, tenant as members};
use super::super::spec::{InterfaceSpec, Limits, Place, TenantSpec};
use super::class::ConfiguredClasses;
use super::route;
use crate::document::fault::FaultCode::Duplicate;
use crate::document::field::Field;
use crate::document::origin::Origin;
use crate::document::reader::{all, Checked, Reader, Report};
use crate::document::scalar::{self, Problem};
use crate::document::tree::{Node, Value};
use crate::id::InterfaceName;
use crate::placement::HashTable;
use crate::route::TableId;
use crate::srv6::Argument;
use crate::tenant::PinQuota;

/// Owners of what is unique among all tenants, by their pointers.
#[derive(Default)]
struct Taken {
    tables: HashMap<TableId, String>,
    arguments: HashMap<Argument, String>,
    interfaces: HashMap<InterfaceName, String>,
}

/// The tenants in the order of their tables.
pub(super) fn read(
    parent: &Reader<'_>,
    limits: &Checked<Limits>,
    classes: &ConfiguredClasses,
    report: &mut Report,
) -> Checked<Vec<TenantSpec>> {
    let Some(entries) = parent.list(&root::TENANTS, report)? else {
        return Ok(Vec::new());
    };
    let pins = limits.as_ref().map(|limits| limits.pins);
    let pins = pins.map_err(|&reported| reported);
    let mut taken = Taken::default();
    let tenants = entries.iter().map(|(index, node, pointer)| {
        tenant(node, pointer, index, pins, classes, &mut taken, report)
    });
    let mut tenants = all(tenants)?;
    tenants.sort_by_key(|tenant| tenant.table);
    Ok(tenants)
}

fn tenant(
    node: &Node,
    pointer: String,
    index: usize,
    pins: Checked<u32>,
    classes: &ConfiguredClasses,
    taken: &mut Taken,
    report: &mut Report,
) -> Checked<TenantSpec> {
    let reader = Reader::open(&members::TABLE, node, pointer, report)?;
    let table = reader.get(&members::TABLE_ID, report);
    unique(
        &reader,
        &members::TABLE_ID,
        table,
        &mut taken.tables,
        report,
    );
    let argument = reader.get(&members::ARGUMENT, report);
    unique(
        &reader,
        &members::ARGUMENT,
        argument,
        &mut taken.arguments,
        report,
    );
    let hash_table = reader.optional(&members::HASH_TABLE, report);
    let pin_quota = reader.optional(&members::PIN_QUOTA, report);
    let icmp = reader.get(&members::ICMP, report);
    let mss = reader.get(&members::MSS, report);
    let interfaces = interfaces(&reader, &mut taken.interfaces, report);
    let routes = route::read(&reader, classes, report);
    let table = table?;
    Ok(TenantSpec {
        table,
        argument: argument?,
        hash_table: hash_table?.unwrap_or(HashTable(table.get())),
        pin_quota: match pin_quota? {
            Some(quota) => quota,
            None => PinQuota::share_of(pins?),
        },
        icmp: icmp?,
        mss: mss?,
        interfaces: interfaces?,
        routes: routes?,
        origin: Origin(Place {
            at: reader.at(),
            index,
        }),
    })
}

/// Reports a value that another object has already.
fn unique<T: Copy + Eq + Hash + std::fmt::Display>(
    reader: &Reader<'_>,
    field: &Field<T>,
    value: Checked<T>,
    taken: &mut HashMap<T, String>,
    report: &mut Report,
) {
    let Ok(value) = value else { return };
    if let Some(first) = taken.get(&value) {
        let message = format!("{} {value} is already used by {first}", field.name);
        reader.fault(field, Duplicate, message, report);
    } else {
        taken.insert(value, reader.pointer().to_owned());
    }
}

/// The interfaces in the order of their names.
fn interfaces(
    parent: &Reader<'_>,
    taken: &mut HashMap<InterfaceName, String>,
    report: &mut Report,
) -> Checked<Vec<InterfaceSpec>> {
    let Some(entries) = parent.list(&members::INTERFACES, report)? else {
        return Ok(Vec::new());
    };
    let interfaces = entries.iter().map(|(index, node, pointer)| {
        let place = Place { at: node.at, index };
        let interface = interface(node, pointer.clone(), place, report)?;
        if let Some(first) = taken.get(&interface.name) {
            let message = format!("interface {} is already {first}", interface.name);
            return Err(report.fault(node.at, pointer, Duplicate, message));
        }
        taken.insert(interface.name.clone(), pointer);
        Ok(interface)
    });
    let mut interfaces = all(interfaces)?;
    interfaces.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(interfaces)
}

fn interface(
    node: &Node,
    pointer: String,
    place: Place,
    report: &mut Report,
) -> Checked<InterfaceSpec> {
    let origin = Origin(place);
    let problem = match &node.value {
        Value::Object(_) => {
            let reader = Reader::open(&interface::TABLE, node, pointer, report)?;
            let name = reader.get(&interface::NAME, report);
            let gateway6 = reader.optional(&interface::GATEWAY6, report);
            let gateway4 = reader.optional(&interface::GATEWAY4, report);
            return Ok(InterfaceSpec {
                name: name?,
                gateway6: gateway6?,
                gateway4: gateway4?,
                origin,
            });
        }
        Value::Text(_) => match scalar::interface(&node.value, &interface::NAME.shape) {
            Ok(name) => {
                return Ok(InterfaceSpec {
                    name,
                    gateway6: None,
                    gateway4: None,
                    origin,
                })
            }
            Err(problem) => problem,
        },
        other => Problem::wrong_type("a string or an object", other),
    };
    Err(report.problem(node.at, pointer, problem))
}
