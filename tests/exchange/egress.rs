// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress program under traffic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use guideway::egress::apply::How;
use guideway::egress::document::{apply, status, FindingCode};
use guideway::egress::{Loader, UpgradeKind, Upgraded, Writer};
use guideway::egress_spec::Spec;
use guideway::error::ErrorKind;
use guideway::kernel::map::Map;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::{Section, StateDir, StateRoot};
use guideway::kernel::tc::{hook, ClsactFilter, FilterId, TcxLink, Way};
use serde_json::json;

use crate::killed::{self, killed, nothing_leaks};
use crate::netns::{self, ifindex, isolated, veth};
use crate::traffic::{load_other, Marks, Sink, Source, Stopping, PATIENCE};
use crate::udp6::frame;

const LOCK: Duration = Duration::from_secs(5);
const FLOWS: u16 = 512;
const TENANTS: [&str; 2] = ["tap0", "tap1"];

fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).egress()
}

fn load() -> Writer {
    Loader::new(&dir()).open().expect("an instance")
}

/// Makes so many shards those of both tenants.
fn apply_shards(shards: u16, way: Way) {
    let shards: Vec<_> = (0x10..0x10 + shards)
        .map(|number| {
            json!({"sid": format!("2001:db8:ff09:{number:x}:e000::"),
                "next_hop": {"interface": "uplink0", "destination": "02:00:00:00:09:10"}})
        })
        .collect();
    let tenants: Vec<_> = TENANTS
        .iter()
        .zip(42..)
        .map(|(name, table)| json!({"table": table, "argument": table, "interfaces": [name]}))
        .collect();
    let document = json!({
        "schema": "guideway.egress.spec/v1", "node_sid": "2001:db8:ff01:1:e000::",
        "limits": {"pins": 4096, "flow_pins": 1024, "tenants": 64, "routes": 256},
        "classes": [{"class": "nat66", "shards": shards}], "tenants": tenants,
    });
    let spec = Spec::from_json(document.to_string().as_bytes());
    let spec = spec.unwrap_or_else(|faults| panic!("{faults}"));
    let mut how = How::default();
    how.attach.way = way;
    let applied = apply(&dir(), &spec, &how, LOCK);
    let applied = applied.unwrap_or_else(|error| panic!("{error}"));
    assert!(applied.not_applied.is_none());
}

fn pin(name: &str) -> PathBuf {
    dir().pin(Section::Programs, name)
}

fn id(name: &str) -> u32 {
    Program::open(&pin(name)).expect("a program").id()
}

/// The program that an interface runs.
fn runs(interface: &str) -> Option<u32> {
    let hook = hook(ifindex(interface)).expect("readable");
    assert!(hook.occupants.len() <= 1);
    hook.occupants.first()?.program_id
}

/// Has every interface run a program of another build, as if that had made the instance.
fn run_other_build() {
    let before = Program::open(&pin("gw_egress")).expect("a program");
    std::fs::remove_file(pin("gw_egress")).expect("removed");
    std::fs::remove_file(pin(&format!("build-{}", before.id()))).expect("removed");
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/egress_other.bpf.o"));
    let maps = dir().path().join("maps");
    let other = load_other(object, "gw_egress", &maps, &pin("gw_egress"));
    assert_ne!(other.tag(), before.tag());
    for tenant in TENANTS {
        let at = ifindex(tenant);
        match TcxLink::open(&dir().pin(Section::Links, &format!("{at}-tcx"))) {
            Ok(link) => link.update(&other, &before).expect("exchanged"),
            // What is written down of it is repaired by the next to open.
            Err(_) => ClsactFilter::at(at, FilterId::default())
                .update(&other, &before)
                .expect("exchanged"),
        }
    }
}

struct Node {
    writer: Writer,
    source: Source,
    sink: Sink,
    /// Where each address was sent before anything was exchanged.
    places: BTreeMap<u16, u16>,
}

