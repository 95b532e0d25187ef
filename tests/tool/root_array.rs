// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Interfaces that have another owner: the program at a place in that owner's array, called for each
//! packet, found again by who comes next, and never in anybody's way.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use guideway::kernel::attach::{Attachment, Mode};
use guideway::kernel::prog_array::ProgArray;
use guideway::kernel::program::Program;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde_json::{json, Value};

use crate::harness::{
    coded, draining, example, machine, names_in, quiclb, quiclb_json, send_initials, state,
    state_dir, Files, INSTANCE,
};
use crate::netns::{
    ifindex, ip, isolated, netlink_attach, netlink_detach, program_id, veth, within,
    xdp_seen_by_ip, BPFFS,
};
use crate::programs::{Programs, Use};

const PATIENCE: Duration = Duration::from_secs(20);
/// As in tests/bpf/root.bpf.c.
pub(crate) const INDEX: u32 = 3;

/// The machine of the example, whose interface has another owner.
pub(crate) struct Owned {
    pub(crate) programs: Programs,
    files: Files,
}

pub(crate) fn path() -> PathBuf {
    Path::new(BPFFS).join("roots")
}

impl Owned {
    fn new(test: &str) -> Self {
        machine();
        let owned = Self::absent(test);
        owned.attach();
        owned
    }

    /// The same without the owner's program on the interface.
    pub(crate) fn absent(test: &str) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/root.bpf.o"));
        let programs = Programs::load(bytes, |_| Use::Own);
        programs.map("gw_t_roots").pin(path()).expect("pinned");
        let files = Files::new(test);
        Self { programs, files }
    }

    pub(crate) fn attach(&self) {
        let root = self.programs.program("gw_t_root");
        let flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_attach(ifindex("edge0"), &root, flags).expect("attach the root");
    }

    pub(crate) fn array(&self) -> MapHandle {
        self.programs.map("gw_t_roots")
    }

    /// The number of the program at the place.
    pub(crate) fn at_place(&self) -> Option<u64> {
        at(&self.array(), INDEX)
    }

    /// Puts a program of the owner's at the place, as whoever looks at nothing.
    fn put_theirs(&self) -> u32 {
        let theirs = self.programs.program("gw_t_second");
        let value = theirs.as_raw_fd().to_ne_bytes();
        let index = INDEX.to_ne_bytes();
        self.array()
            .update(&index, &value, MapFlags::ANY)
            .expect("the kernel lets them");
        program_id(&theirs)
    }

    fn write(&self, name: &str, mut spec: Value) -> String {
        spec["root_array"] = json!({"path": path(), "index": INDEX});
        self.files.write(name, spec.to_string())
    }

    pub(crate) fn applied(test: &str) -> (Self, String) {
        let owned = Self::new(test);
        let spec = owned.write("spec.json", example());
        quiclb(&["apply", &spec]).exits(0);
        (owned, spec)
    }
}

pub(crate) fn at(array: &MapHandle, index: u32) -> Option<u64> {
    let id = array.lookup(&index.to_ne_bytes(), MapFlags::ANY);
    let id = id.expect("read")?;
    Some(u32::from_ne_bytes(id.try_into().expect("4 bytes")).into())
}

fn status(code: i32) -> Value {
    quiclb_json(&["status", INSTANCE])
        .exits(code)
        .valid("status")
}

/// The program is at its place, and gets and forwards packets.
#[track_caller]
pub(crate) fn is_well(owned: &Owned) {
    let before = status(0);
    let attachment = &before["attachment"];
    assert_eq!(
        attachment["root_array"],
        json!({"path": path(), "index": INDEX})
    );
    assert_eq!(attachment["kind"], "root-array");
    assert_eq!(attachment["owner"], "ours");
    assert_eq!(attachment["live_program_id"], attachment["program_id"]);
    assert_eq!(attachment["live_program_id"].as_u64(), owned.at_place());
    assert_eq!(
        (&before["health"], &before["mode"]),
        (&json!("ok"), &json!("native"))
    );
    let forwarded = |status: &Value| status["reasons"]["forwarded"].as_u64().expect("a number");
    send_initials(8);
    let all = || forwarded(&status(0)) == forwarded(&before) + 8;
    assert!(within(PATIENCE, all), "{:#}", status(0));
    quiclb(&["doctor", INSTANCE]).exits(0);
    let root = program_id(&owned.programs.program("gw_t_root"));
    assert_eq!(
        xdp_seen_by_ip("edge0"),
        Some(("native".to_owned(), root.into())),
        "the interface is the owner's"
    );
}

