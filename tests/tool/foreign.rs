// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Somebody else's objects under an instance's names: named, and left alone by every verb.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use guideway::error::ErrorKind;
use guideway::kernel::attach::XdpLink;
use guideway::kernel::map::Map;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::META_MAP;
use guideway::quiclb::{detach, Loader, StateRoot};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::capabilities;
use crate::harness::{
    applied, coded, example, finding, is_named_and_left_alone, is_well, maps, names_in, poll,
    quiclb, quiclb_json, state, state_dir, Files, EXAMPLE, INSTANCE, LEFT_ALONE,
};
use crate::maps::foreign_map;
use crate::netns::{foreign_program, isolated, pin, veth, xdp_seen_by_ip, Kind, BPFFS};

#[test]
fn foreign_objects_under_our_names_are_named_and_left_alone() {
    isolated("tool::foreign_objects", || {
        let (_files, spec) = applied("foreign-objects");
        let aside = Path::new(BPFFS).join("aside");
        let theirs = Theirs::new();
        for place in ["maps/gw_ql_flow", "progs/gw_quiclb", "links/xdp"] {
            let path = state_dir().join(place);
            for kind in ["map", "program", "link"] {
                fs::rename(&path, &aside).expect("put aside");
                theirs.pin(kind, &path);
                is_named_and_left_alone(&spec, &path, LEFT_ALONE);
                are_refused(&path, &[&["detach", INSTANCE, "--purge"]]);
                fs::remove_file(&path).expect("removed");
                fs::rename(&aside, &path).expect("put back");
                is_well();
            }
        }
    });
}

/// Objects of somebody else.
struct Theirs {
    map: Map,
    program: OwnedFd,
    link: OwnedFd,
}

impl Theirs {
    fn new() -> Self {
        let dissector = foreign_program("dissector", Kind::FlowDissector).expect("load");
        Self {
            map: foreign_map(),
            program: foreign_program("theirs", Kind::Xdp).expect("load"),
            link: namespace_link(&dissector),
        }
    }

    fn pin(&self, kind: &str, path: &Path) {
        match kind {
            "map" => self.map.pin(path).expect("pinned"),
            "program" => pin(&self.program, path),
            _ => pin(&self.link, path),
        }
    }
}

#[test]
fn foreign_objects_in_the_place_of_other_programs_hide_nothing_and_are_left_alone() {
    isolated("tool::foreign_programs", || {
        let (_files, spec) = applied("foreign-programs");
        let theirs = Theirs::new();
        let running = state_dir().join("progs/gw_quiclb");
        let aside = Path::new(BPFFS).join("aside");
        let refused = |path: &Path, arguments: &[&str]| {
            let inode = |path: &Path| fs::symlink_metadata(path).map(|found| found.ino()).ok();
            let before = (state(), inode(path), inode(&running));
            let error = quiclb_json(arguments).fails(4, "incompatible");
            let message = error["message"].as_str().expect("text");
            assert!(
                message.contains(&path.display().to_string()) && message.contains(LEFT_ALONE),
                "{arguments:?}: {message}"
            );
            let now = (state(), inode(path), inode(&running));
            assert_eq!(now, before, "{arguments:?}");
        };
        for role in ["next", "previous"] {
            for kind in ["map", "program", "link"] {
                let path = state_dir().join(format!("progs/gw_quiclb-{role}"));
                theirs.pin(kind, &path);
                let status = finding("foreign-pin");
                let findings = status["findings"].as_array().expect("a list");
                assert_eq!(findings.len(), 1, "{status:#}");
                assert_eq!(findings[0]["object"], path.display().to_string());
                let remedy = findings[0]["remedy"].as_str().expect("text");
                assert!(remedy.contains(LEFT_ALONE), "{remedy}");
                assert_eq!(status["health"], "degraded");
                let attachment = &status["attachment"];
                assert_eq!(attachment["owner"], "ours");
                assert_eq!(attachment["previous_program_id"], Value::Null);
                assert_eq!(status["generation"]["number"], 1);
                assert_eq!(status["services"].as_array().map(Vec::len), Some(1));
                quiclb(&["status"]).exits(5);
                quiclb(&["plan", &spec]).exits(0);
                for arguments in [
                    &["apply", &spec][..],
                    &["upgrade", INSTANCE],
                    &["rollback", INSTANCE],
                    &["detach", INSTANCE, "--purge"],
                ] {
                    refused(&path, arguments);
                }
                // Also where there is more to be done.
                fs::rename(&running, &aside).expect("put aside");
                finding("foreign-pin");
                refused(&path, &["apply", &spec]);
                fs::rename(&aside, &running).expect("put back");
                // Taking the program off needs no other one.
                quiclb(&["detach", INSTANCE]).exits(0);
                assert!(path.exists());
                fs::remove_file(&path).expect("removed");
                quiclb(&["apply", &spec]).exits(0);
                is_well();
            }
        }
    });
}

