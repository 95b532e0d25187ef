// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bindings of connection IDs from one instance to another.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use guideway::abi;
use guideway::id::{BackendId, ServiceId};
use guideway::kernel::map::Map;
use guideway::kernel::typed::Hash;
use guideway::quic::Cid;
use guideway::quiclb::{QuicLb, StateDir, StateRoot, Writer};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::harness::{
    assert_valid, command, example, machine, quiclb, quiclb_json, Files, Ran, EXAMPLE, INSTANCE,
};
use crate::netns::{self, isolated, veth};

const OTHER: &str = "0badcafe-8957-42bc-9dd7-32d684d76447";

fn dir(instance: &str) -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(instance.parse().expect("a UUID"))
}

/// The number of the example's service; another instance of it has the same.
fn service() -> ServiceId {
    Spec::from_json(EXAMPLE.as_bytes())
        .expect("valid")
        .services()[0]
        .id
}

fn cid(number: u32) -> Cid {
    format!("c460{number:012x}")
        .parse()
        .expect("a connection ID")
}

/// Registers connection IDs of the example's service.
fn register(instance: &str, numbers: std::ops::Range<u32>, backend: u32) {
    let balancer = QuicLb::open(&dir(instance)).expect("open");
    let backend = BackendId::new(backend).expect("not 0");
    for number in numbers {
        let registered = balancer.register(service(), &cid(number), backend, None);
        registered.expect("registered");
    }
}

/// Every entry of the table of connection IDs, byte by byte.
fn table(instance: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let path = dir(instance).path().join("maps/gw_ql_cid");
    let map = Map::open_any(&path).expect("a map");
    let table = Hash::<abi::CidKey, abi::Binding>::new(map).expect("its shape");
    let mut all = BTreeMap::new();
    let each = |key: &abi::CidKey, value: &abi::Binding| {
        let value = bytemuck::bytes_of(value).to_vec();
        all.insert(bytemuck::bytes_of(key).to_vec(), value);
        ControlFlow::Continue(())
    };
    table.for_each(each).expect("read");
    all
}

/// The same service on another interface, whose backends have other rows and whose second one is
/// draining; with a third, unhealthy backend.
fn other() -> Value {
    let mut spec = example();
    spec["instance_id"] = json!(OTHER);
    spec["interface"] = json!("edge1");
    let backends = spec["services"][0]["backends"]
        .as_array_mut()
        .expect("a list");
    backends[1]["state"] = json!("draining");
    let mut third = backends[0].clone();
    third["id"] = json!(3);
    third["state"] = json!("unhealthy");
    backends.push(third);
    spec
}

/// Applies the example as instance `INSTANCE`, and [`other`].
fn both(files: &Files) {
    machine();
    veth("edge1", "client1");
    let spec = files.write("one.json", EXAMPLE);
    quiclb(&["apply", &spec]).exits(0);
    // Alone it has row 0; the others come behind.
    let mut first = other();
    let backends = first["services"][0]["backends"]
        .as_array_mut()
        .expect("a list");
    backends.remove(0);
    let spec = files.write("first.json", first.to_string());
    quiclb(&["apply", &spec, "--force", "target-napi"]).exits(0);
    let spec = files.write("other.json", other().to_string());
    quiclb(&["apply", &spec, "--force", "target-napi"]).exits(0);
}

/// Backend by connection ID, as an export says.
fn exported(files: &Files, instance: &str) -> BTreeMap<String, u64> {
    let file = files.path("exported.json");
    quiclb(&["affinity-export", instance, &file]).exits(0);
    let document: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
    assert_valid("affinity", &document);
    let services = document["services"].as_array().expect("a list");
    let bindings = services
        .iter()
        .flat_map(|of| of["bindings"].as_array().expect("a list").clone());
    bindings
        .map(|of| {
            let cid = of["cid"].as_str().expect("text").to_owned();
            (cid, of["backend"].as_u64().expect("a number"))
        })
        .collect()
}

fn numbers(report: &Value) -> Value {
    let mut report = report.clone();
    for key in ["schema", "instance_id", "file", "dry_run", "examples"] {
        report.as_object_mut().expect("an object").remove(key);
    }
    report
}

