// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What sweeps count for each backend: whether one that drains is empty.

use guideway::abi;
use guideway::affinity::{cid_tag, CidKey};
use guideway::kernel::map::Update;
use guideway::quiclb::collector::SweepMethod;
use guideway::quiclb::{BackendEntries, Collector, CollectorOptions, Spec, Status};
use serde_json::json;

use crate::harness::*;
use crate::netns::isolated;

/// A backend, its flows and connection IDs, and the slots that look back to it.
type Told = (u32, Option<(u64, u64)>, u32);

fn told(service: &str) -> Vec<Told> {
    let status = Status::of(&dir()).expect("a status");
    let mut services = status.services.iter();
    let service = services.find(|of| of.name == service).expect("it is there");
    let entries = |of: BackendEntries| (of.flows, of.cids);
    let backends = service.backends.iter();
    backends
        .map(|of| (of.id, of.entries.map(entries), of.base_slots))
        .collect()
}

/// In the kernel if it can, or in batches.
fn with(method: Option<SweepMethod>) -> CollectorOptions {
    let mut options = eager();
    options.method = method;
    options
}

/// Binds connection IDs to a backend, as packets just did.
fn bind(spec: &Spec, numbers: std::ops::Range<u8>, backend: (u16, u32)) {
    let service = spec.services()[0].id;
    for number in numbers {
        let cid = format!("c4600000000000{number:02x}");
        let key = CidKey::new(service, cid.parse().expect("a connection ID")).to_abi();
        let value = abi::Binding {
            tag: cid_tag(&key, collection().cid_seed),
            row: backend.0,
            incarnation: backend.1,
            seen_ns: now(),
            state: 0,
            hash: 0,
        };
        cids().update(&key, &value, Update::Insert).expect("room");
    }
}

#[test]
fn entries_are_counted_for_their_backends() {
    for method in [None, Some(SweepMethod::Batch)] {
        isolated(&format!("collector::bound {method:?}"), move || {
            interfaces();
            let mut all = service("all", "udp", 443, &[1, 1, 1]);
            all["short_dcid_len"] = json!(8);
            all["quic_only"] = json!(true);
            let mut other = service("other", "udp", 53, &[1]);
            other["tracking"] = json!("all");
            let spec = spec(&[all, other]);
            publish(&spec);
            assert_eq!(told("all"), [(1, None, 0), (2, None, 0), (3, None, 0)]);
            let rows = placed(&spec, 0);
            insert(&spec, 0, 0..5, rows[0], now());
            insert(&spec, 0, 5..12, rows[1], now());
            // Of a backend that is not there any more.
            insert(&spec, 0, 12..15, (rows[1].0, 99), now());
            insert(&spec, 1, 0..20, placed(&spec, 1)[0], now());
            bind(&spec, 0..3, rows[1]);
            bind(&spec, 3..4, rows[2]);
            // Entries of a backend that is gone go in two sweeps.
            for _ in 0..2 {
                step(with(method), now());
                let expected = [
                    (1, Some((5, 0)), 0),
                    (2, Some((7, 3)), 0),
                    (3, Some((0, 1)), 0),
                ];
                assert_eq!(told("all"), expected);
                assert_eq!(told("other"), [(1, Some((20, 0)), 0)]);
            }
            // Idle entries count until they are deleted.
            let later = now() + 700 * SECOND;
            step(with(method), later);
            step(with(method), later);
            assert_eq!(
                told("all"),
                [1, 2, 3].map(|backend| (backend, Some((0, 0)), 0))
            );
        });
    }
}

#[test]
fn a_backend_that_drains_is_seen_to_become_empty() {
    isolated("collector::drained", || {
        interfaces();
        publish(&spec(&[service("tcp", "tcp", 443, &[1, 1, 1])]));
        let client = Client::new(443);
        for number in 0..100 {
            client.begin(number);
        }
        let mut draining = service("tcp", "tcp", 443, &[1, 1, 1]);
        draining["backends"][1]["state"] = json!("draining");
        publish(&spec(&[draining]));
        let of_second = || told("tcp").swap_remove(1);
        let (_, entries, base_slots) = of_second();
        assert_eq!(entries, None, "nobody has swept");
        // The third of 251 that it had.
        assert!((80..=87).contains(&base_slots), "{base_slots}");
        let stay = (0..100).filter(|number| client.go_on(*number) == 2).count() as u64;
        assert!(stay > 10, "{stay}");
        let mut collector = Collector::new(&dir(), eager());
        let begin = now();
        collector.step(begin).expect("a step");
        assert_eq!(of_second(), (2, Some((stay, 0)), base_slots));
        // The window is over, and its connections have been silent for as long.
        let over = begin + 64 * SECOND;
        collector.step(over).expect("a step");
        collector.step(over).expect("a step");
        assert_eq!(of_second(), (2, Some((0, 0)), 0));
    });
}
