// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Planning: the same inputs give the same plan, and the plan says what will happen.

use guideway::plan::{plan, Device, Image, Options, PlanFile, PlanResult, World};
use guideway::service::Spec;

const EXAMPLE: &str = r#"{ "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0", "mode": "native",
  "services": [{ "name": "quic-api", "vip": "203.0.113.80", "port": 443, "short_dcid_len": 8, "quic_only": true, "maglev_table_size": 4093,
    "backends": [
      {"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "weight": 1, "state": "ready"},
      {"id": 2, "interface": "vm-edge-b", "mac": "02:00:00:00:01:02", "weight": 1, "state": "ready"} ] }] }"#;

fn spec(json: &str) -> Spec {
    Spec::from_json(json.as_bytes()).expect("valid")
}

fn world() -> World {
    let device = |name: &str, index: u32| {
        let mac = format!("02:00:00:00:00:{index:02x}");
        Device::new(
            name.parse().unwrap(),
            index,
            Some(mac.parse().unwrap()),
            1500,
        )
    };
    World::new(
        vec![
            device("edge0", 3),
            device("vm-edge-a", 4),
            device("vm-edge-b", 5),
        ],
        Vec::new(),
        1_000_000_000,
    )
}

#[test]
fn the_example_gets_the_published_table() {
    let plan = plan(None, &spec(EXAMPLE), &world(), Options::default()).expect("plan");
    let document = plan.document();
    assert_eq!(document.result, PlanResult::Create);
    let service = &document.services[0];
    assert_eq!(service.service_id, 0x8cd5_d28f);
    assert_eq!(service.table.digest, "c2c1866ce84c1d4d");
    let slots: Vec<_> = service
        .backends
        .iter()
        .map(|backend| backend.slots)
        .collect();
    assert_eq!(slots, [2047, 2046]);
    assert_eq!(
        service
            .backends
            .iter()
            .map(|backend| backend.ifindex)
            .collect::<Vec<_>>(),
        [Some(4), Some(5)]
    );
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let spec = spec(EXAMPLE);
    let make = || plan(None, &spec, &world(), Options::default()).expect("plan");
    let (one, two) = (make(), make());
    assert_eq!(one.to_file(), two.to_file());
    let image = |plan: &guideway::plan::Plan| Image::build(plan.generation()).expect("image");
    assert_eq!(image(&one).bytes(), image(&two).bytes());
}

#[test]
fn missing_interfaces_are_all_named() {
    let world = World::new(Vec::new(), Vec::new(), 0);
    let faults = plan(None, &spec(EXAMPLE), &world, Options::default()).expect_err("faults");
    let pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/interface",
            "/services/0/backends/0/interface",
            "/services/0/backends/1/interface"
        ]
    );
    assert!(faults
        .iter()
        .all(|fault| fault.code.as_str() == "no-interface"));
}

#[test]
fn offline_asks_nothing_of_the_machine() {
    let plan = plan(None, &spec(EXAMPLE), &World::offline(), Options::default()).expect("plan");
    assert!(plan.is_offline());
    assert!(plan.document().preflight.is_empty());
    let file = PlanFile::from_json(&plan.to_file()).expect("reads");
    assert!(file.offline);
    assert_eq!(file.spec, spec(EXAMPLE));
}

#[test]
fn a_keyed_config_is_refused_and_never_read_as_plaintext() {
    let keyed = EXAMPLE.replace(
        r#""maglev_table_size": 4093,"#,
        r#""maglev_table_size": 4093, "quic": {"routing": "server-id", "configs":
           [{"config_id": 0, "server_id_len": 3, "nonce_len": 4, "key": "8f95f09245765f80256934e50c66207f"}]},"#,
    );
    let faults = plan(None, &spec(&keyed), &world(), Options::default()).expect_err("refused");
    let fault = &faults.as_slice()[0];
    assert_eq!(fault.pointer, "/services/0/quic/configs/0/key");
    assert_eq!(fault.code.as_str(), "kernel");
    assert!(!faults.to_string().contains("8f95f0"));
}
