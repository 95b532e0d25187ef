// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is reported of flow state: one event a packet, the most telling one, and none of a hit.

use std::time::Duration;

use guideway::abi::{self, EventKind as Kind, Level, TraceFlag};
use guideway::affinity::Origin;
use guideway::kernel::ring::Ring;
use guideway::reason::Rule;

use super::world::*;
use crate::machine::Machine;
use crate::netns::isolated;

const CID: [u8; 8] = [0xa1, 2, 3, 4, 5, 6, 7, 8];

fn taken(ring: &mut Ring<abi::Event>) -> Vec<abi::Event> {
    let mut events = Vec::new();
    let each = |event: &abi::Event| events.push(*event);
    ring.poll(Duration::ZERO, usize::MAX, each).unwrap();
    events
}

fn learned() -> Vec<u8> {
    datagram(445, &short(&CID))
}

type Prepare = fn(&World);
/// To whom, what, after what, and what is reported of it: kind, row and rule.
type Reported = (&'static str, Vec<u8>, Box<dyn Fn(&World)>, Kind, u16, Rule);

#[test]
fn each_kind_is_reported_with_the_backend_that_was_chosen() {
    isolated("datapath::state::events", || {
        let mut world = World::new();
        let mut ring = world.machine.ring();
        world.publish(READY, OTHER);
        let with_cid = |row| {
            move |world: &World| {
                world.put_cid(
                    "learned",
                    &CID,
                    world.cid_entry("learned", &CID, row, Origin::Traffic),
                );
            }
        };
        let (bound, stale) = (with_cid(OTHER), with_cid(EMPTY));
        let cases: [Reported; 9] = [
            (
                "tcp",
                segment(8080, SYN, b""),
                Box::new(|_| {}),
                Kind::GW_EVENT_FLOW_START,
                READY,
                Rule::Table,
            ),
            (
                "tcp",
                segment(8080, ACK, b""),
                Box::new(|world| world.put_flow("tcp", world.flow_entry("tcp", UNHEALTHY))),
                Kind::GW_EVENT_RESELECT,
                READY,
                Rule::Reselect,
            ),
            (
                "tcp",
                segment(8080, SYN, b""),
                Box::new(|world| full(world, "tcp")),
                Kind::GW_EVENT_REFUSED_FULL,
                OTHER,
                Rule::Previous,
            ),
            (
                "learned",
                learned(),
                Box::new(|world| world.put_flow("learned", world.flow_entry("learned", OTHER))),
                Kind::GW_EVENT_CID_LEARNED,
                OTHER,
                Rule::Flow,
            ),
            (
                "learned",
                learned(),
                Box::new(|world| {
                    full(world, "learned");
                    world.put_flow("learned", world.flow_entry("learned", OTHER));
                }),
                Kind::GW_EVENT_REFUSED_FULL,
                OTHER,
                Rule::Flow,
            ),
            (
                "learned",
                learned(),
                Box::new(move |world| {
                    bound(world);
                    world.put_flow("learned", world.flow_entry("learned", READY));
                }),
                Kind::GW_EVENT_CID_CONFLICT,
                OTHER,
                Rule::CidLearned,
            ),
            (
                "learned",
                learned(),
                Box::new(bound),
                Kind::GW_EVENT_REBIND,
                OTHER,
                Rule::CidLearned,
            ),
            // More telling than that the owner was taken.
            (
                "learned",
                learned(),
                Box::new(stale),
                Kind::GW_EVENT_STALE,
                READY,
                Rule::Reselect,
            ),
            (
                "learned",
                learned(),
                Box::new(with_cid(UNHEALTHY)),
                Kind::GW_EVENT_RESELECT,
                READY,
                Rule::Reselect,
            ),
        ];
        for (service, frame, prepare, kind, row, rule) in cases {
            world.machine.forget();
            prepare(&world);
            let came = world.run(service, &frame);
            assert_eq!(came.end, Some((row, rule)), "{kind:?}");
            let [event] = taken(&mut ring)[..] else {
                panic!("one event");
            };
            let backend = world.service(service).1.backend(row).unwrap();
            assert_eq!(
                (event.kind, event.rule, event.backend_id),
                (kind.0 as u16, rule.number(), backend.id.get())
            );
            let cid: &[u8] = if service == "learned" { &CID } else { &[] };
            assert_eq!(&event.cid[..usize::from(event.cid_len)], cid, "{kind:?}");
        }
    });
}

fn full(world: &World, service: &str) {
    let admission = abi::Admission {
        flows: Level::GW_LEVEL_NONE.0,
        cids: Level::GW_LEVEL_NONE.0,
        refused_ns: 0,
    };
    world.machine.admit(world.stats(service), admission);
}

#[test]
fn what_goes_on_as_before_is_not_reported() {
    isolated("datapath::state::silence", || {
        let mut world = World::new();
        let mut ring = world.machine.ring();
        world.publish(READY, OTHER);
        let frames: [(&str, Vec<u8>, Prepare); 5] = [
            ("tcp", segment(8080, SYN, b""), |world| {
                world.put_flow("tcp", world.flow_entry("tcp", OTHER));
            }),
            ("tcp", segment(8080, ACK, b""), |_| {}),
            ("udp", datagram(53, b"question"), |_| {}),
            ("bound", datagram(446, &short(&CID)), |world| {
                let entry = world.cid_entry("bound", &CID, OTHER, Origin::Traffic);
                world.put_cid("bound", &CID, entry);
            }),
            ("learned", learned(), |world| {
                let entry = world.cid_entry("learned", &CID, OTHER, Origin::Traffic);
                world.put_cid("learned", &CID, entry);
                world.put_flow("learned", world.flow_entry("learned", OTHER));
            }),
        ];
        for (service, frame, prepare) in frames {
            world.machine.forget();
            prepare(&world);
            world.run(service, &frame);
            assert!(taken(&mut ring).is_empty(), "{frame:02x?}");
        }
    });
}

/// What a trace says of the entries that a packet has made.
#[test]
fn a_note_says_what_was_created() {
    isolated("datapath::state::created", || {
        let mut world = World::on(Machine::tracing());
        world.publish(READY, OTHER);
        let created = |world: &World| {
            let flags = u32::from(world.machine.note().flags);
            let has = |flag: TraceFlag| flags & flag.0 != 0;
            (
                has(TraceFlag::GW_TRACE_CREATED_FLOW),
                has(TraceFlag::GW_TRACE_CREATED_CID),
            )
        };
        let ack = segment(8080, ACK, b"");
        world.run("tcp", &ack);
        assert_eq!(created(&world), (true, false));
        assert_eq!(world.machine.note().base, OTHER);
        world.run("tcp", &ack);
        assert_eq!(created(&world), (false, false));
        world.run("learned", &learned());
        assert_eq!(created(&world), (true, false));
        world.run("learned", &learned());
        assert_eq!(created(&world), (false, true));
        let flow = world.key("learned");
        assert!(world.machine.flows.remove(&flow).unwrap());
        world.run("learned", &learned());
        assert_eq!(created(&world), (true, false));
        full(&world, "udp");
        world.run("udp", &datagram(53, b"question"));
        assert_eq!(created(&world), (false, false));
    });
}
