// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `trace`: frames of all kinds, through the program, without an instance.

use serde_json::{json, Value};

use crate::harness::{machine, quiclb, quiclb_json, state, Files, EXAMPLE, INSTANCE};
use crate::netns::isolated;

/// A QUIC Initial with a connection ID of eight bytes.
const INITIAL: &str = "c0 00000001 08 5a5a5a5a5a5a5a5a 00 00 00";

/// A classic capture of these frames; `link_type` 1 is Ethernet.
fn pcap(link_type: u32, frames: &[(&[u8], u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link_type];
    file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
    for (frame, original) in frames {
        for word in [1_700_000_000, 1, frame.len() as u32, *original] {
            file.extend(word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    file
}

#[test]
fn a_payload_goes_where_the_table_says() {
    isolated("tool::trace_payload", || {
        let files = Files::new("trace-payload");
        let spec = files.write("spec.json", EXAMPLE);
        let source = ["--source", "198.51.100.7:50000"];
        let arguments = [
            "trace",
            &spec,
            "--payload",
            INITIAL,
            "--service",
            "quic-api",
        ];
        let trace = quiclb_json(&[&arguments[..], &source].concat())
            .exits(0)
            .valid("trace");
        let packet = &trace["packets"][0];
        assert_eq!(
            (&packet["verdict"], &packet["reason"]),
            (&json!("redirect"), &json!("forwarded"))
        );
        assert_eq!(packet["rule"], "table");
        // The published vector: this client, under the seed of zeros, in the example's table.
        assert_eq!(packet["hash"], "56305f6543cb2707");
        assert_eq!(
            (&packet["slot"], &packet["backend"]["id"]),
            (&json!(1378), &json!(2))
        );
        assert_eq!(packet["quic"]["dcid"], "5a5a5a5a5a5a5a5a");
        assert_eq!(packet["ip"]["source"], "198.51.100.7");
        assert!(
            trace["notes"].to_string().contains("edge0"),
            "stand-ins are named: {trace}"
        );
        assert_eq!(trace["summary"]["by_reason"], json!({"forwarded": 1}));
        assert_eq!(state(), Vec::<String>::new());

        let error = quiclb_json(&["trace", &spec, "--payload", "00", "--service", "other"]);
        error.fails(1, "not-found");
        let v6 = ["--source", "[2001:db8::1]:40000"];
        quiclb_json(&[&arguments[..], &v6].concat()).fails(1, "invalid");
    });
}

/// The same packet without and with the bindings of an export, in JSON and as text.
#[test]
fn bindings_of_an_export_are_there_first() {
    isolated("tool::trace_state", || {
        let files = Files::new("trace-state");
        let spec = files.write("spec.json", EXAMPLE);
        let export = |backend: u32| {
            json!({
                "schema": "guideway.affinity/v1", "exported_at": "2024-05-06T07:08:09Z",
                "instance": INSTANCE,
                "services": [{
                    "id": 0x8cd5_d28f_u32, "name": "quic-api", "vip": "203.0.113.80",
                    "protocol": "udp", "port": 443,
                    "bindings": [{"cid": "5a5a5a5a5a5a5a5a", "backend": backend,
                                  "origin": "registered", "last_seen_ns": 1}],
                }],
            })
        };
        let source = ["--source", "198.51.100.7:50000"];
        let short = "40 5a5a5a5a5a5a5a5a 00 00 00";
        let arguments = ["trace", &spec, "--payload", short, "--service", "quic-api"];
        let arguments = [&arguments[..], &source].concat();
        let packet = |trace: Value| {
            let packet = &trace["packets"][0];
            json!([packet["rule"], packet["backend"]["id"], packet["created"]])
        };
        let without = quiclb_json(&arguments).exits(0).valid("trace");
        assert_eq!(packet(without), json!(["table", 2, ["flow"]]));

        // The table says 2, the export 1.
        let state = files.write("state.json", export(1).to_string());
        let arguments_with = |state: &str| -> Vec<String> {
            let all = arguments.iter().copied().chain(["--state", state]);
            all.map(str::to_owned).collect()
        };
        let with = arguments_with(&state);
        let with: Vec<_> = with.iter().map(String::as_str).collect();
        let trace = quiclb_json(&with).exits(0).valid("trace");
        assert!(trace["notes"].to_string().contains("1 of 1 bindings"));
        assert_eq!(packet(trace), json!(["cid_imported", 1, ["flow"]]));
        let text = quiclb(&with).exits(0).stdout;
        for part in [
            "by cid_imported",
            "backend 1",
            "makes an entry for its flow",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }

        for (document, kind) in [
            (export(1).to_string().replace("v1", "v2"), "invalid"),
            (export(1).to_string()[..100].to_owned(), "invalid"),
        ] {
            let state = files.write("state.json", document);
            let with = arguments_with(&state);
            let with: Vec<_> = with.iter().map(String::as_str).collect();
            quiclb_json(&with).fails(1, kind);
        }
        let missing = arguments_with(&files.path("missing"));
        let missing: Vec<_> = missing.iter().map(String::as_str).collect();
        quiclb_json(&missing).fails(1, "io");
    });
}

#[test]
fn captures_are_traced_and_what_cannot_be_used_is_partial() {
    isolated("tool::trace_pcap", || {
        machine();
        let files = Files::new("trace-pcap");
        let spec = files.write("spec.json", EXAMPLE);
        let plan = files.path("plan.json");
        quiclb(&["plan", &spec, &plan]).exits(0);
        let frame = [0x02; 60];
        let whole = files.write("whole.pcap", pcap(1, &[(&frame, 60), (&frame, 60)]));
        for document in [&spec, &plan] {
            let trace = quiclb_json(&["trace", document, "--pcap", &whole])
                .exits(0)
                .valid("trace");
            assert_eq!(trace["summary"]["packets"], 2);
            assert_eq!(trace["packets"][1]["reason"], "not_ip");
            assert_eq!(trace["notes"], json!([]), "all interfaces exist");
        }
        let cut = files.write(
            "cut.pcap",
            pcap(1, &[(&frame, 60), (&frame, 1500), (&frame[..8], 8)]),
        );
        let trace = quiclb_json(&["trace", &spec, "--pcap", &cut])
            .exits(3)
            .valid("trace");
        let errors = |index: usize| trace["packets"][index]["error"].clone();
        assert_eq!(errors(0), Value::Null);
        assert!(errors(1).is_string() && errors(2).is_string(), "{trace:#}");
        assert_eq!(
            (&trace["summary"]["pass"], &trace["summary"]["errors"]),
            (&json!(1), &json!(2))
        );

        let wifi = files.write("wifi.pcap", pcap(105, &[(&frame, 60)]));
        let error = quiclb_json(&["trace", &spec, "--pcap", &wifi]).fails(1, "invalid");
        assert!(
            error["message"].as_str().expect("text").contains("105"),
            "{error}"
        );
        quiclb_json(&["trace", &spec, "--pcap", &spec]).fails(1, "invalid");
        quiclb_json(&["trace", &spec, "--pcap", &files.path("missing")]).fails(1, "io");
    });
}

#[test]
fn frames_as_text_are_run_in_order_fresh_or_not() {
    isolated("tool::trace_hex", || {
        machine();
        let files = Files::new("trace-hex");
        let spec = files.write("spec.json", EXAMPLE);
        let one = "02:00:00:00:00:02 02:00:00:00:00:01 88:cc".to_owned() + &"00".repeat(46);
        let two = one.replace("88:cc", "08 06");
        let arguments = ["trace", &spec, "--hex", &one, &two];
        let run = quiclb_json(&arguments).exits(0).valid("trace");
        assert_eq!(run["packets"][0]["l2"]["ethertype"], 0x88cc);
        assert_eq!(run["packets"][1]["l2"]["ethertype"], 0x0806);
        assert_eq!(run["summary"]["pass"], 2);
        let fresh = quiclb_json(&[&arguments[..], &["--fresh"]].concat())
            .exits(0)
            .valid("trace");
        assert_eq!(run["packets"], fresh["packets"]);
        let short = quiclb_json(&["trace", &spec, "--hex", "0011"])
            .exits(3)
            .valid("trace");
        assert_eq!(short["summary"]["errors"], 1);
    });
}

#[test]
fn a_live_specification_is_traced_without_touching_its_instance() {
    isolated("tool::trace_live", || {
        machine();
        let files = Files::new("trace-live");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        let before = state();
        let arguments = ["--payload", INITIAL, "--service", "quic-api"];
        let live = quiclb_json(&[&["trace", "--from", INSTANCE], &arguments[..]].concat());
        let live = live.exits(0).valid("trace");
        let file = quiclb_json(&[&["trace", &spec], &arguments[..]].concat());
        assert_eq!(live["packets"], file.exits(0).valid("trace")["packets"]);
        assert_eq!(state(), before);

        // Without backend 1, backend 2 keeps its row, where a first plan would give it row 0.
        let mut document: serde_json::Value = serde_json::from_str(EXAMPLE).expect("JSON");
        document["services"][0]["backends"]
            .as_array_mut()
            .expect("backends")
            .remove(0);
        let alone = files.write("alone.json", document.to_string());
        quiclb(&["apply", &alone]).exits(0);
        let live = quiclb_json(&[&["trace", "--from", INSTANCE], &arguments[..]].concat());
        let live = live.exits(0).valid("trace");
        assert_eq!(live["packets"][0]["backend"]["id"], 2);
        assert_eq!(live["packets"][0]["backend"]["row"], 1);

        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(status["services"][0]["counters"]["packets"], 0);
    });
}
