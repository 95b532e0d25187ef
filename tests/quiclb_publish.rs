// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication: whatever step fails or dies, one whole generation is live, and the next
//! publication converges.

#[path = "common/netns.rs"]
mod netns;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::abi;
use guideway::kernel::map::Map;
use guideway::kernel::record;
use guideway::kernel::typed::Array;
use guideway::plan::{plan, Device, PlanResult, World};
use guideway::quiclb::{
    Aborted, Loader, Options, Plan, PublishError, QuicLb, StateDir, StateRoot, Step, Writer,
};
use guideway::service::Spec;
use netns::isolated;

/// One service with as many backends as `macs`, all behind loopback, the only interface here.
fn spec(macs: &[&str]) -> Spec {
    let backends: Vec<_> = macs
        .iter()
        .enumerate()
        .map(|(index, mac)| serde_json::json!({"id": index + 1, "interface": "lo", "mac": mac}))
        .collect();
    let document = serde_json::json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "edge0",
        "services": [{
            "name": "quic-api", "vip": "203.0.113.80", "port": 443,
            "maglev_table_size": 251, "backends": backends,
        }],
    });
    Spec::from_json(document.to_string().as_bytes()).expect("a valid specification")
}

fn world() -> World {
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    World::new(vec![device("edge0", 77), device("lo", 1)], Vec::new(), 1)
}

const BEFORE: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
const AFTER: [&str; 3] = [
    "02:00:00:00:01:01",
    "02:00:00:00:01:02",
    "02:00:00:00:01:03",
];

const FOUR: [&str; 4] = [
    "02:00:00:00:00:01",
    "02:00:00:00:00:02",
    "02:00:00:00:00:03",
    "02:00:00:00:00:04",
];

fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(spec(&BEFORE).instance_id())
}

fn open() -> Writer {
    Loader::new(&dir(), spec(&BEFORE).limits())
        .load()
        .expect("an instance")
}

fn plan_for(writer: &Writer, spec: &Spec) -> Plan {
    let live = writer.live_record().expect("readable");
    plan(live.as_ref(), spec, &world(), Options::default()).expect("a plan")
}

fn publish(writer: &mut Writer, spec: &Spec) -> u64 {
    let plan = plan_for(writer, spec);
    let done = writer.publish(&plan).expect("published");
    assert!(done.untidy.is_none(), "{:?}", done.untidy);
    done.generation
}

fn live_spec(writer: &Writer) -> Spec {
    writer
        .live_record()
        .expect("readable")
        .expect("live")
        .spec()
        .clone()
}

/// Pins of generations: the live one and the records kept of those before.
fn generation_pins() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir().path().join("gen"))
        .expect("the directory of generations")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_step_that_fails_is_invisible_and_the_next_publication_converges() {
    isolated("a_step_that_fails", || {
        let mut writer = open();
        let mut highest = publish(&mut writer, &spec(&BEFORE));
        for step in Step::ALL {
            let (before, after) = match live_spec(&writer) == spec(&BEFORE) {
                true => (spec(&BEFORE), spec(&AFTER)),
                false => (spec(&AFTER), spec(&BEFORE)),
            };
            let live = writer.live().expect("readable");
            let plan = plan_for(&writer, &after);
            let outcome = writer.publish_observed(&plan, 2, |at| match at == step {
                true => Err(Aborted),
                false => Ok(()),
            });
            if step <= Step::Swap {
                assert!(
                    matches!(outcome, Err(PublishError::Aborted { step: at, .. }) if at == step),
                    "{step}: {outcome:?}"
                );
                assert_eq!(writer.live().expect("readable"), live, "{step}");
                assert_eq!(live_spec(&writer), before, "{step}");
            } else {
                let done = outcome.expect("live all the same");
                assert!(done.untidy.is_some(), "{step}");
                assert_eq!(live_spec(&writer), after, "{step}");
                highest = done.generation;
            }

            let number = publish(&mut writer, &spec(&["02:00:00:00:02:01"]));
            assert!(number > highest, "{step}: {number} after {highest}");
            highest = publish(&mut writer, &after);
            assert_eq!(live_spec(&writer), after, "{step}");
            // The live generation, its record, and two records before it: nothing else.
            let pins = generation_pins();
            assert_eq!(pins.len(), 4, "{step}: {pins:?}");
        }
    });
}