/// The finding of this code, which is an error with a remedy, and which the doctor tells too. Looking
/// changes nothing.
#[track_caller]
fn found(code: &str) -> Value {
    let before = state();
    let status = status(5);
    let found = coded(&status["findings"], code).unwrap_or_else(|| panic!("{code}: {status:#}"));
    assert_eq!(found["severity"], "error");
    assert!(found["remedy"].is_string(), "{found}");
    let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(5).document();
    let check = coded(&diagnosis["checks"], code).expect("a check");
    assert_eq!(check["message"], found["message"]);
    assert_eq!(state(), before);
    found.clone()
}

pub(crate) fn links() -> Vec<String> {
    names_in(&state_dir().join("links"))
}

#[test]
fn the_owner_calls_the_program_from_when_it_is_applied_until_it_is_detached() {
    isolated("tool::root_array", || {
        let owned = Owned::new("root-array");
        let spec = owned.write("spec.json", example());
        let planned = quiclb_json(&["plan", &spec]).exits(0).document();
        let ok = coded(&planned["preflight"], "root-program").expect("a check");
        assert_eq!(ok["result"], "ok", "{ok}");
        quiclb(&["doctor", &spec]).exits(0);
        assert_eq!(owned.at_place(), None, "looking changes nothing");

        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "created");
        assert_eq!(applied["attachment"]["kind"], "root-array");
        let pin = format!("root-{INDEX}-{}", map_id(&owned.array()));
        assert_eq!(links(), [pin.as_str()]);
        is_well(&owned);
        let text = quiclb(&["status", INSTANCE]).exits(0).stdout;
        let line = format!("index {INDEX} of {} has", path().display());
        assert!(
            text.contains("held by root array") && text.contains(&line),
            "{text}"
        );

        // What is there is found again, and stays.
        let program = owned.at_place();
        let again = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(again["result"], "unchanged");
        let drained = owned.write("drained.json", draining());
        let changed = quiclb_json(&["apply", &drained]).exits(0).document();
        assert_eq!(changed["result"], "changed");
        assert_eq!((owned.at_place(), links()), (program, vec![pin.clone()]));
        is_well(&owned);

        let detached = quiclb_json(&["detach", INSTANCE]).exits(0).document();
        assert_eq!(detached["detached"], true);
        assert_eq!(detached["removed"], json!([format!("links/{pin}")]));
        assert_eq!((owned.at_place(), links()), (None, vec![]));
        let status = status(0);
        assert_eq!(
            (&status["health"], &status["attachment"]["kind"]),
            (&json!("detached"), &json!("none"))
        );
        quiclb(&["apply", &drained]).exits(0);
        is_well(&owned);
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        assert_eq!((owned.at_place(), state_dir().exists()), (None, false));
    });
}

pub(crate) fn map_id(map: &MapHandle) -> u32 {
    map.info().expect("its properties").info.id
}

#[test]
fn an_occupied_place_is_refused_before_anything_is_made() {
    isolated("tool::root_array_occupied", || {
        let owned = Owned::new("root-array-occupied");
        let theirs = owned.put_theirs();
        let spec = owned.write("spec.json", example());
        let before = state();
        let planned = quiclb_json(&["plan", &spec]).exits(0).document();
        let check = coded(&planned["preflight"], "occupied").expect("a check");
        let holder = format!("program {theirs} (gw_t_second)");
        assert_eq!(check["message"], format!("{holder} holds the place"));
        assert_eq!(check["result"], "error");
        quiclb(&["doctor", &spec]).exits(5);
        let error = quiclb_json(&["apply", &spec]).fails(4, "occupied");
        let message = format!("index {INDEX} of {} is held by {holder}", path().display());
        assert_eq!(error["message"], message);
        // No check of the machine that a word could pass over.
        quiclb_json(&["apply", &spec, "--force", "occupied"]).fails(4, "occupied");
        assert_eq!((owned.at_place(), state()), (Some(theirs.into()), before));
    });
}