impl Node {
    /// An instance whose program is of another build, with a shard that came when all addresses were
    /// pinned to the others.
    fn new(way: Way) -> Self {
        for (near, far) in [("tap0", "vm0"), ("tap1", "vm1"), ("uplink0", "peer0")] {
            veth(near, far);
        }
        let marks = Marks {
            mark_at: 38,
            mark: 0x2001,
            // The last word of the inner source, and the number of the shard in the outer address.
            flow_at: 14 + 40 + 8 + 14,
            place_at: 44,
        };
        let sink = Sink::on("peer0", marks);
        let frames = (0..FLOWS).map(|flow| {
            let source = format!("2001:db8:aaaa::{flow:x}");
            frame(&source, "2001:db8:ffff::1")
        });
        let source = Source::new("vm0", frames.collect());
        apply_shards(2, way);
        run_other_build();
        source.send_all(&sink, 1);
        let places: BTreeMap<_, _> = sink.counts().into_keys().collect();
        assert_eq!(
            places.len(),
            usize::from(FLOWS),
            "each address went somewhere"
        );
        apply_shards(3, way);
        Self {
            writer: load(),
            source,
            sink,
            places,
        }
    }

    /// Every packet arrived at the shard that its address is pinned to, once.
    #[track_caller]
    fn nothing_is_lost_or_misplaced(&self) {
        let sent = self.source.sent();
        assert_eq!(self.sink.total(), sent);
        let each = sent / u64::from(FLOWS);
        let expected = self.places.iter();
        let expected = expected.map(|(&flow, &place)| ((flow, place), each));
        assert_eq!(self.sink.counts(), expected.collect());
    }
}

/// Exchanges so often in each direction while so many packets are sent.
fn exchange(way: Way, exchanges: u32, packets: u64) {
    let mut node = Node::new(way);
    let other = node.writer.program().id();
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let (mut longest_ms, mut last_sent) = (0.0_f64, 0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| node.source.send_until(&node.sink, &stop, packets));
        let stopping = Stopping(&stop);
        let mut counted = |upgraded: &Upgraded| {
            assert!(upgraded.done);
            assert_eq!(upgraded.interfaces.len(), TENANTS.len());
            for one in &upgraded.interfaces {
                assert_eq!(one.new_program_id, Some(upgraded.program.new_program_id));
                assert_eq!(one.old_program_id, Some(upgraded.program.old_program_id));
                assert_eq!(one.error, None);
            }
            assert!(upgraded.seen.packets > 0, "{upgraded:?}");
            longest_ms = longest_ms.max(upgraded.swap_ms.expect("exchanged"));
            let sent = node.source.sent();
            assert!(sent > last_sent, "packets go on");
            last_sent = sent;
        };
        for _ in 0..exchanges {
            let upgraded = node
                .writer
                .upgrade_observed(PATIENCE, |_| Ok(()))
                .expect("upgraded");
            assert_eq!(upgraded.kind, UpgradeKind::Upgrade);
            assert_eq!(upgraded.program.old_program_id, other);
            assert_ne!(upgraded.program.new_tag, upgraded.program.old_tag);
            counted(&upgraded);
            let back = node
                .writer
                .rollback_observed(PATIENCE, |_| Ok(()))
                .expect("rolled back");
            assert_eq!(back.kind, UpgradeKind::Rollback);
            assert_eq!(back.program.new_program_id, other);
            counted(&back);
        }
        drop(stopping);
        sender.join().expect("all packets arrived");
    });
    println!(
        "{} packets through {} exchanges in {:?}, the longest took {longest_ms:.1} ms",
        node.source.sent(),
        2 * exchanges,
        began.elapsed()
    );
    assert!(node.source.sent() >= packets);
    node.nothing_is_lost_or_misplaced();
}

/// On TCX where the kernel has it.
#[test]
fn a_million_packets_of_tenants_meet_fifty_exchanges_in_each_direction() {
    isolated("exchange::egress_tcx", || {
        exchange(Way::Auto, 50, 1_000_000);
    });
}