#[test]
fn a_writer_killed_at_any_step_leaves_one_whole_generation() {
    isolated("a_writer_killed_at_any_step", || {
        publish(&mut open(), &spec(&BEFORE));
        for step in 0..Step::ALL.len() {
            let (before, after) = {
                let writer = open();
                (
                    live_spec(&writer),
                    writer.live().expect("readable").expect("live").number,
                )
            };
            let status = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "the_writer_that_is_killed", "--nocapture"])
                .env("GW_TEST_KILLED_AT", step.to_string())
                .status()
                .expect("a child");
            assert_eq!(status.signal(), Some(9), "step {step} was reached");

            let mut writer = open();
            let live = live_spec(&writer);
            if Step::ALL[step] <= Step::Swap {
                assert_eq!(live, before, "{}", Step::ALL[step]);
            } else {
                assert_ne!(live, before, "{}", Step::ALL[step]);
            }
            let number = publish(&mut writer, &spec(&["02:00:00:00:02:01"]));
            assert!(number > after);
            publish(&mut writer, &before);
            assert_eq!(live_spec(&writer), before);
            assert_eq!(generation_pins().len(), 4, "{}", Step::ALL[step]);
        }
    });
}

/// Not a test by itself: the process that the test above kills.
#[test]
fn the_writer_that_is_killed() {
    let Ok(step) = std::env::var("GW_TEST_KILLED_AT") else {
        return;
    };
    let step = Step::ALL[step.parse::<usize>().expect("a number")];
    let mut writer = open();
    let next = match live_spec(&writer) == spec(&BEFORE) {
        true => spec(&AFTER),
        false => spec(&BEFORE),
    };
    let plan = plan_for(&writer, &next);
    let _ = writer.publish_observed(&plan, 2, |at| {
        if at == step {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("killed");
        }
        Ok(())
    });
}

#[test]
fn two_generations_of_the_largest_instances_take_at_most_64_mib() {
    isolated("two_generations_of_the_largest_instances", || {
        // As many different tables as services: the weights differ.
        for (services, slots) in [(64_u32, 65_537), (1024, 4093)] {
            let services: Vec<_> = (0..services)
                .map(|service| {
                    let backend = |id: u32| {
                        let weight = 1 + (service >> (4 * id)) % 16;
                        serde_json::json!({"id": id + 1, "interface": "lo", "weight": weight,
                                           "mac": "02:00:00:00:00:01"})
                    };
                    serde_json::json!({"name": format!("s{service}"), "vip": "203.0.113.80",
                        "port": 1000 + service, "maglev_table_size": slots,
                        "backends": [backend(0), backend(1), backend(2)]})
                })
                .collect();
            let document = serde_json::json!({
                "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
                "interface": "edge0",
                "services": services,
            });
            let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
            let mut writer = Loader::new(&dir(), spec.limits())
                .load()
                .expect("an instance");
            publish(&mut writer, &spec);
            let bytes = writer.live_memory_bytes().expect("readable").expect("live");
            // Every generation of an instance takes the same.
            assert!(
                2 * bytes <= 64 << 20,
                "{} services: {bytes}",
                services.len()
            );
            writer.purge().expect("removed");
        }
    });
}

