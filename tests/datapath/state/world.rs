// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Services of every kind, all with the same backends, and the words of their slots.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use guideway::abi;
use guideway::affinity::{cid_tag, Binding, CidKey, Origin, Phase};
use guideway::hash::{hash32, tag16, FlowHashKey, FlowKey};
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::plan::{Generation, PlacedService};
use guideway::quic::Cid;
use guideway::reason::{Reason, Rule};
use guideway::service::{HashOf, Service};
use serde_json::{json, Value};

use crate::build::*;
use crate::machine::{Machine, EDGE, ONE};

pub(super) const SECOND: u64 = 1_000_000_000;
/// The port that all packets of the client come from.
pub(super) const CLIENT_PORT: u16 = 50000;

/// Services whose fragments are routed need an address of their own.
pub(super) const ROUTED_VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 81);
pub(super) const TRACKED_VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 82);

/// The rows of every service: two ready backends, a draining one, an unhealthy one, none.
pub(super) const READY: u16 = 0;
pub(super) const OTHER: u16 = 1;
pub(super) const DRAINING: u16 = 2;
pub(super) const UNHEALTHY: u16 = 3;
pub(super) const EMPTY: u16 = 4;
/// The service has no such row.
pub(super) const BEYOND: u16 = 5;

pub(super) const NONE: u16 = abi::SlotWord::GW_SLOT_NONE.0 as u16;
pub(super) const PLAIN: u16 = abi::SlotWord::GW_SLOT_PLAIN.0 as u16;
pub(super) const HELD: u16 = abi::SlotWord::GW_SLOT_HELD.0 as u16;

/// How many there are; their counters are the first.
pub(super) const SERVICES: u32 = 11;

/// The secret behind the tags of connection IDs.
pub(super) const CID_SEED: u64 = 0x0123_4567_89ab_cdef;
/// Services in which connection IDs may be bound, beside the one that learns them.
const BOUND: [&str; 2] = ["bound", "ids"];

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) generation: Generation,
}

fn services() -> Value {
    let service = |index: usize, name: &str, vip: Ipv4Addr, protocol: &str, port: u16| {
        let backend = |id: u32, state: &str| {
            json!({
                "id": id, "interface": ONE, "state": state,
                "mac": format!("02:00:00:00:{index:02x}:{id:02x}"),
            })
        };
        json!({
            "name": name, "vip": vip.to_string(), "protocol": protocol, "port": port,
            "maglev_table_size": 251,
            "backends": [
                backend(1, "ready"), backend(2, "ready"), backend(3, "draining"),
                backend(4, "unhealthy"),
            ],
        })
    };
    let with = |mut service: Value, members: Value| {
        for (name, value) in members.as_object().unwrap() {
            service[name] = value.clone();
        }
        service
    };
    let by_source = json!({
        "quic_only": false, "hash": "source", "fragments": "route", "tracking": "exceptions",
    });
    let mut all_by_source = by_source.clone();
    all_by_source["tracking"] = json!("all");
    json!([
        service(0, "tcp", VIP4, "tcp", 8080),
        service(1, "quic", VIP4, "udp", 443),
        with(
            service(2, "udp", VIP4, "udp", 53),
            json!({"quic_only": false})
        ),
        with(
            service(3, "sparse", VIP4, "udp", 54),
            json!({"quic_only": false, "tracking": "exceptions"}),
        ),
        with(service(4, "routed", ROUTED_VIP, "udp", 443), by_source),
        with(
            service(5, "tracked", TRACKED_VIP, "udp", 443),
            all_by_source
        ),
        with(
            service(6, "tracked-tcp", VIP4, "tcp", 8081),
            json!({"tracking": "all"})
        ),
        with(
            service(7, "tracked-quic", VIP4, "udp", 444),
            json!({"tracking": "all"})
        ),
        with(
            service(8, "learned", VIP4, "udp", 445),
            json!({"short_dcid_len": 8})
        ),
        with(
            service(9, "bound", VIP4, "udp", 446),
            json!({"short_dcid_len": 8, "quic": {"routing": "tuple"}}),
        ),
        with(
            with_server_ids(service(10, "ids", VIP4, "udp", 447)),
            json!({"short_dcid_len": 8, "quic": {
                "routing": "server-id", "unhealthy": "fallback",
                "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}],
            }}),
        ),
    ])
}

/// The server ID of each backend: a zero byte and its id.
fn with_server_ids(mut service: Value) -> Value {
    for backend in service["backends"].as_array_mut().unwrap() {
        backend["server_id"] = json!(format!("00{:02x}", backend["id"].as_u64().unwrap()));
    }
    service
}

impl World {
    pub(super) fn new() -> Self {
        Self::on(Machine::new())
    }

