// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The services of the table. Each has one backend that may get new flows, so that every frame has
//! one end.

use guideway::plan::{Generation, PlacedServerId};
use serde_json::{json, Value};

use crate::build::{VIP4, VIP6};
use crate::machine::{Machine, EDGE, GONE, ONE, TWO};

pub(crate) const ROUTED_VIP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(203, 0, 113, 81);

/// Connection IDs of the first configuration: of a ready backend, a draining and an unhealthy one,
/// one that is gone, and nobody.
pub(crate) const READY: [u8; 8] = [0x1f, 0xc4, 0x60, 1, 2, 3, 4, 5];
pub(crate) const DRAINING: [u8; 8] = [0x00, 0xee, 0xee, 1, 2, 3, 4, 5];
pub(crate) const UNHEALTHY: [u8; 8] = [0x00, 0xd5, 0xe7, 1, 2, 3, 4, 5];
pub(crate) const QUARANTINED: [u8; 8] = [0x00, 0xab, 0xcd, 1, 2, 3, 4, 5];
pub(crate) const NOBODY: [u8; 8] = [0x00, 0xff, 0xff, 1, 2, 3, 4, 5];
/// Of the second configuration, with the longest server ID, and of the third, which says its
/// length: 16 bytes.
pub(crate) const LONGEST: [u8; 20] = [
    0x20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0x91, 0x92, 0x93, 0x94,
];
pub(crate) const SAYS_LENGTH: [u8; 16] = [
    0x4f, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0x91, 0x92, 0x93, 0x94, 0, 0, 0,
];

fn backend(id: u32, interface: &str, mac: &str) -> Value {
    json!({"id": id, "interface": interface, "mac": format!("02:00:00:00:{mac}")})
}

fn service(vip: impl ToString, protocol: &str, port: u16, name: &str, backends: Value) -> Value {
    let mut service = json!({
        "name": name, "vip": vip.to_string(), "protocol": protocol, "port": port,
        "maglev_table_size": 251, "backends": backends,
    });
    if (vip.to_string(), protocol) == (VIP4.to_string(), "tcp") {
        service["fragments"] = json!("pass");
    }
    service
}

fn with(mut object: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

pub(crate) fn document() -> Value {
    let config = json!({"config_id": 0, "server_id_len": 2, "nonce_len": 5});
    let by_server_id = |backends: Value, members: Value| {
        let quic = json!({"routing": "server-id", "configs": [config]});
        json!({"backends": backends, "quic": with(quic, members)})
    };
    let state = |backend: Value, state: &str, server_id: &str| {
        with(backend, json!({"state": state, "server_id": server_id}))
    };
    let quic = by_server_id(
        json!([
            with(
                backend(1, ONE, "01:01"),
                json!({"server_id": ["c460", "0102030405060708090a0b0c0d0e0f", "a1a2a3a4a5a6a7a8"]}),
            ),
            state(backend(2, TWO, "01:02"), "unhealthy", "d5e7"),
            state(backend(3, TWO, "01:03"), "draining", "eeee"),
        ]),
        json!({
            "unhealthy": "drop",
            "configs": [
                config,
                {"config_id": 1, "server_id_len": 15, "nonce_len": 4},
                {"config_id": 2, "server_id_len": 8, "nonce_len": 4, "extra_len": 3,
                 "encodes_length": true},
            ],
        }),
    );
    let lenient = by_server_id(
        json!([
            state(backend(1, ONE, "02:01"), "ready", "c460"),
            state(backend(2, TWO, "02:02"), "unhealthy", "d5e7"),
        ]),
        json!({"unknown_server_id": "fallback", "unhealthy": "fallback"}),
    );
    let quic6 = by_server_id(
        json!([state(backend(1, ONE, "0a:01"), "ready", "c460")]),
        json!({}),
    );
    let one = |interface: &str, mac: &str| json!([backend(1, interface, mac)]);
    let draining = json!([with(backend(1, ONE, "0c:01"), json!({"state": "draining"}))]);
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": EDGE,
        "services": [
            with(service(VIP4, "udp", 443, "quic", json!([])), quic),
            with(
                with(service(VIP4, "udp", 444, "lenient", json!([])), lenient),
                json!({"short_dcid_len": 8}),
            ),
            with(service(VIP4, "udp", 53, "plain", one(ONE, "03:01")), json!({"quic_only": false})),
            service(VIP4, "udp", 8443, "tuple", one(ONE, "06:01")),
            with(
                service(VIP4, "udp", 9443, "mixed", one(ONE, "07:01")),
                json!({"quic_only": false, "short_dcid_len": 8}),
            ),
            service(VIP4, "tcp", 8080, "tcp", one(ONE, "04:01")),
            service(VIP4, "tcp", 8081, "local", one(EDGE, "05:01")),
            service(VIP4, "tcp", 8082, "drained", draining),
            service(VIP4, "tcp", 8083, "empty", json!([])),
            service(VIP4, "tcp", 8084, "gone", one(GONE, "08:01")),
            with(
                service(ROUTED_VIP, "udp", 443, "routed", one(TWO, "09:01")),
                json!({"quic_only": false, "hash": "source", "fragments": "route"}),
            ),
            with(service(VIP6, "udp", 443, "quic6", json!([])), quic6),
            service(VIP6, "tcp", 8080, "tcp6", one(TWO, "0b:01")),
        ],
    })
}

/// The above, with a server ID in quarantine.
pub(crate) fn generation(machine: &Machine) -> Generation {
    let mut generation = machine.plan(&document());
    let mut services = generation.spec.services().iter();
    let quic = services
        .position(|service| service.name.as_str() == "quic")
        .unwrap();
    generation.services[quic].server_ids.push(PlacedServerId {
        config_id: 0,
        server_id: "abcd".parse().unwrap(),
        row: None,
    });
    generation
}
