// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What packets make of bindings: the program itself, run on frames.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use guideway::affinity::{Binding, Conflict, Origin, ReadOptions};
use guideway::capture::udp_frame;
use guideway::kernel::run::Run;
use guideway::quic::Cid;
use guideway::quiclb::{read_affinity, QuicLb, Writer};
use serde_json::{json, Value};

use crate::instance::*;
use crate::isolated;
use crate::netns::{self, ip, veth};

const OTHER: &str = "0badcafe-8957-42bc-9dd7-32d684d76447";
const REDIRECT: u32 = 4;

/// A short header packet with this connection ID from a client's port.
fn frame(cid: &Cid, port: u16) -> Vec<u8> {
    let mut payload = vec![0x43];
    payload.extend(&cid[..]);
    payload.extend([0xee; 24]);
    let source = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 7), port));
    let vip = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 80), 443));
    udp_frame(source, vip, &payload).expect("a frame")
}

/// The backend that the program sends the frame to, by its address.
fn sent(balancer: &QuicLb, edge: &str, frame: &[u8]) -> u32 {
    let ran = Run {
        ingress_ifindex: netns::ifindex(edge),
        ..Run::new(frame)
    }
    .run(balancer.program())
    .expect("run");
    assert_eq!(ran.action, REDIRECT);
    assert_eq!(ran.frame[..5], [2, 0, 0, 0, 1]);
    u32::from(ran.frame[5])
}

/// The other one of two backends.
fn other(backend: u32) -> u32 {
    3 - backend
}

#[test]
fn packets_follow_a_registration_when_the_call_has_returned() {
    isolated("bindings::visible", || {
        machine();
        let writer = published(&two());
        let of = service(&two());
        for number in 0..50 {
            let (cid, port) = (numbered(number), 40_000 + number as u16);
            let owner = sent(&writer, "edge0", &frame(&cid, port));
            let wanted = other(owner);
            writer.register(of, &cid, id(wanted), None).expect("free");
            // From the same address, which has an entry for the owner, and from any other.
            for port in [port, 50_000 + number as u16, 1, 65_535] {
                assert_eq!(sent(&writer, "edge0", &frame(&cid, port)), wanted);
            }
            let found = Table::of(&writer).get(of, &cid).expect("registered");
            assert_eq!((found.row, found.incarnation), place(&writer, wanted));
            assert_eq!((found.origin, found.seen_ns), (Origin::Registered, 0));
        }
        // Over, the flow decides again.
        let (cid, short) = (numbered(98), Duration::from_millis(200));
        let owner = sent(&writer, "edge0", &frame(&cid, 40_000));
        let wanted = id(other(owner));
        writer
            .register(of, &cid, wanted, Some(short))
            .expect("free");
        assert_eq!(sent(&writer, "edge0", &frame(&cid, 40_000)), other(owner));
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(sent(&writer, "edge0", &frame(&cid, 40_000)), owner);
        // And ended.
        let owner = sent(&writer, "edge0", &frame(&numbered(99), 40_000));
        writer
            .register(of, &numbered(99), id(other(owner)), None)
            .expect("free");
        assert_eq!(
            sent(&writer, "edge0", &frame(&numbered(99), 40_000)),
            other(owner)
        );
        assert!(writer.unregister(of, &numbered(99)).expect("ended"));
        assert_eq!(Table::of(&writer).get(of, &numbered(99)), None);
        assert_eq!(sent(&writer, "edge0", &frame(&numbered(99), 40_000)), owner);
    });
}

#[test]
fn only_services_that_use_bindings_look_for_them() {
    isolated("bindings::used", || {
        machine();
        let mut document = two();
        document["services"][0]["quic"] = json!({"routing": "tuple"});
        let mut writer = published(&document);
        let of = service(&document);
        writer.use_bindings(&[of]).expect("published");
        let cid = numbered(1);
        let owner = sent(&writer, "edge0", &frame(&cid, 40_000));
        writer
            .register(of, &cid, id(other(owner)), None)
            .expect("used");
        assert_eq!(sent(&writer, "edge0", &frame(&cid, 40_000)), other(owner));
        // And in the generations that follow.
        document["services"][0]["cid_idle"] = json!("5m");
        publish(&mut writer, &document);
        assert_eq!(sent(&writer, "edge0", &frame(&cid, 40_000)), other(owner));
    });
}

#[test]
fn a_service_looks_for_bindings_though_an_interface_of_another_is_gone() {
    isolated("bindings::gone", || {
        machine();
        let mut document = two();
        document["services"][0]["quic"] = json!({"routing": "tuple"});
        let mut unlucky = document["services"][0].clone();
        unlucky["name"] = json!("unlucky");
        unlucky["port"] = json!(444);
        unlucky["backends"] = json!([backend(1, "vm-c")]);
        document["services"]
            .as_array_mut()
            .expect("services")
            .push(unlucky);
        veth("vm-c", "peer-c");
        let mut writer = published(&document);
        ip(&["link", "del", "vm-c"]);
        let of = service(&document);
        let used = writer.use_bindings(&[of]).expect("published");
        assert!(used.is_some_and(|used| used.generation == 2));
        let cid = numbered(1);
        let owner = sent(&writer, "edge0", &frame(&cid, 40_000));
        writer
            .register(of, &cid, id(other(owner)), None)
            .expect("used");
        assert_eq!(sent(&writer, "edge0", &frame(&cid, 40_000)), other(owner));
    });
}

