// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification document: what is accepted, with which defaults, and what is refused how.

use guideway::service::{schema, Spec};

#[test]
fn the_checked_in_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/service/schema/spec.json");
    if std::env::var_os("GUIDEWAY_WRITE_SCHEMAS").is_some() {
        std::fs::write(path, schema::generate_spec()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        schema::generate_spec()
    );
}

#[test]
fn the_shortest_sound_document_takes_every_default() {
    let spec = Spec::from_json(include_bytes!("data/spec/example.json")).unwrap();
    let canonical = concat!(
        r#"{"instance_id":"1d9016f2-8957-42bc-9dd7-32d684d76446","interface":"edge0","#,
        r#""mode":"native","hash_seed":"00000000000000000000000000000000","source_mac":"keep","#,
        r#""events_per_second":1000,"#,
        r#""limits":{"flows":1048576,"cids":262144,"slots":65537,"memory_mib":512},"#,
        r#""services":[{"name":"quic-api","vip":"203.0.113.80","port":443,"protocol":"udp","#,
        r#""short_dcid_len":8,"quic_only":true,"maglev_table_size":4093,"hash":"flow","#,
        r#""tracking":"all","flow_idle":120,"cid_idle":600,"handshake_grace":0,"#,
        r#""fragments":"drop","quic":{"routing":"learned","unknown_server_id":"drop","#,
        r#""unhealthy":"fallback","quarantine":3600},"backends":["#,
        r#"{"id":1,"interface":"vm-edge-a","mac":"02:00:00:00:01:01","weight":1,"state":"ready"},"#,
        r#"{"id":2,"interface":"vm-edge-b","mac":"02:00:00:00:01:02","weight":1,"state":"ready"}"#,
        r#"]}]}"#,
    );
    assert_eq!(
        String::from_utf8(spec.to_canonical_json()).unwrap(),
        canonical
    );
    // sha256sum of the text above.
    let digest = "02da6536815252e3a39de9e1b58fcd523e0d6b220aa1dd367d3c5951dcb3eaf0";
    assert_eq!(spec.digest().to_string(), digest);
}
