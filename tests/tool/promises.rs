// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What was said beforehand is what is done, and what was done is said.

use serde_json::{json, Value};

use crate::harness::{
    command, draining, example, machine, poll, quiclb, quiclb_json, state, Files, Ran, EXAMPLE,
    INSTANCE,
};
use crate::netns::{ip, isolated, veth};

/// Writes a plan of the specification, changed by `edit`.
fn edited(files: &Files, spec: &str, edit: impl FnOnce(&mut Value)) -> String {
    let path = files.path("plan.json");
    quiclb(&["plan", spec, &path]).exits(0);
    let mut plan = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
    edit(&mut plan);
    files.write("edited.json", plan.to_string())
}

#[test]
fn a_plan_that_contradicts_its_specification_is_not_valid() {
    isolated("tool::contradiction", || {
        machine();
        let files = Files::new("contradiction");
        let spec = files.write("spec.json", EXAMPLE);
        let refused = |pointer: &str, edit: &dyn Fn(&mut Value)| {
            let plan = edited(&files, &spec, edit);
            let error = quiclb_json(&["apply", &plan]).fails(1, "invalid");
            assert_eq!(error["faults"][0]["pointer"], pointer, "{error}");
            assert_eq!(state(), Vec::<String>::new());
        };
        refused("/digest", &|plan| {
            plan["spec"]["services"][0]["backends"][0]["state"] = json!("draining");
        });
        refused("/digest", &|plan| plan["digest"] = json!("0".repeat(64)));
        refused("/interface", &|plan| plan["interface"] = json!("vm-edge-a"));
        refused("/mode", &|plan| plan["mode"] = json!("generic"));
        refused("", &|plan| plan["services"] = Value::Null);
        // Nothing but the form differs: what was planned is applied.
        let same = edited(&files, &spec, |_| {});
        quiclb(&["apply", &same]).exits(0);
    });
}

#[test]
fn a_plan_that_foretells_something_else_is_stale() {
    isolated("tool::foretold", || {
        machine();
        let files = Files::new("foretold");
        let spec = files.write("spec.json", EXAMPLE);
        let refused = |pointer: &str, edit: &dyn Fn(&mut Value)| {
            let plan = edited(&files, &spec, edit);
            let error = quiclb_json(&["apply", &plan]).fails(4, "stale-plan");
            let message = error["message"].as_str().expect("text");
            for part in [pointer, "changed since", "plan again"] {
                assert!(message.contains(part), "{part}: {message}");
            }
            assert_eq!(state(), Vec::<String>::new());
        };
        let backend = "/services/0/backends/1";
        refused(" /result ", &|plan| plan["result"] = json!("unchanged"));
        refused(" /services ", &|plan| plan["services"] = json!([]));
        refused("/services/0/table", &|plan| {
            plan["services"][0]["table"]["digest"] = json!("0123456789abcdef");
        });
        for (member, value) in [("slots", 1), ("row", 7), ("incarnation", 9), ("ifindex", 1)] {
            refused(backend, &|plan| {
                plan["services"][0]["backends"][1][member] = json!(value);
            });
        }
        // The machine itself: an interface that was made again.
        let plan = edited(&files, &spec, |_| {});
        ip(&["link", "del", "vm-edge-b"]);
        veth("vm-edge-b", "peer-b");
        poll("peer-b");
        quiclb_json(&["apply", &plan]).fails(4, "stale-plan");
        assert_eq!(state(), Vec::<String>::new());
        let plan = edited(&files, &spec, |_| {});
        quiclb(&["apply", &plan]).exits(0);
    });
}

#[test]
fn warnings_of_the_plan_are_those_of_what_was_applied() {
    isolated("tool::warnings", || {
        machine();
        let files = Files::new("warnings");
        let spec = files.write("spec.json", EXAMPLE);
        let plan = quiclb_json(&["plan", &spec]).exits(0).document();
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        let codes: Vec<_> = applied["warnings"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|warning| warning["code"].as_str().expect("text"))
            .collect();
        assert_eq!(codes, ["seed", "learned"]);
        assert_eq!(applied["warnings"], plan["warnings"]);
    });
}

