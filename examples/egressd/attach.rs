// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `attach`: one tenant's interface, beside the loop that keeps its routes from then on.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use guideway::control::kernel::LiveRoutes;
use guideway::control::netlink::Resolver;
use guideway::control::{install, Install, Installed};
use guideway::egress::document::AttachDocument;
use guideway::egress::{interfaces_of, Egress, Loader, Writer};
use guideway::error::ErrorKind;
use guideway::kernel::netdev;
use guideway::kernel::statedir::StateDir;
use guideway::placement::HashTable;
use guideway::route::{Prefix, TableId};
use guideway::srv6::{BaseSid, NextHop};
use guideway::tenant::{PinQuota, Tenant};

use crate::args::TenantArgs;
use crate::run::config::{load, Config, Flags};
use crate::run::now;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(arguments: &TenantArgs, flags: &Flags, output: &Output) -> Result<Done, Failure> {
    let config = load(flags)?.config;
    let name = &arguments.interface;
    let interface =
        netdev::by_name(name.as_str()).map_err(|error| Failure::from(error).about(name))?;
    let Some(interface) = interface else {
        let message = format!("there is no interface {name}");
        return Err(Failure::new(ErrorKind::NotFound, message).about(name));
    };
    let ifindex = interface.index;
    // Found before anything is held: nobody waits for the network then.
    let ordered = ordered(&config)?;
    let dir = StateDir::egress_at(&config.state_dir);
    let about = |failure: Failure| failure.about(dir.path().display());

    // Held to the end: nobody else attaches, and finds room or an Argument that is taken here.
    let writer = Loader::new(&dir).patience(arguments.wait()).open();
    let mut writer = writer.map_err(|error| about(error.into()))?;
    let egress = Egress::open(&dir).map_err(|error| about(error.into()))?;
    let refused = |failure: Failure| failure.told_as("the tenant is not served").about(name);
    let (tenant, warnings, before) = {
        let guard = egress.write_routes(arguments.wait());
        let guard = guard.map_err(|error| refused(error.into()))?;
        let known = guard.tenant(TableId::new(arguments.table));
        let known = known.map_err(|error| refused(error.into()))?;
        // What its other interfaces have must be the same here.
        let quota = match known {
            Some(known) => known.pin_quota,
            None => PinQuota::share_of(egress.limits().pins()),
        };
        let tenant = tenant(arguments, quota);
        let checked = guard.check_interface(ifindex, &tenant);
        checked.map_err(|error| refused(error.into()))?;
        let warnings = egress.tenant_warnings(&interface, &tenant, &config.uplinks)?;
        let before = Before::look(&dir, &egress, ifindex, tenant.table)?;
        (tenant, warnings, before)
    };

    // Without a row for the interface its packets pass as before.
    let attached = writer
        .attach(ifindex, &arguments.attach.options())
        .map_err(|error| Failure::from(error).about(name))?;
    let request = Install::new(&tenant, &config.classes, config.mode)
        .policy(config.install_policy)
        .ordered(ordered);
    let served = serve(&egress, ifindex, &request, arguments.wait());
    let installed = match served {
        Ok(installed) => installed,
        Err(failure) => {
            let undone = before.restore(&mut writer, &egress, arguments.wait());
            return Err(refused(match undone {
                Ok(()) => failure,
                Err(undo) => {
                    let (why, undo) = (failure.text(), undo.text());
                    let message = format!("{why}; and what was done before is not undone: {undo}");
                    Failure::new(ErrorKind::Partial, message)
                }
            }));
        }
    };
    let replaced = forget_gone(&mut writer, &egress, &tenant, arguments.wait());
    let replaced = replaced.map_err(|failure| {
        let done = format!(
            "{name} is attached and its tenant served, but interfaces that are gone are not \
             forgotten"
        );
        failure.told_as(done).about(name)
    })?;
    drop(writer);
    let routes = installed.classes.iter();
    let routes = routes.map(|(class, placed)| (*class, placed.to_string()));
    let document = AttachDocument::new(name.as_str(), tenant.table, &attached, routes)
        .replaced(replaced)
        .warned(&warnings);
    output
        .result(&document, text)
        .map_err(|failure| failure.although(format_args!("{name} is attached")))?;
    Ok(Done::Well)
}

/// Writes the tenant's routes, and lets its packets be looked at behind them, so that none of these
/// finds no route.
fn serve(
    egress: &Egress,
    ifindex: u32,
    request: &Install<'_>,
    patience: Duration,
) -> Result<Installed, Failure> {
    let installed = install(&LiveRoutes::new(egress), request, patience)?;
    let guard = egress.write_routes(patience)?;
    guard.add_interface(ifindex, request.tenant)?;
    Ok(installed)
}

