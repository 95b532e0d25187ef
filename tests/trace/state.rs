// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What frames leave for later frames, and what a change that is under way makes of them.

use guideway::affinity::{AffinityDocument, ReadOptions};
use guideway::capture::Frame;
use guideway::plan::{plan, Device, Options, World};
use guideway::quiclb::trace::{run, Reset, Scenario};
use guideway::quiclb::{Loader, QuicLb, StateRoot};
use serde_json::{json, Value};

use crate::build::*;
use crate::netns::isolated;
use crate::{elsewhere, example, parse, trace_frames};

const CID: [u8; 8] = [0xa1, 2, 3, 4, 5, 6, 7, 8];

fn numbered(frames: &[Vec<u8>]) -> impl Iterator<Item = Frame<'_>> {
    (0..)
        .zip(frames)
        .map(|(index, bytes)| Frame::new(index, bytes))
}

/// A client's datagram from this port.
fn datagram(port: u16, first: u8) -> Vec<u8> {
    let mut payload = vec![first];
    if first & 0x80 != 0 {
        payload.extend([0, 0, 0, 1, 8]);
    }
    payload.extend(CID);
    payload.extend([0; 20]);
    ipv4(UDP, &udp(port, 443, &payload))
}

/// Rule, kind of slot and entries made, of each packet.
fn told(document: &Value) -> Vec<Value> {
    let packets = document["packets"].as_array().expect("packets");
    let told = packets.iter().map(|packet| {
        assert_eq!(packet["error"], Value::Null);
        json!([packet["rule"], packet["slot_state"], packet["created"]])
    });
    told.collect()
}

#[test]
fn frames_leave_state_for_later_ones_unless_each_is_the_first() {
    isolated("trace::state", || {
        // The example learns. A first packet, one whose connection ID the server has chosen, and
        // the same connection from where its address was rewritten.
        let frames = [
            datagram(50000, 0xc0),
            datagram(50000, 0x40),
            datagram(50001, 0x40),
            datagram(50001, 0x40),
        ];
        let together = trace_frames(&example(), numbered(&frames), Reset::Never);
        assert_eq!(
            told(&together),
            [
                json!(["table", "plain", ["flow"]]),
                json!(["flow", "plain", ["cid"]]),
                json!(["cid_learned", "plain", ["flow"]]),
                json!(["cid_learned", "plain", []]),
            ]
        );
        let ids = |document: &Value| -> Vec<Value> {
            let packets = document["packets"].as_array().expect("packets");
            packets
                .iter()
                .map(|packet| packet["backend"]["id"].clone())
                .collect()
        };
        let all = ids(&together);
        assert!(all.iter().all(|id| *id == all[0]), "{all:?}");

        let apart = trace_frames(&example(), numbered(&frames), Reset::BeforeEach);
        let first = json!(["table", "plain", ["flow"]]);
        assert_eq!(told(&apart), vec![first; frames.len()]);
    });
}