fn import(arguments: &[&str]) -> Ran {
    quiclb_json(&[&["affinity-import"], arguments].concat())
}

#[test]
fn bindings_go_from_one_instance_to_another_with_other_rows() {
    isolated("tool::affinity", || {
        let files = Files::new("affinity");
        both(&files);
        let file = files.path("bindings.json");
        // Nothing is bound yet.
        let done = quiclb_json(&["affinity-export", INSTANCE, &file])
            .exits(0)
            .document();
        let expected = json!({
            "schema": "guideway.affinity.export/v1", "instance_id": INSTANCE, "file": file,
            "services": 0, "bindings": 0,
        });
        assert_eq!(done, expected);

        register(INSTANCE, 0..10, 1);
        register(INSTANCE, 10..30, 2);
        let done = quiclb_json(&["affinity-export", INSTANCE, &file])
            .exits(0)
            .document();
        assert_eq!(
            (&done["services"], &done["bindings"]),
            (&json!(1), &json!(30))
        );
        let text = quiclb(&["affinity-export", INSTANCE, &file])
            .exits(0)
            .stdout;
        assert_eq!(
            text,
            format!("instance {INSTANCE}: 30 bindings of 1 services in {file}\n")
        );
        let document: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
        assert_eq!(document["instance"], INSTANCE);
        let written = &document["services"][0];
        for (key, value) in [
            ("id", json!(service().get())),
            ("name", json!("quic-api")),
            ("vip", json!("203.0.113.80")),
            ("protocol", json!("udp")),
            ("port", json!(443)),
        ] {
            assert_eq!(written[key], value, "{key}");
        }
        let first = json!({
            "cid": "c460000000000000", "backend": 1, "origin": "registered", "last_seen_ns": 0
        });
        assert_eq!(written["bindings"][0], first);

        let before = table(OTHER);
        assert!(before.is_empty());
        let foreseen = import(&[OTHER, &file, "--dry-run"]).exits(0).document();
        assert_eq!(table(OTHER), before);
        assert_eq!(foreseen["dry_run"], true);
        let done = import(&[OTHER, &file]).exits(0).document();
        assert_eq!(numbers(&done), numbers(&foreseen));
        let none = json!({
            "unknown_service": 0, "service_differs": 0, "unknown_backend": 0, "not_usable": 0,
            "duplicate_in_document": 0, "cid_length": 0, "table_full": 0,
        });
        let expected = json!({
            "accepted": 30, "unchanged": 0, "kept": 0, "replaced": 0, "rejected": none,
        });
        assert_eq!(numbers(&done), expected);
        assert_eq!(
            (&done["file"], &done["dry_run"]),
            (&json!(file), &json!(false))
        );
        assert_eq!(exported(&files, OTHER), exported(&files, INSTANCE));

        // Again: nothing changes.
        let once = table(OTHER);
        let again = import(&[OTHER, &file]).exits(0).document();
        assert_eq!(
            (&again["accepted"], &again["unchanged"]),
            (&json!(0), &json!(30))
        );
        assert_eq!(table(OTHER), once);
        let text = quiclb(&["affinity-import", OTHER, &file]).exits(0).stdout;
        assert!(text.contains("unchanged") && text.contains("30"), "{text}");
    });
}