#[test]
fn what_is_no_place_for_the_program_is_refused_before_anything_is_made() {
    isolated("tool::root_array_missing", || {
        let owned = Owned::new("root-array-missing");
        for (name, path) in [
            ("gw_t_single", "single"),
            ("gw_t_others", "others"),
            ("gw_t_got", "got"),
        ] {
            let mut map = owned.programs.map(name);
            map.pin(Path::new(BPFFS).join(path)).expect("pinned");
        }
        let before = state();
        for (file, index, text) in [
            ("nothing", 3, "No such file"),
            ("got", 3, "not an array of programs"),
            ("others", 3, "is not for XDP programs"),
            ("roots", 8, "has 8 places"),
        ] {
            let mut spec = example();
            spec["root_array"] = json!({"path": format!("{BPFFS}/{file}"), "index": index});
            let spec = owned.files.write("wrong.json", spec.to_string());
            let planned = quiclb_json(&["plan", &spec]).exits(0).document();
            let check = coded(&planned["preflight"], "root-array").expect("a check");
            assert_eq!(check["result"], "error");
            assert!(check["remedy"].is_string());
            let message = check["message"].as_str().expect("text");
            assert!(message.contains(text), "{message}");
            let error = quiclb_json(&["apply", &spec]).fails(1, "preflight");
            assert_eq!(error["faults"][0]["code"], "root-array", "{error}");
            let diagnosis = quiclb_json(&["doctor", &spec]).exits(5).document();
            assert!(coded(&diagnosis["checks"], "root-array").is_some());
            assert_eq!(state(), before);
        }
        // What only the kernel can tell comes late, and leaves nothing.
        let mut spec = example();
        spec["root_array"] = json!({"path": format!("{BPFFS}/single"), "index": 3});
        let spec = owned.files.write("single.json", spec.to_string());
        let error = quiclb_json(&["apply", &spec]).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("load both as \"xdp.frags\""), "{message}");
        assert!(!state_dir().exists());
    });
}

#[test]
fn without_a_root_program_it_waits_to_be_called() {
    isolated("tool::root_array_absent", || {
        machine();
        let owned = Owned::absent("root-array-absent");
        let spec = owned.write("spec.json", example());
        let planned = quiclb_json(&["plan", &spec]).exits(0).document();
        let check = coded(&planned["preflight"], "root-program").expect("a check");
        assert_eq!(check["result"], "warning");
        quiclb(&["apply", &spec]).exits(0);
        let absent = status(0);
        let nobody = coded(&absent["findings"], "no-root-program").expect("a finding");
        assert_eq!(
            (&nobody["severity"], &nobody["object"]),
            (&json!("warning"), &json!("edge0"))
        );
        owned.attach();
        is_well(&owned);

        // In another mode than the specification says, other things are needed of targets.
        let flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_detach(ifindex("edge0"), flags).expect("detach the root");
        let root = owned.programs.program("gw_t_root");
        let flags = libbpf_sys::XDP_FLAGS_SKB_MODE;
        netlink_attach(ifindex("edge0"), &root, flags).expect("attach the root");
        let found = found("mode-drift");
        let message = found["message"].as_str().expect("text");
        assert!(message.ends_with("in generic mode runs there, the specification says native"));
        let error = quiclb_json(&["apply", &spec]).fails(1, "preflight");
        assert_eq!(error["faults"][0]["code"], "root-program", "{error}");
    });
}

