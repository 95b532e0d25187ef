// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an import does not depend on, and what it never touches: the order of its document, the
//! clock of who wrote it, and the flows that are here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use guideway::abi;
use guideway::affinity::{AffinityDocument, Binding, Conflict, ImportReport, ReadOptions};
use guideway::kernel::clock;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::typed::Hash;
use guideway::quiclb::QuicLb;
use serde_json::{json, Value};

use crate::instance::*;
use crate::isolated;

/// Connection IDs of both backends and of some that are not usable or not there, one twice, with
/// times that this machine has not seen yet.
fn bindings() -> Vec<Value> {
    let of = |number: u32, backend: u32| {
        json!({"cid": numbered(number).to_string(), "backend": backend, "origin": "registered",
               "last_seen_ns": u64::MAX - u64::from(number)})
    };
    let mut bindings: Vec<_> = (0..40).map(|number| of(number, 1 + number % 4)).collect();
    bindings.push(of(7, 1));
    bindings
}

fn read(bindings: &[Value]) -> AffinityDocument {
    let spec = spec(&three());
    let of = &spec.services()[0];
    let service = |id: u32, bindings: &[Value]| {
        json!({"id": id, "name": "quic-api", "vip": of.vip.to_string(), "protocol": "udp",
               "port": of.port, "bindings": bindings})
    };
    // The service in two parts, with one of nobody between them.
    let (one, two) = bindings.split_at(bindings.len() / 2);
    let id = of.id.get();
    let document = json!({
        "schema": "guideway.affinity/v1", "exported_at": "2026-07-31T08:00:00Z",
        "instance": "elsewhere",
        "services": [service(id, two), service(id ^ 1, &self::bindings()[..3]), service(id, one)],
    });
    let text = document.to_string();
    AffinityDocument::from_json(text.as_bytes(), &ReadOptions::default()).expect("a document")
}

/// Backends 1 and 2, and an unhealthy third.
fn three() -> Value {
    let mut third = backend(3, "vm-a");
    third["state"] = json!("unhealthy");
    document(&[backend(1, "vm-a"), backend(2, "vm-b"), third])
}

/// An instance with room for ten connection IDs and three that are bound otherwise.
fn filled(table: &Table, balancer: &QuicLb) {
    let of = service(&three());
    let [first, second] = [1, 2].map(|id| learned(place(balancer, id)));
    for number in 0..908 {
        table.set(of, &numbered(5_000 + number), first);
    }
    for number in 0..3 {
        table.set(of, &numbered(number), second);
    }
}

/// What is bound to whom, as what.
type Bound = BTreeMap<Vec<u8>, (u16, u32, u32)>;

fn imported(bindings: &[Value]) -> (ImportReport, Bound) {
    let mut writer = published(&three());
    let table = Table::of(&writer);
    filled(&table, &writer);
    let flows = flows(&writer);
    let before = entries(&flows);
    assert_eq!(before.len(), 20);
    let begin_ns = clock::monotonic_coarse_ns();
    let report = writer
        .import(&read(bindings), Conflict::Keep)
        .expect("imported");
    let now_ns = clock::monotonic_coarse_ns();
    assert_eq!(
        entries(&flows),
        before,
        "flows are of a path, which is another"
    );
    let mut bound = Bound::new();
    for (key, value) in table.dump() {
        let entry: abi::Binding = bytemuck::pod_read_unaligned(&value);
        if entry.state != 0 {
            let seen = begin_ns..=now_ns;
            assert!(
                seen.contains(&entry.seen_ns),
                "{:?}",
                Binding::from_abi(&entry)
            );
        }
        bound.insert(key, (entry.row, entry.incarnation, entry.state));
    }
    // Again it is what it was.
    let once = table.dump();
    let again = writer
        .import(&read(bindings), Conflict::Keep)
        .expect("imported");
    assert_eq!(
        (again.accepted, again.unchanged),
        (0, report.unchanged + report.accepted)
    );
    assert_eq!(table.dump(), once);
    writer.purge().expect("removed");
    (report, bound)
}

/// The table of flows, with twenty of some service.
fn flows(balancer: &QuicLb) -> Hash<abi::FlowKey, abi::Binding> {
    let path = balancer.dir().path().join("maps/gw_ql_flow");
    let table = Hash::new(Map::open_any(&path).expect("a map")).expect("its shape");
    let entry = learned(place(balancer, 1)).to_abi();
    for number in 0..20 {
        let key = abi::FlowKey {
            service: service(&three()).get(),
            client_port: number,
            ..Default::default()
        };
        table.update(&key, &entry, Update::Insert).expect("room");
    }
    table
}

fn entries(table: &Hash<abi::FlowKey, abi::Binding>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    table
        .for_each(|key, value| {
            let value = bytemuck::bytes_of(value).to_vec();
            all.insert(bytemuck::bytes_of(key).to_vec(), value);
            ControlFlow::Continue(())
        })
        .expect("read");
    all
}

#[test]
fn an_import_depends_neither_on_order_nor_on_clocks_and_leaves_flows_alone() {
    isolated("bindings::orders", || {
        machine();
        let mut bindings = bindings();
        let (report, bound) = imported(&bindings);
        // Of forty ten are of each backend, of which the third takes nothing and the fourth is not
        // there. Of the first three numbers two are of usable backends: one is bound otherwise,
        // one as here. Number 7 is of the fourth and of the first, and so of none.
        let rejected = report.rejected;
        assert_eq!(
            (
                rejected.unknown_service,
                rejected.not_usable,
                rejected.unknown_backend
            ),
            (3, 10, 9)
        );
        assert_eq!(rejected.duplicate_in_document, 2);
        assert_eq!((report.kept, report.unchanged), (1, 1));
        assert_eq!((report.accepted, rejected.table_full), (10, 8));
        assert_eq!(bound.len(), 921);
        bindings.reverse();
        assert_eq!(imported(&bindings), (report.clone(), bound.clone()));
        bindings.rotate_left(13);
        assert_eq!(imported(&bindings), (report, bound));
    });
}