    pub(super) fn on(machine: Machine) -> Self {
        let mut generation = machine.plan(&json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
            "interface": EDGE,
            "hash_seed": "000102030405060708090a0b0c0d0e0f",
            "services": services(),
        }));
        for placed in &mut generation.services {
            let rows: Vec<_> = placed
                .rows
                .iter()
                .flatten()
                .map(|row| row.id.get())
                .collect();
            assert_eq!(rows, [1, 2, 3, 4], "the rows that the tests name");
            placed.rows.push(None);
        }
        let spec = generation.spec.clone();
        for (service, placed) in spec.services().iter().zip(&mut generation.services) {
            placed.exact |= BOUND.contains(&service.name.as_str());
        }
        machine.set_cid_seed(CID_SEED);
        Self {
            machine,
            generation,
        }
    }

    /// The key of a connection ID of a service.
    pub(super) fn cid_key(&self, service: &str, cid: &[u8]) -> CidKey {
        CidKey::new(self.service(service).0.id, Cid::new(cid).unwrap())
    }

    /// An entry of a connection ID, bound to the backend in a row and last used ten seconds ago; a
    /// registered one has no end.
    pub(super) fn cid_entry(&self, service: &str, cid: &[u8], row: u16, origin: Origin) -> Binding {
        Binding {
            tag: cid_tag(&self.cid_key(service, cid).to_abi(), CID_SEED),
            row,
            incarnation: self.incarnation(service, row),
            seen_ns: match origin {
                Origin::Registered => 0,
                Origin::Traffic | Origin::Imported => monotonic_coarse_ns() - 10 * SECOND,
            },
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin,
            learned: 0,
            hash: 0x5eed,
        }
    }

    pub(super) fn put_cid(&self, service: &str, cid: &[u8], entry: Binding) {
        let key = self.cid_key(service, cid).to_abi();
        self.machine.put_cid(&key, &entry.to_abi());
    }

    /// The entry of a connection ID.
    pub(super) fn cid(&self, service: &str, cid: &[u8]) -> Option<Binding> {
        let key = self.cid_key(service, cid).to_abi();
        let entry = self.machine.cids.get(&key).unwrap();
        entry.as_ref().map(Binding::from_abi)
    }

    pub(super) fn put_flow(&self, service: &str, entry: Binding) {
        self.machine.put_flow(&self.key(service), &entry.to_abi());
    }

    /// A live entry of the client's flow, last used ten seconds ago.
    pub(super) fn flow_entry(&self, service: &str, row: u16) -> Binding {
        Binding::from_abi(&self.entry(service, row))
    }

    /// The entry of the client's flow.
    pub(super) fn flow(&self, service: &str) -> Option<Binding> {
        self.flow_of(service, CLIENT_PORT)
    }

    pub(super) fn flow_of(&self, service: &str, client_port: u16) -> Option<Binding> {
        let key = self.key_of(service, client_port);
        let entry = self.machine.flows.get(&key).unwrap();
        entry.as_ref().map(Binding::from_abi)
    }

    /// Runs a frame to a service and tells what became of it.
    pub(super) fn run(&self, service: &str, frame: &[u8]) -> Came {
        let (stats, placed) = (self.stats(service), self.service(service).1);
        let before = (self.machine.service(stats), self.machine.reasons());
        let ran = self.machine.run(frame);
        let after = (self.machine.service(stats), self.machine.reasons());
        let moved = |before: &[u64], after: &[u64]| -> Vec<usize> {
            let differences = before
                .iter()
                .zip(after)
                .map(|(before, after)| after - before);
            let moved = differences.enumerate();
            moved
                .flat_map(|(index, by)| std::iter::repeat_n(index, by as usize))
                .collect()
        };
        let [reason] = moved(&before.1, &after.1)[..] else {
            panic!("one reason");
        };
        let rule = moved(&before.0 .1, &after.0 .1).first().copied();
        let mut rows = placed.rows.iter().flatten();
        let row = rows.find(|row| row.mac.octets()[..] == ran.frame[..6]);
        Came {
            end: rule.map(|rule| {
                let rule = Rule::ALL.iter().find(|of| usize::from(of.number()) == rule);
                (row.unwrap().row, *rule.unwrap())
            }),
            reason: *Reason::ALL
                .iter()
                .find(|of| usize::from(of.number()) == reason)
                .unwrap(),
            counters: moved(&before.0 .2, &after.0 .2)
                .into_iter()
                .map(|index| abi::Counter(index as u32))
                .collect(),
        }
    }

    /// Every slot of every service gets this word.
    pub(super) fn publish(&mut self, owner: u16, base: u16) {
        for placed in &mut self.generation.services {
            placed.slots = Arc::from(vec![abi::Slot { owner, base }; placed.slots.len()]);
        }
        self.machine.publish(&self.generation);
    }

    pub(super) fn service(&self, name: &str) -> (&Service, &PlacedService) {
        let mut services = self.generation.services();
        services
            .find(|(service, _)| service.name.as_str() == name)
            .unwrap()
    }

    /// Index of a service's counters.
    pub(super) fn stats(&self, name: &str) -> u32 {
        self.service(name).1.stats
    }

    /// The key of the client's flow to a service.
    pub(super) fn key(&self, service: &str) -> abi::FlowKey {
        self.key_of(service, CLIENT_PORT)
    }

    /// The key of the flow from another port of the client.
    pub(super) fn key_of(&self, service: &str, client_port: u16) -> abi::FlowKey {
        let service = self.service(service).0;
        let mut address = [0; 16];
        address[..4].copy_from_slice(&CLIENT4.octets());
        abi::FlowKey {
            service: service.id.get(),
            client_port: client_port.to_be(),
            vip_port: service.port.to_be(),
            address,
        }
    }

    /// Tag and placement hash of the flow with this key.
    pub(super) fn marks(&self, service: &str, key: &abi::FlowKey) -> (u16, u32) {
        let service = self.service(service).0;
        let port = |port: u16| u16::from_be(port);
        let flow = FlowKey::new(
            service.id,
            port(key.client_port),
            port(key.vip_port),
            IpAddr::V4(CLIENT4),
        );
        let hash = FlowHashKey::new(self.generation.spec.hash_seed());
        let place = hash.h64(&flow, service.hash == HashOf::Source);
        (tag16(hash.h64(&flow, false)), hash32(place))
    }

    /// The incarnation of the backend in a row; of a row without one, that of its last tenant.
    pub(super) fn incarnation(&self, service: &str, row: u16) -> u32 {
        let placed = self.service(service).1;
        placed
            .backend(row)
            .map_or(999, |backend| backend.incarnation)
    }

    /// A live entry of the client's flow, last used ten seconds ago.
    pub(super) fn entry(&self, service: &str, row: u16) -> abi::Binding {
        self.entry_of(service, CLIENT_PORT, row)
    }

    pub(super) fn entry_of(&self, service: &str, client_port: u16, row: u16) -> abi::Binding {
        let (tag, hash) = self.marks(service, &self.key_of(service, client_port));
        abi::Binding {
            tag,
            row,
            incarnation: self.incarnation(service, row),
            seen_ns: monotonic_coarse_ns() - 10 * SECOND,
            state: 0,
            hash,
        }
    }
}

