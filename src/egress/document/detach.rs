// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Taking the program off interfaces, and removing tenants or the instance's state.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;

use super::interfaces::{InterfaceName, Interfaces};
use super::Error;
use crate::egress::known::Known;
use crate::egress::{interfaces_of, Egress, Loader, Writer};
use crate::kernel::statedir::{StateDir, StateError};
use crate::route::TableId;

/// What the program is taken off, and what goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachScope<'a> {
    /// All interfaces. Tenants keep their rows, routes and pins for the next attachment.
    Everywhere,
    /// All interfaces, and the state is removed when the program is nowhere any more: groups, routes,
    /// pins and counters.
    Purge,
    /// Interfaces, by name, or by index where none has that name; one that is gone has its index alone.
    #[non_exhaustive]
    Interfaces {
        /// Which.
        names: &'a [String],
        /// Whether they stay interfaces of their tenants.
        keep_tenant: bool,
    },
    /// All interfaces of tenants, with their rows, and then the tenants' routes and pins.
    Tenants(&'a [TableId]),
}

impl<'a> DetachScope<'a> {
    /// These interfaces, which are no tenant's from then on unless `keep_tenant` says otherwise.
    pub const fn interfaces(names: &'a [String], keep_tenant: bool) -> Self {
        Self::Interfaces { names, keep_tenant }
    }
}

/// What was taken off and removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DetachDocument {
    /// Names this form.
    pub schema: DetachSchema,
    /// The interfaces that were asked for.
    pub interfaces: Vec<InterfaceDetached>,
    /// The tenants that were removed.
    pub tenants: Vec<TenantDetached>,
    /// Tables of tenants that lost their last interface, and have routes or pins still.
    pub abandoned: Vec<u32>,
    /// Whether the state of the instance was removed.
    pub purged: bool,
    /// What was removed with it.
    pub removed: Vec<String>,
    /// What should have been taken off or removed and was not.
    pub left: Vec<LeftBehind>,
}

/// Names the form of what was detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DetachSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.detach/v1")]
    V1,
}

/// An interface that the program is not on any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfaceDetached {
    /// The interface.
    pub interface: InterfaceName,
    /// Whether the program was on it before.
    pub detached: bool,
    /// Table of the tenant whose interface it was, and is not any more.
    pub tenant: Option<u32>,
}

/// A tenant that has neither interfaces nor routes nor pins any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TenantDetached {
    /// Its table.
    pub table: u32,
    /// How many routes it had.
    pub routes: usize,
    /// How many pins it had.
    pub pins: u64,
}

/// Something that should have been removed and was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeftBehind {
    /// An interface, a tenant, or a path.
    pub name: String,
    /// Why it is still there.
    pub reason: String,
}

/// Takes the instance's program off interfaces; packets pass untouched from then on. Programs of
/// others stay. Who publishes groups meanwhile is not disturbed, but for a purge. Waits for other
/// writers as long as `patience` says. What was interrupted is finished by the same call again.
///
/// # Errors
/// Nothing was changed: no such instance, interface or tenant, state of another version, another
/// writer, somebody else's link in the place of one that would go, and for a purge somebody else's
/// program in the place of one.
pub fn detach(
    dir: &StateDir,
    scope: DetachScope<'_>,
    patience: Duration,
) -> Result<DetachDocument, Error> {
    let mut writer = Loader::new(dir).patience(patience).open()?;
    let interfaces = Interfaces::read()?;
    let (named, tables) = find(&writer, &interfaces, scope)?;
    match scope {
        DetachScope::Purge => writer.refuse_purge()?,
        _ => writer.refuse_foreign_links(&named)?,
    }
    let egress = Egress::open(dir)?;
    let forgets = match scope {
        DetachScope::Interfaces { keep_tenant, .. } => !keep_tenant,
        DetachScope::Tenants(_) => true,
        DetachScope::Everywhere | DetachScope::Purge => false,
    };
    // Held from here, so that it is not found to be another's when something was changed.
    let guard = match forgets {
        true => Some(egress.write_routes(patience)?),
        false => None,
    };
    let mut document = DetachDocument {
        schema: DetachSchema::V1,
        interfaces: Vec::new(),
        tenants: Vec::new(),
        abandoned: Vec::new(),
        purged: false,
        removed: Vec::new(),
        left: Vec::new(),
    };
    let mut touched = BTreeSet::new();
    for ifindex in named {
        let interface = interfaces.name(ifindex);
        // Its row goes last: without one it would not be known whose interface is to be detached when
        // the same is asked for again.
        let detached = match writer.detach(ifindex) {
            Ok(detached) => detached,
            Err(error) => {
                document.leave(interface, &error);
                continue;
            }
        };
        let removed = guard.as_ref().map(|guard| guard.remove_interface(ifindex));
        let tenant = match removed.transpose() {
            Ok(tenant) => tenant.flatten().map(|tenant| tenant.table),
            Err(error) => {
                document.leave(&interface, &error);
                None
            }
        };
        touched.extend(tenant);
        document.interfaces.push(InterfaceDetached {
            interface,
            detached,
            tenant: tenant.map(TableId::get),
        });
    }
    drop(guard);
    for &table in &tables {
        match writer.remove_tenant(table, patience) {
            Ok(removed) => document.tenants.push(TenantDetached {
                table: table.get(),
                routes: removed.routes,
                pins: removed.pins,
            }),
            Err(error) => document.leave(format_args!("tenant {table}"), &error),
        }
    }
    for &table in touched.difference(&tables) {
        match has_leftovers(&writer, table) {
            Ok(true) => document.abandoned.push(table.get()),
            Ok(false) => {}
            Err(error) => document.leave(format_args!("tenant {table}"), &error),
        }
    }
    if scope == DetachScope::Purge && document.left.is_empty() {
        match writer.remove() {
            Ok(removed) => {
                document.purged = true;
                document.removed = removed;
            }
            Err(error) => document.leave(dir.path().display(), &error),
        }
    }
    if document.purged {
        document.sweep(dir.remove_leftovers(), dir);
    }
    Ok(document)
}

