// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Encrypted server IDs in an instance: keys come and go with generations, and what is lost of them
//! is missed and made good.

#[path = "common/netns.rs"]
mod netns;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use guideway::capture::Frame;
use guideway::error::ErrorKind;
use guideway::kernel::keys::{self, Contexts};
use guideway::kernel::map::Map;
use guideway::kernel::object;
use guideway::kernel::run::Run;
use guideway::plan::PlanResult;
use guideway::quic::lb::{CidGenerator, ServerId};
use guideway::quiclb::trace::{payload_frame, run, Reset, Scenario};
use guideway::quiclb::{
    Aborted, FindingCode, Loader, Options, Plan, PlanError, PublishError, QuicLb, StateDir,
    StateRoot, Status, Step, Writer,
};
use guideway::service::Spec;
use netns::{isolated, require_keys};
use serde_json::{json, Value};

const KEY: &str = "8f95f09245765f80256934e50c66207f";
const OTHER: &str = "000102030405060708090a0b0c0d0e0f";

/// One service of two backends behind loopback. Its configs: four passes, one, and three; with
/// these keys.
fn spec(keys: [Option<&str>; 3]) -> Spec {
    let lengths = [(10, 5), (8, 8), (3, 4)];
    let configs: Vec<_> = (0..)
        .zip(keys)
        .zip(lengths)
        .map(|((id, key), (server_id_len, nonce_len)): ((u8, _), _)| {
            json!({"config_id": id, "server_id_len": server_id_len, "nonce_len": nonce_len,
                   "key": key})
        })
        .collect();
    let backend = |id: u8| {
        let server_ids: Vec<_> = lengths
            .iter()
            .map(|(len, _)| format!("{id:02x}").repeat(*len))
            .collect();
        json!({"id": id, "interface": "lo", "mac": format!("02:00:00:00:00:{id:02x}"),
               "server_id": server_ids})
    };
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "edge0",
        "limits": {"flows": 1024, "cids": 1024},
        "services": [{
            "name": "quic-api", "vip": "203.0.113.80", "port": 443, "maglev_table_size": 251,
            "quic": {"routing": "server-id", "configs": configs},
            "backends": [backend(1), backend(2)],
        }],
    });
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(spec([None; 3]).instance_id())
}

fn open() -> Writer {
    let loader = Loader::new(&dir(), spec([None; 3]).limits());
    loader.load().unwrap_or_else(|error| panic!("{error}"))
}

fn plan_for(writer: &Writer, spec: &Spec) -> Plan {
    let plan = writer.plan(spec, Options::default());
    plan.unwrap_or_else(|error| panic!("{error}"))
}

fn publish(writer: &mut Writer, spec: &Spec) {
    let plan = plan_for(writer, spec);
    let done = writer
        .publish(&plan)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(done.untidy.is_none(), "{:?}", done.untidy);
}

/// A short header with a connection ID that a server made.
fn frame(spec: &Spec, config: usize, server: u8) -> Vec<u8> {
    let config = *spec.services()[0].quic.configs[config].decoder();
    let server_id = ServerId::new(&vec![server; config.server_id_len()]).expect("a length");
    let mut state = u64::from(server) + 99;
    let random = |bytes: &mut [u8]| {
        bytes.fill_with(|| guideway::hash::splitmix64(&mut state) as u8);
    };
    let mut generator = CidGenerator::new(config, server_id, random).expect("it fits");
    let mut payload = vec![0x40];
    payload.extend(&generator.generate().expect("a nonce")[..]);
    payload.extend([0x99; 24]);
    payload_frame(spec, "quic-api", None, &payload).expect("a frame")
}

