// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a network card that runs the program cannot do: the list, and the faults of a specification
//! that asks for it.

use serde::Serialize;

use super::capacity::Use;
use super::elements::Elements;
use super::generation::Generation;
use crate::abi::OffloadLimit;
use crate::service::{Fault, FaultCode, Mode, Routing, Service, Spec, Tracking};

/// Something that other modes have and mode `offload` has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Lack {
    /// Its name.
    pub feature: &'static str,
    /// What that means.
    pub message: &'static str,
}

const fn lack(feature: &'static str, message: &'static str) -> Lack {
    Lack { feature, message }
}

const EVENTS: Lack = lack("events", "a card tells nothing about single packets");
const EXCEPTIONS: Lack = lack(
    "exceptions-tracking",
    "flows are tracked all, in a table of the card, or not followed through a change",
);
const BINDINGS: Lack = lack(
    "bindings",
    "connection IDs are neither learned, registered nor imported",
);
const KEYS: Lack = lack("encrypted-server-ids", "a card has no cipher for programs");
const REDIRECT: Lack = lack(
    "redirect",
    "every backend is behind the port that packets arrive at, and they leave by it",
);

const ALL: [Lack; 5] = [EVENTS, EXCEPTIONS, BINDINGS, KEYS, REDIRECT];

/// What `mode` lacks.
pub(crate) fn lacks(mode: Mode) -> Vec<Lack> {
    match mode {
        Mode::Offload => ALL.to_vec(),
        Mode::Native | Mode::Generic => Vec::new(),
    }
}

/// What the specification asks for and a card lacks, if it is for one.
pub(super) fn faults(spec: &Spec) -> Vec<Fault> {
    if spec.mode() != Mode::Offload {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if spec.events_per_second() > 0 {
        faults.push(fault("/events_per_second".into(), "must be 0", EVENTS));
    }
    for service in spec.services() {
        of_service(spec, service, &mut faults);
    }
    faults
}

fn of_service(spec: &Spec, service: &Service, faults: &mut Vec<Fault>) {
    let pointer = service.pointer();
    if service.tracking == Tracking::Exceptions {
        let pointer = format!("{pointer}/tracking");
        faults.push(fault(pointer, "must be \"all\"", EXCEPTIONS));
    }
    if service.quic.routing == Routing::Learned {
        let pointer = format!("{pointer}/quic/routing");
        faults.push(fault(
            pointer,
            "must be \"server-id\" or \"tuple\"",
            BINDINGS,
        ));
    }
    let keyed = service.quic.configs.iter().filter(|of| of.key.is_some());
    for config in keyed {
        let pointer = format!("{pointer}/quic/configs/{}/key", config.position());
        faults.push(fault(pointer, "must be null", KEYS));
    }
    let elsewhere = |of: &&crate::service::Backend| of.interface != *spec.interface();
    for backend in service.backends.iter().filter(elsewhere) {
        let wanted = format!("must be {}", spec.interface());
        let pointer = format!("{}/interface", backend.pointer());
        faults.push(fault(pointer, &wanted, REDIRECT));
    }
}

fn fault(pointer: String, wanted: &str, lack: Lack) -> Fault {
    let message = format!("{wanted} in mode offload: {}", lack.message);
    Fault::new(pointer, FaultCode::Conflict, message)
}

/// What a generation takes of a card's tables. The limits are half of them, since the next generation
/// is written beside the live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CardUse {
    /// Slots of all services together.
    pub slots: Use,
    /// Rows of backends.
    pub rows: Use,
    /// Services with their entries for fragments.
    pub services: Use,
    /// Configs of connection IDs.
    pub configs: Use,
    /// Server IDs, those in quarantine included.
    pub server_ids: Use,
}

impl CardUse {
    /// Of a generation in mode `offload`.
    pub(super) fn of(generation: &Generation) -> Option<Self> {
        if generation.spec.mode() != Mode::Offload {
            return None;
        }
        let elements = Elements::build(generation);
        let used = |used: usize, room: OffloadLimit| Use {
            used: used as u64,
            limit: u64::from(room.0 / 2),
        };
        Some(Self {
            slots: used(elements.slots.len(), OffloadLimit::GW_OFFLOAD_SLOTS),
            rows: used(elements.rows.len(), OffloadLimit::GW_OFFLOAD_BACKENDS),
            services: used(elements.services.len(), OffloadLimit::GW_OFFLOAD_SERVICES),
            configs: used(elements.configs.len(), OffloadLimit::GW_OFFLOAD_CONFIGS),
            server_ids: used(elements.ids.len(), OffloadLimit::GW_OFFLOAD_SERVER_IDS),
        })
    }

    /// Each table and what is used of it.
    pub fn tables(&self) -> [(&'static str, Use); 5] {
        [
            ("slots", self.slots),
            ("rows", self.rows),
            ("services with their entries for fragments", self.services),
            ("configs of connection IDs", self.configs),
            ("server IDs", self.server_ids),
        ]
    }

    /// A fault for each table without room.
    pub(super) fn faults(&self) -> impl Iterator<Item = Fault> {
        let over = self.tables().into_iter();
        let over = over.filter(|(_, table)| table.used > table.limit);
        over.map(|(what, Use { used, limit })| {
            let message = format!("{what} on a card: {used} needed, the limit is {limit}");
            Fault::new("/services", FaultCode::Capacity, message)
        })
    }
}
