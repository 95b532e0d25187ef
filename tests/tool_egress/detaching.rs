// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `detach`.

use std::time::Duration;

use guideway::egress::Writer;
use guideway::kernel::program::Program;
use guideway::kernel::tc;
use guideway::kernel::write_barrier::WriteBarrier;
use guideway::route::TableId;
use serde_json::{json, Value};

use crate::machine::{document, machine, open, send_from, state, Files};
use crate::netns::{self, foreign_program, ifindex, ip, isolated, Kind};
use crate::{egressd, egressd_json};

const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody else's program.
fn foreign() -> Program {
    let program = foreign_program("foreign", Kind::Classifier).expect("a program");
    let pin = format!("{}/foreign", netns::BPFFS);
    netns::pin(&program, pin.as_ref());
    Program::open(pin.as_ref()).expect("a program")
}

/// The programs at the ingress of an interface, in their order.
pub(crate) fn programs(interface: &str) -> Vec<Option<u32>> {
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
            assert_eq!(document["interfaces"][0]["tenant"], 43);
            assert_eq!(document["interfaces"][1]["tenant"], Value::Null);
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
        let message = error["message"].as_str().expect("text");
        assert!(
            message.starts_with(
                "there is no interface tap9 here; one that is gone is known by its index"
            ),
            "{message}"
        );
        // No interface has this index, and nothing is known of one that had.
        egressd_json(&["detach", "--interface", "tap0", "--interface", "4000000000"])
            .fails(1, "not-found");
        let error =
            egressd_json(&["detach", "--tenant", "42", "--tenant", "99"]).fails(1, "not-found");
        assert_eq!(error["message"], "there is no tenant 99 here");
        for contradiction in [
            &["detach", "--purge", "--interface", "tap0"][..],
            &["detach", "--purge", "--tenant", "42"],
            &["detach", "--tenant", "42", "--interface", "tap0"],
            &["detach", "--tenant", "42", "--keep-tenant"],
            &["detach", "--purge", "--keep-tenant"],
            &["detach", "--keep-tenant"],
        ] {
            egressd_json(contradiction).fails(2, "usage");
        }
        let writer = guideway::egress::Writer::open(open().dir()).expect("free");
        egressd_json(&["detach", "--wait", "0"]).fails(4, "locked");
        drop(writer);
        // Somebody retires a group.
        let barrier = WriteBarrier::below(open().dir().path());
        let retiring = barrier.exclusive(PATIENCE).expect("free");
        for what in [["--interface", "tap0"], ["--tenant", "42"]] {
            let verb = [&["detach", "--wait", "0"][..], &what].concat();
            egressd_json(&verb).fails(4, "locked");
        }
        drop(retiring);
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

/// What `status` finds, each with what it is about, and its remedies.
fn found(code: i32) -> (Value, String) {
    let status = egressd_json(&["status"]).exits(code).document();
    let findings = status["findings"].as_array().expect("a list").iter();
    let remedies = findings.clone().map(|one| one["remedy"].to_string());
    let remedies: Vec<_> = remedies.collect();
    let findings = findings.map(|one| json!([one["code"], one["object"]]));
    (findings.collect(), remedies.join("\n"))
}

#[test]
fn an_interface_is_no_tenants_any_more_unless_it_is_kept() {
    isolated("tool_egress::row", || {
        machine();
        let files = Files::new("row");
        let path = files.write("spec.json", &document());
        egressd(&["apply", &path]).exits(0);
        let pins = send_from(10);

        let keep = ["detach", "--interface", "tap0", "--keep-tenant"];
        let document = egressd_json(&keep).exits(0).document();
        assert_eq!(taken_off(&document), json!([["tap0", true]]));
        assert_eq!(document["interfaces"][0]["tenant"], Value::Null);
        assert_eq!(document["abandoned"], json!([]));
        let (what, remedy) = found(5);
        assert_eq!(what, json!([["not-attached", "tap0"]]));
        assert!(remedy.contains("beside egressd run: attach it"), "{remedy}");
        assert!(remedy.contains("detach --interface"), "{remedy}");

        // The second time there is no program to take off, and the row goes all the same.
        let document = egressd_json(&keep[..3]).exits(0).document();
        assert_eq!(taken_off(&document), json!([["tap0", false]]));
        assert_eq!(document["interfaces"][0]["tenant"], 42);
        assert_eq!(document["abandoned"], json!([42]));
        let (what, remedy) = found(0);
        assert_eq!(what, json!([["abandoned-tenant", "tenant 42"]]));
        assert!(remedy.contains("detach --tenant"), "{remedy}");
        let again = egressd(&keep[..3]).exits(0).stdout;
        assert_eq!(again, "tap0: was not attached\n");

        // Routes and pins wait for another interface.
        egressd(&["apply", &path]).exits(0);
        assert_eq!(send_from(10), pins);
        let said = egressd(&keep[..3]).exits(0).stdout;
        assert_eq!(
            said,
            "tap0: detached, and no interface of tenant 42 any more\n\
             tenant 42 has no interface left; its routes and pins stay until another one is \
             attached, or detach --tenant 42\n"
        );
        let said = egressd(&["detach", "--tenant", "42"]).exits(0).stdout;
        assert_eq!(said, "removed tenant 42, 3 routes and 10 pins\n");
        assert_eq!(found(0).0, json!([]));
    });
}

#[test]
fn a_tenant_goes_with_all_that_it_has_and_the_others_stay() {
    for way in ["auto", "clsact"] {
        isolated("tool_egress::tenant", move || {
            machine();
            let files = Files::new(&format!("tenant-{way}"));
            egressd(&[
                "apply",
                &files.write("spec.json", &document()),
                "--attach",
                way,
            ])
            .exits(0);
            send_from(10);
            let groups = open().groups().expect("readable");
            let document = egressd_json(&["detach", "--tenant", "42"])
                .exits(0)
                .document();
            assert_eq!(taken_off(&document), json!([["tap0", true]]));
            assert_eq!(
                document["tenants"],
                json!([{"table": 42, "routes": 3, "pins": 10}])
            );
            assert_eq!(document["abandoned"], json!([]));
            assert_eq!(document["left"], json!([]));
            assert_eq!(programs("tap0"), []);
            assert_eq!(programs("tap1").len(), 1);
            assert_eq!(open().groups().expect("readable"), groups);
            assert_eq!(found(0).0, json!([]));
            let routes = open().routes(TableId::new(43)).expect("readable");
            assert_eq!(routes.len(), 2);
            let error = egressd_json(&["detach", "--tenant", "42"]).fails(1, "not-found");
            assert_eq!(error["message"], "there is no tenant 42 here");
        });
    }
}

#[test]
fn an_interface_that_is_gone_is_forgotten_by_its_index() {
    for way in ["auto", "clsact"] {
        isolated("tool_egress::gone", move || {
            machine();
            let files = Files::new(&format!("gone-{way}"));
            let path = files.write("spec.json", &document());
            egressd(&["apply", &path, "--attach", way]).exits(0);
            let [tap0, tap1] = ["tap0", "tap1"].map(|name| ifindex(name).to_string());
            ip(&["link", "delete", "tap1"]);
            let (what, remedy) = found(5);
            let object = format!("index {tap1} (gone)");
            assert_eq!(what, json!([["no-interface", object]]));
            assert!(
                remedy.contains("detach --interface with its index"),
                "{remedy}"
            );
            egressd_json(&["detach", "--interface", "tap1"]).fails(1, "not-found");
            let document = egressd_json(&["detach", "--interface", &tap1])
                .exits(0)
                .document();
            assert_eq!(document["interfaces"][0]["interface"]["name"], Value::Null);
            assert_eq!(document["interfaces"][0]["tenant"], 43);
            assert_eq!(found(0).0, json!([["abandoned-tenant", "tenant 43"]]));
            let attachments = open().attachments().expect("readable");
            assert_eq!(attachments.len(), 1);
            // Nothing is known of it any more.
            egressd_json(&["detach", "--interface", &tap1]).fails(1, "not-found");

            // The other one goes with its tenant.
            ip(&["link", "delete", "tap0"]);
            egressd(&["detach", "--tenant", "42", "--tenant", "43"]).exits(0);
            assert_eq!(found(0).0, json!([]));
            egressd_json(&["detach", "--interface", &tap0]).fails(1, "not-found");
        });
    }
}

/// Who died between two steps left the program off and the row there, or what is worse the other way
/// round, or neither and the rest of the tenant.
#[test]
fn what_was_interrupted_is_finished_by_the_same_again() {
    isolated("tool_egress::interrupted", || {
        machine();
        let files = Files::new("interrupted");
        let path = files.write("spec.json", &document());
        let tap0 = || ifindex("tap0");
        let off = || {
            let mut writer = Writer::open(open().dir()).expect("free");
            assert!(writer.detach(tap0()).expect("detached"));
        };
        let nobodys = || {
            let egress = open();
            let guard = egress.write_routes(PATIENCE).expect("free");
            guard.remove_interface(tap0()).expect("removed");
        };
        for (undone, verb) in [
            (&[&off as &dyn Fn()][..], &["--tenant", "42"][..]),
            (&[&off], &["--interface", "tap0"]),
            (&[&nobodys], &["--interface", "tap0"]),
            (&[&off, &nobodys], &["--tenant", "42"]),
        ] {
            egressd(&["apply", &path]).exits(0);
            send_from(3);
            undone.iter().for_each(|step| step());
            egressd_json(&[&["detach"], verb].concat()).exits(0);
            assert_eq!(programs("tap0"), []);
            let left = match verb[0] {
                "--tenant" => json!([]),
                _ => json!([["abandoned-tenant", "tenant 42"]]),
            };
            assert_eq!(found(0).0, left, "{verb:?}");
        }
    });
}

#[test]
fn a_program_at_an_interface_of_nobody_is_told_with_what_takes_it_off() {
    isolated("tool_egress::nobodys", || {
        machine();
        let files = Files::new("nobodys");
        egressd(&["apply", &files.write("spec.json", &document())]).exits(0);
        egressd(&["detach", "--tenant", "43"]).exits(0);
        let mut writer = Writer::open(open().dir()).expect("free");
        let tap1 = ifindex("tap1");
        let attached = writer.attach(tap1, &tc::Options::default());
        attached.expect("attached");
        drop(writer);
        let (what, remedy) = found(0);
        assert_eq!(what, json!([["attached-for-nobody", "tap1"]]));
        assert!(
            remedy.contains("beside egressd run: detach --interface"),
            "{remedy}"
        );
        egressd(&["detach", "--interface", "tap1"]).exits(0);
        assert_eq!(found(0).0, json!([]));
    });
}