#[test]
fn a_program_that_somebody_took_out_is_put_back() {
    isolated("tool::root_array_taken_out", || {
        let (owned, spec) = Owned::applied("root-array-taken-out");
        let index = INDEX.to_ne_bytes();
        owned.array().delete(&index).expect("taken out");
        let found = found("root-array");
        assert_eq!(found["message"], "somebody took the program out");
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "attached");
        is_well(&owned);
    });
}

/// A pinned link that lost its interface is in nobody's way, and goes.
#[test]
fn a_dead_link_is_not_left_beside_the_place() {
    isolated("tool::root_array_dead_link", || {
        let (owned, spec) = Owned::applied("root-array-dead-link");
        let (spare, _) = veth("spare0", "spare1");
        let program = Program::open(&state_dir().join("progs/gw_quiclb")).expect("open");
        match Attachment::new(&program, spare, Mode::Generic).expect("attached") {
            Attachment::Link(link) => link.pin(&state_dir().join("links/xdp")).expect("pinned"),
            Attachment::Netlink(_) => panic!("this kernel has links"),
        }
        ip(&["link", "del", "spare0"]);
        found("link-without-interface");
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(
            links(),
            [format!("root-{INDEX}-{}", map_id(&owned.array()))]
        );
        is_well(&owned);
    });
}

#[test]
fn a_program_of_somebody_elses_in_its_place_is_named_and_left_alone() {
    isolated("tool::root_array_foreign", || {
        let (owned, spec) = Owned::applied("root-array-foreign");
        let theirs = owned.put_theirs();
        let before = state();
        let found = found("foreign-program");
        let message = format!(
            "index {INDEX} of {} is held by program {theirs} (gw_t_second)",
            path().display()
        );
        assert_eq!(found["message"], message);
        assert_eq!(status(5)["attachment"]["owner"], "foreign");
        for arguments in [
            &["apply", &spec][..],
            &["detach", INSTANCE],
            &["detach", INSTANCE, "--purge"],
        ] {
            let error = quiclb_json(arguments).fails(4, "occupied");
            assert_eq!(error["message"], message);
        }
        assert_eq!((owned.at_place(), state()), (Some(theirs.into()), before));
        owned.array().delete(&INDEX.to_ne_bytes()).expect("gone");
        quiclb(&["apply", &spec]).exits(0);
        is_well(&owned);
    });
}

/// An owner that starts anew makes another array, and may still run the one before for a while.
#[test]
fn an_array_that_was_made_again_is_followed() {
    isolated("tool::root_array_again", || {
        let (first, spec) = Owned::applied("root-array-again");
        std::fs::remove_file(path()).expect("unpinned");
        let gone = found("root-array");
        let message = gone["message"].as_str().expect("text");
        assert!(message.contains("No such file"), "{message}");
        assert_eq!(
            status(5)["attachment"]["owner"],
            "ours",
            "it is still called"
        );
        let error = quiclb_json(&["apply", &spec]).fails(1, "preflight");
        assert_eq!(error["faults"][0]["code"], "root-array");
        assert!(first.at_place().is_some());

        let second = Owned::absent("root-array-again-2");
        let other = found("root-array");
        let message = "another array is pinned there than the one that the program was put into";
        assert_eq!(other["message"], message);
        let flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_detach(ifindex("edge0"), flags).expect("the owner's");
        let uncalled = || {
            let attachment = &status(5)["attachment"];
            assert_eq!(
                (&attachment["owner"], &attachment["live_program_id"]),
                (&json!("none"), &Value::Null)
            );
            let text = quiclb(&["status", INSTANCE]).exits(5).stdout;
            let line = format!("index {INDEX} of {} has no program", path().display());
            assert!(text.contains(&line), "{text}");
        };
        uncalled();
        let away = Path::new(BPFFS).join("away");
        std::fs::rename(path(), &away).expect("moved");
        uncalled();
        std::fs::rename(&away, path()).expect("moved back");
        second.attach();
        uncalled();
        quiclb(&["apply", &spec]).exits(0);
        is_well(&second);
        assert_eq!(first.at_place(), None, "not left behind");
        let pin = format!("root-{INDEX}-{}", map_id(&second.array()));
        assert_eq!(links(), [pin.as_str()]);
    });
}

