// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What happens between writing an entry that packets had made and writing it for good.

use super::table::Reply;
use super::*;
use crate::abi;
use crate::kernel::map::Update;
use crate::kernel::netns;
use crate::kernel::statedir::StateRoot;
use crate::plan::{plan, Device, Options, World};
use crate::quiclb::instance::Writer;
use crate::quiclb::Loader;
use crate::service::Spec;

const CID: &str = "c460000000000001";

/// An instance with one service of two backends, whose connection IDs have eight bytes.
pub(super) fn instance() -> Writer {
    let backend = |id| format!(r#"{{"id": {id}, "interface": "lo", "mac": "02:00:00:00:00:01"}}"#);
    let text = format!(
        r#"{{"instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "limits": {{"flows": 1024, "cids": 1024}},
            "services": [{{"name": "quic", "vip": "203.0.113.80", "port": 443,
                           "short_dcid_len": 8, "maglev_table_size": 251,
                           "backends": [{}, {}]}}]}}"#,
        backend(1),
        backend(2)
    );
    let spec = Spec::from_json(text.as_bytes()).expect("valid");
    let dir = StateRoot::new(netns::BPFFS).quiclb(spec.instance_id());
    let mut writer = Loader::new(&dir, spec.limits())
        .load()
        .expect("an instance");
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    let world = World::new(vec![device("edge0", 77), device("lo", 1)], Vec::new(), 1);
    let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
    writer.publish(&plan).expect("published");
    writer
}

/// The entry of the connection ID, bound to this backend by a packet.
pub(super) fn learned(view: &View, key: &CidKey, seed: u64, backend: u32) -> abi::Binding {
    let backend = BackendId::new(backend).expect("not 0");
    let (_, _, backend) = place(view, ServiceId::new(key.service), backend).expect("placed");
    Binding {
        tag: cid_tag(&key.to_abi(), seed),
        row: backend.row,
        incarnation: backend.incarnation,
        seen_ns: clock::monotonic_coarse_ns(),
        phase: Phase::Live,
        fin: false,
        rst: false,
        origin: Origin::Traffic,
        learned: 0,
        hash: 7,
    }
    .to_abi()
}

#[test]
fn an_entry_that_is_deleted_before_it_settled_is_written_again() {
    netns::isolated("bindings::settle", || {
        let writer = instance();
        let view = writer.view().expect("readable").expect("published");
        let binder = writer.binder().expect("a program");
        let cids = &writer.maps.cids;
        let table = Table {
            cids,
            binder: &binder,
            stats: None,
        };
        let seed = writer.cid_seed().expect("readable");
        let registration = Registration {
            service: view.live.spec().services()[0].id,
            cid: CID.parse().expect("a connection ID"),
            backend: BackendId::new(2).expect("not 0"),
            ttl: None,
        };
        let wanted = || Wanted::of(&view, &registration).expect("sound");
        let key = wanted().key;
        let set = |entry: &abi::Binding| {
            cids.update(&key.to_abi(), entry, Update::Any)
                .expect("written");
        };
        let found = || Binding::from_abi(&cids.get(&key.to_abi()).expect("read").expect("there"));
        let settled = || {
            let mut results = [Ok(())];
            settle(table, vec![(0, wanted())], &mut results).expect("settled");
            let [result] = results;
            result
        };
        let is_registered = || {
            let entry = found();
            let bound = (entry.row, entry.incarnation);
            assert_eq!(bound, (wanted().entry.row, wanted().entry.incarnation));
            assert_eq!((entry.origin, entry.seen_ns), (Origin::Registered, 0));
        };

        set(&learned(&view, &key, seed, 1));
        assert!(wanted().write(table).expect("written"), "packets had it");
        // A sweep came by, and then perhaps a packet.
        cids.remove(&key.to_abi()).expect("removed");
        settled().expect("registered");
        is_registered();
        cids.remove(&key.to_abi()).expect("removed");
        set(&learned(&view, &key, seed, 1));
        settled().expect("registered");
        is_registered();
        // A packet wrote its time.
        let entry = Binding {
            seen_ns: 1,
            ..found()
        };
        set(&entry.to_abi());
        settled().expect("registered");
        is_registered();
        // Somebody else was faster.
        let other = learned(&view, &key, seed, 1);
        let other = Binding {
            origin: Origin::Registered,
            seen_ns: 0,
            ..Binding::from_abi(&other)
        };
        set(&other.to_abi());
        let error = settled().expect_err("another's");
        assert!(matches!(error, RegisterError::Conflict { .. }), "{error}");
    });
}

#[test]
fn an_exchange_that_comes_too_late_leaves_the_entry_as_it_was() {
    netns::isolated("bindings::half", || {
        let writer = instance();
        let view = writer.view().expect("readable").expect("published");
        let binder = writer.binder().expect("a program");
        let seed = writer.cid_seed().expect("readable");
        let service = view.live.spec().services()[0].id;
        let key = CidKey::new(service, CID.parse().expect("a connection ID"));
        let there = learned(&view, &key, seed, 1);
        let cids = &writer.maps.cids;
        cids.update(&key.to_abi(), &there, Update::Any)
            .expect("written");
        // Meanwhile a sweep found it idle, or it was the other way round.
        let expected = Binding {
            phase: Phase::Expiring,
            ..Binding::from_abi(&there)
        };
        let wanted = Binding {
            origin: Origin::Registered,
            ..Binding::from_abi(&learned(&view, &key, seed, 2))
        };
        let table = Table {
            cids,
            binder: &binder,
            stats: None,
        };
        let reply = table.exchange(&key, Some(&expected), &wanted);
        match reply.expect("called") {
            Reply::Other(found) => assert_eq!(found, Binding::from_abi(&there)),
            other => panic!("{other:?}"),
        }
        let left = cids.get(&key.to_abi()).expect("read").expect("there");
        assert_eq!(Binding::from_abi(&left), Binding::from_abi(&there));
    });
}
