// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Programs that user space calls: loaded around maps that are there, called with a value.

#[path = "common/netns.rs"]
mod netns;

use guideway::abi;
use guideway::error::ErrorKind;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::probe;
use guideway::kernel::routine::{LoadError, Options, Source};
use guideway::kernel::typed::Hash;
use netns::isolated;

const ENTRIES: [(&str, u32); 2] = [("gw_ql_flow", 300), ("gw_ql_cid", 200)];

fn maps() -> [Map; 2] {
    let options = Options {
        entries: &ENTRIES,
        ..Options::default()
    };
    let shapes = options.shapes(Source::Occupancy).expect("shapes");
    ["gw_ql_flow", "gw_ql_cid"].map(|name| Map::create(&shapes[name], None).expect("create"))
}

#[test]
fn a_routine_works_on_the_maps_it_was_given() {
    isolated("kernel_routine::given", || {
        if !probe::features().map_count_kfunc {
            eprintln!("SKIPPED: this kernel does not count the entries of a map");
            return;
        }
        let reuse = maps();
        let options = Options {
            entries: &ENTRIES,
            reuse: &reuse,
            verifier_report: true,
            ..Options::default()
        };
        let mut loaded = options.load(Source::Occupancy).expect("load");
        assert!(loaded.verifier_report().contains("processed"));
        let routine = loaded.take("gw_occupancy").expect("the routine");
        assert_eq!(routine.program().name(), "gw_occupancy");
        let again = loaded.take("gw_occupancy").expect_err("taken already");
        assert_eq!(again.kind(), ErrorKind::NotFound);
        let shared = loaded.take_map("gw_ql_flow").expect("the map");
        assert_eq!(shared.id(), reuse[0].id());

        let [flows, cids] = reuse;
        let flows = Hash::<abi::FlowKey, abi::Binding>::new(flows).expect("flows");
        let cids = Hash::<abi::CidKey, abi::Binding>::new(cids).expect("cids");
        let count = |flows, cids| {
            let mut context = abi::Occupancy::default();
            assert_eq!(routine.call(&mut context).expect("call"), 0);
            assert_eq!((context.flows, context.cids), (flows, cids));
        };
        count(0, 0);
        let key = |service| abi::FlowKey {
            service,
            ..Default::default()
        };
        for service in 0..300 {
            let value = abi::Binding::default();
            flows
                .update(&key(service), &value, Update::Insert)
                .expect("insert");
        }
        let value = abi::Binding::default();
        cids.update(&abi::CidKey::default(), &value, Update::Insert)
            .expect("insert");
        count(300, 1);
        for service in 0..100 {
            assert!(flows.remove(&key(service)).expect("remove"));
        }
        count(200, 1);
    });
}

#[test]
fn a_map_of_another_shape_is_refused() {
    isolated("kernel_routine::shape", || {
        let reuse = maps();
        // Without the sizes the object has its own.
        let options = Options {
            reuse: &reuse,
            ..Options::default()
        };
        let error = options.load(Source::Occupancy).expect_err("other sizes");
        assert!(matches!(error, LoadError::Shape(_)), "{error}");
        assert!(
            error.to_string().contains("number of entries is 300"),
            "{error}"
        );
    });
}
