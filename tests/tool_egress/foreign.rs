// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Objects of others, another instance's among them, under the names of ours: they are named and left
//! alone.

use std::fs;
use std::path::Path;

use guideway::egress::{Loader, Writer};
use guideway::error::ErrorKind;
use guideway::kernel::map::Map;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::StateDir;
use guideway::kernel::tc::{self, hook, TcxLink};
use serde_json::Value;

use crate::capabilities;
use crate::damage::{applied, directory, dump, is_well, on_links, LEFT_ALONE};
use crate::machine::{open, send, send_by, send_from};
use crate::maps::foreign_map;
use crate::netns::{foreign_program, ifindex, isolated, pin, program_id, veth, Kind, BPFFS};
use crate::{egressd, egressd_json};

/// The programs that an interface runs.
fn runs(interface: &str) -> Vec<Option<u32>> {
    let hook = hook(ifindex(interface)).expect("readable");
    let occupants = hook.occupants.iter();
    occupants.map(|occupant| occupant.program_id).collect()
}

/// Another instance.
fn other() -> Writer {
    let dir = StateDir::egress_at(Path::new(BPFFS).join("other"));
    Loader::new(&dir).load().expect("an instance")
}

/// Changes nothing, and says why: these parts.
#[track_caller]
fn is_refused(arguments: &[&str], parts: &[&str]) {
    let before = (dump(), runs("tap0"), runs("tap1"));
    let error = egressd_json(arguments).fails(4, "incompatible");
    let message = error["message"].as_str().expect("text");
    for part in parts.iter().chain([&LEFT_ALONE]) {
        assert!(message.contains(part), "{arguments:?}: {part}: {message}");
    }
    assert_eq!(
        (dump(), runs("tap0"), runs("tap1")),
        before,
        "{arguments:?}"
    );
    assert!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1").is_some());
}

/// What `status` finds of it; it tells the rest.
#[track_caller]
fn is_found(path: &Path, parts: &[&str]) -> Value {
    let status = egressd_json(&["status"]).exits(5).document();
    let found = &status["findings"][0];
    assert_eq!(found["code"], "foreign-pin", "{status:#}");
    assert_eq!(found["object"], path.display().to_string());
    let message = found["message"].as_str().expect("text");
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
    let remedy = found["remedy"].as_str().expect("text");
    assert!(remedy.contains(LEFT_ALONE), "{remedy}");
    assert_eq!(status["groups"].as_array().map(Vec::len), Some(2));
    assert_eq!(status["tenants"].as_array().map(Vec::len), Some(2));
    status
}

const CHANGES: [&[&str]; 4] = [
    &["upgrade"],
    &["rollback"],
    &["detach", "--purge"],
    &["migrate", "--pins", "8192"],
];

#[test]
fn objects_of_others_in_the_place_of_other_programs_hide_nothing_and_are_left_alone() {
    isolated("tool_egress::foreign_programs", || {
        let (_files, spec) = applied("foreign-programs");
        let theirs = foreign_program("theirs", Kind::Classifier).expect("load");
        let other = other();
        let map = foreign_map();
        let lost = directory().join("maps/gw_pins");
        let aside = Path::new(BPFFS).join("aside");
        for role in ["next", "previous"] {
            for kind in ["program", "instance", "map"] {
                let path = directory().join(format!("progs/gw_egress-{role}"));
                let named = path.display().to_string();
                let (what, id) = match kind {
                    "program" => {
                        pin(&theirs, &path);
                        ("(theirs)", Some(program_id(&theirs)))
                    }
                    "instance" => {
                        other.program().pin(&path).expect("pinned");
                        ("(gw_egress)", Some(other.program().id()))
                    }
                    _ => {
                        map.pin(&path).expect("pinned");
                        ("a map", None)
                    }
                };
                let id = id.map(|id| format!("program {id} ")).unwrap_or_default();
                let parts = [named.as_str(), what, &id];
                let status = is_found(&path, &parts);
                assert_eq!(status["findings"].as_array().map(Vec::len), Some(1));
                assert_eq!(status["program"]["previous_id"], Value::Null);
                assert_eq!(status["attachments"].as_array().map(Vec::len), Some(2));
                egressd(&["plan", &spec]).exits(0);
                is_refused(&["apply", &spec], &parts);
                for change in CHANGES {
                    is_refused(change, &parts);
                }
                // Also where there is more to be done.
                fs::rename(&lost, &aside).expect("put aside");
                let error = egressd_json(&["apply", &spec]).fails(4, "incompatible");
                assert!(error["message"].as_str().expect("text").contains(&named));
                assert!(!lost.exists());
                fs::rename(&aside, &lost).expect("put back");
                // What needs no other program goes on.
                egressd(&["detach", "--interface", "tap1", "--keep-tenant"]).exits(0);
                assert_eq!((runs("tap1"), path.exists()), (vec![], true));
                fs::remove_file(&path).expect("removed");
                egressd(&["apply", &spec]).exits(0);
                is_well();
            }
        }
    });
}

