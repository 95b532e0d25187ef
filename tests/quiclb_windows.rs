// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Marked slots of live instances: what a publication writes of them, and what a killed one leaves.

#[path = "common/netns.rs"]
mod netns;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use guideway::abi;
use guideway::affinity::{count_marks, MarkCount};
use guideway::error::ErrorKind;
use guideway::kernel::clock;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::publish::Generation;
use guideway::kernel::typed::{Array, Hash, PerCpuArray};
use guideway::plan::{plan, Device, Image, Live, PlanResult, World};
use guideway::quiclb::{Loader, Options, Plan, PublishError, StateDir, StateRoot, Step, Writer};
use guideway::service::Spec;
use netns::isolated;
use serde_json::{json, Value};

const SECOND: u64 = 1_000_000_000;
/// For how long slots of the services here stay open, and by how much longer for rounding.
const WINDOW_NS: u64 = 12 * SECOND;
const GRID_NS: u64 = WINDOW_NS / 64;

/// QUIC by tuple, on these ports, with the backends 1 to `backends`.
fn spec(ports: &[u16], backends: u32) -> Spec {
    let backend = |id: u32| json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"});
    let service = |port: &u16| {
        json!({"name": format!("s{port}"), "vip": "203.0.113.80", "port": port,
               "maglev_table_size": 1021, "flow_idle": 10,
               "backends": (1..=backends).map(backend).collect::<Value>()})
    };
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
        "services": ports.iter().map(service).collect::<Value>(),
    });
    Spec::from_json(document.to_string().as_bytes()).expect("a valid specification")
}

fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(spec(&[443], 1).instance_id())
}

fn open() -> Writer {
    Loader::new(&dir(), spec(&[443], 1).limits())
        .load()
        .expect("an instance")
}

/// This machine when its monotonic clock shows `now_ns`.
fn world_at(now_ns: u64) -> World {
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    let mut world = World::new(
        vec![device("edge0", 77), device("lo", 1)],
        Vec::new(),
        now_ns,
    );
    world.monotonic_ns = now_ns;
    world
}

fn live(writer: &Writer) -> Live {
    writer.live_record().expect("readable").expect("live")
}

fn plan_at(writer: &Writer, spec: &Spec, now_ns: u64) -> Plan {
    let live = writer.live_record().expect("readable");
    plan(live.as_ref(), spec, &world_at(now_ns), Options::default()).expect("a plan")
}

fn publish(writer: &mut Writer, spec: &Spec) -> u64 {
    let plan = plan_at(writer, spec, clock::monotonic_ns());
    let done = writer.publish(&plan).expect("published");
    assert!(done.untidy.is_none(), "{:?}", done.untidy);
    done.generation
}

fn marks(plan: &Plan) -> MarkCount {
    count_marks(&plan.generation().services[0].slots)
}

fn pin(name: &str) -> PathBuf {
    dir().path().join(name)
}

fn map(name: &str) -> Map {
    Map::open_any(&pin("maps").join(name)).expect("the map")
}

fn levels() -> Array<abi::Admission> {
    Array::new(map("gw_ql_level")).expect("levels")
}

fn closing_generation() -> u64 {
    let collection = Array::<abi::Collection>::new(map("gw_ql_collect2")).expect("the map");
    collection.get(0).expect("readable").closing_generation
}

fn cells(number: u64) -> Vec<u8> {
    let path = pin("gen").join(format!("{number}-cells"));
    let generation = Generation::open(&path, "gw_ql_cells").expect("the generation");
    generation.read().expect("readable")
}

/// What the record of the live generation is built into again.
fn rebuilt(writer: &Writer) -> Vec<u8> {
    let live = live(writer);
    let spec = live.spec().clone();
    // Nothing closes: no time has passed since.
    let unchanged = plan_at(writer, &spec, live.flow_state().returned_ns.expect("noted"));
    assert_eq!(unchanged.document().result, PlanResult::Unchanged);
    let mut generation = unchanged.generation().clone();
    generation.number = live.number();
    Image::build(&generation)
        .expect("an image")
        .bytes()
        .to_vec()
}

#[test]
fn a_restart_finds_the_slots_that_packets_see() {
    isolated("windows::restart", || {
        publish(&mut open(), &spec(&[443, 444], 3));
        for backends in [4, 5, 3] {
            let number = publish(&mut open(), &spec(&[443, 444], backends));
            let writer = open();
            let found = plan_at(&writer, live(&writer).spec(), clock::monotonic_ns());
            assert_ne!(marks(&found), MarkCount::default(), "{backends}");
            assert!(cells(number) == rebuilt(&writer), "{backends} backends");
        }
    });
}

