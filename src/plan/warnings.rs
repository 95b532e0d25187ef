// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Warnings that need the tables, the machine or what is live.

use super::generation::Generation;
use super::live::Live;
use super::world::World;
use crate::service::{Fragments, Routing, Service, UnknownServerId, Warning, WarningCode};

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
    }
    warnings
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
        let mut message = format!(
            "routing changes from {} to {}: connections with the old connection IDs are placed anew",
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