#[test]
fn bindings_that_are_not_taken_are_counted_with_their_reasons() {
    isolated("tool::affinity_partly", || {
        let files = Files::new("affinity-partly");
        both(&files);
        register(INSTANCE, 0..4, 1);
        let file = files.path("bindings.json");
        quiclb(&["affinity-export", INSTANCE, &file]).exits(0);
        let mut document: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
        let mut unknown = document["services"][0].clone();
        unknown["id"] = json!(7);
        let bindings = document["services"][0]["bindings"]
            .as_array_mut()
            .expect("a list");
        bindings[0]["backend"] = json!(3);
        bindings[1]["backend"] = json!(4);
        let twice = bindings[2].clone();
        bindings.push(twice);
        let mut long = bindings[3].clone();
        long["cid"] = json!("c4600000000000ff00");
        bindings.push(long);
        document["services"]
            .as_array_mut()
            .expect("a list")
            .push(unknown);
        let file = files.write("changed.json", document.to_string());
        let done = import(&[OTHER, &file]).exits(3).document();
        let expected = json!({
            "accepted": 1, "unchanged": 0, "kept": 0, "replaced": 0,
            "rejected": {
                "unknown_service": 4, "service_differs": 0, "unknown_backend": 1, "not_usable": 1,
                "duplicate_in_document": 2, "cid_length": 1, "table_full": 0,
            },
        });
        assert_eq!(numbers(&done), expected);
        let examples = &done["examples"];
        assert_eq!(
            examples["unknown_service"]
                .as_array()
                .expect("a list")
                .len(),
            4
        );
        let example = json!({
            "service_id": service().get(), "cid": "c460000000000001", "backend": 4,
            "bound_to": null,
        });
        assert_eq!(examples["unknown_backend"], json!([example]));
        let text = quiclb(&["affinity-import", OTHER, &file]).exits(3).stdout;
        for part in [
            "unknown backend: service",
            "c460000000000001 backend 4",
            "4",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(exported(&files, OTHER).len(), 1);
    });
}

#[test]
fn conflicts_are_settled_as_asked() {
    isolated("tool::affinity_conflict", || {
        let files = Files::new("affinity-conflict");
        both(&files);
        register(INSTANCE, 0..6, 1);
        let file = files.path("bindings.json");
        quiclb(&["affinity-export", INSTANCE, &file]).exits(0);
        register(OTHER, 0..2, 2);
        let registered = table(OTHER);
        // With one conflict nothing is imported.
        for dry in [&["--dry-run"][..], &[]] {
            let arguments = [&[OTHER, &file, "--conflict", "fail"], dry].concat();
            let error = import(&arguments).fails(4, "conflict");
            let message = error["message"].as_str().expect("text");
            assert!(
                message.contains("2 connection IDs are bound to other"),
                "{message}"
            );
            assert_eq!(error["object"], OTHER);
            let faults = error["faults"].as_array().expect("a list");
            assert_eq!(faults.len(), 2);
            assert_eq!(faults[0]["code"], "conflict");
            assert_eq!(
                faults[0]["message"],
                "is bound to backend 2, the document says 1"
            );
            let pointer = faults[0]["pointer"].as_str().expect("text");
            assert!(pointer.ends_with(" c460000000000000"), "{pointer}");
            assert_eq!(table(OTHER), registered);
        }
        let done = import(&[OTHER, &file]).exits(0).document();
        assert_eq!((&done["accepted"], &done["kept"]), (&json!(4), &json!(2)));
        assert_eq!(done["examples"]["kept"][1]["bound_to"], 2);

        // What was imported may be replaced, what was registered never.
        let mut document: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
        for binding in document["services"][0]["bindings"]
            .as_array_mut()
            .expect("a list")
        {
            binding["backend"] = json!(2);
        }
        // Those of backend 2 are registered for it here, and those bound to 1 were imported.
        let second = files.write("second.json", document.to_string());
        let kept = import(&[OTHER, &second, "--conflict", "keep"])
            .exits(0)
            .document();
        assert_eq!((&kept["kept"], &kept["unchanged"]), (&json!(4), &json!(2)));
        let done = import(&[OTHER, &second, "--conflict", "replace-imported"]);
        let done = done.exits(0).document();
        assert_eq!(
            (&done["replaced"], &done["unchanged"]),
            (&json!(4), &json!(2))
        );
        let done = import(&[OTHER, &file, "--conflict", "replace-imported"]);
        let done = done.exits(0).document();
        assert_eq!((&done["replaced"], &done["kept"]), (&json!(4), &json!(2)));
        let bound = exported(&files, OTHER);
        let expected = |number: u32| if number < 2 { 2 } else { 1 };
        for number in 0..6 {
            assert_eq!(bound[&cid(number).to_string()], expected(number));
        }
    });
}

#[test]
fn documents_that_cannot_be_read_to_their_end_change_nothing() {
    isolated("tool::affinity_cut", || {
        let files = Files::new("affinity-cut");
        both(&files);
        register(INSTANCE, 0..50, 1);
        register(OTHER, 100..103, 2);
        let file = files.path("bindings.json");
        quiclb(&["affinity-export", INSTANCE, &file]).exits(0);
        let text = std::fs::read(&file).expect("read");
        let before = table(OTHER);
        let refused = |name: &str, content: &[u8]| {
            let file = files.write(name, content);
            let error = import(&[OTHER, &file]).fails(1, "invalid");
            assert_eq!(table(OTHER), before, "{name}");
            assert_eq!(error["object"], file);
            let message = error["message"].as_str().expect("text").to_owned();
            assert!(message.starts_with(&file), "{message}");
            (message, error)
        };
        for part in 0..50 {
            let end = text.len() * part / 50;
            let (message, _) = refused("cut.json", &text[..end]);
            assert!(
                message.contains("ends in the middle, at line 1"),
                "{message}"
            );
        }
        let edited = |from: &str, to: &str| {
            let text = String::from_utf8(text.clone()).expect("UTF-8");
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text);
            edited.into_bytes()
        };
        let newer = edited("guideway.affinity/v1", "guideway.affinity/v2");
        let (message, _) = refused("newer.json", &newer);
        assert!(
            message.contains("newer than guideway.affinity/v1"),
            "{message}"
        );
        let (_, error) = refused("spec.json", EXAMPLE.as_bytes());
        assert_eq!(error["faults"][0]["code"], "missing", "{error}");
        let (message, _) = refused("none.json", b"no JSON");
        assert!(message.contains("is not JSON"), "{message}");
        let last = format!("\"cid\":\"{}\"", cid(49));
        let long = format!("\"cid\":\"{}\"", "00".repeat(21));
        let (message, error) = refused("long.json", &edited(&last, &long));
        assert!(message.contains("a fault at line 1 column"), "{message}");
        let fault = &error["faults"][0];
        let message = fault["message"].as_str().expect("text");
        assert!(message.contains("2 to 40 hexadecimal digits"), "{message}");
        assert_eq!(fault["pointer"], "/services/0/bindings/49/cid");
        assert_eq!(fault["code"], "hex");
        let deep = edited("{", &format!("{{\"note\":{},", "[".repeat(100_000)));
        let (message, _) = refused("deep.json", &deep);
        assert!(message.contains("nested more than 64 deep"), "{message}");
        let huge = edited(
            "\"last_seen_ns\":0",
            &format!("\"last_seen_ns\":{}", "9".repeat(5_000)),
        );
        let (message, _) = refused("huge.json", &huge);
        assert!(message.len() < 400, "{message}");
        let flows = edited("\"services\":", "\"flows\":[],\"services\":");
        let (message, _) = refused("flows.json", &flows);
        assert!(message.contains("rows of flows"), "{message}");
        let error = import(&[OTHER, &files.path("absent.json")]).fails(1, "io");
        assert!(error["message"]
            .as_str()
            .expect("text")
            .contains("absent.json"));
        import(&[OTHER, files.path("").as_str()]).fails(1, "io");
        assert_eq!(table(OTHER), before);

        // Many bindings of one connection ID, each of them rejected.
        let binding = "{\"cid\":\"c46000000000ffff\",\"backend\":1,\"origin\":\"learned\",\
                       \"last_seen_ns\":1}";
        let many = vec![binding; 100_000].join(",");
        let many = edited("\"bindings\":[", &format!("\"bindings\":[{many},"));
        let file = files.write("many.json", many);
        let done = import(&[OTHER, &file]).exits(3).document();
        assert_eq!(done["rejected"]["duplicate_in_document"], 100_000);
        assert_eq!(done["accepted"], 50);
        let listed = done["examples"]["duplicate_in_document"].as_array();
        assert_eq!(listed.expect("a list").len(), 100);
    });
}