/// A link of another kind, on the network namespace.
fn namespace_link(program: &OwnedFd) -> OwnedFd {
    let namespace = fs::File::open("/proc/thread-self/ns/net").expect("namespace");
    // SAFETY: absent options are allowed.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            namespace.as_raw_fd(),
            libbpf_sys::BPF_FLOW_DISSECTOR,
            std::ptr::null(),
        )
    };
    assert!(
        fd >= 0,
        "a link: {}",
        std::io::Error::from_raw_os_error(-fd)
    );
    // SAFETY: the descriptor is new.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Another instance, on an interface of its own.
struct Neighbour {
    dir: PathBuf,
}

impl Neighbour {
    const INSTANCE: &'static str = "7f0c3a55-2f2b-4c39-9c30-51f5a4c8d1b7";

    fn applied(files: &Files) -> Self {
        veth("edge1", "client1");
        poll("client1");
        let mut spec = example();
        spec["instance_id"] = json!(Self::INSTANCE);
        spec["interface"] = json!("edge1");
        let spec = files.write("neighbour.json", spec.to_string());
        quiclb(&["apply", &spec]).exits(0);
        let dir = state_dir().with_file_name(Self::INSTANCE);
        Self { dir }
    }

    /// Pins its map under the name of ours; gives where, and the map.
    fn puts_its_map_for_ours(&self, name: &str) -> (PathBuf, Map) {
        let path = state_dir().join("maps").join(name);
        fs::remove_file(&path).expect("removed");
        let map = Map::open_any(&self.dir.join("maps").join(name)).expect("a map");
        map.pin(&path).expect("pinned");
        (path, map)
    }

    fn is_well(&self) {
        let status = quiclb_json(&["status", Self::INSTANCE]).exits(0).document();
        assert_eq!(status["health"], "ok", "{status:#}");
        let (_, id) = xdp_seen_by_ip("edge1").expect("a program");
        assert_eq!(status["attachment"]["live_program_id"], id);
    }
}

/// These verbs are refused for what is at a path, and nothing is changed.
#[track_caller]
fn are_refused(path: &Path, verbs: &[&[&str]]) {
    let before = state();
    for arguments in verbs {
        let error = quiclb_json(arguments).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        let named = message.contains(&path.display().to_string());
        assert!(
            named && message.contains(LEFT_ALONE),
            "{arguments:?}: {message}"
        );
        assert_eq!(state(), before, "{arguments:?}");
    }
}

