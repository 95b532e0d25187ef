// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `plan` and `diff`: what would happen.

use std::os::unix::fs::PermissionsExt;

use serde_json::{json, Value};

use guideway::abi;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::typed::Hash;

use crate::harness::{
    assert_valid, command, draining, example, machine, quiclb, quiclb_json, send_initials, state,
    state_dir, Files, EXAMPLE, INSTANCE,
};
use crate::netns::{ifindex, isolated};

const SEED: &str = "000102030405060708090a0b0c0d0e0f";
const KEY: &str = "8f95f09245765f80256934e50c66207f";

#[test]
fn the_example_is_planned_offline_with_the_published_table() {
    let files = Files::new("offline");
    let spec = files.write("spec.json", EXAMPLE);
    let plan = quiclb_json(&["plan", "--offline", &spec])
        .exits(0)
        .valid("plan");
    assert_eq!(plan["schema"], "guideway.quiclb.plan/v1");
    assert_eq!(plan["result"], "create");
    assert_eq!(
        (&plan["base"], &plan["ifindex"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(plan["preflight"], json!([]));
    let service = &plan["services"][0];
    assert_eq!(service["service_id"], 0x8cd5_d28f_u32);
    assert_eq!(service["table"]["digest"], "c2c1866ce84c1d4d");
    assert_eq!(service["table"]["size"], 4093);
    assert_eq!(service["backends"][0]["slots"], 2047);
    assert_eq!(service["backends"][1]["slots"], 2046);
    assert_eq!(service["backends"][1]["ifindex"], Value::Null);
    assert_valid("spec", &example());

    let again = quiclb_json(&["plan", "--offline", &spec]).exits(0);
    assert_eq!(again.document(), plan, "the same inputs, the same plan");

    let text = quiclb(&["plan", "--offline", &spec]).exits(0).stdout;
    for part in [
        "quic-api",
        "203.0.113.80",
        "c2c1866ce84c1d4d",
        "2047",
        "2046",
        "50.01 %",
        "####",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.is_ascii(), "no colours, no drawings: {text}");
}

#[test]
fn all_faults_come_at_once() {
    let files = Files::new("faults");
    let mut spec = example();
    spec["services"][0]["port"] = json!(0);
    spec["services"][0]["backends"][0]["mac"] = json!("01:00:00:00:00:00");
    spec["colour"] = json!("red");
    let path = files.write("spec.json", spec.to_string());
    let error = quiclb_json(&["plan", "--offline", &path]).fails(1, "invalid");
    assert_eq!(error["object"], path.as_str());
    let faults: Vec<_> = error["faults"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fault| {
            (
                fault["pointer"].as_str().unwrap(),
                fault["code"].as_str().unwrap(),
            )
        })
        .collect();
    let mut sorted = faults.clone();
    sorted.sort_unstable();
    let expected = [
        ("/colour", "unknown"),
        ("/services/0/backends/0/mac", "mac"),
        ("/services/0/port", "range"),
    ];
    assert_eq!(sorted, expected);

    let ran = quiclb(&["plan", "--offline", &path]).exits(1);
    for (pointer, _) in faults {
        assert!(ran.stderr.contains(pointer), "{}", ran.stderr);
    }
    let garbage = files.write("garbage", "{");
    let error = quiclb_json(&["plan", "--offline", &garbage]).fails(1, "invalid");
    assert_eq!(error["faults"][0]["code"], "json");
    quiclb_json(&["plan", "--offline", &files.path("missing")]).fails(1, "io");
}

#[test]
fn a_plan_file_is_private_and_has_the_secrets_that_no_output_has() {
    let files = Files::new("secrets");
    let mut spec = example();
    spec["hash_seed"] = json!(SEED);
    let path = files.write("spec.json", spec.to_string());
    let out = files.write("plan.json", "what was there before");
    let ran = quiclb_json(&["plan", "--offline", &path, &out]).exits(0);
    assert!(!ran.stdout.contains(SEED), "{}", ran.stdout);
    let text = quiclb(&["plan", "--offline", &path]).exits(0).stdout;
    assert!(!text.contains(SEED), "{text}");

    let written = std::fs::read_to_string(&out).expect("a plan");
    assert!(written.contains(SEED));
    let file: Value = serde_json::from_str(&written).expect("JSON");
    assert_valid("plan", &file);
    assert_eq!(file["digest"], ran.document()["digest"]);
    let mode = std::fs::metadata(&out)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        files.names(),
        ["plan.json", "spec.json"],
        "no file half-written"
    );
}

#[test]
fn a_plan_file_that_cannot_be_written_changes_nothing() {
    let files = Files::new("unwritable");
    let path = files.write("spec.json", EXAMPLE);
    let nowhere = files.path("no/such/directory/plan.json");
    quiclb_json(&["plan", "--offline", &path, &nowhere]).fails(1, "io");
    // The name of a directory.
    let directory = files.path("taken");
    std::fs::create_dir(&directory).expect("a directory");
    quiclb_json(&["plan", "--offline", &path, &directory]).fails(1, "io");
    assert_eq!(files.names(), ["spec.json", "taken"]);
}

#[test]
fn planning_looks_at_the_machine_and_changes_nothing() {
    isolated("tool::planning", || {
        let files = Files::new("machine");
        let spec = files.write("spec.json", EXAMPLE);
        let error = quiclb_json(&["plan", &spec]).fails(1, "invalid");
        let faults = error["faults"].as_array().expect("a list");
        assert_eq!(faults.len(), 3, "{error}");
        assert!(faults.iter().all(|fault| fault["code"] == "no-interface"));

        machine();
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        assert_eq!(plan["ifindex"], ifindex("edge0"));
        let backend = &plan["services"][0]["backends"][1];
        assert_eq!(backend["ifindex"], ifindex("vm-edge-b"));
        let checks = plan["preflight"].as_array().expect("a list");
        let napi = checks.iter().filter(|check| check["code"] == "target-napi");
        assert_eq!(napi.clone().count(), 2);
        assert!(
            napi.clone().all(|check| check["result"] == "ok"),
            "{plan:#}"
        );
        assert_eq!(state(), Vec::<String>::new());
        assert_eq!(files.names(), ["spec.json"]);
    });
}

#[test]
fn a_difference_names_members_and_hides_secrets() {
    let files = Files::new("diff");
    let mut before = example();
    before["hash_seed"] = json!(SEED);
    before["services"][0]["short_dcid_len"] = json!(0);
    before["services"][0]["quic"] = json!({"routing": "server-id", "configs": [
        {"config_id": 0, "server_id_len": 3, "nonce_len": 4, "key": KEY}]});
    let mut after = before.clone();
    after["hash_seed"] = json!(KEY);
    after["services"][0]["quic"]["configs"][0]["key"] = json!(SEED);
    let backends = after["services"][0]["backends"]
        .as_array_mut()
        .expect("a list");
    backends[0]["state"] = json!("draining");
    backends[1]["id"] = json!(3);
    let one = files.write("one.json", before.to_string());
    let two = files.write("two.json", after.to_string());

    let ran = quiclb_json(&["diff", &one, &two]).exits(0);
    let text = quiclb(&["diff", &one, &two]).exits(0).stdout;
    for output in [&ran.stdout, &text] {
        assert!(!output.contains(SEED) && !output.contains(KEY), "{output}");
    }
    let diff = ran.document();
    assert_eq!(diff["identical"], false);
    let change = |pointer: &str| {
        let mut changes = diff["changes"].as_array().expect("a list").iter();
        changes
            .find(|change| change["pointer"] == pointer)
            .unwrap_or_else(|| panic!("{pointer}: {diff:#}"))
            .clone()
    };
    let entry = |pointer: &str, op: &str, from: Value, to: Value| {
        let expected = json!({"pointer": pointer, "op": op, "from": from, "to": to});
        assert_eq!(change(pointer), expected);
    };
    let services = "/services/0";
    entry("/hash_seed", "replace", Value::Null, Value::Null);
    let key = format!("{services}/quic/configs/0/key");
    entry(&key, "replace", Value::Null, Value::Null);
    let state = format!("{services}/backends/0/state");
    entry(&state, "replace", json!("ready"), json!("draining"));
    let changes = diff["changes"].as_array().expect("a list");
    let ops = |op: &str| changes.iter().filter(|change| change["op"] == op).count();
    // Backend 2 is gone and backend 3 is new, at the same place of the list.
    assert_eq!((ops("remove"), ops("add"), changes.len()), (1, 1, 5));
    // All slots of backends 1 and 2 go to backend 3.
    assert_eq!(diff["disruption"][0]["slots_moved"], 4093);
    assert_eq!(diff["disruption"][0]["change"], "changed");

    let same = quiclb_json(&["diff", &one, &one]).exits(0).document();
    assert_eq!(
        (&same["identical"], &same["changes"]),
        (&json!(true), &json!([]))
    );
}

/// What becomes of flows, but for how many seconds of a window are left.
fn disruption(of: &Value) -> serde_json::Map<String, Value> {
    let mut disruption = of.as_object().expect("an object").clone();
    disruption.remove("window_seconds");
    disruption
}

#[test]
fn a_difference_predicts_what_a_plan_predicts() {
    isolated("tool::diff", || {
        machine();
        let files = Files::new("predict");
        let by_tuple = |mut spec: Value| {
            spec["services"][0]["quic"] = json!({"routing": "tuple"});
            spec.to_string()
        };
        let one = files.write("one.json", by_tuple(example()));
        let two = files.write("two.json", by_tuple(draining()));
        quiclb(&["apply", &one]).exits(0);
        let plan = |spec: &str| {
            let plan = quiclb_json(&["plan", spec]).exits(0).valid("plan");
            disruption(&plan["services"][0]["disruption"])
        };
        let same = |spec: &str| {
            let mut planned = plan(spec);
            loop {
                let diff = quiclb_json(&["diff", INSTANCE, spec]).exits(0).document();
                let again = plan(spec);
                // Otherwise the first numbers of flows have just become known.
                if planned == again {
                    let foreseen = disruption(&diff["disruption"][0]);
                    let of_a_plan = foreseen
                        .iter()
                        .filter(|(key, _)| planned.contains_key(*key));
                    assert!(of_a_plan.eq(&planned), "{foreseen:?} {planned:?}");
                    return planned;
                }
                planned = again;
            }
        };
        let nothing = quiclb_json(&["diff", INSTANCE, INSTANCE])
            .exits(0)
            .document();
        assert_eq!(nothing["disruption"][0]["change"], "unchanged");
        let drain = same(&two);
        assert_eq!(
            drain["slots_moved"], 2047,
            "those of the backend that drains"
        );

        // On the way back, slots are open that two specifications know nothing of.
        quiclb(&["apply", &two]).exits(0);
        let back = same(&one);
        assert_ne!(back["slots_held"], 0);
        let alone = quiclb_json(&["diff", &two, &one]).exits(0).document();
        assert_eq!(alone["disruption"][0]["slots_held"], 0);
        // Nor do they know who is in use.
        let removed = files.write("removed.json", {
            let mut spec: Value = serde_json::from_str(&by_tuple(example())).expect("JSON");
            let backends = spec["services"][0]["backends"].as_array_mut();
            backends.expect("a list").pop();
            spec.to_string()
        });
        let codes = |arguments: &[&str]| {
            let of = quiclb_json(arguments).exits(0).document();
            let warnings = of["warnings"].as_array().expect("a list").clone();
            let codes = warnings.iter().map(|warning| warning["code"].clone());
            codes.collect::<Vec<_>>()
        };
        let planned = codes(&["plan", &removed]);
        assert!(planned.contains(&json!("backend-in-use")), "{planned:?}");
        assert_eq!(codes(&["diff", INSTANCE, &removed]), planned);
        assert!(!codes(&["diff", &two, &removed]).contains(&json!("backend-in-use")));
        // That an interface is missing here keeps nobody from looking.
        let gone = std::fs::read_to_string(&one).expect("readable");
        let gone = files.write("gone.json", gone.replace("vm-edge-b", "vm-edge-z"));
        quiclb_json(&["plan", &gone]).fails(1, "invalid");
        let diff = quiclb_json(&["diff", INSTANCE, &gone]).exits(0).document();
        assert_eq!(diff["disruption"][0]["slots_held"], back["slots_held"]);
    });
}

#[test]
fn flows_of_a_service_that_tracks_all_are_those_of_the_last_sweep() {
    isolated("tool::counted", || {
        machine();
        let files = Files::new("counted");
        let mut spec = example();
        spec["services"][0]["quic"] = json!({"routing": "learned"});
        spec["services"][0]["short_dcid_len"] = json!(8);
        spec["services"][0]["flow_idle"] = json!("8s");
        spec["services"][0]["cid_idle"] = json!("8s");
        let file = files.write("spec.json", spec.to_string());
        quiclb(&["apply", &file]).exits(0);
        send_initials(40);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // Each looks at what the sweeps of `run` have counted by then.
        let mut run = command(&["run", INSTANCE]).spawn().expect("the tool");
        let flows = loop {
            let plan = quiclb_json(&["plan", &file]).exits(0).document();
            let flows = plan["services"][0]["disruption"]["flows_live"].as_u64();
            if flows > Some(0) || std::time::Instant::now() > end {
                break flows;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        };
        run.kill().expect("running");
        run.wait().expect("a child");
        // The kernel may give a client the port of one before it.
        assert!((30..=40).contains(&flows.unwrap_or(0)), "{flows:?}");
    });
}

#[test]
fn what_is_foretold_of_marked_slots_and_bindings_comes_true() {
    isolated("tool::foretold", || {
        machine();
        let files = Files::new("foretold");
        // By tuple, with an entry only for flows that need one.
        let with = |backends: Value| {
            let mut spec = example();
            let service = &mut spec["services"][0];
            service["short_dcid_len"] = json!(0);
            service["backends"] = backends;
            files.write("spec.json", spec.to_string())
        };
        let all = example()["services"][0]["backends"].clone();
        let created = quiclb_json(&["apply", &with(all.clone())])
            .exits(0)
            .document();
        assert_eq!(created["disruption"][0]["slots_open"], 0);

        let path = state_dir().join("maps/gw_ql_flow");
        let flows = Map::open_any(&path).expect("the flow map");
        let flows = Hash::<abi::FlowKey, abi::Binding>::new(flows).expect("the flow map");
        for client_port in 0..7 {
            let key = abi::FlowKey {
                service: 0x8cd5_d28f,
                client_port,
                ..Default::default()
            };
            // Two in three flows belong to backend 2, in row 1.
            let (row, incarnation) = [(0, 1), (1, 2), (1, 2)][usize::from(client_port % 3)];
            let binding = abi::Binding {
                row,
                incarnation,
                ..Default::default()
            };
            flows.update(&key, &binding, Update::Insert).expect("room");
        }
        let drained = {
            let mut backends = all.clone();
            backends[1]["state"] = json!("draining");
            backends
        };
        let removed = json!([all[0]]);
        // Draining opens the slots of backend 2, and its removal leaves them held.
        for (backends, open, held, lost) in [(drained, 2046, 0, 0), (removed, 0, 2046, 4)] {
            let wanted = with(backends);
            let plan = quiclb_json(&["plan", &wanted]).exits(0).valid("plan");
            let text = quiclb(&["plan", &wanted]).exits(0).stdout;
            let done = quiclb_json(&["apply", &wanted]).exits(0).document();
            let (foretold, done) = (&plan["services"][0]["disruption"], &done["disruption"][0]);
            for key in [
                "slots_moved",
                "slots_forced",
                "slots_extra",
                "slots_open",
                "slots_held",
                "moved_ratio",
                "window_seconds",
                "bindings_lost",
            ] {
                assert_eq!(foretold[key], done[key], "{key}");
            }
            assert_eq!(done["slots_open"], open);
            assert_eq!(done["slots_held"], held);
            assert_eq!(done["window_seconds"], if open > 0 { 122 } else { 0 });
            assert_eq!(done["bindings_lost"], lost);
            assert_eq!(
                text.contains(&format!("entries of backends that go: {lost}")),
                lost > 0,
                "{text}"
            );
        }
        let text = quiclb(&["plan", &with(all)]).exits(0).stdout;
        for part in [
            "moves 2046 slots",
            "slots 2046 open for 122 s, 0 held",
            "flows, about: ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}