/// What was there before anything was changed.
struct Before {
    ifindex: u32,
    /// Whether the program was at the interface.
    attached: bool,
    table: TableId,
    /// The tenant's routes.
    routes: BTreeSet<Prefix>,
}

impl Before {
    fn look(
        dir: &StateDir,
        egress: &Egress,
        ifindex: u32,
        table: TableId,
    ) -> Result<Self, Failure> {
        Ok(Self {
            ifindex,
            attached: interfaces_of(dir)?.contains(&ifindex),
            table,
            routes: routes(egress, table)?,
        })
    }

    /// Removes what was not there, but for routes that somebody else has an interface for by now.
    fn restore(
        &self,
        writer: &mut Writer,
        egress: &Egress,
        patience: Duration,
    ) -> Result<(), Failure> {
        let detached = match self.attached {
            true => Ok(()),
            false => writer.detach(self.ifindex).map(drop),
        };
        let removed = self.remove_routes(egress, patience);
        detached?;
        removed
    }

    fn remove_routes(&self, egress: &Egress, patience: Duration) -> Result<(), Failure> {
        let guard = egress.write_routes(patience)?;
        if guard.tenant(self.table)?.is_some() {
            return Ok(());
        }
        let now = routes(egress, self.table)?;
        let mut new: Vec<_> = now.difference(&self.routes).collect();
        // No packet that has a route of its own comes by a default route meanwhile.
        new.sort_by_key(|prefix| prefix.bits());
        for &prefix in new {
            guard.remove(self.table, prefix)?;
        }
        Ok(())
    }
}

/// The prefixes that a table has routes for.
fn routes(egress: &Egress, table: TableId) -> Result<BTreeSet<Prefix>, Failure> {
    let mut routes = BTreeSet::new();
    let read = egress.for_each_route(|row| {
        // What makes no sense is no route, and another's business.
        routes.extend(
            row.ok()
                .filter(|(key, _)| key.table == table)
                .map(|(key, _)| key.prefix),
        );
        ControlFlow::Continue(())
    });
    read?;
    Ok(routes)
}

/// Forgets interfaces of a tenant that are gone, in whose place it has another one now.
fn forget_gone(
    writer: &mut Writer,
    egress: &Egress,
    tenant: &Tenant,
    patience: Duration,
) -> Result<Vec<u32>, Failure> {
    let there = netdev::all()?;
    let rows = egress.tenants()?.into_iter();
    let rows = rows.filter(|(_, row)| row.table == tenant.table);
    let gone: Vec<_> = rows
        .map(|(ifindex, _)| ifindex)
        .filter(|ifindex| there.iter().all(|interface| interface.index != *ifindex))
        .collect();
    for &ifindex in &gone {
        let guard = egress.write_routes(patience)?;
        guard.remove_interface(ifindex)?;
        drop(guard);
        writer.detach(ifindex)?;
    }
    Ok(gone)
}

fn tenant(arguments: &TenantArgs, quota: PinQuota) -> Tenant {
    let tenant = Tenant::new(TableId::new(arguments.table), arguments.argument);
    let answered = arguments.gateway6.is_some() || arguments.gateway4.is_some();
    Tenant {
        hash_table: arguments.hash_table.map_or(tenant.hash_table, HashTable),
        pin_quota: arguments.pin_quota.unwrap_or(quota),
        icmp: answered,
        gateway6: arguments.gateway6,
        gateway4: arguments.gateway4,
        ..tenant
    }
}

/// The first static SID that is reached.
fn ordered(config: &Config) -> Result<Option<(BaseSid, NextHop)>, Failure> {
    let mut resolver = Resolver::looking(&config.uplinks);
    let found = resolver
        .resolve(&config.shard_sids.iter().copied().collect(), now())
        .map_err(|error| Failure::new(error.kind(), format!("ways to shards: {error}")))?;
    let reached = config.shard_sids.iter().find_map(|&sid| {
        let next_hop = found.reachability.next_hop(sid)?;
        Some((sid, next_hop))
    });
    Ok(reached)
}

fn text(document: &AttachDocument) -> String {
    let AttachDocument {
        interface, table, ..
    } = document;
    let mut text = format!("attached to {interface}, for tenant {table}\n");
    for ifindex in &document.replaced {
        text.push_str(&format!(
            "  in the place of the one with index {ifindex}, which is gone\n"
        ));
    }
    for (class, placed) in &document.routes {
        text.push_str(&format!("  {class}: {placed}\n"));
    }
    for warning in &document.warnings {
        text.push_str(&format!("warning: {}: {}\n", warning.code, warning.message));
    }
    text
}
