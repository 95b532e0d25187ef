// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification that the balancer of this network is given.

use std::net::SocketAddr;

use serde_json::{json, Value};

use super::net::{Backend, EDGE};
use super::quic::{lb_config, server_id};

/// Any UUID: the BPF file system it names is private to this process.
pub(crate) const INSTANCE: &str = "1d9016f2-8957-42bc-9dd7-32d684d76446";

/// Bytes of the connection IDs that quinn makes by itself.
pub(crate) const RANDOM_ID_BYTES: usize = 8;

/// What can be changed about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) weight: u32,
    pub(crate) state: State,
}

/// The states of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Draining,
    Unhealthy,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Draining => "draining",
            State::Unhealthy => "unhealthy",
        }
    }
}

/// What decides about a packet of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// QUIC whose connection IDs name the backend.
    ServerId,
    /// QUIC by addresses and ports alone.
    Tuple,
    /// QUIC whose connection IDs are learned from packets.
    Learned,
    /// UDP that is not QUIC.
    Udp,
    /// TCP.
    Tcp,
}

/// A whole specification.
pub(crate) fn document(services: Vec<Value>) -> Value {
    json!({
        "instance_id": INSTANCE,
        "interface": EDGE,
        "mode": "native",
        "hash_seed": "9f3c51d87ae04b6612c7d0ab58ef3419",
        "services": services,
    })
}

/// One service of all `backends`, each with its entry of `members`.
pub(crate) fn service(
    name: &str,
    vip: SocketAddr,
    routing: Routing,
    backends: &[Backend],
    members: &[Member],
) -> Value {
    let mut service = json!({
        "name": name,
        "vip": vip.ip(),
        "port": vip.port(),
        "protocol": if routing == Routing::Tcp { "tcp" } else { "udp" },
        "maglev_table_size": 4093,
        "backends": backends.iter().zip(members).map(|(backend, member)| {
            let mut entry = json!({
                "id": backend.number,
                "interface": backend.interface,
                "mac": backend.mac,
                "weight": member.weight,
                "state": member.state.name(),
            });
            if routing == Routing::ServerId {
                entry["server_id"] = json!(server_id(&lb_config(), backend.number).to_string());
            }
            entry
        }).collect::<Vec<_>>(),
    });
    match routing {
        Routing::ServerId => {
            let config = lb_config();
            service["quic_only"] = json!(true);
            service["quic"] = json!({
                "routing": "server-id",
                // Another backend could only refuse the packets of a dead one's connections.
                "unhealthy": "drop",
                "configs": [{
                    "config_id": config.id().get(),
                    "server_id_len": config.server_id_len(),
                    "nonce_len": config.nonce_len(),
                }],
            });
        }
        Routing::Tuple => {
            service["quic_only"] = json!(true);
            service["quic"] = json!({ "routing": "tuple" });
        }
        Routing::Learned => {
            service["quic_only"] = json!(true);
            service["short_dcid_len"] = json!(RANDOM_ID_BYTES);
            service["quic"] = json!({ "routing": "learned" });
        }
        Routing::Udp => service["quic_only"] = json!(false),
        Routing::Tcp => {}
    }
    service
}
