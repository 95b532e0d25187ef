// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `upgrade` and `rollback`, and a daemon of another build.

use std::fs;

use guideway::kernel::statedir::StateRoot;
use guideway::kernel::tc::hook;
use serde_json::{json, Value};

use crate::machine::{assert_valid, document, machine, Files};
use crate::netns::{self, isolated};
use crate::{egressd, egressd_json};

/// Forgets of which build the program is.
fn forget_build() {
    let progs = StateRoot::new(netns::BPFFS).egress().path().join("progs");
    for entry in fs::read_dir(&progs).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        if name.to_string_lossy().starts_with("build-") {
            fs::remove_file(progs.join(name)).expect("removed");
        }
    }
}

fn runs(interface: &str) -> Option<u32> {
    let hook = hook(netns::ifindex(interface)).expect("readable");
    hook.occupants.first()?.program_id
}

fn has(status: &Value, code: &str) -> bool {
    let findings = status["findings"].as_array().expect("a list");
    findings.iter().any(|finding| finding["code"] == code)
}

#[test]
fn a_program_of_another_build_is_named_upgraded_and_brought_back() {
    isolated("tool_egress::upgrade", || {
        machine();
        let files = Files::new("upgrade");
        let spec = files.write("spec.json", &document());
        egressd_json(&["upgrade"]).fails(1, "not-found");
        egressd(&["apply", &spec]).exits(0);
        let old = runs("tap0");
        let error = egressd_json(&["rollback"]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("nothing to go back to"), "{message}");
        let status = egressd_json(&["status"]).exits(0).object();
        assert!(!has(&status, "other-build"), "{status}");
        let text = egressd(&["upgrade"]).exits(0);
        assert!(text.stdout.contains("unchanged"), "{}", text.stdout);

        forget_build();
        let status = egressd_json(&["status"]).exits(0).object();
        assert!(has(&status, "other-build"), "{status}");
        assert_eq!(status["program"]["build"], Value::Null);
        let upgraded = egressd_json(&["upgrade"]).exits(0).object();
        assert_valid("upgrade", &upgraded);
        assert_eq!(upgraded["schema"], "guideway.egress.upgrade/v1");
        assert_eq!(
            (&upgraded["kind"], &upgraded["done"]),
            (&json!("upgrade"), &json!(true))
        );
        assert_eq!(upgraded["old_program_id"], json!(old));
        for (at, interface) in ["tap0", "tap1"].into_iter().enumerate() {
            assert_eq!(upgraded["interfaces"][at]["interface"]["name"], interface);
            assert_eq!(upgraded["new_program_id"], json!(runs(interface)));
        }
        let status = egressd_json(&["status"]).exits(0).object();
        assert!(!has(&status, "other-build"), "{status}");
        assert_eq!(status["program"]["previous_id"], json!(old));
        let back = egressd(&["rollback"]).exits(0);
        for part in ["rolled back", "tap0: program", "exchanged in"] {
            assert!(back.stdout.contains(part), "{part}: {}", back.stdout);
        }
        assert_eq!((runs("tap0"), runs("tap1")), (old, old));

        let publisher = StateRoot::new(netns::BPFFS)
            .egress()
            .publisher()
            .expect("free");
        egressd_json(&["upgrade"]).fails(4, "locked");
        egressd_json(&["rollback"]).fails(4, "locked");
        drop(publisher);
        assert_eq!(runs("tap0"), old);
        egressd(&["detach", "--purge"]).exits(0);
    });
}

/// Taken off, or its link lost its pin: nothing tells which.
#[test]
fn an_interface_of_a_tenant_that_is_not_attached_is_named() {
    isolated("tool_egress::upgrade_idle", || {
        machine();
        let files = Files::new("upgrade-idle");
        let spec = files.write("spec.json", &document());
        egressd(&["apply", &spec]).exits(0);
        egressd(&["detach", "--interface", "tap0", "--keep-tenant"]).exits(0);
        let named = |exchanged: &Value| {
            assert_valid("upgrade", exchanged);
            let [none, one] = [0, 1].map(|at| &exchanged["interfaces"][at]);
            assert_eq!(none["interface"]["name"], "tap0", "{exchanged}");
            assert_eq!(none["error"], "it runs no program of this instance");
            assert_eq!(one["new_program_id"], json!(runs("tap1")));
            assert_eq!(
                (&one["error"], &exchanged["done"]),
                (&Value::Null, &json!(true))
            );
        };
        named(&egressd_json(&["upgrade"]).exits(3).object());
        forget_build();
        named(&egressd_json(&["upgrade"]).exits(3).object());
        named(&egressd_json(&["rollback"]).exits(3).object());
        // Nothing is exchanged where no interface runs it.
        egressd(&["detach", "--interface", "tap1", "--keep-tenant"]).exits(0);
        forget_build();
        let upgraded = egressd_json(&["upgrade"]).exits(3).object();
        let errors = upgraded["interfaces"].as_array().expect("a list").iter();
        assert!(
            errors.clone().all(|one| one["error"].is_string()),
            "{upgraded}"
        );
        assert_eq!((errors.count(), &upgraded["swap_ms"]), (2, &Value::Null));
        egressd(&["apply", &spec]).exits(0);
        assert_eq!(egressd_json(&["upgrade"]).exits(0).object()["done"], true);
        egressd(&["detach", "--purge"]).exits(0);
    });
}

#[test]
fn an_interface_that_runs_none_is_named() {
    isolated("tool_egress::upgrade_none", || {
        machine();
        let files = Files::new("upgrade-none");
        let spec = files.write("spec.json", &document());
        egressd(&["apply", &spec]).exits(0);
        let index = netns::ifindex("tap1");
        netns::ip(&["link", "del", "tap1"]);
        let named = |exchanged: &Value, from: Option<u32>| {
            assert_valid("upgrade", exchanged);
            let [one, none] = [0, 1].map(|at| &exchanged["interfaces"][at]);
            assert_eq!(one["error"], Value::Null, "{exchanged}");
            assert_eq!(one["old_program_id"], json!(from));
            assert_eq!(none["interface"]["ifindex"], index);
            assert_eq!(none["new_program_id"], Value::Null);
            let error = none["error"].as_str().expect("text");
            assert_eq!(error, "it runs no program of this instance");
        };
        let old = runs("tap0");
        let text = egressd(&["upgrade"]).exits(3).stdout;
        let line = format!("index {index} (gone): FAILED");
        for part in ["unchanged", "NOT ON ALL INTERFACES", &line] {
            assert!(text.contains(part), "{part}: {text}");
        }
        named(&egressd_json(&["upgrade"]).exits(3).object(), old);
        forget_build();
        named(&egressd_json(&["upgrade"]).exits(3).object(), old);
        let new = runs("tap0");
        assert_ne!(new, old);
        named(&egressd_json(&["rollback"]).exits(3).object(), new);
        assert_eq!(runs("tap0"), old);
        egressd(&["apply", &spec]).exits(1);
        egressd(&["detach", "--purge"]).exits(0);
    });
}