#[test]
fn numbers_that_are_used_up_are_an_error_and_never_start_over() {
    isolated("numbers_that_are_used_up", || {
        let mut writer = open();
        let number = publish(&mut writer, &spec(&BEFORE));
        let meta = dir().path().join("maps/gw_ql_meta");
        let meta = Array::<abi::Meta>::new(Map::open_any(&meta).expect("the map")).expect("meta");
        let mut marks = meta.get(0).expect("readable");
        marks.generation_mark = u64::MAX;
        meta.set(0, &marks).expect("written");
        let after = plan_for(&writer, &spec(&["02:00:00:00:01:01"]));
        let error = writer.publish(&after).expect_err("no number is left");
        assert!(
            matches!(
                error,
                PublishError::Step {
                    step: Step::RaiseMarks,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(
            writer.live().expect("readable").expect("live").number,
            number
        );

        marks = abi::Meta {
            incarnation_mark: u32::MAX - 1,
            ..marks
        };
        meta.set(0, &marks).expect("written");
        let live = writer.live_record().expect("readable");
        let faults = plan(live.as_ref(), &spec(&FOUR), &world(), Options::default());
        let faults = faults.expect_err("one incarnation for two newcomers");
        assert_eq!(
            faults.to_string(),
            "/services: incarnations: 4294967296 needed, the limit is 4294967295"
        );
    });
}

#[test]
fn an_unchanged_specification_publishes_nothing() {
    isolated("an_unchanged_specification", || {
        let mut writer = open();
        let number = publish(&mut writer, &spec(&BEFORE));
        let live = writer.live().expect("readable");
        let plan = plan_for(&writer, &spec(&BEFORE));
        assert_eq!(plan.document().result, PlanResult::Unchanged);
        let done = writer.publish(&plan).expect("done");
        assert_eq!(
            (done.result, done.generation),
            (PlanResult::Unchanged, number)
        );
        assert_eq!(writer.live().expect("readable"), live);
    });
}

#[test]
fn a_plan_made_against_another_generation_is_refused() {
    isolated("a_plan_made_against_another_generation", || {
        let mut writer = open();
        publish(&mut writer, &spec(&BEFORE));
        let stale = plan_for(&writer, &spec(&AFTER));
        let number = publish(&mut writer, &spec(&["02:00:00:00:02:01"]));
        let refused = writer.publish(&stale);
        assert!(
            matches!(refused, Err(PublishError::Stale { live, .. }) if live == Some(number)),
            "{refused:?}"
        );
        assert_eq!(
            writer.live().expect("readable").expect("live").number,
            number
        );
    });
}

#[test]
fn a_second_writer_is_locked_out_and_a_reader_is_not() {
    isolated("a_second_writer", || {
        let mut writer = open();
        publish(&mut writer, &spec(&BEFORE));
        let second = Loader::new(&dir(), spec(&BEFORE).limits()).load();
        let error = second.expect_err("locked");
        assert_eq!(error.kind(), guideway::error::ErrorKind::Locked);
        let reader = QuicLb::open(&dir()).expect("a reader");
        assert_eq!(
            reader.live().expect("readable"),
            writer.live().expect("readable")
        );
    });
}

#[test]
fn what_a_publication_does_not_understand_it_leaves_alone() {
    isolated("what_a_publication_does_not_understand", || {
        let mut writer = open();
        publish(&mut writer, &spec(&BEFORE));
        let other = record::write("gw_test", b"of another tool").expect("a map");
        for name in ["notes", "1-notes", "+1-cells"] {
            other
                .pin(&dir().path().join("gen").join(name))
                .expect("pinned");
        }
        std::fs::create_dir(dir().path().join("gen/notes-of-1")).expect("made");
        publish(&mut writer, &spec(&AFTER));
        let pins = [
            "+1-cells",
            "1-notes",
            "1-record",
            "2-cells",
            "2-record",
            "notes",
            "notes-of-1",
        ];
        assert_eq!(generation_pins(), pins);
    });
}

#[test]
fn a_reader_is_never_caught_between_a_generation_and_its_record() {
    isolated("a_reader_is_never_caught", || {
        let mut writer = open();
        publish(&mut writer, &spec(&BEFORE));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let reader = QuicLb::open(&dir()).expect("a reader");
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) {
                    reader.live_record().expect("readable").expect("live");
                    reader.live_memory_bytes().expect("readable").expect("live");
                    reads += 1;
                }
                reads
            });
            for round in 0..60 {
                let next = if round % 2 == 0 {
                    spec(&AFTER)
                } else {
                    spec(&BEFORE)
                };
                let plan = plan_for(&writer, &next);
                // Nothing is kept: the record of the generation before goes at once.
                writer
                    .publish_observed(&plan, 0, |_| Ok(()))
                    .expect("published");
            }
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().expect("no error") > 60);
        });
    });
}

#[test]
fn lost_pins_are_made_again_around_those_that_are_there() {
    isolated("lost_pins", || {
        let mut writer = open();
        let number = publish(&mut writer, &spec(&BEFORE));
        drop(writer);
        for lost in ["progs/gw_quiclb", "maps/gw_ql_stats"] {
            std::fs::remove_file(dir().path().join(lost)).expect("a pin");
            let mut writer = open();
            assert_eq!(
                writer.live().expect("readable").expect("live").number,
                number,
                "{lost}"
            );
            writer.stats().expect("counters");
            let plan = plan_for(&writer, &spec(&BEFORE));
            assert_eq!(
                writer.publish(&plan).expect("done").result,
                PlanResult::Unchanged
            );
        }
    });
}