/// What became of a frame.
#[derive(Debug, PartialEq)]
pub(super) struct Came {
    /// The row of the backend that it went to, and why there.
    pub(super) end: Option<(u16, Rule)>,
    pub(super) reason: Reason,
    /// What was counted, in ascending order.
    pub(super) counters: Vec<abi::Counter>,
}

impl Came {
    /// Asserts that the frame was forwarded, and all that was counted.
    pub(super) fn went_to(&self, row: u16, rule: Rule, counters: &[abi::Counter]) {
        let mut counters = counters.to_vec();
        counters.sort_by_key(|counter| counter.0);
        assert_eq!(
            (self.end, &self.counters),
            (Some((row, rule)), &counters),
            "{self:?}"
        );
    }

    /// Asserts why the frame was not forwarded, and all that was counted.
    pub(super) fn left(&self, reason: Reason, counters: &[abi::Counter]) {
        let mut counters = counters.to_vec();
        counters.sort_by_key(|counter| counter.0);
        let end = (self.end, self.reason, &self.counters);
        assert_eq!(end, (None, reason, &counters), "{self:?}");
    }
}

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;
pub(super) const FIN: u8 = 0x01;
pub(super) const RST: u8 = 0x04;

pub(super) fn segment(port: u16, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = tcp(CLIENT_PORT, port, flags);
    segment.extend(data);
    ipv4(TCP, &segment)
}

pub(super) fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(CLIENT_PORT, port, payload))
}

pub(super) const V1: u32 = 1;
pub(super) const V2: u32 = 0x6b33_43cf;

/// A long header whose packet type is in the two bits that this version has there.
pub(super) fn long(kind: u8, version: u32, dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0xc0 | kind << 4];
    payload.extend(version.to_be_bytes());
    payload.push(dcid.len() as u8);
    payload.extend(dcid);
    payload.extend([0; 24]);
    payload
}

pub(super) fn short(dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x41];
    payload.extend(dcid);
    payload.extend([0x99; 24]);
    payload
}

/// To a service whose fragments are routed.
pub(super) fn to_vip(vip: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let datagram = udp(CLIENT_PORT, 443, payload);
    ethernet(&[], 0x0800, &ipv4_between(CLIENT4, vip, UDP, 0, &datagram))
}

pub(super) fn as_fragment(frame: Vec<u8>) -> Vec<u8> {
    with(frame, &[(20, 0x20), (21, 0)])
}

/// An ICMP error about what the service sent to the client.
pub(super) fn error_about(protocol: u8, port: u16) -> Vec<u8> {
    let quoted = match protocol {
        TCP => tcp(port, CLIENT_PORT, ACK),
        _ => udp(port, CLIENT_PORT, &[0x41; 16]),
    };
    error4(&quoted4(protocol, &quoted))
}
