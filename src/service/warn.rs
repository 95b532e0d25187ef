// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works but may not be what was meant, as far as the document alone tells.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::{CidConfig, Protocol, Routing, Service, Spec, Tracking};
use crate::document::choice::choice;
use crate::document::fault;
use crate::quic::lb::ServerId;

choice! {
    /// Machine name of a warning.
    #[non_exhaustive]
    pub enum WarningCode {
        /// The default seed places flows: clients can predict the backend they get.
        Seed = "seed",
        /// Learned routing does not survive a migration to a new connection ID.
        Learned = "learned",
        /// QUIC by tuple does not survive rebinding.
        Tuple = "tuple",
        /// Server IDs can be read by everybody on the way.
        PlaintextServerId = "plaintext-server-id",
        /// A backend that no connection ID can name.
        NoServerId = "no-server-id",
        /// Learned connection IDs are short enough to collide.
        ShortCid = "short-cid",
        /// No backend takes new flows.
        NoReadyBackend = "no-ready-backend",
        /// The table is small for its number of backends.
        BelowRule = "below-rule",
        /// A backend of some weight gets no slot.
        FewSlots = "few-slots",
        /// A server ID goes to another backend before its quarantine is over.
        ReusedServerId = "reused-server-id",
        /// A random connection ID often looks like one with a server ID.
        FalseRoute = "false-route",
        /// A server ID is in clear in one config and hidden in another.
        MixedClearEncrypted = "mixed-clear-encrypted",
        /// A config id changed its meaning while the old one was live.
        ConfigReplaced = "config-replaced",
        /// Old connections meet another way of routing.
        RoutingChange = "routing-change",
        /// A backend is removed that may have live flows.
        BackendInUse = "backend-in-use",
        /// Changes reach new flows late.
        DeferredChange = "deferred-change",
        /// The host itself loses fragments of this address.
        SharedVipDrop = "shared-vip-drop",
        /// A change may need more entries than the flow map has.
        FlowCapacity = "flow-capacity",
    }
}

/// Something that works but may not be what was meant.
pub type Warning = fault::Warning<WarningCode>;

/// Shorter learned connection IDs of different servers meet too often.
const LONG_ENOUGH: u8 = 8;

impl Spec {
    /// The warnings that follow from the document alone, service by service in the document's
    /// order. None of them refuses the specification.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.hash_seed.is_default() {
            warnings.push(Warning::new(
                "/hash_seed",
                WarningCode::Seed,
                "the default seed places flows: clients can predict and choose their backend",
            ));
        }
        let mut services: Vec<&Service> = self.services.iter().collect();
        services.sort_by_key(|service| service.origin.0);
        for service in services {
            Warnings {
                service,
                pointer: service.pointer(),
                found: &mut warnings,
            }
            .all();
        }
        warnings
    }
}

struct Warnings<'a> {
    service: &'a Service,
    pointer: String,
    found: &'a mut Vec<Warning>,
}