#[test]
fn files_are_whole_or_not_there_and_pipes_work() {
    isolated("tool::affinity_files", || {
        let files = Files::new("affinity-files");
        both(&files);
        register(INSTANCE, 0..3, 1);
        // Standard output has the document and nothing else.
        let ran = quiclb_json(&["affinity-export", INSTANCE, "-"]).exits(0);
        let document: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_valid("affinity", &document);
        assert_eq!(
            document["services"][0]["bindings"]
                .as_array()
                .expect("a list")
                .len(),
            3
        );
        let mut child = command(&["-o", "json", "affinity-import", OTHER, "-"]);
        child.stdin(std::fs::File::open(files.write("in.json", &ran.stdout)).expect("open"));
        let output = child.output().expect("the tool runs");
        let done = Ran::of(output, "affinity-import -".into())
            .exits(0)
            .document();
        assert_eq!(
            (&done["accepted"], &done["file"]),
            (&json!(3), &json!("standard input"))
        );

        // What is there stays if it cannot be replaced, and no draft is left behind.
        let before = files.names();
        let nowhere = files.path("no-such-directory/out.json");
        quiclb_json(&["affinity-export", INSTANCE, &nowhere]).fails(1, "io");
        quiclb_json(&["affinity-export", INSTANCE, &files.path("")]).fails(1, "io");
        let kept = files.write("kept.json", "kept");
        quiclb_json(&[
            "affinity-export",
            "0badcafe-0000-0000-0000-000000000000",
            &kept,
        ])
        .fails(1, "not-found");
        assert_eq!(std::fs::read(&kept).expect("read"), b"kept");
        quiclb(&["affinity-export", INSTANCE, &kept]).exits(0);
        let written = std::fs::read(&kept).expect("read");
        let again = files.path("again.json");
        quiclb(&["affinity-export", INSTANCE, &again]).exits(0);
        let timeless = |bytes: Vec<u8>| {
            let mut document: Value = serde_json::from_slice(&bytes).expect("JSON");
            document["exported_at"] = json!(null);
            document.to_string()
        };
        let second = std::fs::read(&again).expect("read");
        assert_eq!(timeless(written), timeless(second));
        let mut names = before;
        names.extend(["kept.json".into(), "again.json".into()]);
        names.sort();
        assert_eq!(files.names(), names);

        // Another writer keeps imports out, but neither exports nor a dry run.
        let writer = Writer::open(&dir(OTHER)).expect("the lock");
        import(&[OTHER, &kept]).fails(4, "locked");
        import(&[OTHER, &kept, "--dry-run"]).exits(0);
        quiclb(&["affinity-export", OTHER, &again]).exits(0);
        drop(writer);
        import(&[OTHER, &kept]).exits(0);
    });
}

