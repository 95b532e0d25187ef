// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Rules between members, within a service and across services.

use serde_json::{json, Value};

use super::{accept, faults, refuse, server_id, tcp, tuple, two_services, with, without};

const S: &str = "/services/0";

#[test]
fn quic_members_need_udp() {
    let message = "QUIC fields need protocol \"udp\"";
    for (member, refused, allowed) in [
        ("short_dcid_len", json!(8), json!(0)),
        ("quic_only", json!(true), json!(false)),
        // As the canonical document has it.
        ("cid_idle", json!("5m"), json!("10m")),
    ] {
        let pointer = format!("{S}/{member}");
        accept(&with(tcp(), &pointer, allowed));
        refuse(
            &with(tcp(), &pointer, refused),
            &pointer,
            "conflict",
            message,
        );
    }
    for quic in [
        json!({}),
        json!({"routing": "tuple"}),
        json!({"quarantine": 5}),
    ] {
        let pointer = format!("{S}/quic");
        refuse(&with(tcp(), &pointer, quic), &pointer, "conflict", message);
    }
    // Each member of a whole QUIC service is named.
    let document = with(server_id(), "/services/0/protocol", json!("tcp"));
    let document = with(document, "/services/0/short_dcid_len", json!(8));
    let server_ids = "conflict: only server-id routing has server IDs";
    let mut found = faults(&document.to_string());
    found.sort();
    assert_eq!(
        found,
        [
            format!("{S}/backends/0/server_id {server_ids}"),
            format!("{S}/backends/1/server_id {server_ids}"),
            format!("{S}/quic conflict: {message}"),
            format!("{S}/short_dcid_len conflict: {message}"),
        ]
    );
}

#[test]
fn a_network_card_has_no_array_of_programs() {
    let place = json!({"path": "/sys/fs/bpf/roots", "index": 3});
    let document = with(tuple(), "/root_array", place);
    for mode in ["native", "generic"] {
        accept(&with(document.clone(), "/mode", json!(mode)));
    }
    refuse(
        &with(document, "/mode", json!("offload")),
        "/root_array",
        "conflict",
        "mode \"offload\" runs on the network card, where no other program calls it",
    );
}

#[test]
fn learned_routing_needs_tracking_of_all_flows() {
    let learned = with(tuple(), "/services/0/short_dcid_len", json!(8));
    let pointer = format!("{S}/tracking");
    accept(&with(learned.clone(), &pointer, json!("all")));
    let message = "learned routing needs tracking \"all\"";
    refuse(
        &with(learned, &pointer, json!("exceptions")),
        &pointer,
        "conflict",
        message,
    );
}

#[test]
fn learned_routing_needs_connection_ids_of_a_known_length() {
    let learned = with(tuple(), "/services/0/quic", json!({"routing": "learned"}));
    let length = format!("{S}/short_dcid_len");
    for allowed in [4, 20] {
        accept(&with(learned.clone(), &length, json!(allowed)));
    }
    for refused in [0, 3] {
        let message = format!("learned routing needs short_dcid_len of 4 to 20, got {refused}");
        let document = with(learned.clone(), &length, json!(refused));
        refuse(
            &document,
            &format!("{S}/quic/routing"),
            "conflict",
            &message,
        );
    }
    let message = "learned routing needs short_dcid_len of 4 to 20, got 0";
    refuse(&learned, &format!("{S}/quic/routing"), "conflict", message);
}

#[test]
fn only_quic_by_tuple_with_exceptions_may_have_a_handshake_grace() {
    let pointer = format!("{S}/handshake_grace");
    accept(&with(tuple(), &pointer, json!(60)));
    let message = "only QUIC services with tuple routing and tracking \"exceptions\" have a \
                   handshake grace (other than 0)";
    for document in [
        with(tuple(), "/services/0/tracking", json!("all")),
        with(tuple(), "/services/0/short_dcid_len", json!(8)),
        with(tuple(), "/services/0/quic_only", json!(false)),
        server_id(),
        tcp(),
    ] {
        accept(&with(document.clone(), &pointer, json!(0)));
        refuse(
            &with(document, &pointer, json!(1)),
            &pointer,
            "conflict",
            message,
        );
    }
}

