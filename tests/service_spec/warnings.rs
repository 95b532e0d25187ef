// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works but may not be what was meant.

use serde_json::{json, Value};

use super::{accept, server_id, tcp, tuple, two_services, with};

/// Pointers and codes of a document's warnings, with a seed of its own.
fn warnings(document: Value) -> Vec<String> {
    let document = with(
        document,
        "/hash_seed",
        json!("000102030405060708090a0b0c0d0e0f"),
    );
    let warnings = accept(&document).warnings();
    warnings
        .iter()
        .map(|warning| format!("{} {}", warning.pointer, warning.code))
        .collect()
}

#[test]
fn a_well_made_service_has_none() {
    assert_eq!(warnings(tcp()), [""; 0]);
    let plain = with(tuple(), "/services/0/quic_only", json!(false));
    assert_eq!(warnings(plain), [""; 0]);
    let key = json!("8f95f09245765f80256934e50c66207f");
    assert_eq!(
        warnings(with(server_id(), "/services/0/quic/configs/0/key", key)),
        [""; 0]
    );
}

#[test]
fn seed() {
    let zeros = with(
        tcp(),
        "/hash_seed",
        json!("00000000000000000000000000000000"),
    );
    for document in [tcp(), zeros] {
        let warnings = accept(&document).warnings();
        assert_eq!(warnings.len(), 1);
        assert_eq!(
            warnings[0].to_string().split(':').next(),
            Some("/hash_seed")
        );
        assert_eq!(warnings[0].code.as_str(), "seed");
    }
}

#[test]
fn tuple_routing_of_quic() {
    assert_eq!(warnings(tuple()), ["/services/0/quic/routing tuple"]);
}

#[test]
fn learned_routing() {
    let learned = |length: u8| with(tuple(), "/services/0/short_dcid_len", json!(length));
    assert_eq!(warnings(learned(8)), ["/services/0/quic/routing learned"]);
    assert_eq!(
        warnings(learned(7)),
        [
            "/services/0/short_dcid_len short-cid",
            "/services/0/quic/routing learned"
        ]
    );
    let spec = accept(&learned(8));
    let learned = spec
        .warnings()
        .into_iter()
        .find(|w| w.code.as_str() == "learned")
        .unwrap();
    assert!(
        learned
            .message
            .contains("survive NAT rebinding, but not migration"),
        "{learned}"
    );
}

#[test]
fn server_ids() {
    assert_eq!(
        warnings(server_id()),
        ["/services/0/quic/configs/0 plaintext-server-id"]
    );
    let keyed = json!("8f95f09245765f80256934e50c66207f");
    let document = with(server_id(), "/services/0/quic/configs/0/key", keyed.clone());
    let none = with(document, "/services/0/backends/1/server_id", json!([]));
    assert_eq!(warnings(none), ["/services/0/backends/1 no-server-id"]);

    let clear = json!({"config_id": 1, "server_id_len": 2, "nonce_len": 5});
    let mixed = with(server_id(), "/services/0/quic/configs/1", clear);
    let mixed = with(mixed, "/services/0/quic/configs/0/key", keyed);
    assert_eq!(
        warnings(mixed.clone()),
        [
            "/services/0/quic/configs/1 plaintext-server-id",
            "/services/0/backends/0/server_id mixed-clear-encrypted",
            "/services/0/backends/1/server_id mixed-clear-encrypted",
            "/services/0/backends/1/server_id mixed-clear-encrypted",
        ]
    );
    // Server IDs of different lengths are different allocations.
    let apart = with(mixed, "/services/0/quic/configs/1/server_id_len", json!(3));
    assert_eq!(
        warnings(apart),
        ["/services/0/quic/configs/1 plaintext-server-id"]
    );
}

#[test]
fn no_backend_that_takes_new_flows() {
    let expected = ["/services/0/backends no-ready-backend"];
    assert_eq!(
        warnings(with(tcp(), "/services/0/backends", json!([]))),
        expected
    );
    let document = with(tcp(), "/services/0/backends/0/state", json!("draining"));
    assert_eq!(warnings(document.clone()), [""; 0]);
    let document = with(document, "/services/0/backends/1/weight", json!(0));
    assert_eq!(warnings(document), expected);
}

#[test]
fn plain_udp_with_exceptions() {
    let plain = with(tuple(), "/services/0/quic_only", json!(false));
    let document = with(plain, "/services/0/tracking", json!("exceptions"));
    assert_eq!(warnings(document), ["/services/0/tracking deferred-change"]);
    // All other packets of these can be told to begin a flow.
    let mixed = with(server_id(), "/services/0/quic_only", json!(false));
    let codes = warnings(with(mixed, "/services/0/tracking", json!("exceptions")));
    assert_eq!(codes, ["/services/0/quic/configs/0 plaintext-server-id"]);
}

#[test]
fn services_come_in_the_order_of_the_document() {
    let mut document = two_services();
    document["services"].as_array_mut().unwrap().reverse();
    assert_eq!(
        warnings(document),
        [
            "/services/0/quic/routing tuple",
            "/services/0/backends no-ready-backend",
            "/services/1/quic/routing tuple",
        ]
    );
}

#[test]
fn the_chance_of_a_false_route() {
    let chance = |document: &Value| accept(document).services()[0].false_route_probability();
    assert_eq!(chance(&tuple()), 0.0);
    // One config of eight, three of 65,536 server IDs.
    assert_eq!(chance(&server_id()), 3.0 / 8.0 / 65_536.0);
    let encoded = with(
        server_id(),
        "/services/0/quic/configs/0/encodes_length",
        json!(true),
    );
    assert_eq!(chance(&encoded), 3.0 / 8.0 / 65_536.0 / 32.0);
    let same = json!({"config_id": 1, "server_id_len": 2, "nonce_len": 5});
    let two = with(server_id(), "/services/0/quic/configs/1", same.clone());
    assert_eq!(chance(&two), 2.0 * 3.0 / 8.0 / 65_536.0);
    // A connection ID of one length never names the config of another.
    let longer = with(two, "/services/0/quic/configs/1/nonce_len", json!(6));
    assert_eq!(chance(&longer), 3.0 / 8.0 / 65_536.0);
    let one_byte = json!([{"config_id": 0, "server_id_len": 1, "nonce_len": 6}]);
    let small = with(server_id(), "/services/0/quic/configs", one_byte);
    let small = with(
        small,
        "/services/0/backends/0/server_id",
        json!(["00", "01", "02", "03"]),
    );
    let small = with(
        small,
        "/services/0/backends/1/server_id",
        json!(["04", "05", "06", "07"]),
    );
    assert_eq!(chance(&small), 8.0 / 8.0 / 256.0);
}