#[test]
fn windows_begin_when_the_publication_returns_and_end_in_time() {
    isolated("windows::times", || {
        let mut writer = open();
        publish(&mut writer, &spec(&[443], 3));
        let wanted = spec(&[443], 4);
        let planned = plan_at(&writer, &wanted, clock::monotonic_ns());
        let mut before_swap = 0;
        let done = writer.publish_observed(&planned, 2, |step| {
            if step == Step::Swap {
                before_swap = clock::monotonic_ns();
            }
            Ok(())
        });
        let number = done.expect("published").generation;
        let after = clock::monotonic_ns();
        let returned = live(&writer).flow_state().returned_ns.expect("noted");
        assert!(before_swap < returned && returned < after);

        // Five seconds of grace from the publication on, in what packets read.
        let grace = service_record(&cells(number), 443).grace_until_ns;
        let since = grace.checked_sub(5 * SECOND).expect("a grace");
        assert!(
            since <= before_swap && before_swap - since < SECOND,
            "{since}"
        );

        let open = marks(&planned).open;
        let early = plan_at(&writer, &wanted, returned + WINDOW_NS - 1);
        assert_eq!(
            (early.document().result, marks(&early).open),
            (PlanResult::Unchanged, open)
        );
        let due = plan_at(&writer, &wanted, returned + WINDOW_NS + GRID_NS);
        assert_eq!(due.document().result, PlanResult::Change);
        assert_eq!(
            marks(&due),
            MarkCount {
                open: 0,
                held: open
            }
        );
        let number = writer.publish(&due).expect("published").generation;
        assert!(cells(number) == rebuilt(&writer));
        assert_eq!(service_record(&cells(number), 443).grace_until_ns, grace);
    });
}

/// The record of the service on this port in a generation.
fn service_record(cells: &[u8], port: u16) -> abi::Service {
    let record = |cell: usize| -> abi::Service {
        bytemuck::pod_read_unaligned(&cells[cell * 256..cell * 256 + size_of::<abi::Service>()])
    };
    let mut records = (1..cells.len() / 256).map(record);
    let found = records.find(|record| record.key.family == 4 && record.key.port == port.to_be());
    found.expect("the service")
}

#[test]
fn a_writer_killed_at_any_step_never_shortens_a_window() {
    isolated("windows::killed", || {
        publish(&mut open(), &spec(&[443], 3));
        for step in Step::ALL {
            // What the step before has opened is over.
            let mut writer = open();
            let later = clock::monotonic_ns() + 1000 * WINDOW_NS;
            let closed = plan_at(&writer, live(&writer).spec(), later);
            writer.publish(&closed).expect("published");
            drop(writer);

            let before = live(&open());
            let started = clock::monotonic_ns();
            let status = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "the_writer_that_is_killed", "--nocapture"])
                .env("GW_TEST_KILLED_AT", step.to_string())
                .status()
                .expect("a child");
            let ended = clock::monotonic_ns();
            assert_eq!(status.signal(), Some(9), "{step} was reached");

            let mut writer = open();
            let live_now = live(&writer);
            let wanted = live_now.spec().clone();
            let returned = |writer: &Writer| live(writer).flow_state().returned_ns;
            if step <= Step::Swap {
                assert_eq!(live_now.number(), before.number(), "{step}");
                assert_eq!(returned(&writer), before.flow_state().returned_ns, "{step}");
            } else {
                assert_ne!(live_now.number(), before.number(), "{step}");
                let open = marks(&plan_at(&writer, &wanted, ended)).open;
                assert!(open > 0, "{step}");
                if step == Step::NoteReturn {
                    assert_eq!(returned(&writer), None, "{step}");
                    let later = plan_at(&writer, &wanted, ended + 1000 * WINDOW_NS);
                    assert_eq!(later.document().result, PlanResult::Unchanged, "{step}");
                    assert_eq!(marks(&later).open, open, "nobody knows when it began");
                }
                // Whoever comes next makes up for it, also with nothing else to do.
                assert_eq!(publish(&mut writer, &wanted), live_now.number(), "{step}");
                let noted = returned(&writer).expect("noted");
                let earliest = if step == Step::NoteReturn {
                    ended
                } else {
                    started
                };
                assert!(noted >= earliest, "{step}");
                assert!(step == Step::NoteReturn || noted <= ended, "{step}");
                let early = plan_at(&writer, &wanted, noted + WINDOW_NS - 1);
                assert_eq!(marks(&early).open, open, "{step}");
                let due = plan_at(&writer, &wanted, noted + WINDOW_NS + GRID_NS);
                assert_eq!(marks(&due).open, 0, "{step}");
            }
        }
    });
}

