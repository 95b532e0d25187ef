// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use serde_json::{json, Value};

use crate::abi;
use crate::plan::{plan, Decryption, Device, Image, Live, Options, Plan, PlanResult, World};
use crate::service::{Faults, Spec};

/// A key by its last byte.
fn key(last: u32) -> String {
    format!("{last:032x}")
}

/// One service per list of keys, with one config per key.
fn spec(services: &[&[Option<u32>]]) -> Spec {
    let service = |(index, keys): (usize, &&[Option<u32>])| {
        let configs: Vec<_> = (0..)
            .zip(*keys)
            .map(|(id, last): (u8, _)| {
                json!({"config_id": id, "server_id_len": 3 + id, "nonce_len": 4,
                       "key": last.map(key)})
            })
            .collect();
        json!({"name": format!("service-{index:04}"), "vip": "203.0.113.80", "port": index + 1,
               "maglev_table_size": 251,
               "quic": {"routing": "server-id", "configs": configs},
               "backends": [{"id": 1, "interface": "lo", "mac": "02:00:00:00:00:01",
                             "server_id": "0000ab"}]})
    };
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
        "services": services.iter().enumerate().map(service).collect::<Vec<_>>(),
    });
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn attempt(
    live: Option<&Live>,
    spec: &Spec,
    decryption: Option<Decryption>,
) -> Result<Plan, Faults> {
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1);
    let mut world = World::new(vec![device("edge0", 2), device("lo", 1)], Vec::new(), 1);
    world.decryption = decryption;
    plan(live, spec, &world, Options::default())
}