/// The link of another instance, and one of a program that is nobody's of the kind.
#[test]
fn links_of_others_in_the_place_of_ours_are_left_alone() {
    isolated("tool_egress::foreign_links", || {
        let (_files, spec) = applied("foreign-links");
        if !on_links("foreign_links") {
            return;
        }
        let link = |interface: &str| format!("links/{}-tcx", ifindex(interface));
        let path = directory().join(link("tap0"));
        veth("other0", "other1");
        let mut other = other();
        let theirs = foreign_program("theirs", Kind::Classifier).expect("load");
        let aside = Path::new(BPFFS).join("aside");
        for kind in ["instance", "program"] {
            fs::rename(&path, &aside).expect("put aside");
            let id = match kind {
                "instance" => {
                    let attached = other.attach(ifindex("other0"), &tc::Options::default());
                    attached.expect("attached");
                    let from = other.dir().path().join(link("other0"));
                    fs::rename(from, &path).expect("moved");
                    other.program().id()
                }
                _ => {
                    pin(&theirs, &Path::new(BPFFS).join("theirs"));
                    let program = Program::open(&Path::new(BPFFS).join("theirs")).expect("open");
                    let options = tc::Options::default();
                    let attached = tc::Attachment::new(&program, ifindex("other0"), &options);
                    let tc::Attachment::Tcx(link) = attached.expect("attached") else {
                        panic!("a filter");
                    };
                    link.pin(&path).expect("pinned");
                    program.id()
                }
            };
            let state = || {
                TcxLink::open(&path)
                    .expect("a link")
                    .state()
                    .expect("state")
            };
            let named = path.display().to_string();
            let is = format!("link {} ", state().id);
            let runs_it = format!("program {id} ");
            let parts = [named.as_str(), &is, &runs_it];
            let status = is_found(&path, &parts);
            let attachments = status["attachments"].as_array().expect("a list");
            assert_eq!(attachments.len(), 1, "{status:#}");
            assert_eq!(attachments[0]["interface"]["name"], "tap1");
            egressd(&["plan", &spec]).exits(0);
            is_refused(&["apply", &spec], &parts);
            for change in CHANGES {
                is_refused(change, &parts);
            }
            is_refused(&["detach"], &parts);
            is_refused(&["detach", "--interface", "tap0"], &parts);
            is_refused(&["detach", "--tenant", "42"], &parts);
            let dir = StateDir::egress_at(directory());
            let mut writer = Loader::new(&dir).load().expect("opened");
            let attached = writer.attach(ifindex("tap0"), &tc::Options::default());
            assert_eq!(
                attached.expect_err("theirs").kind(),
                ErrorKind::Incompatible
            );
            drop(writer);
            // Also where there is more to be done.
            let program = directory().join("progs/gw_egress");
            let kept = Path::new(BPFFS).join("kept");
            fs::rename(&program, &kept).expect("put aside");
            let error = egressd_json(&["apply", &spec]).fails(4, "incompatible");
            assert!(error["message"].as_str().expect("text").contains(&named));
            fs::rename(&kept, &program).expect("put back");
            egressd(&["detach", "--interface", "tap1", "--keep-tenant"]).exits(0);
            assert_eq!(runs("other0"), [Some(id)]);
            let (now, at) = (state(), ifindex("other0"));
            assert_eq!((now.program_id, now.ifindex), (id, Some(at)));
            TcxLink::open(&path)
                .expect("a link")
                .detach()
                .expect("detached");
            fs::remove_file(&path).expect("removed");
            fs::rename(&aside, &path).expect("put back");
            egressd(&["apply", &spec]).exits(0);
            is_well();
        }
    });
}