#[test]
fn the_link_of_another_instance_keeps_its_program() {
    isolated("tool::foreign_link", || {
        let (files, spec) = applied("foreign-link");
        let neighbour = Neighbour::applied(&files);
        let program = xdp_seen_by_ip("edge1");
        let (theirs, ours) = (
            neighbour.dir.join("links/xdp"),
            state_dir().join("links/xdp"),
        );
        fs::rename(&theirs, &ours).expect("moved over ours");
        is_named_and_left_alone(&spec, &ours, LEFT_ALONE);
        are_refused(
            &ours,
            &[
                &["rollback", INSTANCE],
                &["detach", INSTANCE],
                &["detach", INSTANCE, "--purge"],
            ],
        );
        assert_eq!(xdp_seen_by_ip("edge1"), program, "nothing was exchanged");
        fs::rename(&ours, &theirs).expect("moved back");
        neighbour.is_well();
        let applied = quiclb_json(&["apply", &spec]).exits(0).valid("apply");
        assert_eq!(applied["result"], "attached", "its own link had ended");
        is_well();
    });
}

/// Whose it is can only be seen by who may open programs by number, where its program has no pin.
#[test]
fn a_link_that_cannot_be_told_apart_is_left_alone() {
    isolated("tool::untold_link", || {
        let (_files, spec) = applied("untold-link");
        let runs = xdp_seen_by_ip("edge0");
        let program = state_dir().join("progs/gw_quiclb");
        let aside = Path::new(BPFFS).join("aside");
        fs::rename(&program, &aside).expect("put aside");
        let limits = *Spec::from_json(EXAMPLE.as_bytes()).expect("valid").limits();
        let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
        let before = state();
        let refused = std::thread::scope(|scope| {
            let few = scope.spawn(|| {
                capabilities::keep(&capabilities::enough());
                [
                    Loader::new(&dir, &limits)
                        .load()
                        .map(drop)
                        .map_err(|e| (e.kind(), e.to_string())),
                    detach(&dir, false)
                        .map(drop)
                        .map_err(|e| (e.kind(), e.to_string())),
                ]
            });
            few.join().expect("a thread")
        });
        for refused in refused {
            let (kind, message) = refused.expect_err("no right");
            assert_eq!(kind, ErrorKind::Permission, "{message}");
            assert!(message.contains("CAP_SYS_ADMIN"), "{message}");
        }
        assert_eq!((state(), xdp_seen_by_ip("edge0")), (before, runs));
        quiclb(&["apply", &spec]).exits(0);
        is_well();
    });
}

/// A program that is loaded around them would leave all flows behind.
#[test]
fn maps_of_another_instance_take_the_place_of_none() {
    isolated("tool::foreign_maps", || {
        let (files, spec) = applied("foreign-maps");
        let neighbour = Neighbour::applied(&files);
        let before = maps();
        let running = Program::open(&state_dir().join("progs/gw_quiclb")).expect("a program");
        let link = XdpLink::open(&state_dir().join("links/xdp")).expect("a link");
        let runs = || link.state().expect("a state").program_id;
        // A program that is not loaded for tracing may do without that map, and nothing in it lasts.
        let in_use =
            |name: &&String| *name != "gw_ql_trace" && running.map_ids().contains(&before[*name]);
        let used: Vec<_> = before.keys().filter(in_use).collect();
        assert!(used.len() > 10 && !used.iter().any(|name| *name == META_MAP));
        for name in used {
            let (path, _) = neighbour.puts_its_map_for_ours(name);
            is_named_and_left_alone(&spec, &path, LEFT_ALONE);
            let verbs: [&[&str]; 2] = [&["rollback", INSTANCE], &["detach", INSTANCE, "--purge"]];
            are_refused(&path, &verbs);
            // Also where the program has no name and is attached all the same.
            let (named, aside) = (
                state_dir().join("progs/gw_quiclb"),
                Path::new(BPFFS).join("aside"),
            );
            fs::rename(&named, &aside).expect("put aside");
            are_refused(&path, &[&["apply", &spec]]);
            fs::rename(&aside, &named).expect("put back");
            assert_eq!(runs(), running.id());

            fs::remove_file(&path).expect("removed by hand");
            let applied = quiclb_json(&["apply", &spec]).exits(0).valid("apply");
            assert_eq!(applied["result"], "repaired");
            assert_eq!(applied["repaired"][0]["action"], "pinned-again");
            assert_eq!(maps(), before, "{name}");
            is_well();
        }
        neighbour.is_well();
    });
}

