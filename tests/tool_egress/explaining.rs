// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `explain` and `trace`: what becomes of packets, by an instance that they leave alone.

use std::net::Ipv6Addr;
use std::ops::ControlFlow;

use guideway::abi;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::run::ClassifierRun;
use guideway::kernel::statedir::{Section, StateRoot};
use guideway::kernel::typed::{PerCpuArray, Trie};
use guideway::reason::egress::{End, Selection};
use guideway::route::{Key, TableId};
use serde_json::Value;

use crate::machine::{document, machine, open, sid, state, Files};
use crate::netns::{self, ifindex, isolated};
use crate::{egressd, egressd_json};

/// An instance by the example of the other verbs.
fn apply(files: &Files) {
    machine();
    let path = files.write("spec.json", &document());
    egressd(&["apply", &path]).exits(0);
}

fn map(name: &str) -> Map {
    let dir = StateRoot::new(netns::BPFFS).egress();
    Map::open_any(&dir.pin(Section::Maps, name)).expect("a map")
}

/// What packets count and leave, beside what the verbs of writers change.
fn counted() -> String {
    let counters = PerCpuArray::<u64>::new(map("gw_eg_stat")).expect("counters");
    let mut text = String::new();
    // What the machine itself says on its links stays there, and may come at any time.
    let chatter = u32::from(End::Local.number());
    let read = counters.for_each(|index, cpus| {
        if index != chatter {
            text += &format!("{index} {cpus:?} ");
        }
    });
    read.expect("readable");
    let egress = open();
    let pins = egress.pins().expect("pins");
    let mut all = Vec::new();
    let read = pins.for_each(|pin| {
        all.push(format!("{:?}", pin.expect("a pin")));
        ControlFlow::Continue(())
    });
    read.expect("readable");
    all.sort();
    text + &format!("{all:?} {:?} {}", pins.usage(), state())
}

/// A UDP packet over IPv6 in a frame, in hexadecimal digits.
fn frame(source: &str, destination: &str) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    for address in [source, destination] {
        frame.extend(address.parse::<Ipv6Addr>().expect("an address").octets());
    }
    frame.extend([0x30, 0x39, 1, 0xbb, 0, 8, 0, 0]);
    frame
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The shard that a packet of the live program goes to, by the third part of its SID.
fn send(frame: &[u8], from: &str) -> String {
    let run = ClassifierRun {
        frame,
        ifindex: ifindex(from),
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    let ran = run.run(open().program()).expect("a run");
    sid(u16::from_be_bytes([ran.frame[44], ran.frame[45]]))
}

#[test]
fn an_address_is_explained_in_both_forms() {
    isolated("tool_egress::explain", || {
        let files = Files::new("explain");
        apply(&files);
        let before = counted();
        let arguments = ["explain", "2001:db8::7", "--interface", "tap0"];
        let explained = egressd_json(&arguments).exits(0).document();
        assert_eq!(explained["table"], 42);
        assert_eq!(explained["interface"]["name"], "tap0");
        let routes = explained["routes"].as_array().expect("a list");
        let prefixes: Vec<_> = routes.iter().map(|one| &one["route"]["prefix"]).collect();
        assert_eq!(prefixes, ["64:ff9b::/96", "::/0"]);
        assert_eq!(routes[0]["member"]["sid"], sid(0x12));
        let all = &routes[1];
        assert_eq!(all["end"], "group");
        assert_eq!(all["group"]["class"], "nat66");
        assert_eq!(all["member"]["by"], "table");
        assert_eq!(all["pin"]["fate"], "new");
        assert_eq!(all["route"]["states"]["agree"], true);
        assert_eq!(counted(), before, "explaining changes nothing");

        // The packet goes there, and then a pin holds it.
        let shard = send(&frame("2001:db8::7", "2001:4860::1"), "tap0");
        assert_eq!(all["member"]["sid"], shard);
        let to = [&arguments[..], &["--to", "2001:4860::1"]].concat();
        let explained = egressd_json(&to).exits(0).document();
        let [one] = explained["routes"].as_array().expect("a list").as_slice() else {
            panic!("{explained}");
        };
        assert_eq!(one["member"]["by"], "pin");
        assert_eq!(one["member"]["sid"], shard);
        assert_eq!(one["pin"]["fate"], "followed");
        assert_eq!(one["without_pin"]["by"], "table");
        let text = egressd(&to).exits(0).stdout;
        let line = format!("-> redirect, group shard {shard} (slot ");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("Its pin decides"), "{text}");

        // By number, and of the other family.
        let other = egressd_json(&["explain", "10.0.0.7", "--table", "42"]).exits(0);
        assert_eq!(other.document()["routes"][0]["end"], "blocked");
        let none = egressd(&["explain", "10.0.0.7", "--table", "43"]).exits(0);
        assert!(
            none.stdout.contains("no route of the tenant"),
            "{}",
            none.stdout
        );
    });
}