#[test]
fn filters_of_clsact_are_exchanged_too() {
    isolated("exchange::egress_clsact", || {
        exchange(Way::Clsact, 5, 50_000);
    });
}

#[test]
fn the_same_program_stays_and_there_is_nothing_before_it() {
    isolated("exchange::egress_unchanged", || {
        let mut writer = Loader::new(&dir()).load().expect("an instance");
        let upgraded = writer.upgrade().expect("nothing to do");
        let json = serde_json::to_value(&upgraded).expect("JSON");
        assert_eq!(json["verification"], "unchanged", "{json}");
        assert_eq!(json["old_program_id"], json["new_program_id"]);
        assert_eq!(json["interfaces"], json!([]));
        let error = writer.rollback().expect_err("nothing before");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(
            error.to_string().contains("nothing to go back to"),
            "{error}"
        );
    });
}

/// Somebody has put another program where the filter was: it is left alone and told.
#[test]
fn an_interface_that_somebody_took_is_left_alone() {
    isolated("exchange::egress_taken", || {
        let mut node = Node::new(Way::Clsact);
        let theirs = netns::foreign_program("theirs", netns::Kind::Classifier).expect("loaded");
        netns::pin(&theirs, &pin("theirs"));
        let their_program = Program::open(&pin("theirs")).expect("a program");
        let filter = ClsactFilter::at(ifindex("tap1"), FilterId::default());
        let ours = node.writer.program();
        filter.update(&their_program, ours).expect("taken");
        std::fs::remove_file(pin("theirs")).expect("removed");
        let upgraded = node.writer.upgrade().expect("upgraded");
        assert!(upgraded.done);
        let [tap0, tap1] = &upgraded.interfaces[..] else {
            panic!("{upgraded:?}")
        };
        assert_eq!(tap0.new_program_id, Some(upgraded.program.new_program_id));
        assert_eq!((tap1.old_program_id, tap1.new_program_id), (None, None));
        assert_eq!(runs("tap1"), Some(netns::program_id(&theirs)));
        node.source.send_all(&node.sink, 1);
        node.nothing_is_lost_or_misplaced();
    });
}

/// Not a test by itself: the process that the test below kills.
#[test]
fn the_process_that_is_killed() {
    let Some((role, mut steps)) = killed::role() else {
        return;
    };
    let at = |_| {
        steps.go_on();
        Ok(())
    };
    let mut writer = load();
    match role.as_str() {
        "upgrade" => drop(writer.upgrade_observed(Duration::ZERO, at)),
        "rollback" => drop(writer.rollback_observed(Duration::ZERO, at)),
        other => panic!("{other}"),
    }
}

fn again(writer: &mut Writer, role: &str) {
    let done = match role {
        "upgrade" => writer.upgrade_observed(Duration::ZERO, |_| Ok(())),
        _ => writer.rollback_observed(Duration::ZERO, |_| Ok(())),
    };
    assert!(done.expect("possible").done);
}

/// That is an exchange which has come to one interface alone; both are attached all the same.
#[track_caller]
fn finds_no_more_than_an_open_exchange(runs: [Option<u32>; 2], context: &str) {
    let status = status(&dir()).expect("readable");
    assert!(status.attachments.iter().all(|one| one.alive), "{context}");
    let codes: Vec<_> = status.findings.iter().map(|one| one.code).collect();
    assert!(!codes.contains(&FindingCode::NotAttached), "{context}");
    let open = codes.contains(&FindingCode::OpenExchange);
    assert!(open || runs[0] == runs[1], "{context}: {codes:?}");
}