/// Whose a link is whose program has lost its pin takes a right to know.
#[test]
fn a_link_of_a_program_without_a_pin_takes_a_right_to_be_known() {
    isolated("tool_egress::unknown_link", || {
        let (_files, spec) = applied("unknown-link");
        if !on_links("unknown_link") {
            return;
        }
        let before = runs("tap0");
        let writer = Loader::new(&StateDir::egress_at(directory())).open();
        let writer = writer.expect("opened");
        fs::remove_file(directory().join("progs/gw_egress")).expect("removed");
        writer.refuse_foreign().expect("it works on our maps");
        let refused = std::thread::spawn(move || {
            capabilities::keep(&capabilities::enough());
            writer.refuse_foreign()
        });
        let error = refused.join().expect("a thread").expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        let state = dump();
        let refused = std::thread::spawn(|| {
            capabilities::keep(&capabilities::enough());
            let dir = StateDir::egress_at(directory());
            Loader::new(&dir).open().map(drop)
        });
        let error = refused.join().expect("a thread").expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        assert_eq!((dump(), runs("tap0")), (state, before.clone()));
        egressd(&["apply", &spec]).exits(0);
        assert_ne!(runs("tap0"), before);
        is_well();
    });
}

/// Of the right name and shape, while the program uses the instance's own.
#[test]
fn a_map_of_another_instance_is_left_alone_and_ours_comes_back_with_all_that_is_in_it() {
    isolated("tool_egress::foreign_map", || {
        let (_files, spec) = applied("foreign-map");
        let limits = open().limits();
        let dir = StateDir::egress_at(Path::new(BPFFS).join("other"));
        drop(
            Loader::new(&dir)
                .limits(limits)
                .load()
                .expect("an instance"),
        );
        let sent = send_from(32);
        let program = Program::open(&directory().join("progs/gw_egress")).expect("ours");
        let goes_on = || {
            let shard = send_by(&program, "tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1");
            assert_eq!(shard, sent.first().copied());
        };
        let kept = Path::new(BPFFS).join("kept");
        let mends = [&["apply", &spec][..], &["upgrade"]];
        let names = ["gw_pins", "gw_tenants", "gw_groups", "gw_eg_stat"];
        for (name, mend) in names.into_iter().zip(mends.into_iter().cycle()) {
            let path = directory().join("maps").join(name);
            let id = |path: &Path| Map::open_any(path).expect("a map").id();
            let ours = id(&path);
            fs::remove_file(&path).expect("removed");
            fs::rename(dir.path().join("maps").join(name), &path).expect("moved");
            let theirs = id(&path);
            assert_ne!(theirs, ours);
            let is = format!("is map {theirs}, and program {}", program.id());
            let uses = format!("uses map {ours}");
            let refused = |arguments: &[&str]| {
                let before = (dump(), runs("tap0"), runs("tap1"));
                let error = egressd_json(arguments).fails(4, "incompatible");
                let message = error["message"].as_str().expect("text");
                for part in [&path.display().to_string(), &is, &uses, LEFT_ALONE] {
                    assert!(message.contains(part), "{arguments:?}: {part}: {message}");
                }
                let now = (dump(), runs("tap0"), runs("tap1"));
                assert_eq!(now, before, "{arguments:?}");
                goes_on();
            };
            let looks = [
                &["status"][..],
                &["plan", &spec],
                &["apply", &spec],
                &["detach"],
            ];
            for arguments in looks.into_iter().chain(CHANGES) {
                refused(arguments);
            }
            // Attached still, and pinned no more.
            let pin = directory().join("progs/gw_egress");
            fs::rename(&pin, &kept).expect("put aside");
            for arguments in [&["apply", &spec][..], &["upgrade"]] {
                refused(arguments);
            }
            fs::rename(&kept, &pin).expect("put back");

            fs::remove_file(&path).expect("removed");
            let mended = egressd_json(mend).exits(0).object();
            assert_eq!(mended["repaired"][0]["action"], "pinned-again", "{mended}");
            assert_eq!(mended["repaired"].as_array().map(Vec::len), Some(1));
            assert_eq!(id(&path), ours, "{name}");
            assert_eq!(open().program().id(), program.id());
            assert_eq!(send_from(32), sent);
            is_well();
        }
    });
}

