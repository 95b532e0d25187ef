// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Encrypted server IDs of every length, in every place where they are read: the program decrypts
//! what the model does.

use guideway::oracle::Verdict;
use guideway::plan::{plan, Generation, Options};
use guideway::quic::lb::{CidGenerator, ServerId};
use guideway::reason::Rule;
use guideway::service::{CidConfig, Spec};
use serde_json::{json, Value};

use crate::build::*;
use crate::compare::alone;
use crate::kernel::Machine;
use crate::netns::{isolated, require_keys};
use crate::random::Random;
use crate::specs::hex;

/// Services have so many configs.
const CONFIGS: usize = 7;
const FIRST_PORT: u16 = 1000;

/// Every legal pair of lengths, server ID and nonce.
fn pairs() -> Vec<(usize, usize)> {
    let pairs = (1..=15).flat_map(|s| (4..=18).map(move |n| (s, n)));
    pairs.filter(|(s, n)| s + n <= 19).collect()
}

/// Services that have all of them together, over IPv4 and IPv6, with a few keys.
fn document(random: &mut Random) -> Value {
    let keys: Vec<_> = (0..5).map(|_| hex(&random.bytes(16))).collect();
    let pairs = pairs();
    let services = pairs
        .chunks(CONFIGS)
        .zip(FIRST_PORT..)
        .map(|(pairs, port)| {
            let configs = pairs
                .iter()
                .enumerate()
                .map(|(id, (server_id_len, nonce_len))| {
                    let room = 19 - server_id_len - nonce_len;
                    json!({"config_id": id, "server_id_len": server_id_len, "nonce_len": nonce_len,
                   "extra_len": random.below(room + 1), "key": random.pick(&keys),
                   "encodes_length": random.percent(50)})
                });
            let configs: Vec<_> = configs.collect();
            let mut lengths: Vec<_> = pairs.iter().map(|(len, _)| *len).collect();
            lengths.dedup();
            let backend = |id: u8, interface: &str| {
                let server_ids: Vec<_> = lengths
                    .iter()
                    .map(|len| hex(&server_id(id, *len)))
                    .collect();
                json!({"id": id, "interface": interface, "mac": format!("02:00:00:00:00:{id:02x}"),
                   "server_id": server_ids})
            };
            let vip = if port % 2 == 0 {
                json!(VIP4)
            } else {
                json!(VIP6)
            };
            json!({"name": format!("s{port}"), "vip": vip, "port": port, "maglev_table_size": 251,
               "quic": {"routing": "server-id", "configs": configs},
               "backends": [backend(1, "gw-one"), backend(2, "gw-two"), backend(3, "gw-edge")]})
        });
    json!({"instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "gw-edge",
           "services": services.collect::<Vec<_>>()})
}

/// All bytes differ, so that none can be taken for another.
fn server_id(backend: u8, len: usize) -> Vec<u8> {
    (0..len as u8).map(|at| backend * 16 + at).collect()
}

fn generation(machine: &Machine, random: &mut Random) -> Generation {
    let document = document(random);
    let spec = Spec::from_json(document.to_string().as_bytes())
        .unwrap_or_else(|faults| panic!("{faults}"));
    let plan = plan(None, &spec, machine.world(), Options::default())
        .unwrap_or_else(|faults| panic!("{faults}"));
    plan.generation().clone()
}

/// A connection ID that the backend issues.
fn cid(random: &mut Random, config: &CidConfig, backend: u8) -> Vec<u8> {
    let server_id = server_id(backend, usize::from(config.server_id_len));
    let server_id = ServerId::new(&server_id).unwrap();
    let source = |bytes: &mut [u8]| bytes.fill_with(|| random.byte());
    let mut generator = CidGenerator::new(*config.decoder(), server_id, source).unwrap();
    generator.generate().unwrap().to_vec()
}

fn long(dcid: &[u8], scid: &[u8]) -> Vec<u8> {
    // A Handshake packet, which is no start.
    let mut payload = vec![0xe0, 0, 0, 0, 1];
    for cid in [dcid, scid] {
        payload.push(cid.len() as u8);
        payload.extend(cid);
    }
    payload
}