#[test]
fn lost_pins_are_made_again_around_the_place() {
    isolated("tool::root_array_pins", || {
        let (owned, spec) = Owned::applied("root-array-pins");
        let program = owned.at_place();
        // Of the array.
        let pin = links().remove(0);
        std::fs::remove_file(state_dir().join("links").join(&pin)).expect("unpinned");
        found("lost-pin");
        quiclb(&["apply", &spec]).exits(0);
        is_well(&owned);
        assert_eq!((owned.at_place(), links()), (program, vec![pin.clone()]));

        // Of the program: what works on the instance's maps is its own, and is exchanged.
        std::fs::remove_file(state_dir().join("progs/gw_quiclb")).expect("unpinned");
        found("lost-pin");
        quiclb(&["apply", &spec]).exits(0);
        is_well(&owned);
        assert_ne!(owned.at_place(), program);
        assert_eq!(links(), [pin.as_str()]);

        // Of both, and it is taken out all the same.
        std::fs::remove_file(state_dir().join("links").join(&pin)).expect("unpinned");
        quiclb(&["detach", INSTANCE]).exits(0);
        assert_eq!(owned.at_place(), None);
    });
}

/// Each packet meets the program before or the one after, and none the owner's program alone.
#[test]
fn it_is_upgraded_and_brought_back_under_traffic() {
    isolated("tool::root_array_upgrade", || {
        let (owned, _) = Owned::applied("root-array-upgrade");
        let progs = state_dir().join("progs");
        let mut pins = names_in(&progs).into_iter();
        let record = pins.find(|name| name.starts_with("build-"));
        std::fs::remove_file(progs.join(record.expect("a record"))).expect("removed");
        let old = owned.at_place().expect("the program");
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let new = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    send_initials(4);
                    sent.fetch_add(4, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let upgraded = quiclb_json(&["upgrade", INSTANCE])
                .exits(0)
                .valid("upgrade");
            assert_eq!(upgraded["verification"], "counted");
            assert_eq!(upgraded["interface"], "edge0");
            let new = owned.at_place().expect("the program");
            assert_eq!(upgraded["old_program_id"], old);
            assert_eq!(upgraded["new_program_id"], new);
            for expected in [old, new, old] {
                quiclb_json(&["rollback", INSTANCE])
                    .exits(0)
                    .valid("upgrade");
                assert_eq!(owned.at_place(), Some(expected));
            }
            stop.store(true, Ordering::Relaxed);
            new
        });
        assert_ne!(new, old);
        let sent = sent.into_inner();
        let all = || status(0)["reasons"]["forwarded"] == sent;
        assert!(within(PATIENCE, all), "{sent} sent: {:#}", status(0));
        assert!(sent > 0);
        is_well(&owned);
        quiclb(&["detach", INSTANCE]).exits(0);
        assert_eq!(owned.at_place(), None);

        // Somebody else's in its place is refused, and stays.
        let theirs = owned.put_theirs();
        quiclb_json(&["rollback", INSTANCE]).fails(4, "occupied");
        assert_eq!(owned.at_place(), Some(theirs.into()));
    });
}

/// As a process leaves it that died while it moved the program from one array to another.
#[test]
fn in_two_arrays_it_is_exchanged_in_both() {
    isolated("tool::root_array_both", || {
        let (owned, spec) = Owned::applied("root-array-both");
        let old = owned.at_place().expect("the program");
        let mut moved = Programs::load(
            include_bytes!(concat!(env!("OUT_DIR"), "/root.bpf.o")),
            |_| Use::Own,
        )
        .map("gw_t_roots");
        let kept = state_dir().join(format!("links/root-{INDEX}-{}", map_id(&moved)));
        moved.pin(&kept).expect("pinned");
        let program = Program::open(&state_dir().join("progs/gw_quiclb"));
        ProgArray::open(&kept)
            .and_then(|array| array.put(INDEX, &program.expect("open")))
            .expect("put");
        let progs = state_dir().join("progs");
        let mut pins = names_in(&progs).into_iter();
        let record = pins.find(|name| name.starts_with("build-"));
        std::fs::remove_file(progs.join(record.expect("a record"))).expect("removed");

        let both = || [owned.at_place(), at(&moved, INDEX)];
        assert_eq!(both(), [Some(old); 2]);
        let upgraded = quiclb_json(&["upgrade", INSTANCE])
            .exits(0)
            .valid("upgrade");
        let new = upgraded["new_program_id"].as_u64();
        assert_ne!(new, Some(old));
        assert_eq!(both(), [new; 2]);
        quiclb(&["rollback", INSTANCE]).exits(0);
        assert_eq!(both(), [Some(old); 2]);
        // Whoever applies ends the move.
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(both(), [Some(old), None]);
        is_well(&owned);
    });
}