/// Without the right to look nobody takes a map for the instance's own, or for another one's.
#[test]
fn whose_a_map_is_takes_a_right_to_know() {
    isolated("tool_egress::unknown_map", || {
        let (_files, spec) = applied("unknown-map");
        let path = directory().join("maps/gw_pins");
        let ours = Map::open_any(&path).expect("a map");
        let other = Map::create(ours.shape(), None).expect("a map");
        fs::remove_file(&path).expect("removed");
        other.pin(&path).expect("pinned");
        let state = (dump(), runs("tap0"));
        let refused = std::thread::spawn(|| {
            capabilities::keep(&capabilities::enough());
            let dir = StateDir::egress_at(directory());
            Loader::new(&dir).open().map(drop)
        });
        let error = refused.join().expect("a thread").expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        assert_eq!((dump(), runs("tap0")), state);
        egressd_json(&["apply", &spec]).fails(4, "incompatible");
    });
}

/// Neither is one map in common proof that a program is ours, nor is a map nobody's that we have no program
/// for.
#[test]
fn one_map_in_common_makes_nothing_of_another_instance_ours() {
    isolated("tool_egress::foreign_map_and_link", || {
        let (_files, spec) = applied("foreign-map-and-link");
        if !on_links("foreign_map_and_link") {
            return;
        }
        let dir = StateDir::egress_at(Path::new(BPFFS).join("other"));
        let mut other = Loader::new(&dir)
            .limits(open().limits())
            .load()
            .expect("an instance");
        veth("other0", "other1");
        let attached = other.attach(ifindex("other0"), &tc::Options::default());
        attached.expect("attached");
        let path = directory().join("maps/gw_pins");
        let aside = Path::new(BPFFS).join("aside");
        fs::rename(&path, &aside).expect("put aside");
        let theirs = Map::open_any(&dir.path().join("maps/gw_pins")).expect("a map");
        theirs.pin(&path).expect("pinned");

        let pin_of = |interface: &str| format!("links/{}-tcx", ifindex(interface));
        let ours = directory().join(pin_of("tap0"));
        let kept = Path::new(BPFFS).join("kept");
        fs::rename(&ours, &kept).expect("put aside");
        let their_link = dir.path().join(pin_of("other0"));
        fs::rename(&their_link, &ours).expect("moved");
        let runs_there = runs("other0");
        assert_eq!(runs_there, [Some(other.program().id())]);
        for arguments in [
            &["detach"][..],
            &["detach", "--interface", "tap0"],
            &["detach", "--purge"],
            &["apply", &spec],
        ] {
            egressd_json(arguments).fails(4, "incompatible");
            assert_eq!(runs("other0"), runs_there, "{arguments:?}");
        }
        fs::rename(&ours, &their_link).expect("moved back");
        fs::rename(&kept, &ours).expect("put back");
        fs::remove_file(&path).expect("removed");
        fs::rename(&aside, &path).expect("put back");
        is_well();

        egressd(&["detach"]).exits(0);
        for entry in fs::read_dir(directory().join("progs")).expect("programs") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        fs::rename(&path, &aside).expect("put aside");
        theirs.pin(&path).expect("pinned");
        let is = format!("is map {}", theirs.id());
        let uses = format!("program {} (gw_egress) uses it", other.program().id());
        for arguments in [&["apply", &spec][..], &["upgrade"], &["detach", "--purge"]] {
            let before = dump();
            let error = egressd_json(arguments).fails(4, "incompatible");
            let message = error["message"].as_str().expect("text");
            for part in [&path.display().to_string(), &is, &uses, LEFT_ALONE] {
                assert!(message.contains(part), "{arguments:?}: {part}: {message}");
            }
            assert_eq!(dump(), before, "{arguments:?}");
        }
        fs::remove_file(&path).expect("removed by hand");
        fs::rename(&aside, &path).expect("put back");
        egressd(&["apply", &spec]).exits(0);
        is_well();
        assert_eq!(runs("other0"), runs_there);
    });
}