/// One map in common with our instance makes no other instance's program ours.
#[test]
fn the_link_of_another_instance_keeps_its_program_also_where_one_of_its_maps_is_ours_by_name() {
    isolated("tool::foreign_link_and_map", || {
        let (files, spec) = applied("foreign-link-and-map");
        let neighbour = Neighbour::applied(&files);
        let (before, program) = (maps(), xdp_seen_by_ip("edge1"));
        let (theirs, ours) = (
            neighbour.dir.join("links/xdp"),
            state_dir().join("links/xdp"),
        );
        let (map, _) = neighbour.puts_its_map_for_ours("gw_ql_flow");
        fs::rename(&theirs, &ours).expect("moved over ours");
        let verbs: [&[&str]; 3] = [
            &["detach", INSTANCE],
            &["detach", INSTANCE, "--purge"],
            &["upgrade", INSTANCE],
        ];
        are_refused(&ours, &verbs);
        are_refused(&map, &[&["apply", &spec]]);
        assert_eq!(xdp_seen_by_ip("edge1"), program);
        fs::rename(&ours, &theirs).expect("moved back");
        are_refused(&map, &verbs[1..]);
        are_refused(&map, &[&["apply", &spec]]);
        fs::remove_file(&map).expect("removed by hand");
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(maps(), before);
        is_well();
        neighbour.is_well();
    });
}

/// What runs and what is about to: the message names what is there, not our own map.
#[test]
fn the_program_of_another_instance_is_named_also_where_one_of_its_maps_is_ours_by_name() {
    isolated("tool::foreign_program_and_map", || {
        let (files, spec) = applied("foreign-program-and-map");
        let neighbour = Neighbour::applied(&files);
        let before = maps();
        let (map, _) = neighbour.puts_its_map_for_ours("gw_ql_flow");
        let program = state_dir().join("progs/gw_quiclb");
        let aside = Path::new(BPFFS).join("aside");
        fs::rename(&program, &aside).expect("put aside");
        let theirs = Program::open(&neighbour.dir.join("progs/gw_quiclb")).expect("a program");
        theirs.pin(&program).expect("pinned");
        are_refused(
            &program,
            &[
                &["status", INSTANCE],
                &["upgrade", INSTANCE],
                &["rollback", INSTANCE],
            ],
        );
        fs::remove_file(&program).expect("removed by hand");
        are_refused(&map, &[&["apply", &spec]]);
        fs::remove_file(&map).expect("removed by hand");
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(maps(), before, "ours all came back");
        is_well();
        neighbour.is_well();
    });
}

/// Nothing of ours is left that says which map is ours: the other instance's program says that it is not.
#[test]
fn a_map_that_another_instance_works_on_is_left_alone_where_we_have_no_program() {
    isolated("tool::foreign_map_alone", || {
        let (files, spec) = applied("foreign-map-alone");
        let neighbour = Neighbour::applied(&files);
        quiclb(&["detach", INSTANCE]).exits(0);
        let programs = state_dir().join("progs");
        for name in names_in(&programs) {
            fs::remove_file(programs.join(name)).expect("removed");
        }
        let theirs = Program::open(&neighbour.dir.join("progs/gw_quiclb")).expect("a program");
        for name in ["gw_ql_flow", "gw_ql_stats", "gw_ql_backend"] {
            let (path, map) = neighbour.puts_its_map_for_ours(name);
            let verbs: [&[&str]; 2] = [&["apply", &spec], &["detach", INSTANCE, "--purge"]];
            are_refused(&path, &verbs);
            let status = finding("foreign-pin");
            let found = coded(&status["findings"], "foreign-pin").expect("found");
            assert_eq!(found["object"], path.display().to_string());
            let message = found["message"].as_str().expect("text");
            assert!(
                message.contains(&format!("program {} ", theirs.id())),
                "{message}"
            );
            fs::remove_file(&path).expect("removed by hand");
            let shape = map.shape().clone();
            Map::create(&shape, None)
                .expect("a map")
                .pin(&path)
                .expect("pinned");
        }
        // What nobody uses is taken for ours.
        quiclb(&["apply", &spec]).exits(0);
        is_well();
        neighbour.is_well();
    });
}

