// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance on interfaces of a namespace of its own, and its packets.

use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::time::Duration;

use guideway::abi;
use guideway::hash::{hash32, tag16, FlowHashKey, FlowKey};
use guideway::kernel::clock::monotonic_ns;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::program::Program;
use guideway::kernel::run::Run;
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::{Array, Hash};
use guideway::quiclb::collector::Stepped;
use guideway::quiclb::{
    Collector, CollectorOptions, Loader, Options, QuicLb, Spec, StateDir, StateRoot, Writer,
};
use serde_json::{json, Value};

use crate::netns;

pub(crate) const EDGE: &str = "edge0";
pub(crate) const TARGET: &str = "be0";
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A service document with backends of these weights; their ids begin at 1.
pub(crate) fn service(name: &str, protocol: &str, port: u16, weights: &[u16]) -> Value {
    let backends: Vec<_> = (1..)
        .zip(weights)
        .map(|(id, weight)| {
            json!({"id": id, "interface": TARGET, "weight": weight,
                   "mac": format!("02:00:00:00:00:{id:02x}")})
        })
        .collect();
    json!({"name": name, "vip": VIP.to_string(), "port": port, "protocol": protocol,
           "quic_only": false, "maglev_table_size": 251, "flow_idle": "60s", "backends": backends})
}

pub(crate) fn spec(services: &[Value]) -> Spec {
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": EDGE,
        "limits": {"flows": 4096, "cids": 1024}, "services": services,
    });
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn dir() -> StateDir {
    let instance = "1d9016f2-8957-42bc-9dd7-32d684d76446"
        .parse()
        .expect("a UUID");
    StateRoot::new(netns::BPFFS).quiclb(instance)
}

/// The interfaces that the documents above name.
pub(crate) fn interfaces() {
    netns::veth(EDGE, "edge1");
    netns::veth(TARGET, "be1");
}

/// Publishes a specification; nothing is attached.
pub(crate) fn publish(spec: &Spec) -> u64 {
    let mut writer = Loader::new(&dir(), spec.limits())
        .load()
        .expect("an instance");
    publish_with(&mut writer, spec)
}

pub(crate) fn publish_with(writer: &mut Writer, spec: &Spec) -> u64 {
    let plan = writer.plan(spec, Options::default());
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    writer.publish(&plan).expect("published").generation
}

fn map(name: &str) -> Map {
    Map::open_any(&dir().pin(Section::Maps, name)).expect("a pinned map")
}

pub(crate) fn flows() -> Hash<abi::FlowKey, abi::Binding> {
    Hash::new(map("gw_ql_flow")).expect("the table of flows")
}

/// Entries of the table of flows.
pub(crate) fn used() -> usize {
    let mut used = 0;
    flows()
        .for_each(|_, _| {
            used += 1;
            ControlFlow::Continue(())
        })
        .expect("readable");
    used
}

pub(crate) fn cids() -> Hash<abi::CidKey, abi::Binding> {
    Hash::new(map("gw_ql_cid")).expect("the table of connection IDs")
}

pub(crate) fn levels() -> Array<abi::Admission> {
    Array::new(map("gw_ql_level")).expect("levels")
}

pub(crate) fn collection() -> abi::Collection {
    let map = Array::<abi::Collection>::new(map("gw_ql_collect2")).expect("the collection");
    map.get(0).expect("readable")
}

pub(crate) fn set_collection(collection: &abi::Collection) {
    let map = Array::<abi::Collection>::new(map("gw_ql_collect2")).expect("the collection");
    map.set(0, collection).expect("written");
}

/// A counter of the first service.
pub(crate) fn counter(name: &str) -> u64 {
    let stats = QuicLb::open(&dir()).expect("open").stats();
    stats.expect("counters").services[0].counters[name]
}

/// Rows and incarnations of a service's backends, in their order.
pub(crate) fn placed(spec: &Spec, service: usize) -> Vec<(u16, u32)> {
    let writer = Writer::open(&dir()).expect("an instance");
    let plan = writer.plan(spec, Options::default()).expect("a plan");
    let document = &plan.document().services[service];
    let backends = document.backends.iter();
    backends
        .map(|backend| (backend.row, backend.incarnation))
        .collect()
}