/// What one more packet with such a connection ID is counted as: rule, or reason, or counter.
fn counted(instance: &QuicLb, spec: &Spec, config: usize, server: u8) -> Vec<String> {
    let numbers = |instance: &QuicLb| {
        let stats = instance.stats().expect("readable");
        let service = &stats.services[0];
        let mut all: Vec<(String, u64)> = service
            .backends
            .iter()
            .map(|backend| (format!("backend {}", backend.id), backend.packets))
            .collect();
        let named = service.rules.iter().chain(&service.counters);
        all.extend(
            named
                .filter(|(name, _)| !matches!(**name, "packets" | "bytes" | "quic_short" | "plain"))
                .map(|(name, number)| ((*name).to_owned(), *number)),
        );
        all.extend(
            stats
                .reasons
                .iter()
                .map(|(name, number)| ((*name).to_owned(), *number)),
        );
        all
    };
    let before = numbers(instance);
    let frame = frame(spec, config, server);
    Run::new(&frame).run(instance.program()).expect("run");
    let mut risen = Vec::new();
    for ((name, before), (other, after)) in before.into_iter().zip(numbers(instance)) {
        assert_eq!(name, other);
        if after > before && name != "forwarded" {
            risen.push(name);
        }
    }
    risen
}

fn by_server_id(backend: u8) -> Vec<String> {
    vec![format!("backend {backend}"), "server_id".to_owned()]
}

fn assert_all_routed(instance: &QuicLb, spec: &Spec) {
    for config in 0..3 {
        for server in [1, 2] {
            let found = counted(instance, spec, config, server);
            assert_eq!(found, by_server_id(server), "config {config}");
        }
    }
}

fn pin() -> PathBuf {
    dir().path().join("maps").join(keys::MAP)
}

/// The slots that are taken, and by which incarnation.
fn taken() -> Vec<(usize, u32)> {
    let map = Map::open_any(&pin()).expect("the map of contexts");
    let incarnations = Contexts::new(map).expect("its shape").incarnations();
    let taken = incarnations.expect("readable").into_iter().enumerate();
    taken.filter(|(_, incarnation)| *incarnation != 0).collect()
}

fn codes() -> Vec<FindingCode> {
    let status = Status::of(&dir()).expect("a status");
    status.findings.iter().map(|finding| finding.code).collect()
}

/// Runs a test where programs can decrypt.
fn with_keys(name: &'static str, test: impl FnOnce() + Send + 'static) {
    isolated(name, move || {
        netns::ip(&[
            "link", "add", "edge0", "type", "veth", "peer", "name", "far",
        ]);
        if require_keys(name) {
            test();
        }
    });
}

#[test]
fn keyed_connection_ids_find_their_backend() {
    with_keys("quiclb_keys::find", || {
        let mut writer = open();
        let spec = spec([Some(KEY), Some(KEY), Some(OTHER)]);
        publish(&mut writer, &spec);
        assert_all_routed(&writer, &spec);
        // Two keys for three configs; the incarnations of both backends come first.
        assert_eq!(taken(), [(0, 3), (1, 4)]);
        // A server without this ID.
        assert_eq!(
            counted(&writer, &spec, 1, 3),
            ["unknown_server_id", "unknown_server_id"]
        );
        // Another process sees the same.
        let reader = QuicLb::open(&dir()).expect("a reader");
        assert_all_routed(&reader, &spec);
        let findings = codes();
        assert!(!findings.contains(&FindingCode::MissingKey), "{findings:?}");
    });
}

#[test]
fn keys_come_and_go_with_generations() {
    with_keys("quiclb_keys::replace", || {
        let mut writer = open();
        let both = spec([Some(KEY), Some(KEY), Some(OTHER)]);
        publish(&mut writer, &both);
        let one = spec([Some(KEY), None, Some(KEY)]);
        publish(&mut writer, &one);
        assert_eq!(taken(), [(0, 3)], "the other key is gone from the kernel");
        assert_all_routed(&writer, &one);
        // Under the former key of this config it is nobody's.
        assert_eq!(counted(&writer, &both, 2, 1)[0], "unknown_server_id");

        publish(&mut writer, &both);
        assert_eq!(taken(), [(0, 3), (1, 5)]);
        assert_all_routed(&writer, &both);
        publish(&mut writer, &spec([None; 3]));
        assert_eq!(taken(), []);
    });
}