/// Which generation is live its map says; what was stored with it is found by name alone.
#[test]
fn a_generation_under_another_name_is_named_and_left_alone() {
    isolated("tool::renamed_generation", || {
        let (files, spec) = applied("renamed-generation");
        let neighbour = Neighbour::applied(&files);
        let of = |instance: &Path, name: &str| instance.join("gen").join(name);
        let ours = state_dir();
        let is_left_alone = |path: &Path| {
            let status = finding("unreadable-record");
            let found = coded(&status["findings"], "unreadable-record").expect("found");
            let message = found["message"].as_str().expect("text");
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert_eq!(coded(&status["findings"], "leftover"), None, "{status:#}");
            let before = state();
            for arguments in [&["apply", &spec][..], &["rollback", INSTANCE]] {
                let error = quiclb_json(arguments).fails(4, "incompatible");
                let message = error["message"].as_str().expect("text");
                assert!(
                    message.contains(&path.display().to_string())
                        && message.contains("the names again that it had"),
                    "{arguments:?}: {message}"
                );
                assert_eq!(state(), before, "{arguments:?}");
            }
        };
        for kind in ["cells", "record"] {
            let (from, to) = (format!("1-{kind}"), format!("7-{kind}"));
            fs::rename(of(&ours, &from), of(&ours, &to)).expect("renamed");
        }
        is_left_alone(&of(&ours, "7-record"));
        for kind in ["cells", "record"] {
            let (from, to) = (format!("7-{kind}"), format!("1-{kind}"));
            fs::rename(of(&ours, &from), of(&ours, &to)).expect("renamed");
        }
        is_well();

        let aside = Path::new(BPFFS).join("aside");
        let (record, theirs) = (of(&ours, "1-record"), of(&neighbour.dir, "1-record"));
        fs::rename(&record, &aside).expect("put aside");
        fs::rename(&theirs, &record).expect("moved");
        is_left_alone(&record);
        let status = quiclb(&["status", INSTANCE]).exits(5);
        assert!(
            status.stdout.contains(Neighbour::INSTANCE),
            "{}",
            status.stdout
        );
        fs::rename(&record, &theirs).expect("moved back");
        fs::rename(&aside, &record).expect("put back");
        quiclb(&["apply", &spec]).exits(0);
        is_well();
        neighbour.is_well();
    });
}

/// It may be all that holds a program on an interface, and would go with the directory.
#[test]
fn an_unknown_pin_among_links_is_named_and_not_purged() {
    isolated("tool::unknown_pin", || {
        let (_files, spec) = applied("unknown-pin");
        let theirs = Theirs::new();
        for kind in ["map", "program", "link"] {
            let program = xdp_seen_by_ip("edge0");
            let path = state_dir().join("links/zz");
            theirs.pin(kind, &path);
            let status = finding("foreign-pin");
            let found = coded(&status["findings"], "foreign-pin").expect("found");
            assert_eq!(found["object"], path.display().to_string());
            are_refused(&path, &[&["detach", INSTANCE, "--purge"]]);
            assert_eq!(xdp_seen_by_ip("edge0"), program);
            // What needs none of it goes on.
            quiclb(&["apply", &spec]).exits(5);
            quiclb(&["detach", INSTANCE]).exits(0);
            are_refused(&path, &[&["detach", INSTANCE, "--purge"]]);
            fs::remove_file(&path).expect("removed by hand");
            quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
            quiclb(&["apply", &spec]).exits(0);
            is_well();
        }
    });
}