fn short(dcid: &[u8], rest: usize) -> Vec<u8> {
    let mut payload = vec![0x40];
    payload.extend(dcid);
    payload.extend(vec![0x99; rest]);
    payload
}

/// The frames in which a connection ID is read: as short as they can be and longer, with tags and
/// options before it, and quoted by an ICMP error.
fn frames(port: u16, cid: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let to = |payload: &[u8]| udp(50000, port, payload);
    let quoted = udp(port, 50000, &long(&[5; 11], cid));
    if port % 2 == 0 {
        let tagged = |payload: &[u8]| {
            let tags = [(0x88a8, 7), (0x8100, 8)];
            ethernet(&tags, 0x0800, &ipv4_options(UDP, 0, &to(payload)))
        };
        vec![
            ("short", ipv4(UDP, &to(&short(cid, 30)))),
            ("short, nothing behind", ipv4(UDP, &to(&short(cid, 0)))),
            ("short, tagged", tagged(&short(cid, 3))),
            ("long", ipv4(UDP, &to(&long(cid, &[7; 8])))),
            ("long, nothing behind", ipv4(UDP, &to(&long(cid, &[])))),
            (
                "long, options",
                ethernet(&[], 0x0800, &ipv4_options(UDP, 40, &to(&long(cid, &[])))),
            ),
            ("quoted", error4(&quoted4(UDP, &quoted))),
        ]
    } else {
        vec![
            ("short", ipv6(&[], UDP, &to(&short(cid, 30)))),
            ("short, nothing behind", ipv6(&[], UDP, &to(&short(cid, 0)))),
            ("long", ipv6(&[], UDP, &to(&long(cid, &[7; 8])))),
            (
                "long, extension",
                ipv6(&[options(60, 24)], UDP, &to(&long(cid, &[]))),
            ),
            ("quoted", error6(&quoted6(&[], UDP, &quoted))),
        ]
    }
}

fn agreed(machine: &mut Machine, generation: &Generation, what: &str, frame: &[u8]) -> Verdict {
    alone(machine, generation, frame, frame.len())
        .unwrap_or_else(|difference| panic!("{what}: {difference}"))
}

#[test]
fn encrypted_server_ids_of_every_length() {
    isolated("differential::keys", || {
        if !require_keys("differential::keys") {
            return;
        }
        let mut machine = Machine::new();
        let mut random = Random::new(0x6b65_7973);
        let mut passes = [0; 5];
        let generation = generation(&machine, &mut random);
        machine.publish(&generation);
        let spec = generation.spec.clone();
        let configs = spec.services().iter().flat_map(|service| {
            let configs = service.quic.configs.iter();
            configs.map(|config| (service.port, config))
        });
        for (port, config) in configs {
            passes[usize::from(config.decoder().decoder_passes())] += 1;
            for backend in 1..=3 {
                let cid = cid(&mut random, config, backend);
                for (what, frame) in frames(port, &cid) {
                    let what = format!("{what}, {config:?}");
                    let verdict = agreed(&mut machine, &generation, &what, &frame);
                    assert_eq!(verdict.rule, Some(Rule::ServerId), "{what}");
                    let id = verdict.backend.map(|(id, _)| id.get());
                    assert_eq!(id, Some(u32::from(backend)), "{what}");
                }
            }
            // One bit of what is encrypted changes all of it.
            let mut other = cid(&mut random, config, 1);
            let block = usize::from(config.server_id_len + config.nonce_len);
            other[1 + random.below(block)] ^= 1 << random.below(8);
            for (what, frame) in frames(port, &other) {
                agreed(&mut machine, &generation, what, &frame);
            }
            // Cut off behind the headers, most often within the connection ID.
            let (what, frame) = &frames(port, &other)[1];
            for _ in 0..4 {
                let len = random.between(frame.len() - 1 - other.len(), frame.len());
                agreed(&mut machine, &generation, what, &frame[..len]);
            }
        }
        assert_eq!(
            passes.map(|count| count > 0),
            [false, true, false, true, true]
        );
        machine.assert_sums_of_counters();
    });
}
