// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances in a namespace of the test's own, and their table as it is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::abi;
use guideway::affinity::{cid_tag, Binding, CidKey, Origin, Phase};
use guideway::id::{BackendId, ServiceId};
use guideway::kernel::map::{Map, Update};
use guideway::kernel::typed::{Array, Hash};
use guideway::quic::Cid;
use guideway::quiclb::{Loader, Options, QuicLb, StateDir, StateRoot, Status, Writer};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::netns;

pub(crate) const ONE: &str = "1d9016f2-8957-42bc-9dd7-32d684d76446";
/// Entries of the table of connection IDs.
pub(crate) const CIDS: u32 = 1024;

/// Interfaces for two instances with two ways to backends each.
pub(crate) fn machine() {
    for (near, far) in [
        ("edge0", "client0"),
        ("edge1", "client1"),
        ("vm-a", "peer-a"),
        ("vm-b", "peer-b"),
    ] {
        netns::veth(near, far);
    }
}

/// A backend.
pub(crate) fn backend(id: u32, interface: &str) -> Value {
    let mac = format!("02:00:00:00:01:{:02x}", id % 256);
    json!({"id": id, "interface": interface, "mac": mac})
}

/// A specification with a learned service of connection IDs of eight bytes.
pub(crate) fn document(backends: &[Value]) -> Value {
    json!({
        "instance_id": ONE, "interface": "edge0",
        "limits": {"flows": 1024, "cids": CIDS, "slots": 257},
        "services": [{
            "name": "quic-api", "vip": "203.0.113.80", "port": 443, "short_dcid_len": 8,
            "maglev_table_size": 251, "backends": backends,
        }],
    })
}

/// [`document`] with backends 1 and 2.
pub(crate) fn two() -> Value {
    document(&[backend(1, "vm-a"), backend(2, "vm-b")])
}

pub(crate) fn spec(document: &Value) -> Spec {
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn dir(document: &Value) -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(spec(document).instance_id())
}

/// Makes an instance of this specification, or opens it, and publishes.
pub(crate) fn published(document: &Value) -> Writer {
    let mut writer = Loader::new(&dir(document), spec(document).limits())
        .load()
        .unwrap_or_else(|error| panic!("{error}"));
    publish(&mut writer, document);
    writer
}

pub(crate) fn publish(writer: &mut Writer, document: &Value) {
    let plan = writer
        .plan(&spec(document), Options::default())
        .unwrap_or_else(|error| panic!("{error}"));
    writer.publish(&plan).expect("published");
}

/// Number of the first service, as the specification says.
pub(crate) fn service(document: &Value) -> ServiceId {
    spec(document).services()[0].id
}

pub(crate) fn id(number: u32) -> BackendId {
    BackendId::new(number).expect("not 0")
}

pub(crate) fn cid(text: &str) -> Cid {
    text.parse().expect("a connection ID")
}

/// The connection ID of eight bytes with this number.
pub(crate) fn numbered(number: u32) -> Cid {
    cid(&format!("c460{number:012x}"))
}

/// Row and incarnation of a backend of the first service.
pub(crate) fn place(balancer: &QuicLb, backend: u32) -> (u16, u32) {
    let status = Status::of(balancer.dir()).expect("a status");
    let backends = &status.services[0].backends;
    let backend = backends.iter().find(|of| of.id == backend).expect("placed");
    (backend.row, backend.incarnation)
}

/// The table as anybody with the right to may see and write it.
pub(crate) struct Table {
    cids: Hash<abi::CidKey, abi::Binding>,
    seed: u64,
}

impl Table {
    pub(crate) fn of(balancer: &QuicLb) -> Self {
        let open = |name: &str| {
            let path = balancer.dir().path().join("maps").join(name);
            Map::open_any(&path).unwrap_or_else(|error| panic!("{error}"))
        };
        let collection = Array::<abi::Collection>::new(open("gw_ql_collect2")).expect("its shape");
        Self {
            cids: Hash::new(open("gw_ql_cid")).expect("its shape"),
            seed: collection.get(0).expect("a value").cid_seed,
        }
    }