/// Not a test by itself: the process that the test above kills.
#[test]
fn the_writer_that_is_killed() {
    let Ok(step) = std::env::var("GW_TEST_KILLED_AT") else {
        return;
    };
    let mut writer = open();
    let backends = live(&writer).spec().services()[0].backends.len() as u32;
    // One more each time, so that each opens slots.
    let next = spec(&[443], backends + 1);
    let plan = plan_at(&writer, &next, clock::monotonic_ns());
    let _ = writer.publish_observed(&plan, 2, |at| {
        if at.to_string() == step {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("killed");
        }
        Ok(())
    });
}

#[test]
fn an_insert_that_was_refused_keeps_a_window_open() {
    isolated("windows::refused", || {
        let mut writer = open();
        publish(&mut writer, &spec(&[443], 3));
        let wanted = spec(&[443], 4);
        publish(&mut writer, &wanted);
        let returned = live(&writer).flow_state().returned_ns.expect("noted");
        let due = returned + WINDOW_NS + GRID_NS;
        let closing = plan_at(&writer, &wanted, due);
        assert_eq!(marks(&closing).open, 0);

        let refuse = |at_ns: u64| {
            let mut level = levels().get(0).expect("readable");
            level.refused_ns = at_ns;
            levels().set(0, &level).expect("written");
        };
        // A packet comes between plan and publication.
        refuse(clock::monotonic_coarse_ns());
        let number = live(&writer).number();
        let error = writer.publish(&closing).expect_err("too early");
        assert_eq!(closing_generation(), 0, "it stays");
        assert!(matches!(error, PublishError::Refused { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::StalePlan);
        assert_eq!(live(&writer).number(), number);

        // The program notes a refusal once a second: the last may be a second later.
        refuse(due - WINDOW_NS - SECOND + 1);
        assert!(marks(&plan_at(&writer, &wanted, due)).open > 0);
        refuse(due - WINDOW_NS - SECOND);
        assert_eq!(marks(&plan_at(&writer, &wanted, due)).open, 0);

        // A level that refuses newcomers keeps nothing open as long as none comes.
        let mut level = levels().get(0).expect("readable");
        for flows in [abi::Level::GW_LEVEL_RESERVE, abi::Level::GW_LEVEL_NONE] {
            level.flows = flows.0;
            levels().set(0, &level).expect("written");
            let closing = plan_at(&writer, &wanted, due);
            assert_eq!(marks(&closing).open, 0, "{flows:?}");
        }
        // Refused before that time, and none since.
        level.refused_ns = 0;
        levels().set(0, &level).expect("written");
        let closing = plan_at(&writer, &wanted, due);
        writer.publish(&closing).expect("nobody was refused");
        assert_eq!(marks(&plan_at(&writer, &wanted, due)).open, 0);
    });
}

/// Whoever is refused behind the last look at refusals moves: the program must know, and count it.
#[test]
fn a_generation_that_closes_slots_says_so_before_it_looks_for_refusals() {
    isolated("windows::closing", || {
        let mut writer = open();
        publish(&mut writer, &spec(&[443], 3));
        let swap = |writer: &mut Writer, planned: &Plan| {
            let mut said = None;
            let done = writer.publish_observed(planned, 2, |step| {
                if step == Step::Swap {
                    said = Some(closing_generation());
                }
                Ok(())
            });
            assert!(done.expect("published").untidy.is_none());
            said.expect("a swap")
        };
        let wanted = spec(&[443], 4);
        let now_ns = clock::monotonic_ns();
        let planned = plan_at(&writer, &wanted, now_ns);
        assert_eq!(swap(&mut writer, &planned), 0, "slots open");
        let later = now_ns + 2 * WINDOW_NS;
        let planned = plan_at(&writer, &wanted, later);
        assert_eq!(marks(&planned).open, 0);
        assert_eq!(swap(&mut writer, &planned), 2, "they close");
    });
}

#[test]
fn a_new_service_begins_with_levels_of_its_own() {
    isolated("windows::levels", || {
        let mut writer = open();
        publish(&mut writer, &spec(&[443, 444], 3));
        let raised = abi::Admission {
            flows: abi::Level::GW_LEVEL_NONE.0,
            cids: abi::Level::GW_LEVEL_RESERVE.0,
            refused_ns: 7,
        };
        for index in [0, 1] {
            levels().set(index, &raised).expect("written");
        }
        publish(&mut writer, &spec(&[443], 3));
        let number = publish(&mut writer, &spec(&[443, 445], 3));
        let at = |port| service_record(&cells(number), port).stats;
        assert_eq!(at(445), 1, "it has the counters of the one that went");
        let level = |index| {
            let level = levels().get(index).expect("readable");
            (level.flows, level.cids, level.refused_ns)
        };
        assert_eq!(level(at(443)), (2, 1, 7));
        assert_eq!(level(at(445)), (0, 0, 0));
    });
}

#[test]
fn what_is_known_of_flows_comes_from_counters_and_the_last_sweep() {
    isolated("windows::known", || {
        let mut writer = open();
        let wanted = spec(&[443], 3);
        let published = clock::monotonic_ns();
        publish(&mut writer, &wanted);
        let id = wanted.services()[0].id.get();
        let known = live(&writer);
        assert_eq!(
            (known.flow_state().flows, known.flow_state().cids),
            (None, None)
        );
        let service = known.flow_state().service(id).expect("known");
        assert_eq!(
            (service.mean_starts_per_second, service.refused_ns),
            (None, None)
        );

        let collection = Array::<abi::Collection>::new(map("gw_ql_collect2")).expect("the map");
        let mut swept = collection.get(0).expect("readable");
        (swept.swept_ns, swept.flows) = (1, 1000);
        (swept.learned, swept.registered, swept.imported) = (10, 200, 3000);
        collection.set(0, &swept).expect("written");
        let stats = PerCpuArray::<abi::ServiceStats>::new(map("gw_ql_stats")).expect("the map");
        let mut counted = abi::ServiceStats {
            packets: 0,
            bytes: 0,
            ..bytemuck::Zeroable::zeroed()
        };
        counted.counters[abi::Counter::GW_COUNTER_STARTS.0 as usize] = 500;
        stats.set(0, &counted).expect("written");
        let starts = 500.0 * stats.get(0).expect("readable").len() as f64;
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let known = live(&writer);
        assert_eq!(
            (known.flow_state().flows, known.flow_state().cids),
            (Some(1000), Some(3210))
        );
        let service = known.flow_state().service(id).expect("known");
        let rate = service
            .mean_starts_per_second
            .expect("for more than a second");
        let seconds = (clock::monotonic_ns() - published) as f64 / 1e9;
        assert!(rate >= starts / seconds && rate <= starts / 1.1, "{rate}");
        let capacity = plan_at(&writer, &wanted, published).document().capacity;
        assert_eq!((capacity.flows.used, capacity.cids.used), (1000, 3210));
    });
}

#[test]
fn an_entry_takes_the_memory_that_plans_count_with() {
    isolated("windows::memory", || {
        open();
        // As the kernel accounts it: the map itself and its lists for each CPU take a little, too.
        for (name, entries, bytes) in [
            ("gw_ql_flow", 1_048_576_u64, 112.0),
            ("gw_ql_cid", 262_144, 120.0),
        ] {
            let taken = map(name).memory_bytes().expect("accounted");
            let each = taken as f64 / entries as f64;
            assert!((each - bytes).abs() < 0.5, "{name}: {each}");
        }
    });
}

#[test]
fn a_backend_that_goes_takes_its_entries_with_it() {
    isolated("windows::lost", || {
        let mut writer = open();
        publish(&mut writer, &spec(&[443], 3));
        let id = spec(&[443], 3).services()[0].id.get();
        let flows = Hash::<abi::FlowKey, abi::Binding>::new(map("gw_ql_flow")).expect("the map");
        let cids = Hash::<abi::CidKey, abi::Binding>::new(map("gw_ql_cid")).expect("the map");
        // Row and incarnation of the backends 1 to 3; the last of a backend that was gone before.
        let owners = [(0, 1), (1, 2), (2, 3), (2, 3), (2, 99)];
        for ((row, incarnation), number) in owners.into_iter().zip(0_u16..) {
            let binding = abi::Binding {
                row,
                incarnation,
                ..Default::default()
            };
            let key = abi::FlowKey {
                service: id,
                client_port: number,
                ..Default::default()
            };
            flows.update(&key, &binding, Update::Any).expect("inserted");
            let key = abi::CidKey {
                service: id,
                length: 8,
                cid: [number as u8; 20],
                ..Default::default()
            };
            cids.update(&key, &binding, Update::Any).expect("inserted");
        }
        netns::veth("edge0", "edge1");
        let without = writer
            .plan(&spec(&[443], 2), Options::default())
            .expect("a plan");
        assert_eq!(
            without.document().services[0].disruption.bindings_lost,
            Some(4)
        );
        let more = writer
            .plan(&spec(&[443], 4), Options::default())
            .expect("a plan");
        assert_eq!(
            more.document().services[0].disruption.bindings_lost,
            Some(0)
        );
    });
}
