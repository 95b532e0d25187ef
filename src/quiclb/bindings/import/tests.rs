// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Conflicts that come about while an import writes.

use super::super::tests::{instance as published, learned};
use super::*;
use crate::affinity::{BindingOrigin, CidBinding, CidKey, ServiceBindings};
use crate::kernel::map::Update;
use crate::kernel::netns;

#[test]
fn a_conflict_that_comes_late_stops_an_import_that_is_to_have_none() {
    netns::isolated("bindings::import::late", || {
        let writer = published();
        let view = writer.view().expect("readable").expect("published");
        let of = &view.live.spec().services()[0];
        let cid = |number: u32| {
            let text = format!("c460{number:012x}");
            text.parse().expect("a connection ID")
        };
        let binding = |number| CidBinding {
            cid: cid(number),
            backend: of.backends[1].id,
            origin: BindingOrigin::Learned,
            last_seen_ns: 1,
        };
        let document = AffinityDocument::new(
            "2026-07-31T08:00:00Z",
            "elsewhere",
            vec![ServiceBindings {
                id: of.id,
                name: of.name.clone(),
                vip: of.vip,
                protocol: of.protocol,
                port: of.port,
                bindings: (0..3).map(binding).collect(),
            }],
        );
        let key = CidKey::new(of.id, cid(1));
        let seed = writer.cid_seed().expect("readable");
        let import = |policy| {
            let (instance, result) = writer
                .reconcile(&view, &document, policy)
                .expect("no conflict yet");
            // A packet comes between judging and writing.
            let entry = learned(&view, &key, seed, 1);
            let learned = writer
                .maps
                .cids
                .update(&key.to_abi(), &entry, Update::Insert);
            learned.expect("free");
            writer.write(&document, &view, &instance, result, policy)
        };
        match import(Conflict::Fail) {
            Err(ImportError::Stopped { report, of, why }) => {
                assert_eq!((report.accepted, report.kept, of), (1, 1, 3));
                assert!(why.starts_with("c460000000000001 was bound"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let mut there = 0;
        writer.for_each_binding(|_, _| there += 1).expect("read");
        assert_eq!(there, 2, "what was written, and what the packet taught");

        writer.maps.cids.remove(&key.to_abi()).expect("removed");
        let report = import(Conflict::Keep).expect("imported");
        assert_eq!((report.accepted, report.kept, report.unchanged), (1, 1, 1));
    });
}
