// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Equal state gives equal bytes.

use guideway::affinity::{
    AffinityDocument, BindingOrigin, CidBinding, ReadOptions, ServiceBindings,
};
use guideway::id::{BackendId, ServiceId};
use guideway::service::Protocol;
use proptest::prelude::*;
use serde_json::json;

use super::{accepted, read, sound};

/// Written by hand from the description of the format.
const TEXT: &str = concat!(
    r#"{"schema":"guideway.affinity/v1","exported_at":"2026-07-31T08:00:00Z","#,
    r#""instance":"1d9016f2-8957-42bc-9dd7-32d684d76446","services":["#,
    r#"{"id":7,"name":"quic-api","vip":"203.0.113.80","protocol":"udp","port":443,"bindings":["#,
    r#"{"cid":"c46001","backend":2,"origin":"learned","last_seen_ns":1000},"#,
    r#"{"cid":"ffffffffffffffffffffffffffffffffffffffff","backend":4294967295,"#,
    r#""origin":"registered","last_seen_ns":0}]},"#,
    r#"{"id":9,"name":"quic-six","vip":"2001:db8::80","protocol":"udp","port":8443,"bindings":["#,
    r#"{"cid":"00","backend":1,"origin":"imported","last_seen_ns":18446744073709551615},"#,
    r#"{"cid":"0000","backend":1,"origin":"learned","last_seen_ns":5}]}]}"#,
);

#[test]
fn the_text_is_the_specified_one() {
    let document = accepted(&sound());
    assert_eq!(String::from_utf8(document.to_json()).expect("UTF-8"), TEXT);
    assert_eq!(document.bindings(), 4);
    assert_eq!(document.exported_at(), "2026-07-31T08:00:00Z");
    assert_eq!(document.instance(), "1d9016f2-8957-42bc-9dd7-32d684d76446");
    let first = &document.services()[0].bindings[0];
    assert_eq!(first.cid[..], [0xc4, 0x60, 0x01]);
    assert_eq!(first.backend.get(), 2);
    assert_eq!(first.origin, BindingOrigin::Learned);
    // Streaming it out gives the same bytes.
    let mut written = Vec::new();
    serde_json::to_writer(&mut written, &document).expect("written");
    assert_eq!(written, TEXT.as_bytes());
}

#[test]
fn order_space_and_case_make_no_difference() {
    let text = r#"
        {"services": [
            {"bindings": [
                {"last_seen_ns": 5, "origin": "learned", "backend": 1, "cid": "0000"},
                {"backend": 1, "cid": "00", "last_seen_ns": 18446744073709551615, "origin": "imported"}
             ], "port": 8443, "protocol": "udp", "vip": "2001:DB8:0::80", "name": "quic-six", "id": 9},
            {"id": 7, "name": "quic-api", "vip": "203.0.113.80", "protocol": "udp", "port": 443,
             "bindings": [{"cid": "FFffFFffFFffFFffFFffFFffFFffFFffFFffFFff", "backend": 4294967295,
                           "origin": "registered", "last_seen_ns": 0},
                          {"cid": "C46001", "backend": 2, "origin": "learned", "last_seen_ns": 1000}]}
         ],
         "instance": "1d9016f2-8957-42bc-9dd7-32d684d76446",
         "exported_at": "2026-07-31T08:00:00Z", "schema": "guideway.affinity\/v1"}
    "#;
    let document = read(text.as_bytes(), &ReadOptions::default()).expect("sound");
    assert_eq!(String::from_utf8(document.to_json()).expect("UTF-8"), TEXT);
}

#[test]
fn what_is_said_of_one_service_in_two_places_comes_together() {
    let mut parted = sound();
    let mut second = parted["services"][0].clone();
    let moved = parted["services"][0]["bindings"]
        .as_array_mut()
        .expect("a list")
        .remove(0);
    second["bindings"] = json!([moved]);
    parted["services"]
        .as_array_mut()
        .expect("a list")
        .push(second);
    assert_eq!(accepted(&parted), accepted(&sound()));
}

#[test]
fn no_bindings_are_a_valid_empty_document() {
    let text = concat!(
        r#"{"schema":"guideway.affinity/v1","exported_at":"2026-07-31T08:00:00Z","#,
        r#""instance":"x","services":[]}"#
    );
    let service = ServiceBindings {
        id: ServiceId::new(3),
        name: "a".into(),
        vip: "203.0.113.80".parse().expect("an address"),
        protocol: Protocol::Udp,
        port: 443,
        bindings: Vec::new(),
    };
    for services in [vec![], vec![service]] {
        let document = AffinityDocument::new("2026-07-31T08:00:00Z", "x", services);
        assert_eq!(document.to_json(), text.as_bytes());
        let read = read(text.as_bytes(), &ReadOptions::default()).expect("sound");
        assert_eq!(read, document);
    }
}

fn services() -> impl Strategy<Value = Vec<ServiceBindings>> {
    let origin = proptest::sample::select(BindingOrigin::ALL.to_vec());
    let binding = (
        proptest::collection::vec(any::<u8>(), 1..=20),
        1..=u32::MAX,
        origin,
        any::<u64>(),
    );
    let binding = binding.prop_map(|(cid, backend, origin, last_seen_ns)| CidBinding {
        cid: guideway::quic::Cid::new(&cid).expect("a length"),
        backend: BackendId::new(backend).expect("not 0"),
        origin,
        last_seen_ns,
    });
    let service = (
        1..=u32::MAX,
        "[a-z][a-z0-9.-]{0,20}",
        any::<std::net::IpAddr>(),
        proptest::sample::select(Protocol::ALL.to_vec()),
        1..=u16::MAX,
        proptest::collection::vec(binding, 1..10),
    );
    let service = service.prop_map(
        |(id, name, vip, protocol, port, bindings)| ServiceBindings {
            id: ServiceId::new(id),
            name,
            vip,
            protocol,
            port,
            bindings,
        },
    );
    proptest::collection::vec(service, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn writing_and_reading_is_the_identity(services in services(), seed in any::<u64>()) {
        let made = |services| AffinityDocument::new("2026-07-31T08:00:00+02:00", "a \"b\"", services);
        let document = made(services.clone());
        let text = document.to_json();
        prop_assert_eq!(read(&text, &ReadOptions::default()), Ok(document));
        // Another order of the same state gives the same bytes.
        let mut shuffled = services;
        shuffle(&mut shuffled, seed);
        for service in &mut shuffled {
            shuffle(&mut service.bindings, seed);
        }
        prop_assert_eq!(made(shuffled).to_json(), text);
    }
}

fn shuffle<T>(list: &mut [T], mut seed: u64) {
    for end in (1..list.len()).rev() {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        list.swap(end, (seed >> 33) as usize % (end + 1));
    }
}