#[test]
fn a_route_that_hashes_otherwise_is_a_finding() {
    isolated("tool_egress::mismatch", || {
        let files = Files::new("mismatch");
        apply(&files);
        let arguments = ["explain", "2001:db8::7", "--table", "42"];
        let text = egressd(&arguments).exits(0).stdout;
        assert!(!text.contains("MISMATCH"), "{text}");
        let routes = Trie::<abi::RouteKey, abi::Route>::new(map("gw_routes")).expect("routes");
        let key = Key::new(TableId::new(42), "::/0".parse().expect("a prefix")).to_row();
        let mut row = routes.longest(&key).expect("read").expect("a route");
        row.fnv12 ^= 1;
        routes.update(&key, &row, Update::Any).expect("room");
        let text = egressd(&arguments).exits(5).stdout;
        assert!(text.contains("MISMATCH the route carries fnv12"), "{text}");
        let explained = egressd_json(&arguments).exits(5).document();
        assert_eq!(explained["routes"][1]["route"]["states"]["agree"], false);
    });
}

#[test]
fn what_cannot_be_explained_or_traced_says_why() {
    isolated("tool_egress::explain_refused", || {
        let files = Files::new("explain-refused");
        let hex = files.text("frames.txt", "00");
        for verb in [&["explain", "2001:db8::7"][..], &["trace", &hex]] {
            egressd_json(verb).fails(1, "not-found");
        }
        apply(&files);
        let explain = |more: &[&str], code, kind| {
            let arguments = [&["explain", "2001:db8::7"], more].concat();
            egressd_json(&arguments).fails(code, kind)
        };
        let error = explain(&[], 2, "usage");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("42") && message.contains("43"),
            "{message}"
        );
        explain(&["--table", "7"], 1, "not-found");
        explain(&["--interface", "uplink0"], 1, "not-found");
        explain(&["--interface", "nothing0"], 1, "not-found");
        explain(&["--table", "42", "--to", "10.0.0.1"], 2, "usage");
        explain(&["--table", "42", "--interface", "tap0"], 2, "usage");
        explain(&["--table", "42", "--source-port", "1"], 2, "usage");
        egressd_json(&["explain", "no address"]).fails(2, "usage");

        let trace = |file: &str, more: &[&str], code, kind| {
            egressd_json(&[&["trace", file], more].concat()).fails(code, kind)
        };
        trace(&hex, &[], 2, "usage");
        trace(&hex, &["--interface", "uplink0"], 1, "not-found");
        trace("/no/such/file", &["--table", "42"], 1, "io");
        let bad = files.text("bad.txt", "0011\n22 xx\n");
        let error = trace(&bad, &["--table", "42"], 1, "invalid");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("line 2"), "{message}");
    });
}

#[test]
fn a_trace_goes_through_the_program_and_leaves_the_instance_alone() {
    isolated("tool_egress::trace", || {
        let files = Files::new("trace");
        apply(&files);
        let held = frame("2001:db8::7", "2001:4860::1");
        let shard = send(&held, "tap0");
        let before = counted();
        let frames = [
            held.clone(),
            frame("2001:db8::8", "2001:4860::1"),
            frame("2001:db8::8", "2001:4860::2"),
            frame("2001:db8::8", "ff02::1"),
            vec![0; 5],
        ];
        let lines: String = frames.iter().map(|frame| hex(frame) + "\n\n").collect();
        let path = files.text("frames.txt", &lines);
        let arguments = ["trace", &path, "--interface", "tap0"];
        // One of them is no frame.
        let traced = egressd_json(&arguments).exits(3).document();
        assert_eq!(counted(), before, "a trace changes nothing");
        assert_eq!(traced["summary"]["packets"], 5);
        assert_eq!(traced["summary"]["disagreements"], 0);
        assert_eq!(traced["summary"]["by_end"][End::Group.name()], 3);
        assert_eq!(traced["pins_copied"], 1);
        assert_eq!(traced["program"]["is_live"], true);
        let packets = traced["packets"].as_array().expect("a list");
        assert_eq!(packets[0]["shard"], shard);
        let counters = |at: usize| packets[at]["counters"].clone();
        assert_eq!(counters(0), serde_json::json!([Selection::PinHit]));
        let new = serde_json::json!([Selection::Maglev, Selection::PinNew]);
        assert_eq!(counters(1), new);
        // The pin that the frame before left.
        assert_eq!(counters(2), serde_json::json!([Selection::PinHit]));
        assert_eq!(packets[2]["explain"]["member"]["by"], "pin");
        assert_eq!(packets[3]["verdict"], "next");
        assert_eq!(packets[3]["end"], "local");
        assert!(packets[4]["error"].is_string());
        // 40 bytes more, and the tenant's packet at the end.
        let output = packets[0]["output"].as_str().expect("text");
        assert_eq!(output.len(), 2 * (held.len() + 40));
        assert!(output.ends_with(&hex(&held[14..])));

        let text = egressd(&arguments).exits(3).stdout;
        let line = format!("#0 62 bytes: redirect, group, shard {shard}, 102 bytes out");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("5 packets: 3 redirect, 0 answer, 1 next, 0 drop, 1 errors"));

        // The same from a capture, of an interface that is gone.
        let mut pcap: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        for word in [1, 2, held.len() as u32, held.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(&held);
        let path = files.bytes("frames.pcap", &pcap);
        let index = ifindex("tap0").to_string();
        netns::ip(&["link", "del", "tap0"]);
        let arguments = ["trace", &path, "--interface", &index];
        let traced = egressd_json(&arguments).exits(0).document();
        assert_eq!(traced["interface"]["name"], Value::Null);
        assert_eq!(traced["packets"][0]["shard"], shard);
        assert_eq!(traced["packets"][0]["timestamp_ns"], 1_000_002_000_u64);
    });
}