#[test]
fn server_id_routing_has_configs_and_no_other_has() {
    let pointer = format!("{S}/quic/configs");
    let message = "server-id routing needs at least one config";
    refuse(
        &without(server_id(), &pointer),
        &pointer,
        "missing",
        message,
    );
    let message = "only server-id routing has configs";
    let no_ids = with(server_id(), "/services/0/backends", json!([]));
    for routing in ["tuple", "learned"] {
        let document = with(no_ids.clone(), "/services/0/quic/routing", json!(routing));
        let document = with(document, "/services/0/short_dcid_len", json!(8));
        refuse(&document, &pointer, "conflict", message);
    }
    let by_default = without(no_ids, "/services/0/quic/routing");
    refuse(&by_default, &pointer, "conflict", message);
}

#[test]
fn config_ids_are_unique() {
    let second = json!({"config_id": 0, "server_id_len": 3, "nonce_len": 5});
    let document = with(server_id(), "/services/0/quic/configs/1", second);
    let message = format!("config_id 0 is already used by {S}/quic/configs/0");
    refuse(
        &document,
        &format!("{S}/quic/configs/1/config_id"),
        "duplicate",
        &message,
    );
}

#[test]
fn connection_ids_have_the_length_of_the_contract() {
    let document = |length: u8| with(server_id(), "/services/0/short_dcid_len", json!(length));
    accept(&document(0));
    accept(&document(8));
    let message = "config 0 makes CIDs of 8 bytes, short_dcid_len says 9";
    refuse(
        &document(9),
        &format!("{S}/quic/configs/0"),
        "cid-length",
        message,
    );
    let encoded = with(
        document(12),
        "/services/0/quic/configs/0/extra_len",
        json!(4),
    );
    accept(&encoded);
}

#[test]
fn server_ids_fit_a_config_and_belong_to_one_backend() {
    let pointer = format!("{S}/backends/0/server_id");
    let three = json!({"config_id": 1, "server_id_len": 3, "nonce_len": 5});
    let both = with(server_id(), "/services/0/quic/configs/1", three);
    accept(&with(both.clone(), &pointer, json!(["c4ff", "c4ffee"])));
    let message = "1 bytes fit no config (server_id_len 2, 3)";
    refuse(
        &with(both, &pointer, json!("c4")),
        &pointer,
        "server-id",
        message,
    );
    let message = "16 bytes fit no config (server_id_len 2)";
    let long = json!("000102030405060708090a0b0c0d0e0f");
    refuse(
        &with(server_id(), &pointer, long),
        &pointer,
        "server-id",
        message,
    );

    let message = format!("server ID c460 already belongs to {S}/backends/0");
    let second = format!("{S}/backends/1/server_id");
    let document = with(server_id(), &second, json!(["c4ff", "C460"]));
    refuse(&document, &format!("{second}/1"), "duplicate", &message);
    let document = with(server_id(), &pointer, json!(["c460", "c460"]));
    refuse(&document, &format!("{pointer}/1"), "duplicate", &message);

    let message = "only server-id routing has server IDs";
    for document in [
        tuple(),
        tcp(),
        with(tuple(), "/services/0/short_dcid_len", json!(8)),
    ] {
        for value in [json!("c460"), json!([])] {
            refuse(
                &with(document.clone(), &pointer, value),
                &pointer,
                "conflict",
                message,
            );
        }
    }
}

#[test]
fn two_services_may_use_the_same_server_ids() {
    let mut second = server_id()["services"][0].clone();
    second["name"] = json!("b");
    second["port"] = json!(8443);
    accept(&with(server_id(), "/services/1", second));
}

#[test]
fn backend_ids_are_unique_in_a_service() {
    let document = with(tuple(), "/services/0/backends/1/id", json!(1));
    let message = format!("id 1 is already used by {S}/backends/0");
    refuse(
        &document,
        &format!("{S}/backends/1/id"),
        "duplicate",
        &message,
    );
    let same = json!([{"id": 1, "interface": "vm-a", "mac": "02:00:00:00:01:01"}]);
    accept(&with(two_services(), "/services/1/backends", same));
}

