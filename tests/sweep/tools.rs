// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What user space cannot do by itself to words that programs write.

use guideway::abi;
use guideway::affinity::collect::Reason;

use crate::machine::*;
use crate::netns::isolated;
use crate::touch::service;

#[test]
fn a_level_is_set_only_where_it_is_what_the_caller_saw() {
    isolated("sweep::level", || {
        let machine = Machine::new(&[service(0x77)], 64);
        let stands = |flows, cids| {
            let admission = machine.levels.get(3).expect("levels");
            assert_eq!((admission.flows, admission.cids), (flows, cids));
            assert_eq!(admission.refused_ns, 99);
        };
        let before = abi::Admission {
            flows: 2,
            cids: 0,
            refused_ns: 99,
        };
        machine.levels.set(3, &before).expect("written");
        let set = |flows_from, flows_to, cids_from, cids_to| {
            let mut levels = abi::SweepLevels {
                stats: 3,
                flows_from,
                flows_to,
                cids_from,
                cids_to,
            };
            assert_eq!(machine.level.call(&mut levels).expect("a call"), 0);
        };
        // The program has raised the first meanwhile.
        set(0, 1, 0, 1);
        stands(2, 1);
        set(2, 0, 1, 1);
        stands(0, 1);
        let mut nobody = abi::SweepLevels {
            stats: 1 << 20,
            ..Default::default()
        };
        let failed = abi::SweepResult::GW_SWEEP_FAILED.0;
        assert_eq!(machine.level.call(&mut nobody).expect("a call"), failed);
    });
}

#[test]
fn what_user_space_deletes_is_counted_with_the_rest() {
    isolated("sweep::count", || {
        let machine = Machine::new(&[service(0x77)], 64);
        let mut account = abi::SweepAccount {
            stats: 0,
            deleted: [1, 20, 300, 4000],
            resurrected: 50_000,
            ..Default::default()
        };
        for _ in 0..2 {
            assert_eq!(machine.count.call(&mut account).expect("a call"), 0);
        }
        for (reason, count) in Reason::ALL.into_iter().zip([2, 40, 600, 8000]) {
            assert_eq!(machine.counter(0, reason.counter()), count, "{reason}");
        }
        let resurrected = abi::Counter::GW_COUNTER_RESURRECTED;
        assert_eq!(machine.counter(0, resurrected), 100_000);
    });
}