#[test]
fn a_context_that_is_missing_is_a_finding_and_made_again() {
    with_keys("quiclb_keys::missing", || {
        let mut writer = open();
        let spec = spec([Some(KEY), Some(KEY), Some(OTHER)]);
        publish(&mut writer, &spec);
        let contexts = Contexts::new(Map::open_any(&pin()).expect("the map")).expect("its shape");
        contexts.remove(0).expect("removed");
        // Never decoded as if it were plaintext: it goes by flow, and that is counted.
        for config in [0, 1] {
            for server in [1, 2] {
                let found = counted(&writer, &spec, config, server);
                let unroutable = "unroutable_config".to_owned();
                let by_flow = "table".to_owned();
                assert!(
                    found.contains(&unroutable) && found.contains(&by_flow),
                    "{found:?}"
                );
            }
        }
        assert_eq!(counted(&writer, &spec, 2, 1), by_server_id(1));
        assert!(codes().contains(&FindingCode::MissingKey));

        // A context of another incarnation is none of ours.
        let maker = contexts.maker().expect("a maker");
        maker.put(0, 77, &[1; 16]).expect("put");
        assert!(counted(&writer, &spec, 0, 1).contains(&"unroutable_config".to_owned()));
        assert!(codes().contains(&FindingCode::MissingKey));

        let plan = plan_for(&writer, &spec);
        assert_eq!(plan.document().result, PlanResult::Unchanged);
        writer.publish(&plan).expect("made good");
        assert_eq!(taken(), [(0, 3), (1, 4)]);
        assert_all_routed(&writer, &spec);
        assert!(!codes().contains(&FindingCode::MissingKey));
    });
}

#[test]
fn a_step_that_fails_leaves_the_keys_of_the_live_generation() {
    with_keys("quiclb_keys::steps", || {
        let mut writer = open();
        let specs = [
            spec([Some(KEY), Some(KEY), Some(KEY)]),
            spec([Some(OTHER), Some(OTHER), Some(OTHER)]),
        ];
        publish(&mut writer, &specs[0]);
        let mut live = 0;
        for step in Step::ALL {
            let next = &specs[1 - live];
            let plan = plan_for(&writer, next);
            let outcome = writer.publish_observed(&plan, 2, |at| match at == step {
                true => Err(Aborted),
                false => Ok(()),
            });
            if step <= Step::Swap {
                outcome.expect_err("aborted");
            } else {
                outcome.expect("live all the same");
                live = 1 - live;
            }
            assert_all_routed(&writer, &specs[live]);
            live = 1 - live;
            publish(&mut writer, &specs[live]);
            assert_all_routed(&writer, &specs[live]);
            assert_eq!(taken().len(), 1, "{step}");
        }
    });
}

