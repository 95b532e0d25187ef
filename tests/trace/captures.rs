// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whole files, and frames that cannot be run.

use guideway::capture::{read, Frame, MAX_FRAME_BYTES};
use guideway::quiclb::trace::Reset;
use serde_json::{json, Value};

use crate::build::*;
use crate::netns::isolated;
use crate::{counts, example, trace, trace_frames};

fn file(bytes: &[u8]) -> Value {
    let frames = read(bytes).expect("a capture");
    trace_frames(&example(), frames, Reset::Never)
}

/// A classic capture of these frames, one per second from the first on, cut at `limit` bytes.
fn pcap(big: bool, frames: &[Vec<u8>], limit: usize) -> Vec<u8> {
    let u32 = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = u32(0xa1b2_c3d4).to_vec();
    file.extend(version);
    [0, 0, limit as u32, 1]
        .iter()
        .for_each(|&n| file.extend(u32(n)));
    for (index, frame) in frames.iter().enumerate() {
        let here = frame.len().min(limit);
        let header = [index as u32 + 1, 5, here as u32, frame.len() as u32];
        header.iter().for_each(|&n| file.extend(u32(n)));
        file.extend(&frame[..here]);
    }
    file
}

#[test]
fn a_capture_is_traced_like_its_frames() {
    isolated("trace::pcap", || {
        let frames = [
            ipv4(UDP, &udp(50000, 443, &[0x40; 20])),
            ipv4(UDP, &udp(50001, 443, &[0x40; 20])),
            ipv4(UDP, &udp(50000, 444, &[0x40; 20])),
        ];
        let mut expected = trace(&example(), &frames);
        for (index, packet) in expected["packets"]
            .as_array_mut()
            .expect("packets")
            .iter_mut()
            .enumerate()
        {
            packet["timestamp_ns"] = json!((index as u64 + 1) * 1_000_000_000 + 5_000);
        }
        assert_eq!(file(&pcap(true, &frames, 65_535)), expected);
        assert_eq!(file(&pcap(false, &frames, 65_535)), expected);
        assert_eq!(
            expected["summary"]["by_reason"],
            json!({"forwarded": 2, "no_service": 1})
        );
    });
}

/// The flow of the first datagram is a published example: slot 1378, backend 2. The others are
/// for nobody here and for no one at all: IPv6, and one byte that is a short header without a
/// connection ID.
#[test]
fn a_file_of_tcpdump() {
    isolated("trace::tcpdump", || {
        for bytes in [
            &include_bytes!("../data/capture/tcpdump-ns.pcap")[..],
            include_bytes!("../data/capture/editcap-ns.pcapng"),
        ] {
            let document = file(bytes);
            let packets = &document["packets"];
            assert_eq!(packets[0]["slot"], 1378);
            assert_eq!(packets[0]["backend"]["id"], 2);
            assert_eq!(packets[0]["flow_start"], true);
            assert_eq!(packets[0]["timestamp_ns"], 1_796_077_212_383_152_411_u64);
            assert_eq!(packets[1]["reason"], "no_service");
            assert_eq!(packets[1]["ip"]["destination"], "2001:db8::80");
            assert_eq!(packets[2]["reason"], "bad_quic");
            assert_eq!(packets[2]["quic"]["form"], "short");
            assert_eq!(packets[2]["quic"]["dcid"], Value::Null);
        }
    });
}

#[test]
fn frames_that_cannot_be_run_are_errors_and_the_others_go_on() {
    isolated("trace::unusable", || {
        let frames = [
            vec![0xff; 13],
            ipv4(UDP, &udp(50000, 443, &[0x40; 100])),
            vec![0; MAX_FRAME_BYTES + 1],
            ipv4(UDP, &udp(50000, 443, &[0x40; 20])),
        ];
        // The second is longer than the limit of the capture.
        let whole = pcap(false, &frames[..2], 90);
        let document = file(&whole);
        let packets = document["packets"].as_array().expect("packets");
        let errors: Vec<_> = packets
            .iter()
            .map(|packet| packet["error"].clone())
            .collect();
        assert_eq!(
            errors,
            [
                json!("13 bytes, below the 14 of an Ethernet header"),
                json!("truncated by the capture: 90 of 142 bytes")
            ]
        );
        let truncated = &document["packets"][1];
        for name in [
            "verdict", "reason", "rule", "service", "backend", "output", "hash",
        ] {
            assert_eq!(truncated[name], Value::Null, "{name}");
        }
        assert_eq!(truncated["length"], 90);
        assert_eq!(
            counts(&document),
            json!({"packets": 2, "errors": 2, "by_reason": {}, "by_rule": {}})
        );

        let document = trace(&example(), &frames);
        let errors = document["packets"].as_array().expect("packets").iter();
        let errors: Vec<_> = errors.map(|packet| packet["error"].is_string()).collect();
        assert_eq!(errors, [true, false, true, false]);
        assert_eq!(
            counts(&document),
            json!({"packets": 4, "errors": 2, "redirect": 2, "by_reason": {"forwarded": 2},
                   "by_rule": {"flow": 1, "table": 1}})
        );
    });
}

/// What is behind the first pages of a frame comes back too.
#[test]
fn frames_of_every_length_are_run() {
    isolated("trace::lengths", || {
        let lengths = [
            14,
            15,
            60,
            1514,
            3_520,
            3_521,
            9_014,
            65_549,
            MAX_FRAME_BYTES,
        ];
        let frames = lengths.map(|length| ethernet(&[], 0x0806, &vec![0x5a; length - 14]));
        let document = trace(&example(), &frames);
        let packets = document["packets"].as_array().expect("packets");
        for (packet, length) in packets.iter().zip(lengths) {
            assert_eq!(packet["error"], Value::Null, "{length}");
            assert_eq!(packet["output"], json!({"length": length, "changed": []}));
        }
        // The largest datagram there is.
        let frame = ipv4(UDP, &udp(50000, 443, &vec![0x40; 65_507]));
        let packet = crate::trace_one(&example(), frame);
        assert_eq!(
            (&packet["verdict"], &packet["error"]),
            (&json!("redirect"), &Value::Null)
        );
        assert_eq!(
            packet["output"]["changed"].as_array().map(Vec::len),
            Some(1)
        );
    });
}

#[test]
fn a_damaged_file_is_traced_up_to_the_damage() {
    isolated("trace::damaged", || {
        let frames = [
            ipv4(UDP, &udp(50000, 443, &[0x40; 20])),
            ipv4(UDP, &udp(50001, 443, &[0x40; 20])),
        ];
        let whole = pcap(false, &frames, 65_535);
        let document = file(&whole[..whole.len() - 1]);
        assert_eq!(document["packets"][0]["verdict"], "redirect");
        let last = &document["packets"][1];
        assert_eq!(
            last["error"],
            "the file is damaged at byte 102: a packet goes beyond the end of the file"
        );
        assert_eq!(last["l2"], json!({"vlans": [], "ethertype": null}));
        assert_eq!(document["summary"]["errors"], 1);
    });
}

/// Frames are numbered as their source says.
#[test]
fn numbers_are_kept() {
    isolated("trace::numbers", || {
        let frame = ethernet(&[], 0x0806, &[0; 46]);
        let frames = [7, 3].map(|index| Frame::new(index, frame.clone()));
        let document = trace_frames(&example(), frames, Reset::Never);
        let indices = document["packets"].as_array().expect("packets").iter();
        let indices: Vec<_> = indices.map(|packet| packet["index"].clone()).collect();
        assert_eq!(indices, [7, 3]);
    });
}
