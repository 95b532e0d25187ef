// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Mode offload on a machine without such a card: what is foreseen, what is refused before anything
//! changes, and that nothing runs elsewhere instead.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use guideway::kernel::attach::occupants;
use guideway::quiclb::{HardwareAcknowledged, Loader, Options, StateRoot};
use guideway::service::Spec;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::harness::{command, example, machine, quiclb, quiclb_json, Files, INSTANCE};
use crate::netns::{ifindex, isolated};

/// A specification that a card can fulfil.
fn for_a_card() -> Value {
    let mut spec = example();
    spec["mode"] = json!("offload");
    spec["events_per_second"] = json!(0);
    spec["limits"] = json!({"flows": 1024});
    let service = &mut spec["services"][0];
    service["tracking"] = json!("all");
    service["quic"] = json!({"routing": "tuple"});
    for backend in service["backends"].as_array_mut().expect("a list") {
        backend["interface"] = json!("edge0");
    }
    spec
}

#[test]
fn a_plan_says_what_a_card_lacks_and_refuses_what_asks_for_it() {
    isolated("tool::offload_plan", || {
        machine();
        let files = Files::new("offload-plan");
        let good = files.write("good.json", for_a_card().to_string());
        let plan = quiclb_json(&["plan", &good]).exits(0).valid("plan");
        assert_eq!(plan["mode"], "offload");
        let lacks: Vec<_> = plan["lacks"].as_array().expect("a list").iter().collect();
        let named: Vec<_> = lacks.iter().map(|lack| &lack["feature"]).collect();
        let expected = [
            "events",
            "exceptions-tracking",
            "bindings",
            "encrypted-server-ids",
            "redirect",
        ];
        assert_eq!(named, expected);
        // What counts is the card's tables, half of each, and none of the host's memory.
        let capacity = &plan["capacity"];
        let expected = json!({
            "slots": {"used": 4093, "limit": 262144},
            "rows": {"used": 2, "limit": 8192},
            "services": {"used": 2, "limit": 2048},
            "configs": {"used": 0, "limit": 2048},
            "server_ids": {"used": 0, "limit": 8192},
        });
        assert_eq!(capacity["card"], expected);
        assert_eq!(capacity["flows"]["limit"], 1024);
        assert_eq!(capacity["cells"]["used"], 0);
        let memory = &capacity["memory_bytes"];
        let held = ["generation", "both_generations", "affinity"];
        assert_eq!(held.map(|of| memory[of].as_u64()), [Some(0); 3], "{memory}");
        // What the probe lists is in the way of this specification.
        let probe = quiclb_json(&["probe", "edge0"]).exits(0).valid("probe");
        let blockers = probe["offload"]["blockers"].as_array().expect("a list");
        assert!(!blockers.is_empty());
        let diagnosis = quiclb_json(&["doctor", &good]).exits(5).valid("doctor");
        let checks = diagnosis["checks"].as_array().expect("a list").iter();
        let told: Vec<_> = checks
            .filter(|check| check["code"] == "offload" && check["result"] == "error")
            .map(|check| check["message"].clone())
            .collect();
        assert_eq!(&told, blockers);
        let text = quiclb(&["-o", "text", "plan", &good]).exits(0).stdout;
        assert!(text.contains("mode offload has no events"), "{text}");
        assert!(
            text.contains("262144") && !text.contains("of these bytes"),
            "{text}"
        );
        let ordinary = files.write("ordinary.json", example().to_string());
        let plan = quiclb_json(&["plan", &ordinary]).exits(0).valid("plan");
        assert_eq!(plan["lacks"], json!([]));
        assert_eq!(plan["capacity"]["card"], json!(null));

        let mut spec = for_a_card();
        spec["events_per_second"] = json!(1);
        spec["services"][0]["quic"] = json!({"routing": "learned"});
        spec["services"][0]["backends"][1]["interface"] = json!("vm-edge-b");
        let mut keyed = spec["services"][0].clone();
        keyed["name"] = json!("keyed");
        keyed["port"] = json!(8443);
        keyed["short_dcid_len"] = json!(0);
        keyed["tracking"] = json!("exceptions");
        keyed["quic"] = json!({"routing": "server-id", "configs": [
            {"config_id": 0, "server_id_len": 4, "nonce_len": 12, "key": "00".repeat(16)},
        ]});
        keyed["backends"] = json!([]);
        spec["services"].as_array_mut().expect("a list").push(keyed);
        let bad = files.write("bad.json", spec.to_string());
        let error = quiclb_json(&["plan", &bad]).fails(1, "invalid");
        let faults = error["faults"].as_array().expect("a list").iter();
        let mut pointers: Vec<_> = faults
            .filter(|fault| {
                fault["message"]
                    .as_str()
                    .expect("text")
                    .contains("mode offload")
            })
            .map(|fault| fault["pointer"].as_str().expect("text"))
            .collect();
        pointers.sort_unstable();
        let expected = [
            "/events_per_second",
            "/services/0/backends/1/interface",
            "/services/0/quic/routing",
            "/services/1/quic/configs/0/key",
            "/services/1/tracking",
        ];
        assert_eq!(pointers, expected);

        // More slots than a card has room for, twice.
        let mut spec = for_a_card();
        let service = spec["services"][0].clone();
        let services = (0..5).map(|number| {
            let mut service = service.clone();
            service["name"] = json!(format!("large-{number}"));
            service["port"] = json!(1000 + number);
            service["maglev_table_size"] = json!(65537);
            service
        });
        spec["services"] = services.collect();
        let large = files.write("large.json", spec.to_string());
        let error = quiclb_json(&["plan", &large]).fails(1, "invalid");
        assert_eq!(error["faults"][0]["code"], "capacity");
        let message = error["faults"][0]["message"].as_str().expect("text");
        assert!(
            message.contains("slots on a card: 327685 needed, the limit is 262144"),
            "{message}"
        );
    });
}

