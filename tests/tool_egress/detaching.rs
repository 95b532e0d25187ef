// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `detach`.

use guideway::kernel::program::Program;
use guideway::kernel::tc;
use serde_json::{json, Value};

use crate::machine::{document, machine, open, send_from, state, Files};
use crate::netns::{self, foreign_program, ifindex, isolated, Kind};
use crate::{egressd, egressd_json};

/// Somebody else's program.
fn foreign() -> Program {
    let program = foreign_program("foreign", Kind::Classifier).expect("a program");
    let pin = format!("{}/foreign", netns::BPFFS);
    netns::pin(&program, pin.as_ref());
    Program::open(pin.as_ref()).expect("a program")
}

/// The programs at the ingress of an interface, in their order.
fn programs(interface: &str) -> Vec<Option<u32>> {
    let hook = tc::hook(ifindex(interface)).expect("a hook");
    hook.occupants.iter().map(|one| one.program_id).collect()
}

fn taken_off(document: &Value) -> Value {
    let interfaces = document["interfaces"].as_array().expect("a list").iter();
    interfaces
        .map(|one| json!([one["interface"]["name"], one["detached"]]))
        .collect()
}

#[test]
fn the_program_goes_and_what_others_attached_stays() {
    for way in ["auto", "clsact"] {
        isolated("tool_egress::detach", move || {
            machine();
            let files = Files::new(&format!("detach-{way}"));
            let path = files.write("spec.json", &document());
            let foreign = foreign();
            let options = tc::Options {
                way: match way {
                    "clsact" => tc::Way::Clsact,
                    _ => tc::Way::Auto,
                },
                filter: tc::FilterId {
                    priority: 7.try_into().expect("a priority"),
                    handle: 7.try_into().expect("a handle"),
                },
                ..tc::Options::default()
            };
            let _theirs = tc::Attachment::new(&foreign, ifindex("tap0"), &options);
            let _theirs = _theirs.expect("attached");
            egressd(&["apply", &path, "--attach", way]).exits(0);
            let ours = Some(open().program().id());
            assert_eq!(programs("tap0"), [ours, Some(foreign.id())], "{way}");
            let pins = send_from(10);

            let only = ["detach", "--interface", "tap1", "--interface", "uplink0"];
            let document = egressd_json(&only).exits(0).document();
            assert_eq!(
                taken_off(&document),
                json!([["tap1", true], ["uplink0", false]])
            );
            assert_eq!(programs("tap1"), []);
            assert_eq!(programs("tap0").len(), 2);
            let document = egressd_json(&["detach"]).exits(0).document();
            assert_eq!(taken_off(&document), json!([["tap0", true]]));
            assert_eq!(document["purged"], false);
            assert_eq!(programs("tap0"), [Some(foreign.id())], "{way}");

            // All else is still there, and nothing was forgotten.
            let said = egressd(&["detach"]).exits(0).stdout;
            assert_eq!(said, "was attached nowhere\n");
            egressd(&["apply", &path, "--attach", way]).exits(0);
            assert_eq!(send_from(10), pins);

            let document = egressd_json(&["detach", "--purge"]).exits(0).document();
            assert_eq!(document["purged"], true);
            assert_eq!(document["left"], json!([]));
            assert_eq!(state(), "");
            assert_eq!(programs("tap0"), [Some(foreign.id())], "{way}");
            assert_eq!(programs("tap1"), []);
        });
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_taken_off() {
    isolated("tool_egress::refused", || {
        machine();
        let files = Files::new("refused");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        let before = state();
        let error = egressd_json(&["detach", "--interface", "tap0", "--interface", "tap9"])
            .fails(1, "not-found");
        assert_eq!(error["message"], "there is no interface tap9 here");
        egressd_json(&["detach", "--purge", "--interface", "tap0"]).fails(2, "usage");
        let writer = guideway::egress::Writer::open(open().dir()).expect("free");
        egressd_json(&["detach", "--wait", "0"]).fails(4, "locked");
        drop(writer);
        assert_eq!(state(), before);
    });
}

/// Somebody put another program into our filter: it is theirs now.
#[test]
fn a_filter_that_runs_anothers_program_is_left_and_said() {
    isolated("tool_egress::left", || {
        machine();
        let files = Files::new("left");
        let path = files.write("spec.json", &document());
        egressd(&["apply", &path, "--attach", "clsact"]).exits(0);
        let foreign = foreign();
        let egress = open();
        let tap0 = ifindex("tap0");
        let filter = tc::ClsactFilter::at(tap0, tc::FilterId::default());
        filter.update(&foreign, egress.program()).expect("replaced");
        let document = egressd_json(&["detach", "--purge"]).exits(3).document();
        assert_eq!(taken_off(&document), json!([["tap1", true]]));
        assert_eq!(document["left"][0]["name"], "tap0");
        assert_eq!(document["purged"], false);
        assert_eq!(programs("tap0"), [Some(foreign.id())]);
        let said = egressd(&["detach"]).exits(3).stdout;
        assert!(said.contains("LEFT tap0: "), "{said}");
    });
}