/// The interfaces that are meant, by index, and the tenants that go.
fn find(
    writer: &Writer,
    interfaces: &Interfaces,
    scope: DetachScope<'_>,
) -> Result<(BTreeSet<u32>, BTreeSet<TableId>), Error> {
    match scope {
        DetachScope::Everywhere | DetachScope::Purge => {
            let attached = writer.attachments()?;
            let mut attached: BTreeSet<_> = attached.iter().map(|view| view.ifindex).collect();
            let unpinned = writer.unpinned_links(writer.tenants()?.into_keys())?;
            attached.extend(unpinned.iter().map(|link| link.ifindex));
            Ok((attached, BTreeSet::new()))
        }
        DetachScope::Interfaces { names, .. } => {
            let attached = interfaces_of(writer.dir())?;
            let named = names.iter().map(|name| {
                if let Some(found) = interfaces.find(name) {
                    return Ok(found);
                }
                if let Ok(ifindex) = name.parse() {
                    let is_known = interfaces.get(ifindex).is_some()
                        || attached.contains(&ifindex)
                        || writer.maps.tenants.get(&ifindex)?.is_some();
                    if is_known {
                        return Ok(ifindex);
                    }
                }
                Err(Error::NoInterface { name: name.clone() })
            });
            Ok((named.collect::<Result<_, _>>()?, BTreeSet::new()))
        }
        DetachScope::Tenants(tables) => {
            let known = Known::read(writer)?;
            let mut named = BTreeSet::new();
            for &table in tables {
                if known.of(table).next().is_none() && !has_leftovers(writer, table)? {
                    return Err(Error::NoTenant { table });
                }
                named.extend(known.of(table).map(|(ifindex, _)| ifindex));
            }
            Ok((named, tables.iter().copied().collect()))
        }
    }
}

/// Whether a tenant has routes or pins, and no interface.
fn has_leftovers(egress: &Egress, table: TableId) -> Result<bool, Error> {
    if Known::read(egress)?.of(table).next().is_some() {
        return Ok(false);
    }
    let mut has_routes = false;
    // Also what makes no sense: it is removed with the others.
    egress.maps.routes.for_each(|key, _| {
        has_routes = key.table_id == table.get();
        match has_routes {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(has_routes || egress.pins()?.usage()?.contains_key(&table))
}

impl DetachDocument {
    fn leave(&mut self, name: impl ToString, reason: &dyn std::error::Error) {
        let (name, reason) = (name.to_string(), reason.to_string());
        self.left.push(LeftBehind { name, reason });
    }

    /// What processes that died have left of the instance.
    fn sweep(&mut self, removed: Result<Vec<String>, StateError>, dir: &StateDir) {
        match removed {
            Ok(removed) => self.removed.extend(removed),
            Err(error) => self.leave(dir.path().display(), &error),
        }
    }
}