/// A record that cannot be read names no place; the pin of the array does.
#[test]
fn without_a_record_it_is_taken_out_by_its_pin() {
    isolated("tool::root_array_record", || {
        let (owned, _) = Owned::applied("root-array-record");
        let generations = state_dir().join("gen");
        for name in names_in(&generations) {
            if name.ends_with("record") {
                std::fs::remove_file(generations.join(name)).expect("unpinned");
            }
        }
        let damaged = status(5);
        assert_eq!(damaged["attachment"]["kind"], "root-array", "{damaged:#}");
        assert_eq!(damaged["attachment"]["owner"], "ours");
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        assert_eq!((owned.at_place(), state_dir().exists()), (None, false));
    });
}

#[test]
fn an_instance_is_at_one_place_only() {
    isolated("tool::root_array_one", || {
        let (owned, _) = Owned::applied("root-array-one");
        let hook = owned.files.write("hook.json", example().to_string());
        let error = quiclb_json(&["apply", &hook]).fails(1, "invalid");
        assert_eq!(error["faults"][0]["pointer"], "/root_array");
        assert_eq!(error["faults"][0]["code"], "fixed");
        let mut other = example();
        other["root_array"] = json!({"path": path(), "index": INDEX + 1});
        let other = owned.files.write("other.json", other.to_string());
        let error = quiclb_json(&["apply", &other]).fails(1, "invalid");
        assert_eq!(error["faults"][0]["code"], "fixed");
        is_well(&owned);
    });
}

/// A balancer beside another one, each at an index of its own, and the second cannot take the place of
/// the first.
#[test]
fn two_instances_share_an_array() {
    isolated("tool::root_array_two", || {
        let (owned, _) = Owned::applied("root-array-two");
        let mut second = example();
        second["instance_id"] = json!("2d9016f2-8957-42bc-9dd7-32d684d76446");
        let same = owned.write("same.json", second.clone());
        let first = owned.at_place();
        quiclb_json(&["apply", &same]).fails(4, "occupied");
        assert_eq!(owned.at_place(), first);
        second["root_array"] = json!({"path": path(), "index": INDEX + 1});
        let beside = owned.files.write("beside.json", second.to_string());
        quiclb(&["apply", &beside]).exits(0);
        assert!(at(&owned.array(), INDEX + 1).is_some_and(|id| Some(id) != first));
        is_well(&owned);
        let second = "2d9016f2-8957-42bc-9dd7-32d684d76446";
        quiclb(&["detach", second, "--purge"]).exits(0);
        assert_eq!(at(&owned.array(), INDEX + 1), None);
        is_well(&owned);
    });
}

#[test]
fn a_directory_that_was_removed_by_hand_leaves_the_program_in_the_array() {
    isolated("tool::root_by_hand", || {
        let (owned, spec) = Owned::applied("root-by-hand");
        let program = owned.at_place().expect("ours");
        fs::remove_dir_all(state_dir()).expect("removed");
        let error = quiclb_json(&["apply", &spec]).fails(4, "occupied");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(&program.to_string()), "{message}");
        assert_eq!(owned.at_place(), Some(program));
        let index = INDEX.to_ne_bytes();
        owned.array().delete(&index).expect("the owner's to empty");
        quiclb(&["apply", &spec]).exits(0);
        is_well(&owned);
    });
}
