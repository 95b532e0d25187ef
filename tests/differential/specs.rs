// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random specifications that are valid, and the generations they give.

use std::collections::{BTreeMap, BTreeSet};

use guideway::plan::{Generation, PlacedServerId};
use guideway::service::Routing;
use serde_json::{json, Value};

use crate::random::Random;

/// Few addresses and ports, so that services share them and packets miss them narrowly.
pub(crate) const VIPS: [&str; 4] = [
    "203.0.113.80",
    "203.0.113.81",
    "2001:db8::80",
    "2001:db8::81",
];
pub(crate) const PORTS: [u16; 3] = [443, 444, 8443];

pub(crate) const INGRESS: &str = "gw-edge";
/// The last of these is no redirect target.
pub(crate) const TARGETS: [&str; 4] = ["gw-one", "gw-two", "gw-three", "gw-gone"];

const TABLE_SIZES: [usize; 5] = [251, 257, 509, 1021, 4093];

/// With keys where they can be used.
pub(crate) fn document(random: &mut Random, keyed: bool) -> Value {
    let mut keys = BTreeSet::new();
    for _ in 0..random.between(1, 6) {
        let protocol = if random.percent(80) { "udp" } else { "tcp" };
        keys.insert((*random.pick(&VIPS), protocol, *random.pick(&PORTS)));
    }
    let mut sharing = BTreeMap::new();
    for (vip, protocol, _) in &keys {
        *sharing.entry((*vip, *protocol)).or_insert(0) += 1;
    }
    let policies: BTreeMap<_, _> = sharing
        .into_iter()
        .map(|(key, services)| {
            let choices: &[_] = match services {
                1 => &["drop", "pass", "route", "route"],
                _ => &["drop", "pass"],
            };
            (key, *random.pick(choices))
        })
        .collect();
    let services: Vec<_> = keys
        .iter()
        .map(|&(vip, protocol, port)| {
            let fragments = policies[&(vip, protocol)];
            let mut service = service(random, keyed, protocol, fragments);
            service["name"] = json!(format!("{protocol}-{port}-{}", vip.replace(':', "-")));
            service["vip"] = json!(vip);
            service["port"] = json!(port);
            service
        })
        .collect();
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": INGRESS,
        "hash_seed": hex(&random.bytes(16)),
        "source_mac": random.pick(&["keep", "interface"]),
        "events_per_second": random.pick(&[0, 1000]),
        "services": services,
    })
}

fn service(random: &mut Random, keyed: bool, protocol: &str, fragments: &str) -> Value {
    let routes_fragments = fragments == "route";
    let hash = match random.percent(30) || routes_fragments {
        true => "source",
        false => "flow",
    };
    let mut service = json!({
        "protocol": protocol,
        "hash": hash,
        "fragments": fragments,
        "maglev_table_size": random.pick(&TABLE_SIZES),
        "backends": backends(random),
    });
    service["tracking"] = json!(random.pick(&["all", "exceptions", "exceptions"]));
    if protocol == "tcp" {
        return service;
    }
    service["quic_only"] = json!(random.percent(50));
    let routing = match random.below(10) {
        _ if routes_fragments => "tuple",
        0 => "tuple",
        1..=3 => "learned",
        _ => "server-id",
    };
    service["quic"] = json!({"routing": routing});
    service["short_dcid_len"] = json!(match routing {
        "tuple" => random.between(0, 20),
        "learned" => random.between(4, 20),
        _ => 0,
    });
    match routing {
        "learned" => service["tracking"] = json!("all"),
        "server-id" => server_ids(random, keyed, &mut service),
        _ => {}
    }
    service
}

fn backends(random: &mut Random) -> Vec<Value> {
    let count = match random.below(10) {
        0 => 0,
        1 => random.between(7, 40),
        _ => random.between(1, 6),
    };
    let first = random.between(1, 1 << 30);
    (0..count)
        .map(|i| {
            let interface = match random.below(8) {
                0 => INGRESS,
                1 => TARGETS[3],
                _ => *random.pick(&TARGETS[..3]),
            };
            let mut mac = random.bytes(6);
            mac[0] = mac[0] & !1 | 2;
            let mac: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({
                "id": first + i * 7,
                "interface": interface,
                "mac": mac.join(":"),
                "weight": random.pick(&[0, 1, 1, 1, 3, 100]),
                "state": random.pick(&["ready", "ready", "ready", "draining", "unhealthy"]),
            })
        })
        .collect()
}

fn server_ids(random: &mut Random, keyed: bool, service: &mut Value) {
    let agreed = random.percent(50).then(|| random.between(6, 20));
    let ids: BTreeSet<_> = (0..random.between(1, 4)).map(|_| random.below(7)).collect();
    let configs: Vec<_> = ids
        .into_iter()
        .map(|id| config(random, keyed, id, agreed))
        .collect();
    let lengths: Vec<_> = configs
        .iter()
        .map(|c| c["server_id_len"].as_u64().unwrap())
        .collect();
    let mut used = BTreeSet::new();
    for backend in service["backends"].as_array_mut().into_iter().flatten() {
        let own: Vec<_> = (0..random.between(1, 3))
            .map(|_| random_server_id(random, &lengths))
            .filter(|id| used.insert(id.clone()))
            .collect();
        if !own.is_empty() {
            backend["server_id"] = json!(own);
        }
    }
    service["short_dcid_len"] = json!(agreed.unwrap_or(0));
    service["quic"]["configs"] = json!(configs);
    service["quic"]["unknown_server_id"] = json!(random.pick(&["drop", "fallback"]));
    service["quic"]["unhealthy"] = json!(random.pick(&["drop", "fallback"]));
}

/// A config whose connection IDs have the agreed length, if one is agreed.
fn config(random: &mut Random, keyed: bool, id: usize, agreed: Option<usize>) -> Value {
    let cid_len = agreed.unwrap_or_else(|| random.between(6, 20));
    let server_id_len = random.between(1, 15.min(cid_len - 5));
    let nonce_len = random.between(4, cid_len - 1 - server_id_len);
    let nonce_len = nonce_len.min(18);
    let key = (keyed && random.percent(40)).then(|| hex(&random.bytes(16)));
    json!({
        "config_id": id,
        "key": key,
        "server_id_len": server_id_len,
        "nonce_len": nonce_len,
        "extra_len": cid_len - 1 - server_id_len - nonce_len,
        "encodes_length": random.percent(40),
    })
}

/// Bytes that are alike, so that server IDs are prefixes of each other and differ in one bit.
fn random_server_id(random: &mut Random, lengths: &[u64]) -> String {
    let len = *random.pick(lengths) as usize;
    let bytes: Vec<_> = (0..len)
        .map(|_| *random.pick(&[0, 0, 1, 0x80, 0xff]))
        .collect();
    hex(&bytes)
}

/// Adds server IDs of backends that are gone.
pub(crate) fn quarantine(random: &mut Random, generation: &mut Generation) {
    let spec = generation.spec.clone();
    for (service, placed) in spec.services().iter().zip(&mut generation.services) {
        if service.quic.routing != Routing::ServerId {
            continue;
        }
        for config in &service.quic.configs {
            let lengths = [u64::from(config.server_id_len)];
            for _ in 0..random.below(3) {
                let gone = PlacedServerId {
                    config_id: config.config_id,
                    server_id: random_server_id(random, &lengths).parse().unwrap(),
                    row: None,
                };
                let is_new = placed.server_ids.iter().all(|known| {
                    (known.config_id, known.server_id) != (gone.config_id, gone.server_id)
                });
                if is_new {
                    placed.server_ids.push(gone);
                }
            }
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
