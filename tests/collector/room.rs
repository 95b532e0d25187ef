// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Slots that could be plain again, in an instance that has no room for tables that differ.

use guideway::quiclb::collector::Cause;
use guideway::quiclb::{Collector, CollectorOptions, QuicLb, Spec};
use serde_json::json;

use crate::harness::*;
use crate::netns::isolated;

/// Three pairs of services of 65,537 slots, which take 1025 cells for each pair, or for each service
/// whose slots are no longer those of the other: room for four in the 24 times 192 cells of a
/// generation.
fn services(more: &[u16]) -> Spec {
    let services: Vec<_> = (1..=6_u16)
        .map(|port| {
            let weights = [&[1 + port.div_ceil(2), 1, 1], more].concat();
            let mut service = service(&format!("tcp{port}"), "tcp", port, &weights);
            service["maglev_table_size"] = json!(65_537);
            service
        })
        .collect();
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": EDGE,
        "limits": {"flows": 4096, "cids": 1024, "memory_mib": 24}, "services": services,
    });
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn open() -> u32 {
    let live = QuicLb::open(&dir()).expect("open").live_record();
    live.expect("readable").expect("live").all_marks().open
}

#[test]
fn what_is_held_back_for_want_of_room_is_told() {
    isolated("collector::room", || {
        interfaces();
        publish(&services(&[]));
        publish(&services(&[1]));
        let over = now() + 64 * SECOND;
        let all = open();
        assert!(all > 0);
        // One window of each pair is not over.
        let levels = levels();
        for stats in [0, 2, 4] {
            let mut admission = levels.get(stats).expect("levels");
            admission.refused_ns = over - 10 * SECOND;
            levels.set(stats, &admission).expect("written");
        }
        let mut collector = Collector::new(&dir(), CollectorOptions::default());
        let mut step = |now_ns: u64| collector.step(now_ns).expect("a step");
        for seconds in [0, 1, 11] {
            let stepped = step(over + seconds * SECOND);
            assert_eq!(stepped.followed, None);
            let problem = stepped.problem.expect("no room");
            // 33 MiB are the fewest with 192 cells each for six times 1025.
            assert!(problem.contains("memory_mib 33"), "{problem}");
            assert_eq!(open(), all);
        }
        for stats in [0, 2, 4] {
            let mut admission = levels.get(stats).expect("levels");
            admission.refused_ns = 0;
            levels.set(stats, &admission).expect("written");
        }
        let closed = step(over + 22 * SECOND);
        assert_eq!(closed.followed.expect("room").causes, [Cause::Windows]);
        assert_eq!((closed.problem, open()), (None, 0));
    });
}