#[test]
fn an_output_that_failed_does_not_hide_what_was_done() {
    isolated("tool::full", || {
        machine();
        let files = Files::new("full");
        let spec = files.write("spec.json", EXAMPLE);
        let drained = files.write("drained.json", draining().to_string());
        let full = |arguments: &[&str]| {
            let device = std::fs::File::options().write(true).open("/dev/full");
            let output = command(arguments)
                .stdout(device.expect("a device"))
                .output();
            Ran::of(output.expect("the tool runs"), arguments.join(" "))
        };
        let error = full(&["-o", "json", "apply", &spec]).fails(1, "io");
        let message = error["message"].as_str().expect("text");
        let live = format!("generation 1 of {INSTANCE} is live, only the output failed: ");
        assert!(message.starts_with(&live), "{message}");
        let ran = full(&["apply", &drained]).exits(1);
        assert!(ran.stderr.contains("generation 2 of"), "{}", ran.stderr);
        let ran = full(&["detach", INSTANCE]).exits(1);
        assert!(
            ran.stderr.contains("is off its interface"),
            "{}",
            ran.stderr
        );
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        assert_eq!(
            (&status["generation"]["number"], &status["health"]),
            (&json!(2), &json!("detached"))
        );
    });
}

#[test]
fn a_limit_that_does_not_suffice_is_one_fault() {
    let files = Files::new("limits");
    let mut spec = example();
    let backends = |count: u32| -> Value {
        let backends = (1..=count).map(|id| {
            json!({"id": id, "interface": "vm-edge-a", "weight": 1, "state": "ready",
                   "mac": format!("02:00:00:00:{:02x}:{:02x}", id >> 8, id & 0xff)})
        });
        backends.collect()
    };
    let service = spec["services"][0].clone();
    let services = (0..300).map(|index| {
        let mut service = service.clone();
        service["name"] = json!(format!("s{index}"));
        service["port"] = json!(1000 + index);
        service["backends"] = backends(256);
        service
    });
    spec["services"] = services.collect();
    let path = files.write("spec.json", spec.to_string());
    let error = quiclb_json(&["plan", "--offline", &path]).fails(1, "invalid");
    let faults = error["faults"].as_array().expect("a list");
    assert_eq!(faults.len(), 1, "{error}");
    assert_eq!(
        (&faults[0]["pointer"], &faults[0]["code"]),
        (&json!("/services"), &json!("capacity"))
    );
    let message = faults[0]["message"].as_str().expect("text");
    // 300 services of 256 backends.
    assert!(
        message.contains("76800") && message.contains("65536"),
        "{message}"
    );
}

#[test]
fn too_many_server_ids_are_one_fault_of_their_service() {
    let files = Files::new("server-ids");
    let mut spec = example();
    let configs = |count: u8| -> Value {
        let configs =
            (0..count).map(|id| json!({"config_id": id, "server_id_len": 3, "nonce_len": 4}));
        configs.collect()
    };
    let service = &mut spec["services"][0];
    service["short_dcid_len"] = json!(0);
    service["quic"] = json!({"routing": "server-id", "configs": configs(3)});
    let backends = (1..=200).map(|id| {
        json!({"id": id, "interface": "vm-edge-a", "weight": 1, "state": "ready",
               "mac": format!("02:00:00:00:01:{id:02x}"), "server_id": format!("{id:06x}")})
    });
    service["backends"] = backends.collect();
    let path = files.write("spec.json", spec.to_string());
    let error = quiclb_json(&["plan", "--offline", &path]).fails(1, "invalid");
    // 200 server IDs in each of 3 configs, against 512.
    let fault = json!({"pointer": "/services/0", "code": "capacity",
                       "message": "server IDs: 600 needed, the limit is 512"});
    assert_eq!(error["faults"], json!([fault]));
}