    /// Every entry, byte by byte.
    pub(crate) fn dump(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::new();
        self.cids
            .for_each(|key, value| {
                let bytes = bytemuck::bytes_of(value).to_vec();
                all.insert(bytemuck::bytes_of(key).to_vec(), bytes);
                ControlFlow::Continue(())
            })
            .expect("read");
        all
    }

    pub(crate) fn get(&self, service: ServiceId, cid: &Cid) -> Option<Binding> {
        let key = CidKey::new(service, *cid).to_abi();
        let entry = self.cids.get(&key).expect("read");
        let entry = entry.map(|entry| Binding::from_abi(&entry))?;
        assert_eq!(entry.tag, cid_tag(&key, self.seed), "packets would miss it");
        Some(entry)
    }

    /// Writes an entry whatever is there.
    pub(crate) fn set(&self, service: ServiceId, cid: &Cid, entry: Binding) {
        let key = CidKey::new(service, *cid).to_abi();
        let tag = cid_tag(&key, self.seed);
        let entry = Binding { tag, ..entry }.to_abi();
        self.cids
            .update(&key, &entry, Update::Any)
            .expect("written");
    }

    /// Writes what is left of an entry whose memory somebody else got.
    pub(crate) fn set_with_tag(&self, service: ServiceId, cid: &Cid, entry: Binding, tag: u16) {
        let key = CidKey::new(service, *cid).to_abi();
        let entry = Binding { tag, ..entry }.to_abi();
        self.cids
            .update(&key, &entry, Update::Any)
            .expect("written");
    }

    /// Sets what may be inserted for the first service.
    pub(crate) fn set_level(&self, balancer: &QuicLb, level: u32) {
        let path = balancer.dir().path().join("maps/gw_ql_level");
        let map = Map::open_any(&path).unwrap_or_else(|error| panic!("{error}"));
        let levels = Array::<abi::Admission>::new(map).expect("its shape");
        let admission = abi::Admission {
            cids: level,
            ..Default::default()
        };
        // The first service of an instance has the first counters.
        levels.set(0, &admission).expect("written");
    }

    pub(crate) fn remove(&self, service: ServiceId, cid: &Cid) {
        let key = CidKey::new(service, *cid).to_abi();
        self.cids.remove(&key).expect("removed");
    }

    /// Adds an entry if there is none, as a packet does.
    pub(crate) fn learn(&self, service: ServiceId, cid: &Cid, entry: Binding) {
        let key = CidKey::new(service, *cid).to_abi();
        let tag = cid_tag(&key, self.seed);
        let entry = Binding { tag, ..entry }.to_abi();
        // It is there already, registered or learned.
        let _ = self.cids.update(&key, &entry, Update::Insert);
    }

    /// Fills it to the last entry with what packets taught a service that nobody has.
    pub(crate) fn fill(&self) {
        for number in 0..CIDS {
            let key = CidKey::new(ServiceId::new(1), numbered(number)).to_abi();
            let entry = learned((0, 1)).to_abi();
            let full = nix::libc::E2BIG;
            match self.cids.update(&key, &entry, Update::Any) {
                Ok(()) => {}
                Err(error) if error.errno == full => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Tells the threads of a test to stop, also when it fails: their scope waits for them.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a packet that was just seen teaches.
pub(crate) fn learned((row, incarnation): (u16, u32)) -> Binding {
    Binding {
        tag: 0,
        row,
        incarnation,
        seen_ns: guideway::kernel::clock::monotonic_coarse_ns(),
        phase: Phase::Live,
        fin: false,
        rst: false,
        origin: Origin::Traffic,
        learned: 0,
        hash: 0x1234_5678,
    }
}

pub(crate) fn with_origin(entry: Binding, origin: Origin) -> Binding {
    Binding { origin, ..entry }
}