#[test]
fn packets_of_a_service_are_made_to_look_for_what_is_imported() {
    isolated("tool::affinity_used", || {
        let files = Files::new("affinity-used");
        machine();
        veth("edge1", "client1");
        let tuple = |mut spec: Value| {
            spec["services"][0]["quic"] = json!({"routing": "tuple"});
            files.write(
                &format!("{}.json", spec["interface"].as_str().expect("text")),
                spec.to_string(),
            )
        };
        quiclb(&["apply", &tuple(example())]).exits(0);
        quiclb(&["apply", &tuple(other()), "--force", "target-napi"]).exits(0);
        let mut writer = Writer::open(&dir(INSTANCE)).expect("the lock");
        writer.use_bindings(&[service()]).expect("published");
        drop(writer);
        register(INSTANCE, 0..5, 1);
        let file = files.path("bindings.json");
        quiclb(&["affinity-export", INSTANCE, &file]).exits(0);
        let generation = || {
            let status = quiclb_json(&["status", OTHER]).exits(0).document();
            status["generation"]["number"].as_u64().expect("a number")
        };
        let before = generation();
        import(&[OTHER, &file, "--dry-run"]).exits(0);
        assert_eq!(generation(), before, "a dry run publishes nothing");
        let done = import(&[OTHER, &file]).exits(0).document();
        assert_eq!(done["accepted"], 5);
        assert_eq!(generation(), before + 1);
        import(&[OTHER, &file]).exits(0);
        assert_eq!(generation(), before + 1, "they look for bindings already");
        // A registration needs nothing more either.
        register(OTHER, 50..51, 2);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(exported(&files, OTHER).len(), 6);
    });
}
