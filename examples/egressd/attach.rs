// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `attach`: one tenant's interface, beside the loop that keeps its routes from then on.

use std::time::Duration;

use guideway::control::kernel::LiveRoutes;
use guideway::control::netlink::Resolver;
use guideway::control::{install, Install, Installed};
use guideway::egress::{Attached, Egress, Loader};
use guideway::error::ErrorKind;
use guideway::kernel::netdev;
use guideway::kernel::statedir::StateDir;
use guideway::placement::HashTable;
use guideway::route::TableId;
use guideway::srv6::{BaseSid, NextHop};
use guideway::tenant::{PinQuota, Tenant};
use serde_json::{json, Value};

use crate::args::TenantArgs;
use crate::run::config::{load, Config, Flags};
use crate::run::now;
use crate::tool::{json, Done, Failure, Output};

pub(crate) fn run(arguments: &TenantArgs, flags: &Flags, output: &Output) -> Result<Done, Failure> {
    let config = load(flags)?.config;
    let name = &arguments.interface;
    let interface = netdev::by_name(name.as_str())
        .map_err(|error| Failure::new(error.kind(), error).about(name))?;
    let Some(interface) = interface else {
        let message = format!("there is no interface {name}");
        return Err(Failure::new(ErrorKind::NotFound, message).about(name));
    };
    let ifindex = interface.index;
    let tenant = tenant(arguments);
    // Found before anything is held: nobody waits for the network then.
    let ordered = ordered(&config)?;
    let dir = StateDir::egress_at(&config.state_dir);
    let about = |failure: Failure| failure.about(dir.path().display());

    // First what may be refused. Without a row for the interface its packets pass as before.
    let writer = Loader::new(&dir).patience(arguments.wait()).open();
    let mut writer = writer.map_err(|error| about(error.into()))?;
    let attached = writer
        .attach(ifindex, &arguments.attach.options())
        .map_err(|error| Failure::new(error.kind(), error).about(name))?;
    drop(writer);

    let but = |kind, error: &dyn std::fmt::Display| {
        let message = format!("attached to {name}, but the tenant is not served: {error}");
        Failure::new(kind, message)
    };
    let egress = Egress::open(&dir).map_err(|error| but(error.kind(), &error))?;
    let request = Install::new(&tenant, &config.classes, config.mode)
        .policy(config.install_policy)
        .ordered(ordered);
    let routes = LiveRoutes::new(&egress);
    let installed = install(&routes, &request, arguments.wait());
    let installed = installed.map_err(|error| but(error.kind(), &error))?;
    // Behind the routes, so that no packet of the tenant finds none.
    let guard = egress.write_routes(arguments.wait());
    let guard = guard.map_err(|error| but(error.kind(), &error))?;
    let added = guard.add_interface(ifindex, &tenant);
    added.map_err(|error| but(error.kind(), &error))?;
    drop(guard);
    let replaced = forget_gone(&dir, &egress, &tenant, arguments.wait())
        .map_err(|failure| failure.although(format!("{name} is attached and its tenant served")))?;
    let document = document(arguments, &attached, &installed, &replaced);
    match output.is_json() {
        true => output.print(&json(&document))?,
        false => output.print(&text(arguments, &installed, &replaced))?,
    };
    Ok(Done::Well)
}

/// Forgets interfaces of a tenant that are gone, in whose place it has another one now.
fn forget_gone(
    dir: &StateDir,
    egress: &Egress,
    tenant: &Tenant,
    patience: Duration,
) -> Result<Vec<u32>, Failure> {
    let there = netdev::all().map_err(|error| Failure::new(error.kind(), error))?;
    let rows = egress.tenants()?.into_iter();
    let rows = rows.filter(|(_, row)| row.table == tenant.table);
    let gone: Vec<_> = rows
        .map(|(ifindex, _)| ifindex)
        .filter(|ifindex| there.iter().all(|interface| interface.index != *ifindex))
        .collect();
    if gone.is_empty() {
        return Ok(gone);
    }
    let mut writer = Loader::new(dir).patience(patience).open()?;
    for &ifindex in &gone {
        let guard = egress.write_routes(patience);
        let guard = guard.map_err(|error| Failure::new(error.kind(), error))?;
        let removed = guard.remove_interface(ifindex);
        removed.map_err(|error| Failure::new(error.kind(), error))?;
        drop(guard);
        let detached = writer.detach(ifindex);
        detached.map_err(|error| Failure::new(error.kind(), error))?;
    }
    Ok(gone)
}

fn tenant(arguments: &TenantArgs) -> Tenant {
    let tenant = Tenant::new(TableId::new(arguments.table), arguments.argument);
    let answered = arguments.gateway6.is_some() || arguments.gateway4.is_some();
    Tenant {
        hash_table: arguments.hash_table.map_or(tenant.hash_table, HashTable),
        pin_quota: arguments.pin_quota.map_or(tenant.pin_quota, PinQuota),
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

fn document(
    arguments: &TenantArgs,
    attached: &Attached,
    installed: &Installed,
    replaced: &[u32],
) -> Value {
    let way = match attached {
        Attached::Tcx { link_id } => json!({"way": "tcx", "link_id": link_id}),
        Attached::Clsact { filter } => json!({
            "way": "clsact", "priority": filter.priority, "handle": filter.handle,
        }),
        _ => Value::Null,
    };
    let classes = installed.classes.iter();
    let classes = classes.map(|(class, placed)| (class.to_string(), placed.to_string().into()));
    json!({
        "schema": "guideway.egress.attach/v1",
        "interface": arguments.interface,
        "table": arguments.table,
        "attachment": way,
        "replaced": replaced,
        "routes": classes.collect::<serde_json::Map<String, Value>>(),
    })
}

fn text(arguments: &TenantArgs, installed: &Installed, replaced: &[u32]) -> String {
    let TenantArgs {
        interface, table, ..
    } = arguments;
    let mut text = format!("attached to {interface}, for tenant {table}\n");
    for ifindex in replaced {
        text.push_str(&format!(
            "  in the place of the one with index {ifindex}, which is gone\n"
        ));
    }
    for (class, placed) in &installed.classes {
        text.push_str(&format!("  {class}: {placed}\n"));
    }
    text
}