#[test]
fn a_writer_killed_while_it_makes_contexts_is_no_loss() {
    with_keys("quiclb_keys::killed", || {
        let before = spec([Some(KEY), Some(KEY), Some(KEY)]);
        publish(&mut open(), &before);
        for step in [
            Step::MakeContexts,
            Step::Create,
            Step::Swap,
            Step::RemoveContexts,
        ] {
            let status = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "the_writer_that_is_killed", "--nocapture"])
                .env("GW_TEST_KILLED_AT", step.to_string())
                .status()
                .expect("a child");
            assert_eq!(status.signal(), Some(9), "{step} was reached");
            let mut writer = open();
            let live = writer.live_record().expect("readable").expect("live");
            assert_all_routed(&writer, live.spec());
            publish(&mut writer, &before);
            assert_all_routed(&writer, &before);
            assert_eq!(taken().len(), 1, "{step}");
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
    let plan = plan_for(&writer, &spec([Some(OTHER), Some(KEY), Some(OTHER)]));
    let _ = writer.publish_observed(&plan, 2, |at| {
        if at.to_string() == step {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("killed");
        }
        Ok(())
    });
}

/// Leaves an instance as a build without decryption makes it.
fn make_plain(writer: &Writer) {
    let dir = dir();
    std::fs::remove_file(pin()).expect("removed");
    let maps = dir.path().join("maps");
    let reuse: Vec<_> = std::fs::read_dir(&maps)
        .expect("the maps")
        .map(|entry| Map::open_any(&entry.expect("an entry").path()).expect("a map"))
        .collect();
    let options = object::Options {
        entries: &[("gw_ql_flow", 1024), ("gw_ql_cid", 1024)],
        cells: Some(guideway::plan::room_cells(spec([None; 3]).limits())),
        reuse: &reuse,
        ..Default::default()
    };
    let plain = options.load().expect("the program without keys").program;
    assert_ne!(plain.tag(), writer.program().tag());
    let program = dir.path().join("progs/gw_quiclb");
    std::fs::remove_file(&program).expect("removed");
    plain.pin(&program).expect("pinned");
}

#[test]
fn a_program_that_was_loaded_without_decryption_is_loaded_again() {
    with_keys("quiclb_keys::upgrade", || {
        let plaintext = spec([None; 3]);
        let keyed = spec([Some(KEY), Some(OTHER), Some(KEY)]);
        let mut writer = open();
        publish(&mut writer, &plaintext);
        make_plain(&writer);
        drop(writer);

        let mut writer = Writer::open(&dir()).expect("an instance");
        assert_all_routed(&writer, &plaintext);
        let plan = plan_for(&writer, &keyed);
        let error = writer.publish(&plan).expect_err("it cannot decrypt");
        assert!(matches!(error, PublishError::Plain), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_all_routed(&writer, &plaintext);
        drop(writer);

        let mut writer = open();
        assert_all_routed(&writer, &plaintext);
        publish(&mut writer, &keyed);
        assert_all_routed(&writer, &keyed);
    });
}

/// Keys are in no document that is printed.
#[test]
fn documents_show_the_check_value_alone() {
    with_keys("quiclb_keys::documents", || {
        let mut writer = open();
        let spec = spec([Some(KEY), None, Some(OTHER)]);
        let plan = plan_for(&writer, &spec);
        writer.publish(&plan).expect("published");
        let frames = [frame(&spec, 0, 1), frame(&spec, 1, 2), frame(&spec, 2, 2)];
        let status = Status::of(&dir()).expect("a status");
        let plan_text = serde_json::to_string(plan.document()).expect("JSON");

        let scenario = Scenario::from(plan);
        let frames = (0..)
            .zip(&frames)
            .map(|(index, bytes)| Frame::new(index, &bytes[..]));
        let trace = run(&scenario, frames, Reset::Never).expect("a trace");
        let trace = serde_json::to_value(&trace).expect("JSON");
        for (packet, backend) in trace["packets"]
            .as_array()
            .expect("packets")
            .iter()
            .zip([1, 2, 2])
        {
            assert_eq!(packet["rule"], "server_id");
            assert_eq!(packet["backend"]["id"], backend);
            assert_eq!(packet["error"], Value::Null);
        }
        assert_eq!(trace["packets"][2]["quic"]["server_id"], "020202");

        let texts = [
            plan_text,
            serde_json::to_string(&status).expect("JSON"),
            trace.to_string(),
            format!(
                "{writer:?} {scenario:?} {status:?} {:?}",
                writer.live_record()
            ),
        ];
        assert!(texts[0].contains("\"kcv\":\"d59d5b\""));
        for text in &texts {
            for key in [KEY, OTHER] {
                // As text, and as numbers in a list.
                assert!(!text.contains(&key[..12]), "{text}");
            }
            assert!(
                !text.contains("143, 149, 240") && !text.contains("143,149,240"),
                "{text}"
            );
        }
    });
}

#[test]
fn what_cannot_be_decrypted_here_is_refused_by_the_plan() {
    isolated("quiclb_keys::refused", || {
        netns::ip(&[
            "link", "add", "edge0", "type", "veth", "peer", "name", "far",
        ]);
        let writer = open();
        let planned = writer.plan(&spec([Some(KEY), None, None]), Options::default());
        match keys::support() {
            keys::Support::Works => drop(planned.expect("a plan")),
            _ => {
                let Err(PlanError::Faults(faults)) = planned else {
                    panic!("{planned:?}")
                };
                let text = faults.to_string();
                assert!(
                    text.starts_with("/services/0/quic/configs/0/key: "),
                    "{text}"
                );
                assert!(text.contains("encrypted server IDs need"), "{text}");
                assert!(!text.contains(&KEY[..12]), "{text}");
            }
        }
        writer
            .plan(&spec([None; 3]), Options::default())
            .expect("no key");
    });
}