fn killed_at_every_step(way: Way) {
    let mut node = Node::new(way);
    let [running, previous] = ["gw_egress", "gw_egress-previous"];
    let [running_pin, previous_pin] = [running, previous].map(pin);
    let pinned: [&Path; 2] = [&running_pin, &previous_pin];
    let map_id = {
        let map = dir().pin(Section::Maps, "gw_groups");
        Map::open_any(&map).expect("a map").id()
    };
    let pins = killed::names(&dir().path().join("links"));
    let links = pins.iter().filter(|name| name.ends_with("-tcx")).count();
    again(&mut node.writer, "upgrade");
    again(&mut node.writer, "rollback");
    let (old, newest) = (id(running), id(previous));
    let mut halves = 0;
    for role in ["upgrade", "rollback"] {
        let mut kills = 0;
        loop {
            drop(node.writer);
            let was_killed = killed("egress::the_process_that_is_killed", role, kills);
            node.source.send_all(&node.sink, 1);
            let now = TENANTS.map(runs);
            let context = format!("{role} at {kills}");
            finds_no_more_than_an_open_exchange(now, &context);
            node.writer = load();
            assert_eq!(TENANTS.map(runs), now, "{role} at {kills}: what runs stays");
            finds_no_more_than_an_open_exchange(now, &context);
            node.source.send_all(&node.sink, 1);
            if now[0] == now[1] {
                assert_eq!(Some(id(running)), now[0], "{role} at {kills}");
                nothing_leaks(map_id, &pinned, links);
            } else {
                // One runs the old program and one the new one; every other time it is undone.
                halves += 1;
                assert!(now.contains(&Some(old)), "{role} at {kills}");
                if role == "upgrade" {
                    again(&mut node.writer, "rollback");
                    assert_eq!(TENANTS.map(runs), [Some(old); 2]);
                    assert_eq!(id(running), old);
                    nothing_leaks(map_id, &pinned, links);
                    drop(node.writer);
                    assert!(killed("egress::the_process_that_is_killed", role, kills));
                    node.writer = load();
                    assert_ne!(runs("tap0"), runs("tap1"));
                }
            }
            if id(running) == old {
                again(&mut node.writer, role);
            }
            assert_ne!(id(running), old, "{role} at {kills}");
            assert_eq!(id(previous), old, "{role} at {kills}");
            assert_eq!(TENANTS.map(runs), [Some(id(running)); 2]);
            nothing_leaks(map_id, &pinned, links);
            // For the one that found it the rollback is done already.
            drop(node.writer);
            node.writer = load();
            again(&mut node.writer, "rollback");
            node.source.send_all(&node.sink, 1);
            assert_eq!(id(running), old);
            // No record of a filter, or of a program, is left over.
            let records = killed::names(&dir().path().join("links"));
            assert_eq!(records.len(), TENANTS.len(), "{records:?}");
            if !was_killed {
                break;
            }
            kills += 1;
        }
        println!("{role}: killed at {kills} steps");
        assert_eq!(kills, if role == "upgrade" { 8 } else { 4 });
    }
    assert!(halves > 0);
    assert_ne!(id(previous), newest);
    node.nothing_is_lost_or_misplaced();
}

#[test]
fn killed_at_any_step_each_interface_runs_the_old_program_or_the_new_one() {
    for way in [Way::Auto, Way::Clsact] {
        isolated("exchange::egress_killed", move || killed_at_every_step(way));
    }
}

/// Nothing waits for the next exchange, and both interfaces run the program that has the name.
#[track_caller]
fn is_settled_on(program: u32, context: &str) {
    assert_eq!(TENANTS.map(runs), [Some(program); 2], "{context}");
    assert_eq!(id("gw_egress"), program, "{context}");
    assert!(!pin("gw_egress-next").exists(), "{context}");
    finds_no_more_than_an_open_exchange([None; 2], context);
}

#[track_caller]
fn roll_back(writer: &mut Writer, context: &str) -> Upgraded {
    let back = writer.rollback_observed(Duration::ZERO, |_| Ok(()));
    let back = back.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(back.done, "{context}");
    assert_eq!(back.kind, UpgradeKind::Rollback);
    assert_eq!(back.interfaces.len(), TENANTS.len(), "{context}");
    back
}