/// A plan against what is live: its open slots are in the trace before anybody publishes it.
#[test]
fn a_drain_is_traced_before_it_is_published() {
    isolated("trace::drain", || {
        let devices = [("edge0", 20), ("vm-edge-a", 21), ("vm-edge-b", 22)].map(|(name, index)| {
            Device::new(
                name.parse().expect("a name"),
                index,
                Some([2, 0, 0, 0, 9, 1].into()),
                1500,
            )
        });
        let world = World::new(devices.into(), vec![], 1);
        let spec = |states: [&str; 2]| {
            let mut spec = example();
            let service = &mut spec["services"][0];
            service["protocol"] = json!("tcp");
            service["quic_only"] = json!(false);
            service["short_dcid_len"] = json!(0);
            for (backend, state) in states.into_iter().enumerate() {
                service["backends"][backend]["state"] = json!(state);
                service["backends"][backend]["interface"] = json!("edge0");
            }
            parse(&spec)
        };
        let before = spec(["ready", "unhealthy"]);
        let dir = StateRoot::new(crate::netns::BPFFS).quiclb(before.instance_id());
        let mut writer = Loader::new(&dir, before.limits())
            .load()
            .expect("an instance");
        let first = plan(None, &before, &world, Options::default()).expect("a plan");
        writer.publish(&first).expect("published");
        drop(writer);
        let live = QuicLb::open(&dir).expect("an instance").live_record();
        let live = live.expect("readable").expect("a generation");

        let after = spec(["draining", "ready"]);
        let scenario = Scenario::new(Some(&live), &after, &world, Options::default());
        let scenario = scenario.expect("a plan");
        let segment = |port, flags| ipv4(TCP, &tcp(port, 443, flags));
        let (syn, ack) = (0x02, 0x10);
        let frames = [
            segment(50000, ack),
            segment(50000, ack),
            segment(50001, syn),
            segment(50001, ack),
        ];
        for (reset, expected) in [
            (
                Reset::Never,
                [
                    json!(["previous", "open", ["flow"]]),
                    json!(["flow", "open", []]),
                    json!(["table", "open", ["flow"]]),
                    json!(["flow", "open", []]),
                ],
            ),
            (
                Reset::BeforeEach,
                [
                    json!(["previous", "open", ["flow"]]),
                    json!(["previous", "open", ["flow"]]),
                    json!(["table", "open", ["flow"]]),
                    json!(["previous", "open", ["flow"]]),
                ],
            ),
        ] {
            let document = run(&scenario, numbered(&frames), reset).expect("a trace");
            let document = serde_json::to_value(&document).expect("JSON");
            assert_eq!(told(&document), expected);
        }
    });
}

/// An export with these rows: connection ID, backend.
fn export(rows: &[(&str, u32)]) -> AffinityDocument {
    let bindings: Vec<_> = rows
        .iter()
        .map(|(cid, backend)| {
            json!({"cid": cid, "backend": backend, "origin": "learned", "last_seen_ns": 77})
        })
        .collect();
    // The service's published number.
    let document = json!({
        "schema": "guideway.affinity/v1", "exported_at": "2024-05-06T07:08:09Z",
        "instance": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "services": [{"id": 0x8cd5_d28f_u32, "name": "quic-api", "vip": "203.0.113.80",
                      "protocol": "udp", "port": 443, "bindings": bindings}],
    });
    AffinityDocument::from_json(document.to_string().as_bytes(), &ReadOptions::default())
        .expect("a document")
}

#[test]
fn frames_meet_imported_bindings() {
    isolated("trace::imported", || {
        let cid = "a102030405060708";
        let frames = [
            datagram(50000, 0x40),
            datagram(50001, 0x40),
            datagram(50000, 0x40),
        ];
        let mut by_tuple = example();
        by_tuple["services"][0]["quic"] = json!({"routing": "tuple"});
        // Where nothing is learned the flow is nobody's business.
        let learns = [(); 3].map(|()| json!(["cid_imported", "plain", ["flow"]]));
        let learns_again = json!(["cid_imported", "plain", []]);
        let follows = [(); 3].map(|()| json!(["cid_imported", null, []]));
        for backend in [1, 2] {
            for (spec, expected, last) in [
                (example(), &learns, &learns_again),
                (by_tuple.clone(), &follows, &follows[0]),
            ] {
                let mut scenario = elsewhere(&spec);
                let document = export(&[
                    (cid, backend),
                    ("a102030405060709", 9),
                    ("02", 1),
                    ("02", 2),
                    ("03", 1),
                ]);
                let report = scenario.import(&document);
                assert_eq!((report.accepted, report.total()), (1, 5));
                assert_eq!(report.rejected.unknown_backend, 1);
                for reset in [Reset::Never, Reset::BeforeEach] {
                    let trace = run(&scenario, numbered(&frames), reset).expect("a trace");
                    let trace = serde_json::to_value(&trace).expect("JSON");
                    let mut expected = expected.clone();
                    if reset == Reset::Never {
                        expected[2] = last.clone();
                    }
                    assert_eq!(told(&trace), expected);
                    for packet in trace["packets"].as_array().expect("packets") {
                        assert_eq!(packet["backend"]["id"], json!(backend));
                    }
                    let notes = trace["notes"].to_string();
                    let note = "1 of 5 bindings were imported first; rejected: unknown_backend 1, \
                                duplicate_in_document 2, cid_length 1";
                    assert!(notes.contains(note), "{notes}");
                }
            }
        }
    });
}