impl Warnings<'_> {
    fn all(&mut self) {
        if self.service.reads_quic() {
            match self.service.quic.routing {
                Routing::ServerId => self.server_id(),
                Routing::Learned => self.learned(),
                Routing::Tuple => self.push(
                    "/quic/routing",
                    WarningCode::Tuple,
                    "QUIC is placed by its 4-tuple: when a client's address or port changes, 1 - \
                     1/N of its connections reach another of N backends and break",
                ),
            }
        } else if self.is_plain_udp() && self.service.tracking == Tracking::Exceptions {
            self.push(
                "/tracking",
                WarningCode::DeferredChange,
                "no packet of plain UDP can be recognised as the first of its flow: with tracking \
                 \"exceptions\" a change reaches new flows only after its transition window, and a \
                 draining backend gets new flows until then",
            );
        }
        if !self
            .service
            .backends
            .iter()
            .any(|backend| backend.takes_new_flows())
        {
            self.push(
                "/backends",
                WarningCode::NoReadyBackend,
                "no backend is ready with a weight above 0: new flows are dropped",
            );
        }
    }

    fn is_plain_udp(&self) -> bool {
        self.service.protocol == Protocol::Udp && !self.service.reads_quic()
    }

    fn learned(&mut self) {
        if self.service.short_dcid_len < LONG_ENOUGH {
            let length = self.service.short_dcid_len;
            self.push(
                "/short_dcid_len",
                WarningCode::ShortCid,
                &format!(
                    "connection IDs of {length} bytes are learned: two servers may issue the same \
                     one, 8 bytes or more make that unlikely"
                ),
            );
        }
        self.push(
            "/quic/routing",
            WarningCode::Learned,
            "learned connection IDs survive NAT rebinding, but not migration to a new connection \
             ID, which goes by flow: 1 - 1/N of such connections reach another of N backends and \
             break",
        );
    }

    fn server_id(&mut self) {
        let mut configs: Vec<&CidConfig> = self.service.quic.configs.iter().collect();
        configs.sort_by_key(|config| config.origin.0);
        for config in configs.iter().filter(|config| config.key.is_none()) {
            self.push(
                &format!("/quic/configs/{}", config.origin.0),
                WarningCode::PlaintextServerId,
                &format!(
                    "config {} has no key: server IDs are visible and link a client's addresses; \
                     servers should issue no further connection IDs except when configs rotate",
                    config.config_id
                ),
            );
        }
        // Which lengths of server ID are in clear, hidden, or both.
        let mut lengths: BTreeMap<u8, BTreeSet<bool>> = BTreeMap::new();
        for config in &configs {
            lengths
                .entry(config.server_id_len)
                .or_default()
                .insert(config.key.is_some());
        }
        let mut backends: Vec<_> = self.service.backends.iter().collect();
        backends.sort_by_key(|backend| backend.origin.1 .0);
        for backend in backends {
            let path = format!("/backends/{}", backend.origin.1 .0);
            if backend.server_ids.is_empty() {
                self.push(
                    &path,
                    WarningCode::NoServerId,
                    &format!(
                        "backend {} has no server ID: no connection ID reaches it",
                        backend.id
                    ),
                );
            }
            for server_id in &backend.server_ids {
                // At most 15.
                let length = server_id.as_bytes().len() as u8;
                if lengths.get(&length).is_some_and(|kinds| kinds.len() > 1) {
                    self.push(
                        &format!("{path}/server_id"),
                        WarningCode::MixedClearEncrypted,
                        &format!(
                            "server ID {server_id} is in clear in one config and hidden in \
                             another: give them different server IDs"
                        ),
                    );
                }
            }
        }
    }

    fn push(&mut self, path: &str, code: WarningCode, message: &str) {
        self.found.push(Warning::new(
            format!("{}{path}", self.pointer),
            code,
            message,
        ));
    }
}

impl Service {
    /// The chance that a random connection ID, of a length that some config makes, names one of
    /// the backends: the sum over the configs of that length of 1/8 for the config, server IDs /
    /// 256^`server_id_len` for the server ID, and 1/32 where the first byte must give the length.
    /// With several lengths, that of the worst. 0 without configs.
    pub fn false_route_probability(&self) -> f64 {
        let mut by_length: BTreeMap<u8, f64> = BTreeMap::new();
        for config in &self.quic.configs {
            let fitting = |id: &&ServerId| id.as_bytes().len() == usize::from(config.server_id_len);
            let server_ids = self.backends.iter().flat_map(|backend| &backend.server_ids);
            let named = server_ids.filter(fitting).count() as f64;
            let one_of = 256_f64.powi(i32::from(config.server_id_len));
            let length = if config.encodes_length {
                1.0 / 32.0
            } else {
                1.0
            };
            *by_length.entry(config.cid_len()).or_default() += named / one_of / 8.0 * length;
        }
        by_length.into_values().fold(0.0, f64::max)
    }
}