/// Flow number `number` of a service: its key and its entry for a backend, seen at a time.
pub(crate) fn entry(
    spec: &Spec,
    service: usize,
    number: u16,
    backend: (u16, u32),
    seen_ns: u64,
) -> (abi::FlowKey, abi::Binding) {
    let service = &spec.services()[service];
    let key = FlowKey::new(
        service.id,
        1024 + number,
        service.port,
        Ipv4Addr::new(10, 0, 0, 1).into(),
    );
    let hash = FlowHashKey::new(spec.hash_seed()).h64(&key, false);
    let value = abi::Binding {
        tag: tag16(hash),
        row: backend.0,
        incarnation: backend.1,
        seen_ns,
        state: 0,
        hash: hash32(hash),
    };
    (bytemuck::pod_read_unaligned(key.as_bytes()), value)
}

/// Inserts flows with these numbers.
pub(crate) fn insert(
    spec: &Spec,
    service: usize,
    numbers: std::ops::Range<u16>,
    backend: (u16, u32),
    seen_ns: u64,
) {
    let flows = flows();
    for number in numbers {
        let (key, value) = entry(spec, service, number, backend, seen_ns);
        flows.update(&key, &value, Update::Insert).expect("room");
    }
}

/// Whether the kernel tells how many entries a table has: Linux 6.6. Before that levels go by what
/// sweeps have seen and packets have inserted since, so that a test whose entries are nobody's
/// packets says that it is left out.
pub(crate) fn kernel_counts(test: &str) -> bool {
    let counts = guideway::kernel::probe::release().at_least(6, 6);
    if !counts {
        // Not `eprintln!`, which the test runner would swallow.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: the kernel does not count entries"
        );
    }
    counts
}

/// Options under which every step sweeps.
pub(crate) fn eager() -> CollectorOptions {
    let mut options = CollectorOptions::default();
    options.period = Some(Duration::ZERO);
    options
}

/// A step of a new collector at this time.
pub(crate) fn step(options: CollectorOptions, now_ns: u64) -> Stepped {
    let stepped = Collector::new(&dir(), options).step(now_ns);
    stepped.unwrap_or_else(|error| panic!("{error}"))
}

/// TCP packets of a client, run through the pinned program.
pub(crate) struct Client {
    program: Program,
    port: u16,
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Client {
    /// Of the service on this port.
    pub(crate) fn new(port: u16) -> Self {
        let program = Program::open(&dir().pin(Section::Programs, "gw_quiclb"));
        Self {
            program: program.expect("the program"),
            port,
        }
    }

    /// Sends the first packet of connection `number`; gives the backend that it goes to.
    pub(crate) fn begin(&self, number: u16) -> u8 {
        self.send(number, SYN, b"")
    }

    /// Sends a later one.
    pub(crate) fn go_on(&self, number: u16) -> u8 {
        self.send(number, ACK, b"")
    }

    /// Sends one with data.
    pub(crate) fn go_on_with_data(&self, number: u16) -> u8 {
        self.send(number, ACK, b"data")
    }

    /// Sends the one that closes the client's direction.
    pub(crate) fn finish(&self, number: u16) -> u8 {
        self.send(number, FIN | ACK, b"")
    }

    /// Sends one that gives the connection up.
    pub(crate) fn reset(&self, number: u16) -> u8 {
        self.send(number, RST, b"")
    }

    fn send(&self, number: u16, flags: u8, data: &[u8]) -> u8 {
        let mut frame = vec![2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 8, 0];
        let bytes = 40 + data.len() as u8;
        let mut ip = vec![0x45, 0, 0, bytes, 0, 0, 0x40, 0, 64, 6, 0, 0];
        ip.extend(Ipv4Addr::new(10, 0, 0, 1).octets());
        ip.extend(VIP.octets());
        let sum: u32 = ip
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame.extend((1024 + number).to_be_bytes());
        frame.extend(self.port.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(data);
        let ran = Run::new(&frame).run(&self.program).expect("a run");
        // XDP_REDIRECT
        assert_eq!(ran.action, 4, "packet of connection {number}");
        assert_eq!(
            ran.frame[..5],
            [2, 0, 0, 0, 0],
            "packet of connection {number}"
        );
        ran.frame[5]
    }
}

/// The time of the kernel's entries.
pub(crate) fn now() -> u64 {
    monotonic_ns()
}

/// A time before which there is enough even if the machine has just started.
pub(crate) fn later() -> u64 {
    now() + 1000 * SECOND
}