/// A link that the instance does not know by its name holds the program all the same.
#[test]
fn a_link_under_another_name_is_named_and_pinned_again_or_taken_off() {
    isolated("tool_egress::unpinned_link", || {
        let (_files, spec) = applied("unpinned-link");
        if !on_links("unpinned_link") {
            return;
        }
        let before = runs("tap0");
        let sent = send_from(32);
        let ours = directory().join(format!("links/{}-tcx", ifindex("tap0")));
        let unknown = directory().join("links/zz");
        let named = unknown.display().to_string();
        let is_astray = || {
            fs::rename(&ours, &unknown).expect("renamed");
            let status = egressd_json(&["status"]).exits(5).document();
            let findings = status["findings"].as_array().expect("a list");
            let codes: Vec<_> = findings.iter().map(|found| &found["code"]).collect();
            assert_eq!(codes, ["foreign-pin", "unpinned-link"], "{status:#}");
            assert_eq!(findings[0]["object"], named);
            assert_eq!(findings[1]["object"], "tap0");
            assert_eq!(send_from(32), sent);
            is_refused(&["detach", "--purge"], &[&named]);
        };
        is_astray();
        let applied = egressd_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            applied["repaired"][0]["action"], "pinned-again",
            "{applied}"
        );
        assert_eq!(applied["repaired"][0]["object"], ours.display().to_string());
        assert_eq!(runs("tap0"), before, "one program, the same");
        fs::remove_file(&unknown).expect("removed");
        assert_eq!(runs("tap0"), before, "by a link of its own");
        is_well();

        is_astray();
        let refused = std::thread::spawn(|| {
            capabilities::keep(&capabilities::enough());
            let dir = StateDir::egress_at(directory());
            let mut writer = Loader::new(&dir).open().expect("opened");
            writer.detach(ifindex("tap0")).map(drop)
        });
        let error = refused.join().expect("a thread").expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        assert_eq!(runs("tap0"), before, "it is on still");
        let detached = egressd_json(&["detach", "--interface", "tap0", "--keep-tenant"]);
        let detached = detached.exits(0).document();
        assert_eq!(detached["interfaces"][0]["detached"], true, "{detached}");
        assert!(runs("tap0").is_empty());
        fs::remove_file(&unknown).expect("removed");
        egressd(&["apply", &spec]).exits(0);
        is_well();

        is_astray();
        egressd(&["detach"]).exits(0);
        assert!(runs("tap0").is_empty() && runs("tap1").is_empty());
        egressd_json(&["detach", "--purge"]).fails(4, "incompatible");
        fs::remove_file(&unknown).expect("removed");
        egressd(&["detach", "--purge"]).exits(0);
        assert!(!directory().exists());
    });
}
