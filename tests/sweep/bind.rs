// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connection IDs that are registered anew while somebody sweeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use guideway::abi::{self, BindOperation, BindResult};
use guideway::kernel::routine::{Options, Routine, Source};
use guideway::kernel::typed::Array;

use crate::cpus::stay_on;
use crate::machine::*;
use crate::netns::isolated;
use crate::touch::service;

const ENTRIES: u32 = 200;
const LIVE: u32 = abi::BindingState::GW_BINDING_LIVE.0;
const REGISTERED: u32 = abi::BindingState::GW_BINDING_REGISTERED.0;
const PHASE: u32 = abi::BindingState::GW_BINDING_PHASE.0;

fn key(number: u32) -> abi::CidKey {
    let mut key = abi::CidKey {
        service: 0x77,
        length: 8,
        ..Default::default()
    };
    key.cid[..4].copy_from_slice(&number.to_be_bytes());
    key
}

/// A registration of the only backend that is over at this time.
fn registered(until_ns: u64) -> abi::Binding {
    abi::Binding {
        tag: 0,
        row: 0,
        incarnation: 11,
        seen_ns: until_ns,
        state: LIVE | REGISTERED,
        hash: 0,
    }
}

/// The program that binds, around the machine's table.
struct Binder {
    routine: Routine,
}

impl Binder {
    fn new(machine: &Machine) -> Self {
        let entries = [
            ("gw_ql_flow", machine.flows.map().shape().max_entries),
            ("gw_ql_cid", machine.cids.map().shape().max_entries),
        ];
        let reuse =
            [machine.flows.map(), machine.cids.map()].map(|map| map.try_clone().expect("a handle"));
        let options = Options {
            entries: &entries,
            reuse: &reuse,
            ..Options::default()
        };
        let mut loaded = options
            .load(Source::Bind)
            .unwrap_or_else(|error| panic!("{error}"));
        let collection = loaded.take_map("gw_ql_collect2").expect("a map");
        let seed = abi::Collection {
            cid_seed: CID_SEED,
            ..Default::default()
        };
        Array::new(collection)
            .expect("its shape")
            .set(0, &seed)
            .expect("written");
        Self {
            routine: loaded.take("gw_bind").expect("a routine"),
        }
    }

    fn call(
        &self,
        key: &abi::CidKey,
        operation: BindOperation,
        expected: abi::Binding,
        wanted: abi::Binding,
    ) -> BindResult {
        let mut request = abi::BindRequest {
            key: *key,
            operation: operation.0,
            expected,
            wanted,
            result: BindResult::GW_BIND_UNKNOWN.0,
            stats: abi::Index::GW_INDEX_NONE.0,
        };
        self.routine.call(&mut request).expect("a call");
        BindResult(request.result)
    }

    /// Registers until it is done; whether an entry that was there made way.
    fn register(&self, machine: &Machine, key: &abi::CidKey, wanted: abi::Binding) -> bool {
        loop {
            let found = machine.cids.get(key).expect("read");
            let (operation, expected) = match found {
                // Somebody is about to delete it.
                Some(entry) if entry.state & PHASE > 1 => continue,
                Some(entry) => (BindOperation::GW_BIND_EXCHANGE, entry),
                None => (BindOperation::GW_BIND_INSERT, wanted),
            };
            if self.call(key, operation, expected, wanted) == BindResult::GW_BIND_DONE {
                return found.is_some();
            }
        }
    }
}

#[test]
fn what_is_registered_anew_is_not_deleted_for_what_it_was() {
    isolated("sweep::bind", || {
        let mut service = service(0x77);
        service.rows = vec![11];
        let machine = Machine::new(std::slice::from_ref(&service), 1024);
        let binder = Binder::new(&machine);
        let end = AtomicBool::new(false);
        let (mut exchanged, mut deleted) = (0_u64, 0_u64);
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| {
                stay_on(0);
                let mut deleted = 0;
                while !end.load(Ordering::Relaxed) {
                    machine.prepare();
                    let mut context = machine.context(NOW);
                    for _ in 0..100 {
                        assert_eq!(machine.sweep_cids.call(&mut context).expect("a call"), 0);
                    }
                    let found = machine.swept(&context).services[0].cids;
                    deleted += found.deleted.iter().sum::<u64>();
                }
                deleted
            });
            stay_on(1);
            let started = Instant::now();
            let mut lost = 0;
            let mut number = 0;
            while started.elapsed() < Duration::from_secs(3) {
                let key = key(number % ENTRIES);
                // What was registered when it was this one's turn before is there.
                let kept = machine.cids.get(&key).expect("read");
                if number >= ENTRIES && kept.is_none_or(|entry| entry.seen_ns <= NOW) {
                    lost += 1;
                }
                binder.register(&machine, &key, registered(1));
                let later = registered(NOW + 3_600 * SECOND);
                exchanged += u64::from(binder.register(&machine, &key, later));
                number += 1;
            }
            end.store(true, Ordering::Relaxed);
            deleted = sweeper.join().expect("the sweeper");
            assert_eq!(
                lost, 0,
                "of {number}, {exchanged} of them in place, {deleted} deleted"
            );
        });
        println!("{exchanged} in place, {deleted} deleted");
        // Otherwise nothing was tried.
        assert!(exchanged > 1_000 && deleted > 10);
        for number in 0..ENTRIES {
            let entry = machine.cids.get(&key(number)).expect("read").expect("kept");
            assert_eq!(entry.state, LIVE | REGISTERED, "{number}");
        }
    });
}