#[test]
fn a_registration_of_a_backend_that_left_is_nobodys() {
    isolated("bindings::left", || {
        machine();
        let mut writer = published(&two());
        let of = service(&two());
        for number in 0..40 {
            writer
                .register(of, &numbered(number), id(2), None)
                .expect("free");
        }
        let before = place(&writer, 2);
        publish(&mut writer, &document(&[backend(1, "vm-a")]));
        assert_eq!(sent(&writer, "edge0", &frame(&numbered(0), 40_000)), 1);
        // The same id behind another address is another backend, whatever row it gets.
        let mut moved = two();
        moved["services"][0]["backends"][1]["interface"] = json!("vm-a");
        publish(&mut writer, &moved);
        assert_ne!(place(&writer, 2).1, before.1);
        let backends: std::collections::BTreeSet<_> = (1..40)
            .map(|number| {
                let port = 40_000 + number as u16;
                let by_flow = sent(&writer, "edge0", &frame(&numbered(1_000 + number), port));
                let by_cid = sent(&writer, "edge0", &frame(&numbered(number), port));
                assert_eq!(by_cid, by_flow, "nothing but the flow decides");
                by_cid
            })
            .collect();
        assert_eq!(backends.len(), 2);
    });
}

/// The second instance: other interfaces, and rows in another order.
fn second() -> Value {
    let mut document = two();
    document["instance_id"] = json!(OTHER);
    document["interface"] = json!("edge1");
    document
}

fn second_published() -> Writer {
    // Backend 2 alone gets row 0, backend 1 the one behind.
    let mut alone = second();
    alone["services"][0]["backends"] = json!([backend(2, "vm-b")]);
    let mut writer = published(&alone);
    let mut swapped = second();
    swapped["services"][0]["backends"] = json!([backend(1, "vm-b"), backend(2, "vm-a")]);
    publish(&mut writer, &swapped);
    writer
}

#[test]
fn what_one_instance_exports_packets_of_another_follow() {
    isolated("bindings::carried", || {
        machine();
        let one = published(&two());
        let of = service(&two());
        let mut other = second_published();
        assert_ne!(place(&one, 1).0, place(&other, 1).0, "rows differ");
        // Some are registered, some learned from packets: the second of a flow teaches.
        let mut bound = Vec::new();
        for number in 0..60 {
            let (cid, port) = (numbered(number), 40_000 + number as u16);
            let backend = if number % 2 == 0 {
                let backend = 1 + number % 4 / 2;
                one.register(of, &cid, id(backend), None).expect("free");
                backend
            } else {
                sent(&one, "edge0", &frame(&cid, port));
                sent(&one, "edge0", &frame(&cid, port))
            };
            bound.push((cid, backend));
        }
        let document = one.export().expect("a document");
        assert_eq!(document.bindings(), bound.len());
        let text = document.to_json();
        let read = read_affinity(&text[..], &ReadOptions::default()).expect("sound");
        let report = other.import(&read, Conflict::Keep).expect("imported");
        assert_eq!(report.accepted as usize, bound.len());
        // From addresses that the second instance never saw.
        for (cid, backend) in &bound {
            for port in [1_024, 33_333, 65_000] {
                assert_eq!(sent(&other, "edge1", &frame(cid, port)), *backend, "{cid}");
            }
        }
        let found = Table::of(&other).get(of, &bound[0].0).expect("imported");
        assert_eq!(found.origin, Origin::Imported);
        // What was exported again is the same, but for its origin.
        let again = other.export().expect("a document");
        let pairs = |document: &guideway::affinity::AffinityDocument| -> Vec<_> {
            let bindings = document.services()[0].bindings.iter();
            bindings.map(|of| (of.cid, of.backend)).collect()
        };
        assert_eq!(pairs(&again), pairs(&document));
    });
}

#[test]
fn registering_what_packets_use_at_full_speed_loses_neither() {
    isolated("bindings::hammered", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let places = [place(&writer, 1), place(&writer, 2)];
        let (done, packets) = (AtomicBool::new(false), AtomicU64::new(0));
        let edge = netns::ifindex("edge0");
        std::thread::scope(|scope| {
            let program = writer.program();
            let (done_, packets_) = (&done, &packets);
            let frames: Vec<_> = (0..4)
                .map(|number| frame(&numbered(number), 40_000))
                .collect();
            let hammer = scope.spawn(move || {
                while !done_.load(Ordering::Relaxed) {
                    for frame in &frames {
                        let run = Run {
                            ingress_ifindex: edge,
                            repeat: 2_000,
                            ..Run::new(frame)
                        };
                        let ran = run.run(program).expect("run");
                        assert_eq!(ran.action, REDIRECT);
                        packets_.fetch_add(2_000, Ordering::Relaxed);
                    }
                }
            });
            let stop = Stop(&done);
            let until = Instant::now() + Duration::from_secs(3);
            for round in 0.. {
                if Instant::now() > until {
                    break;
                }
                for number in 0..4 {
                    let (cid, to) = (numbered(number), 1 + round % 2);
                    // So old that a packet wants to write its time.
                    let old = Binding {
                        seen_ns: 1,
                        ..learned(places[(to % 2) as usize])
                    };
                    table.set(of, &cid, old);
                    writer.register(of, &cid, id(to), None).expect("stronger");
                    let found = table.get(of, &cid).expect("registered");
                    assert_eq!((found.row, found.incarnation), places[to as usize - 1]);
                    assert_eq!(found.origin, Origin::Registered);
                    assert_eq!(found.seen_ns, 0, "a packet's time is no time to live");
                }
            }
            drop(stop);
            hammer.join().expect("packets");
        });
        assert!(packets.load(Ordering::Relaxed) > 10_000);
        for number in 0..4 {
            let found = table.get(of, &numbered(number)).expect("registered");
            assert_eq!((found.origin, found.seen_ns), (Origin::Registered, 0));
        }
    });
}