#[test]
fn a_card_that_is_not_there_is_an_error_and_nothing_runs_elsewhere() {
    isolated("tool::offload_apply", || {
        machine();
        let files = Files::new("offload-apply");
        let spec = files.write("spec.json", for_a_card().to_string());
        let unchanged = || {
            assert_eq!(occupants(ifindex("edge0")).expect("looked"), []);
            let list = quiclb_json(&["status"]).exits(0).valid("list");
            assert_eq!(list["instances"], json!([]));
        };
        let error = quiclb_json(&["apply", &spec, "--ack-hardware-offload"]).fails(1, "kernel");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("gw_quiclb for network cards"), "{message}");
        unchanged();
        // The same by a plan.
        let plan = files.path("plan.json");
        quiclb_json(&["plan", &spec, &plan]).exits(0);
        quiclb_json(&["apply", &plan]).fails(2, "usage");
        quiclb_json(&["apply", &plan, "--ack-hardware-offload"]).fails(1, "kernel");
        unchanged();
        // The word without the mode.
        let ordinary = files.write("ordinary.json", example().to_string());
        let arguments = ["apply", &ordinary, "--ack-hardware-offload"];
        let error = quiclb_json(&arguments).fails(2, "usage");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("belongs to mode offload"), "{message}");
        unchanged();
    });
}

#[test]
fn an_instance_on_a_card_is_seen_and_removed() {
    isolated("tool::offload_status", || {
        machine();
        // The kernel stands in for the card; only the library can ask it to.
        let spec = Spec::from_json(for_a_card().to_string().as_bytes()).expect("valid");
        let dir = StateRoot::default().quiclb(spec.instance_id());
        let acknowledged = HardwareAcknowledged::the_card_runs_it_or_nothing_does();
        let loader = Loader::new(&dir, spec.limits()).hardware(acknowledged);
        let mut card = loader.load_in_kernel().expect("made");
        let plan = card.plan(&spec, Options::default()).expect("a plan");
        card.publish(&plan).expect("published");
        drop(card);

        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("card");
        assert_eq!(status["mode"], "offload");
        assert_eq!(status["generation"], 1);
        assert_eq!(status["attachment"], Value::Null);
        assert_eq!(
            status["flows"],
            json!({"used": 0, "limit": 1024, "epoch": 0})
        );
        let text = quiclb(&["-o", "text", "status", INSTANCE]).exits(0).stdout;
        assert!(
            text.contains("not attached") && text.contains("quic-api"),
            "{text}"
        );
        let list = quiclb_json(&["status"]).exits(0).valid("list");
        assert_eq!(list["instances"][0]["mode"], "offload");
        assert_eq!(list["instances"][0]["generation"], 1);

        // What the guide says that it has not.
        let verbs: [&[&str]; 6] = [
            &["affinity-export", INSTANCE, "/dev/null"],
            &["doctor", INSTANCE],
            &["watch", INSTANCE],
            &["upgrade", INSTANCE],
            &["rollback", INSTANCE],
            &["rollback", INSTANCE, "--spec"],
        ];
        for verb in verbs {
            quiclb_json(verb).fails(1, "unsupported");
        }
        let error = quiclb_json(&["events", INSTANCE]).fails(1, "unsupported");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("has no events"), "{message}");
        // Nothing on CPUs takes its place.
        let files = Files::new("offload-status");
        let ordinary = files.write("ordinary.json", example().to_string());
        let error = quiclb_json(&["apply", &ordinary]).fails(1, "invalid");
        let faults = error["faults"].as_array().expect("a list").iter();
        let pointers: Vec<_> = faults.map(|fault| &fault["pointer"]).collect();
        assert!(pointers.contains(&&json!("/mode")), "{pointers:?}");

        // Flows have no other clock than this.
        let mut run = command(&["-o", "json", "run", INSTANCE])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        let mut line = String::new();
        let mut lines = BufReader::new(run.stdout.take().expect("its output"));
        lines.read_line(&mut line).expect("a line");
        let aged: Value = serde_json::from_str(&line).expect("JSON");
        crate::harness::assert_valid("card-run", &aged);
        assert_eq!((&aged["epoch"], &aged["flows"]), (&json!(1), &json!(0)));
        kill(Pid::from_raw(run.id() as i32), Signal::SIGTERM).expect("a signal");
        assert!(run.wait().expect("it ends").success());

        // Whoever has the lock for long, as an `apply` has, only delays it.
        let lock = dir.lock().expect("free");
        let mut run = command(&["-o", "json", "run", INSTANCE])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        let mut line = String::new();
        let mut problems = BufReader::new(run.stderr.take().expect("its problems"));
        problems.read_line(&mut line).expect("a line");
        assert!(line.contains("trying again"), "{line}");
        drop(lock);
        let mut line = String::new();
        let mut lines = BufReader::new(run.stdout.take().expect("its output"));
        lines.read_line(&mut line).expect("a line");
        let aged: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(aged["epoch"], 2);
        kill(Pid::from_raw(run.id() as i32), Signal::SIGTERM).expect("a signal");
        assert!(run.wait().expect("it ends").success());

        quiclb_json(&["detach", INSTANCE, "--purge"])
            .exits(0)
            .valid("detach");
        let list = quiclb_json(&["status"]).exits(0).valid("list");
        assert_eq!(list["instances"], json!([]));
    });
}
