// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Warnings that need the tables, the machine or what is live.

use std::collections::BTreeMap;

use super::generation::Generation;
use super::live::Live;
use super::world::World;
use crate::service::{
    Backend, BackendState, Fragments, Routing, Service, Tracking, UnknownServerId, Warning,
    WarningCode,
};

/// A random connection ID that names a backend this often deserves a word.
const FALSE_ROUTE: f64 = 0.01;

/// What is legal but may not be meant, in the order of the services.
pub(super) fn warnings(
    live: Option<&Live>,
    generation: &Generation,
    world: &World,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (service, placed) in generation.services() {
        let mut warn = |member: &str, code, message: String| {
            let pointer = format!("{}{member}", service.pointer());
            warnings.push(Warning::new(pointer, code, message));
        };
        let shares = placed.table.shares();
        if shares.below_rule {
            warn(
                "/maglev_table_size",
                WarningCode::BelowRule,
                format!(
                    "{} slots are fewer than 100 for each of {} backends: shares differ by more \
                     than 1 %",
                    service.maglev_table_size,
                    shares.members.len(),
                ),
            );
        }
        for share in shares.members.iter().filter(|share| share.slots == 0) {
            let key = String::from_utf8_lossy(share.key);
            warn(
                "/backends",
                WarningCode::FewSlots,
                format!("backend {key} of weight {} gets no slot", share.weight),
            );
        }
        let probability = service.false_route_probability();
        if probability > FALSE_ROUTE {
            warn(
                "/quic/configs",
                WarningCode::FalseRoute,
                format!(
                    "a random connection ID names some backend with a probability of {:.1} %; \
                     longer server IDs make that rarer",
                    probability * 100.0
                ),
            );
        }
        if service.fragments == Fragments::Drop && world.addresses.contains(&service.vip) {
            warn(
                "/fragments",
                WarningCode::SharedVipDrop,
                format!(
                    "this host owns {}: fragments to its other ports are dropped too",
                    service.vip
                ),
            );
        }
        let before =
            live.and_then(|live| live.spec.services().iter().find(|old| old.id == service.id));
        if let Some(before) = before {
            changes(before, service, &mut warn);
        }
        if let (Some(live), Some(before)) = (live, before) {
            let backends = before.backends.iter();
            for gone in backends.filter(|old| service.backend(old.id).is_none()) {
                if let Some(use_of) = in_use(live, before, [gone]) {
                    let message = format!("backend {} is removed: {use_of}", gone.id);
                    warn("/backends", WarningCode::BackendInUse, message);
                }
            }
        }
    }
    let stays = |old: &Service| generation.services().any(|(new, _)| new.id == old.id);
    if let Some(live) = live {
        for gone in live.spec.services().iter().filter(|old| !stays(old)) {
            if let Some(use_of) = in_use(live, gone, &gone.backends) {
                let message = format!("service {} is removed: {use_of}", gone.name);
                warnings.push(Warning::new(
                    "/services",
                    WarningCode::BackendInUse,
                    message,
                ));
            }
        }
    }
    warnings
}

/// What breaks if these backends of a service are removed, and what to do first; none if nothing
/// does. Flows of unhealthy ones have gone elsewhere.
fn in_use<'a>(
    live: &Live,
    service: &Service,
    backends: impl IntoIterator<Item = &'a Backend>,
) -> Option<String> {
    let id = service.id.get();
    let record = live.record.service(id)?;
    let known = live.flow_state.service(id);
    let counts = known.and_then(|known| known.by_row.as_ref());
    let bases = live.base_slots(service.id);
    let (mut entries, mut slots, mut takes_new_flows, mut any) = (0, 0, false, false);
    for backend in backends {
        let placed = record.backend(backend.id.get());
        let Some(placed) = placed.filter(|_| backend.state != BackendState::Unhealthy) else {
            continue;
        };
        any = true;
        let of_row = |counts: &BTreeMap<u16, u64>| counts.get(&placed.row).copied();
        entries += counts.and_then(of_row).unwrap_or(0);
        slots += bases.get(&placed.row).copied().unwrap_or(0);
        takes_new_flows |= backend.takes_new_flows();
    }
    let mut uses = Vec::new();
    match counts {
        None if any => uses.push("nobody has counted what is bound to it".to_owned()),
        Some(_) if entries > 0 => uses.push(format!("{entries} entries are bound to it")),
        _ => {}
    }
    // Flows in slots that no change has touched need no entry, nor do those found by server ID.
    let has_all = service.tracking == Tracking::All && service.quic.routing != Routing::ServerId;
    if takes_new_flows && !has_all {
        uses.push("it takes new flows, which have no entry".to_owned());
    }
    if slots > 0 {
        uses.push(format!("{slots} open slots look back to it"));
    }
    let first = if takes_new_flows {
        "drain it first, and wait until status shows it empty"
    } else {
        "wait until status shows it empty"
    };
    let uses = (!uses.is_empty()).then(|| uses.join(", "))?;
    Some(format!("{uses}; live flows of it break, so {first}"))
}

fn changes(before: &Service, service: &Service, warn: &mut impl FnMut(&str, WarningCode, String)) {
    for config in &service.quic.configs {
        let old = before
            .quic
            .configs
            .iter()
            .find(|old| old.config_id == config.config_id);
        if old.is_some_and(|old| old != config) {
            warn(
                "/quic/configs",
                WarningCode::ConfigReplaced,
                format!(
                    "config {} changed its meaning while connection IDs of the old one are live",
                    config.config_id
                ),
            );
        }
    }
    if before.quic.routing != service.quic.routing {
        let what = match before.quic.routing {
            Routing::ServerId => "connections that their server ID led to a backend go by flow",
            Routing::Learned => "connection IDs that are bound stay so, and no more are learned",
            Routing::Tuple => "connections stay with their flows",
        };
        let mut message = format!(
            "routing changes from {} to {}: {what}",
            before.quic.routing, service.quic.routing
        );
        let drops = service.quic.unknown_server_id == UnknownServerId::Drop;
        if service.quic.routing == Routing::ServerId && drops {
            message.push_str(
                "; about one in eight per config meets a server ID that belongs to nobody: use \
                 unknown_server_id \"fallback\" until they have idled out",
            );
        }
        warn("/quic/routing", WarningCode::RoutingChange, message);
    }
}