fn planned(live: Option<&Live>, spec: &Spec) -> Plan {
    attempt(live, spec, Some(Decryption::Works)).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Last byte of the key, slot and incarnation of each context.
fn places(plan: &Plan) -> Vec<(u8, u32, u32)> {
    let contexts = plan.generation().contexts.iter();
    contexts
        .map(|context| {
            let last = context.key.secret_bytes()[15];
            (last, context.slot, context.incarnation)
        })
        .collect()
}

/// The configs of the kernel's form, by service and config.
fn configs(plan: &Plan) -> Vec<abi::QuicConfig> {
    let image = Image::build(plan.generation()).expect("an image");
    let mut found = Vec::new();
    for cell in image.bytes().chunks(Image::CELL_BYTES).skip(1) {
        let service: abi::Service =
            bytemuck::pod_read_unaligned(&cell[..size_of::<abi::Service>()]);
        let is_one = service.key.family == 4 && service.key.port != 0 && service.id != 0;
        if is_one && service.slots == 251 {
            found.push((u16::from_be(service.key.port), service.configs));
        }
    }
    found.sort_unstable_by_key(|(port, _)| *port);
    let configs = found.into_iter().flat_map(|(_, configs)| configs);
    configs.filter(|config| config.server_id_len > 0).collect()
}

#[test]
fn a_key_has_one_context_whoever_uses_it() {
    let spec = spec(&[&[Some(7), None, Some(8)], &[Some(8)], &[Some(7), Some(9)]]);
    let plan = planned(None, &spec);
    // The backend of each service has incarnation 1, 2 and 3.
    assert_eq!(places(&plan), [(7, 0, 4), (8, 1, 5), (9, 2, 6)]);
    assert_eq!(plan.record().highest_incarnation(), 6);
    let used = plan.document().capacity.crypto_contexts;
    assert_eq!((used.used, used.limit), (3, 1024));

    let named: Vec<_> = configs(&plan)
        .iter()
        .map(|config| (config.mode, config.crypto_slot, config.crypto_incarnation))
        .collect();
    let (plain, three, four) = (1, 3, 4);
    assert_eq!(
        named,
        [
            (three, 0, 4),
            (plain, 0, 0),
            (four, 1, 5),
            (three, 1, 5),
            (three, 0, 4),
            (three, 2, 6),
        ]
    );
    let document = serde_json::to_value(plan.document()).expect("JSON");
    let shown = |config: &Value| (config["passes"].as_u64(), config["kcv"].clone());
    let first = &document["services"][0]["configs"];
    // openssl enc -aes-128-ecb -nopad -K 00000000000000000000000000000007, of 16 zero bytes
    assert_eq!(shown(&first[0]), (Some(3), json!(KCV_7)));
    assert_eq!(shown(&first[1]), (Some(0), Value::Null));
    assert_eq!(
        document["spec"]["services"][0]["quic"]["configs"][0]["key"],
        json!({"kcv": KCV_7})
    );
    assert!(!document.to_string().contains(&key(7)));
}

const KCV_7: &str = "429c3c";

#[test]
fn contexts_stay_and_slots_of_the_live_generation_are_not_given_away() {
    let first = planned(None, &spec(&[&[Some(7), Some(8)]]));
    assert_eq!(places(&first), [(7, 0, 2), (8, 1, 3)]);

    // 7 leaves, 9 comes: the slot of 7 is still in use while that happens.
    let live = first.as_live(1);
    let second = planned(Some(&live), &spec(&[&[Some(9), Some(8)]]));
    assert_eq!(places(&second), [(9, 2, 4), (8, 1, 3)]);
    assert_eq!(second.document().capacity.crypto_contexts.used, 3);

    // With the next one it is free, under another incarnation.
    let live = second.as_live(2);
    let third = planned(Some(&live), &spec(&[&[Some(9), Some(8)], &[Some(7)]]));
    assert_eq!(places(&third), [(9, 2, 4), (8, 1, 3), (7, 0, 6)]);

    let live = third.as_live(3);
    let again = planned(Some(&live), &spec(&[&[Some(9), Some(8)], &[Some(7)]]));
    assert_eq!(again.document().result, PlanResult::Unchanged);
    assert_eq!(places(&again), places(&third));
}

#[test]
fn more_keys_than_contexts_are_refused_with_the_numbers() {
    let keys: Vec<Vec<_>> = (0..172_u32)
        .map(|service| (0..6).map(|config| Some(service * 6 + config)).collect())
        .collect();
    let services: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let faults = attempt(None, &spec(&services), None).expect_err("1032 keys");
    let fault = &faults.as_slice()[0];
    assert_eq!(fault.code.as_str(), "capacity");
    assert!(
        fault.message.contains("1032 needed, the limit is 1024"),
        "{faults}"
    );
    // Those of the live generation count as well.
    let first = planned(None, &spec(&services[..170]));
    assert_eq!(first.generation().contexts.len(), 1020);
    let live = first.as_live(1);
    let other = spec(&[&[Some(2000), Some(2001), Some(2002), Some(2003), Some(2004)]]);
    let faults = attempt(Some(&live), &other, None).expect_err("1025 keys");
    assert!(faults.to_string().contains("1025 needed"), "{faults}");
}

#[test]
fn keys_are_refused_where_nothing_can_decrypt() {
    let keyed = spec(&[&[None, Some(7)], &[Some(8)]]);
    let plain = spec(&[&[None]]);
    let old = Decryption::NotBuilt {
        compiler: "clang version 14.0.6".into(),
    };
    let missing = Decryption::Missing {
        release: "Linux 6.1.0".into(),
        what: "it has no bpf_crypto functions".into(),
    };
    for (decryption, texts) in [
        (
            old,
            [
                "clang 15",
                "clang version 14.0.6",
                "GUIDEWAY_CLANG=clang-16",
            ],
        ),
        (
            missing,
            [
                "Linux 6.11",
                "this is Linux 6.1.0: it has no bpf",
                "newer kernel",
            ],
        ),
    ] {
        let faults = attempt(None, &keyed, Some(decryption.clone())).expect_err("refused");
        let pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        let expected = [
            "/services/0/quic/configs/1/key",
            "/services/1/quic/configs/0/key",
        ];
        assert_eq!(pointers, expected);
        for fault in faults.iter() {
            assert_eq!(fault.code.as_str(), "kernel");
            let remedies = ["plaintext server IDs", "\"tuple\" routing"];
            for text in texts.iter().chain(&remedies) {
                assert!(fault.message.contains(text), "{text}: {fault}");
            }
        }
        assert!(!faults.to_string().contains(&key(7)[24..]));
        attempt(None, &plain, Some(decryption)).expect("no key");
    }
    // Nobody looked: it is found when contexts are made.
    attempt(None, &keyed, None).expect("a plan");
}

#[test]
fn a_record_with_other_contexts_is_refused_with_the_reason() {
    let plan = planned(None, &spec(&[&[Some(7), Some(8)]]));
    let read = |contexts: Value| {
        let mut record = serde_json::to_value(plan.record()).expect("JSON");
        record["contexts"] = contexts;
        let meta: abi::Meta = bytemuck::Zeroable::zeroed();
        Live::from_record(record.to_string().as_bytes(), &meta)
    };
    let context = |slot: u32, incarnation: u32| json!({"slot": slot, "incarnation": incarnation});
    read(json!([context(3, 1), context(1023, 9)])).expect("sound");
    for (contexts, reason) in [
        (json!([context(0, 1)]), "does not place the keys"),
        (
            json!([context(0, 1), context(0, 2)]),
            "a key has the context 0",
        ),
        (
            json!([context(0, 1), context(1024, 2)]),
            "a key has the context 1024",
        ),
        (
            json!([context(0, 0), context(1, 2)]),
            "context 0 has incarnation 0",
        ),
    ] {
        let error = read(contexts).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}