#[test]
fn a_rollback_that_is_made_again_goes_no_further() {
    for way in [Way::Auto, Way::Clsact] {
        isolated("exchange::egress_rollback_again", move || {
            let mut node = Node::new(way);
            again(&mut node.writer, "upgrade");
            let mut kills = 0;
            loop {
                let (newer, older) = (id("gw_egress"), id("gw_egress-previous"));
                drop(node.writer);
                if !killed("egress::the_process_that_is_killed", "rollback", kills) {
                    break;
                }
                let context = format!("at {kills}");
                node.writer = load();
                let back = roll_back(&mut node.writer, &context);
                is_settled_on(older, &context);
                assert_eq!(id("gw_egress-previous"), newer, "{context}");
                assert!(!back.cancelled, "{context}");
                let change = [back.program.old_program_id, back.program.new_program_id];
                assert_eq!(change, [newer, older], "{context}");
                node.source.send_all(&node.sink, 1);
                kills += 1;
            }
            assert_eq!(kills, 4);
            node.writer = load();
            node.nothing_is_lost_or_misplaced();
        });
    }
}

#[test]
fn a_rollback_undoes_an_upgrade_that_was_interrupted() {
    for way in [Way::Auto, Way::Clsact] {
        isolated("exchange::egress_rollback_undoes", move || {
            let mut node = Node::new(way);
            // Before each step from the first that comes after something was pinned.
            for (kills, has_previous) in (2..8).flat_map(|kills| [(kills, true), (kills, false)]) {
                let context = format!("at {kills}, with one before: {has_previous}");
                again(&mut node.writer, "upgrade");
                drop(node.writer);
                run_other_build();
                if !has_previous {
                    std::fs::remove_file(pin("gw_egress-previous")).expect("removed");
                }
                let ran = id("gw_egress");
                let role = "upgrade";
                assert!(killed("egress::the_process_that_is_killed", role, kills));
                node.writer = load();
                let back = roll_back(&mut node.writer, &context);
                is_settled_on(ran, &context);
                assert_eq!(back.program.new_program_id, ran, "{context}");
                // One that had come to both interfaces is one to go back from.
                assert_eq!(back.cancelled, kills < 4, "{context}");
                if back.cancelled {
                    assert_eq!(pin("gw_egress-previous").exists(), has_previous);
                }
                node.source.send_all(&node.sink, 1);
            }
            node.nothing_is_lost_or_misplaced();
        });
    }
}

/// Of an upgrade and of a rollback that have come to one interface each.
#[test]
fn an_open_exchange_stays_when_something_is_applied() {
    for way in [Way::Auto, Way::Clsact] {
        isolated("exchange::egress_open_applied", move || {
            let mut node = Node::new(way);
            again(&mut node.writer, "upgrade");
            for (role, kills) in [("rollback", 1), ("upgrade", 3)] {
                let before = id("gw_egress");
                drop(node.writer);
                assert!(killed("egress::the_process_that_is_killed", role, kills));
                let open = TENANTS.map(runs);
                assert_ne!(open[0], open[1], "{role}");
                for shards in [3, 4, 3] {
                    apply_shards(shards, way);
                    assert_eq!(TENANTS.map(runs), open, "{role}");
                    finds_no_more_than_an_open_exchange(open, role);
                }
                node.writer = load();
                for tenant in TENANTS {
                    let mut how = How::default();
                    how.attach.way = way;
                    let attached = node.writer.attach(ifindex(tenant), &how.attach);
                    attached.expect("attached already");
                }
                assert_eq!(TENANTS.map(runs), open, "{role}");
                again(&mut node.writer, role);
                let program = id("gw_egress");
                assert_ne!(program, before, "{role}");
                is_settled_on(program, role);
                node.source.send_all(&node.sink, 1);
            }
            node.nothing_is_lost_or_misplaced();
        });
    }
}