#[test]
fn a_table_holds_every_backend_that_takes_flows() {
    let backend = |id: u32| json!({"id": id, "interface": "vm", "mac": "02:00:00:00:01:01"});
    let backends = Value::Array((1..=252).map(backend).collect());
    let document = with(tuple(), "/services/0/backends", backends);
    let document = with(document, "/services/0/maglev_table_size", json!(251));
    let message = "a table of 251 slots cannot hold 252 ready backends of a weight above 0";
    refuse(
        &document,
        &format!("{S}/maglev_table_size"),
        "conflict",
        message,
    );
    accept(&with(
        document.clone(),
        "/services/0/backends/9/state",
        json!("draining"),
    ));
    accept(&with(document, "/services/0/backends/9/weight", json!(0)));
}

#[test]
fn service_names_are_unique() {
    let document = with(two_services(), "/services/1/name", json!("a"));
    let message = "name a is already used by /services/0";
    refuse(&document, "/services/1/name", "duplicate", message);
}

#[test]
fn an_address_protocol_and_port_is_served_once() {
    let document = with(two_services(), "/services/1/port", json!(443));
    let message = "203.0.113.80 udp 443 is already served by /services/0";
    refuse(&document, "/services/1", "duplicate", message);
    accept(&with(document, "/services/1/protocol", json!("tcp")));

    let v6 = with(two_services(), "/services/0/vip", json!("2001:db8::80"));
    let v6 = with(v6, "/services/1/vip", json!("2001:0DB8::0080"));
    let message = "2001:db8::80 udp 443 is already served by /services/0";
    refuse(
        &with(v6, "/services/1/port", json!(443)),
        "/services/1",
        "duplicate",
        message,
    );
}

#[test]
fn service_ids_are_unique() {
    // Both make 0x91a37d1f, found by a search over an independent FNV-1a 32.
    let document = with(two_services(), "/services/0/name", json!("svc-114740"));
    let document = with(document, "/services/0/vip", json!("203.0.113.81"));
    let document = with(document, "/services/1/name", json!("svc-150198"));
    let document = with(document, "/services/1/port", json!(443));
    let message = "svc-150198 and svc-114740 (/services/0) both get the service ID 0x91a37d1f, \
                   one needs another name";
    refuse(&document, "/services/1/name", "service-id", message);
    accept(&with(document, "/services/1/name", json!("svc-150199")));
}

#[test]
fn services_of_one_address_and_protocol_treat_fragments_alike() {
    let document = with(two_services(), "/services/0/fragments", json!("pass"));
    let message = "fragments must equal pass of /services/0, same VIP and protocol";
    refuse(&document, "/services/1/fragments", "conflict", message);
    accept(&with(
        document.clone(),
        "/services/1/fragments",
        json!("pass"),
    ));
    accept(&with(
        document.clone(),
        "/services/1/protocol",
        json!("tcp"),
    ));
    accept(&with(document, "/services/1/vip", json!("203.0.113.81")));
}

#[test]
fn routed_fragments_need_the_client_alone_as_hash_and_no_other_service() {
    let source = with(tuple(), "/services/0/hash", json!("source"));
    let routed = with(source, "/services/0/fragments", json!("route"));
    accept(&routed);
    let pointer = format!("{S}/fragments");
    let message = "fragments \"route\" needs hash \"source\"";
    refuse(
        &without(routed.clone(), "/services/0/hash"),
        &pointer,
        "conflict",
        message,
    );

    let learned = with(routed.clone(), "/services/0/short_dcid_len", json!(8));
    let message = "fragments \"route\" cannot go with learned routing";
    refuse(&learned, &pointer, "conflict", message);
    let by_id = with(server_id(), "/services/0/hash", json!("source"));
    let by_id = with(by_id, "/services/0/fragments", json!("route"));
    let message = "fragments \"route\" cannot go with server-id routing";
    refuse(&by_id, &pointer, "conflict", message);

    let mut second = routed["services"][0].clone();
    second["name"] = json!("b");
    second["port"] = json!(8443);
    let both = with(routed, "/services/1", second);
    let message = "fragments \"route\" needs a service alone with its VIP and protocol, \
                   /services/0 has the same";
    refuse(&both, "/services/1/fragments", "conflict", message);
}
