// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an absent member means.

use std::time::Duration;

use guideway::service::{
    BackendState, Fragments, HashOf, Mode, Protocol, Routing, Service, SourceMac, Spec, Tracking,
    Unhealthy, UnknownServerId,
};
use serde_json::json;

use super::{accept, server_id, tcp, tuple, with, EXAMPLE};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The service of a document that has one.
fn service(document: &serde_json::Value) -> Service {
    accept(document).services()[0].clone()
}

#[test]
fn example() {
    let spec = Spec::from_json(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(
        spec.instance_id().to_string(),
        "1d9016f2-8957-42bc-9dd7-32d684d76446"
    );
    assert_eq!(spec.interface().as_str(), "edge0");
    assert_eq!(spec.mode(), Mode::Native);
    assert!(spec.hash_seed().is_default());
    assert_eq!(spec.source_mac(), SourceMac::Keep);
    assert_eq!(spec.events_per_second(), 1000);
    let limits = spec.limits();
    assert_eq!(
        (limits.flows, limits.cids, limits.slots, limits.memory_mib),
        (1_048_576, 262_144, 65_537, 512)
    );

    let [service] = spec.services() else {
        panic!("{spec:?}")
    };
    assert_eq!(service.id.get(), 0x8cd5_d28f);
    assert_eq!((service.name.as_str(), service.port), ("quic-api", 443));
    assert_eq!(service.vip.to_string(), "203.0.113.80");
    assert_eq!(service.protocol, Protocol::Udp);
    assert_eq!((service.short_dcid_len, service.quic_only), (8, true));
    assert_eq!(service.maglev_table_size.get(), 4093);
    assert_eq!(service.hash, HashOf::Flow);
    assert_eq!(service.tracking, Tracking::All);
    assert_eq!(
        (service.flow_idle, service.cid_idle),
        (seconds(120), seconds(600))
    );
    assert_eq!(service.handshake_grace, Duration::ZERO);
    assert_eq!(service.fragments, Fragments::Drop);
    assert_eq!(service.quic.routing, Routing::Learned);
    assert_eq!(service.quic.configs, []);
    assert_eq!(service.quic.unknown_server_id, UnknownServerId::Drop);
    assert_eq!(service.quic.unhealthy, Unhealthy::Fallback);
    assert_eq!(service.quic.quarantine, seconds(3600));

    let [first, second] = &service.backends[..] else {
        panic!("{service:?}")
    };
    assert_eq!((first.id.get(), second.id.get()), (1, 2));
    assert_eq!(first.interface.as_str(), "vm-edge-a");
    assert_eq!(second.mac.to_string(), "02:00:00:00:01:02");
    assert_eq!((first.weight, first.state), (1, BackendState::Ready));
    assert_eq!(second.server_ids, []);
}

#[test]
fn a_backend_is_ready_and_of_weight_one() {
    let backend = &service(&tuple()).backends[0];
    assert_eq!((backend.weight, backend.state), (1, BackendState::Ready));
    assert!(backend.server_ids.is_empty());
}

#[test]
fn a_table_has_65537_slots() {
    assert_eq!(service(&tuple()).maglev_table_size.get(), 65_537);
}

#[test]
fn routing_follows_from_the_length_of_connection_ids() {
    for (length, routing) in [
        (0, Routing::Tuple),
        (3, Routing::Tuple),
        (4, Routing::Learned),
    ] {
        let document = with(tuple(), "/services/0/short_dcid_len", json!(length));
        assert_eq!(service(&document).quic.routing, routing, "{length}");
    }
}

#[test]
fn udp_is_quic_only_and_tcp_is_not() {
    assert!(service(&tuple()).quic_only);
    assert!(!service(&tcp()).quic_only);
}

#[test]
fn idle_times_depend_on_the_protocol() {
    assert_eq!(service(&tuple()).flow_idle, seconds(120));
    assert_eq!(service(&tcp()).flow_idle, seconds(2 * 3600 + 4 * 60));
    assert_eq!(service(&tcp()).cid_idle, seconds(600));
}

#[test]
fn all_flows_are_tracked_where_routing_is_learned_or_udp_is_not_quic() {
    let plain = with(tuple(), "/services/0/quic_only", json!(false));
    let learned = with(tuple(), "/services/0/short_dcid_len", json!(8));
    let mixed = with(server_id(), "/services/0/quic_only", json!(false));
    for (document, tracking) in [
        (tuple(), Tracking::Exceptions),
        (server_id(), Tracking::Exceptions),
        (mixed, Tracking::Exceptions),
        (tcp(), Tracking::Exceptions),
        (plain, Tracking::All),
        (learned, Tracking::All),
    ] {
        assert_eq!(service(&document).tracking, tracking, "{document}");
    }
}

#[test]
fn only_quic_by_tuple_with_exceptions_has_a_handshake_grace() {
    let plain = with(tuple(), "/services/0/quic_only", json!(false));
    let plain_exceptions = with(plain.clone(), "/services/0/tracking", json!("exceptions"));
    for (document, grace) in [
        (tuple(), 5),
        (with(tuple(), "/services/0/tracking", json!("all")), 0),
        (with(tuple(), "/services/0/short_dcid_len", json!(8)), 0),
        (server_id(), 0),
        (tcp(), 0),
        (plain, 0),
        (plain_exceptions, 0),
    ] {
        assert_eq!(
            service(&document).handshake_grace,
            seconds(grace),
            "{document}"
        );
    }
}

#[test]
fn a_config_has_no_extra_bytes_no_key_and_no_length_bits() {
    let config = service(&server_id()).quic.configs[0];
    assert_eq!(
        (config.config_id, config.server_id_len, config.nonce_len),
        (0, 2, 5)
    );
    assert_eq!(
        (config.extra_len, config.key, config.encodes_length),
        (0, None, false)
    );
    assert_eq!(config.cid_len(), 8);
}

#[test]
fn a_service_needs_no_ready_backend_and_none_at_all() {
    let document = with(tuple(), "/services/0/backends", json!([]));
    assert_eq!(service(&document).backends, []);
    let document = with(tuple(), "/services/0/backends/0/state", json!("draining"));
    let document = with(document, "/services/0/backends/1/state", json!("unhealthy"));
    assert!(service(&document)
        .backends
        .iter()
        .all(|backend| !backend.takes_new_flows()));
}
