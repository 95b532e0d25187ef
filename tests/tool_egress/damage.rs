// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances that lost something, or have something of others under their names: found and named; what
//! is theirs is made again by the next `apply`, and what is not is left alone.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use guideway::kernel::map::{Map, MapKind, Update};
use guideway::kernel::probe::features;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::Section;
use guideway::kernel::tc::{self, TcxLink};
use serde_json::{json, Value};

use crate::detaching::programs;
use crate::machine::{assert_valid, document, machine, open, send, Files};
use crate::maps::foreign_map;
use crate::netns::{
    self, foreign_link, foreign_program, ifindex, ip, is_loaded, isolated, pin, program_id, veth,
    Kind,
};
use crate::{egressd, egressd_json};

pub(crate) fn applied(test: &str) -> (Files, String) {
    machine();
    let files = Files::new(test);
    let path = files.write("spec.json", &document());
    egressd(&["apply", &path]).exits(0);
    (files, path)
}

pub(crate) fn directory() -> PathBuf {
    Path::new(netns::BPFFS).join("guideway/egress")
}

/// Whether the program is on interfaces through links. A kernel without TCX has filters there, of which
/// `test` says nothing.
pub(crate) fn on_links(test: &str) -> bool {
    let tcx = features().tcx == Some(true);
    let link = directory().join(format!("links/{}-tcx", ifindex("tap0")));
    assert_eq!(link.exists(), tcx);
    if !tcx {
        // Not `eprintln!`, which the test runner would swallow.
        let _ = writeln!(std::io::stderr(), "SKIPPED tool_egress::{test}: no TCX");
    }
    tcx
}

/// Every name, and of each map what is in it.
pub(crate) fn dump() -> Vec<(String, Option<Vec<Vec<u8>>>)> {
    fn walk(path: &Path, found: &mut Vec<(String, Option<Vec<Vec<u8>>>)>) {
        let mut entries: Vec<_> = fs::read_dir(path)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        entries.sort();
        for path in entries {
            let name = path.display().to_string();
            if path.is_dir() {
                found.push((name, None));
                walk(&path, found);
                continue;
            }
            found.push((name, Map::open_any(&path).ok().and_then(|map| rows(&map))));
        }
    }
    let mut found = Vec::new();
    walk(&directory(), &mut found);
    found
}

/// What is in a small map that nothing counts in.
fn rows(map: &Map) -> Option<Vec<Vec<u8>>> {
    let shape = map.shape();
    if shape.kind != MapKind::ARRAY || shape.max_entries > 64 {
        return None;
    }
    let read = |index: u32| {
        let mut value = vec![0; map.value_bytes()];
        map.lookup(&index.to_ne_bytes(), &mut value).expect("read");
        value
    };
    Some((0..shape.max_entries).map(read).collect())
}

/// Whoever looks or changes is refused, told where the matter is and what to do; nothing is changed.
#[track_caller]
fn is_named_and_left_alone(spec: &str, object: &Path, remedy: &str) {
    let before = dump();
    let steps = [&["status"][..], &["plan", spec], &["apply", spec]];
    for arguments in steps {
        let error = egressd_json(arguments).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        let named = message.contains(&object.display().to_string());
        assert!(
            named && message.contains(remedy),
            "{arguments:?}: {message}"
        );
        assert_eq!(dump(), before, "{arguments:?}");
    }
}

pub(crate) fn is_well() {
    let status = egressd_json(&["status"]).exits(0).document();
    assert_eq!(status["findings"], json!([]), "{status:#}");
    assert!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1").is_some());
}

pub(crate) const LEFT_ALONE: &str = "it was left alone: if nothing needs it, remove it by hand";

#[test]
fn pins_that_were_lost_are_named_and_made_again() {
    isolated("tool_egress::lost_pins", || {
        let (_files, spec) = applied("lost-pins");
        let mut all = vec!["progs/gw_egress".to_owned()];
        let maps = fs::read_dir(directory().join("maps")).expect("maps");
        let names = maps.map(|map| map.expect("a map").file_name());
        all.extend(names.map(|name| format!("maps/{}", name.to_string_lossy())));
        // Nothing else tells the version.
        all.retain(|name| name != "maps/gw_eg_meta");
        assert_eq!(all.len(), 11);
        let mends = [&["apply", &spec][..], &["upgrade"]];
        for (lost, mend) in all.iter().zip(mends.into_iter().cycle()) {
            let path = directory().join(lost);
            let id = || Map::open_any(&path).ok().map(|map| map.id());
            let was = id();
            fs::remove_file(&path).expect("removed");
            let before = dump();
            let error = egressd_json(&["status"]).exits(1).error();
            let message = error["message"].as_str().expect("text");
            assert!(
                message.contains(lost) && message.contains("apply the specification again"),
                "{message}"
            );
            assert_eq!(dump(), before, "looking changes nothing");
            let mended = egressd_json(mend).exits(0).object();
            is_well();
            assert_eq!(
                id(),
                was,
                "{lost}: another map, which forgets what was in it"
            );
            let repaired = &mended["repaired"];
            assert_eq!(
                repaired.as_array().map(Vec::len),
                Some(1),
                "{lost}: {mended}"
            );
            assert_eq!(repaired[0]["object"], json!(path));
            // Another program has to be exchanged for the one that runs.
            let (action, result) = match was {
                Some(_) => ("pinned-again", "repaired"),
                None => ("made-anew", "changed"),
            };
            assert_eq!(repaired[0]["action"], action);
            if mend[0] == "apply" {
                assert_eq!(mended["result"], result, "{lost}");
            }
        }
    });
}

/// What is published is in force all the same; what it was is known of its pin alone.
#[test]
fn a_published_thing_that_lost_its_pin_is_named_with_what_mends_it() {
    isolated("tool_egress::lost_published", || {
        let (_files, spec) = applied("lost-published");
        let path = directory().join("gen/conf");
        let named = path.display().to_string();
        fs::remove_file(&path).expect("removed");
        let before = dump();
        let status = egressd_json(&["status"]).exits(5).document();
        let findings = status["findings"].as_array().expect("a list");
        assert_eq!(findings.len(), 1, "{status:#}");
        assert_eq!(
            (&findings[0]["code"], &findings[0]["object"]),
            (&json!("lost-pin"), &json!(named))
        );
        let remedy = findings[0]["remedy"].as_str().expect("text");
        assert!(
            remedy.starts_with("apply the specification again"),
            "{remedy}"
        );
        assert_eq!(status["configuration"], Value::Null);
        assert_eq!(status["groups"].as_array().map(Vec::len), Some(2));
        let text = egressd(&["status"]).exits(5).stdout;
        assert!(text.contains("in force, its pin is lost"), "{text}");
        let error = egressd_json(&["migrate", "--pins", "8192"]).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("apply the specification again"),
            "{message}"
        );
        assert_eq!(dump(), before);
        assert!(send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1").is_some());
        let applied = egressd_json(&["apply", &spec]).exits(0).object();
        assert_eq!(applied["configuration"], true, "{applied}");
        assert!(path.exists());
        is_well();

        // Numbers that routes and pins carry are in a group alone: nothing makes it anew.
        fs::remove_file(directory().join("gen/g0")).expect("removed");
        let status = egressd_json(&["status"]).exits(5).document();
        let found = &status["findings"][0];
        assert_eq!(
            (&found["code"], &found["object"]),
            (&json!("damaged-group"), &json!("group 0"))
        );
        let purge = "detach it with --purge, which forgets all pins, then apply the specification";
        assert_eq!(found["remedy"], purge);
        let error = egressd_json(&["apply", &spec]).fails(4, "incompatible");
        assert!(error["message"].as_str().expect("text").contains(purge));
        egressd(&["detach", "--purge"]).exits(0);
        egressd(&["apply", &spec]).exits(0);
        is_well();
    });
}

/// The program is on interfaces still, and has every map.
#[test]
fn maps_are_had_back_from_a_program_that_lost_its_pin_too() {
    isolated("tool_egress::lost_program_and_maps", || {
        let (_files, spec) = applied("lost-program");
        let maps = ["gw_pins", "gw_routes", "gw_eg_stat"].map(|map| format!("maps/{map}"));
        let ids = || {
            maps.clone().map(|map| {
                let map = Map::open_any(&directory().join(map));
                map.expect("a map").id()
            })
        };
        let before = ids();
        for lost in maps.iter().map(String::as_str).chain(["progs/gw_egress"]) {
            fs::remove_file(directory().join(lost)).expect("removed");
        }
        let error = egressd_json(&["status"]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        for lost in maps.iter().map(String::as_str).chain(["progs/gw_egress"]) {
            assert!(message.contains(lost), "{lost}: {message}");
        }
        let applied = egressd_json(&["apply", &spec]).exits(0).object();
        let repaired = applied["repaired"].as_array().expect("a list").len();
        assert_eq!((repaired, ids()), (4, before), "{applied}");
        is_well();
    });
}

/// Taken off as well, nothing has the map any more.
#[test]
fn what_nothing_has_any_more_is_made_anew_and_that_is_said() {
    isolated("tool_egress::lost_for_good", || {
        let (_files, spec) = applied("lost-for-good");
        for interface in ["tap0", "tap1"] {
            egressd(&["detach", "--interface", interface, "--keep-tenant"]).exits(0);
        }
        for lost in ["maps/gw_pins", "progs/gw_egress"] {
            fs::remove_file(directory().join(lost)).expect("removed");
        }
        let text = egressd(&["apply", &spec]).exits(0).stdout;
        for part in ["made anew and empty", "pins are forgotten", "loaded anew"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        is_well();
    });
}

/// Links, program and map at once: nothing has the rows any more, and an empty map looks like any other.
#[test]
fn rows_that_were_lost_for_good_are_named_until_somebody_publishes() {
    isolated("tool_egress::lost_rows", || {
        let (_files, spec) = applied("lost-rows");
        if !on_links("lost_rows") {
            return;
        }
        let lost_rows = || {
            let status = egressd_json(&["status"]).exits(5).document();
            let findings = status["findings"].as_array().expect("a list").iter();
            let found: Vec<_> = findings
                .filter(|finding| finding["code"] == "lost-rows")
                .map(|finding| finding["object"].clone())
                .collect();
            json!(found)
        };
        for (map, rows) in [("gw_tenants", "tenants"), ("gw_routes", "routes")] {
            let program = open().program().id();
            fs::remove_dir_all(directory().join("links")).expect("removed");
            for lost in ["progs/gw_egress", &format!("maps/{map}")] {
                fs::remove_file(directory().join(lost)).expect("removed");
            }
            // The kernel lets go of links in its own time, and as long a program has the map.
            let start = Instant::now();
            while is_loaded(program) && start.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let text = egressd(&["upgrade"]).exits(3).stdout;
            let named = format!("NO {} ARE PUBLISHED", rows.to_uppercase());
            for part in [named.as_str(), "repaired", "apply the specification"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("unchanged"), "{text}");
            // Also by the next one, which has nothing to repair.
            let upgraded = egressd_json(&["upgrade"]).exits(3).object();
            assert_valid("upgrade", &upgraded);
            assert_eq!(upgraded["lost_rows"], json!([rows]));
            assert_eq!(upgraded["repaired"], json!([]));
            assert_eq!(lost_rows(), json!([rows]));
            let pins = if map == "gw_tenants" { "8192" } else { "4096" };
            egressd(&["migrate", "--pins", pins]).exits(0);
            assert_eq!(lost_rows(), json!([rows]));
            egressd(&["migrate", "--pins", "4096"]).exits(0);
            egressd(&["apply", &spec]).exits(0);
            is_well();
            let upgraded = egressd_json(&["upgrade"]).exits(0).object();
            assert_eq!(upgraded["lost_rows"], json!([]));
        }
        // Tables that are empty as somebody wants it are no finding.
        for interface in ["tap0", "tap1"] {
            egressd(&["detach", "--interface", interface]).exits(0);
        }
        let status = egressd_json(&["status"]).exits(0).document();
        let findings = status["findings"].as_array().expect("a list");
        assert!(findings.iter().all(|one| one["code"] == "abandoned-tenant"));
        egressd(&["upgrade"]).exits(0);
    });
}

#[test]
fn a_link_that_lost_its_pin_is_named_and_made_again() {
    isolated("tool_egress::lost_link", || {
        let (_files, spec) = applied("lost-link");
        let links = directory().join("links");
        let of_tap0 = format!("{}-", ifindex("tap0"));
        let names = fs::read_dir(&links).expect("links");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let mut names = names.filter(|name| name.to_string_lossy().starts_with(&of_tap0));
        fs::remove_file(links.join(names.next().expect("a link"))).expect("removed");
        let status = egressd_json(&["status"]).exits(5).document();
        let found = &status["findings"][0];
        assert_eq!(
            (&found["code"], &found["object"]),
            (&json!("not-attached"), &json!("tap0"))
        );
        assert!(found["remedy"].is_string());
        egressd(&["apply", &spec]).exits(0);
        is_well();
    });
}

#[test]
fn foreign_objects_under_our_names_are_named_and_left_alone() {
    isolated("tool_egress::foreign_objects", || {
        let (_files, spec) = applied("foreign-objects");
        let aside = Path::new(netns::BPFFS).join("aside");
        let theirs = foreign_program("theirs", Kind::Classifier).expect("load");
        let map = foreign_map();
        let link = format!("links/{}-tcx", ifindex("tap0"));
        let xdp = foreign_program("theirs_xdp", Kind::Xdp).expect("load");
        veth("other0", "other1");
        let foreign = foreign_link(ifindex("other0"), &xdp).expect("a link");
        for place in ["maps/gw_pins", "progs/gw_egress", link.as_str()] {
            let path = directory().join(place);
            if !path.exists() {
                // Attached as a filter, on a kernel without TCX.
                continue;
            }
            for kind in ["map", "program", "link"] {
                fs::rename(&path, &aside).expect("put aside");
                match kind {
                    "map" => map.pin(&path).expect("pinned"),
                    "program" => pin(&theirs, &path),
                    _ => pin(&foreign, &path),
                }
                is_named_and_left_alone(&spec, &path, LEFT_ALONE);
                fs::remove_file(&path).expect("removed");
                fs::rename(&aside, &path).expect("put back");
                is_well();
            }
        }
        assert!(program_id(&theirs) > 0);
    });
}

/// One bit of what tells the version and the owner.
#[test]
fn a_damaged_meta_map_is_named_and_left_alone() {
    isolated("tool_egress::damaged_meta", || {
        let (_files, spec) = applied("damaged-meta");
        let path = open().dir().pin(Section::Maps, "gw_eg_meta");
        let meta = Map::open_any(&path).expect("the map");
        let mut value = vec![0; meta.value_bytes()];
        meta.lookup(&[0; 4], &mut value).expect("read");
        let aside = Path::new(netns::BPFFS).join("aside");
        for (byte, remedy) in [
            (0, LEFT_ALONE),
            (4, "use the version that wrote it"),
            (8, LEFT_ALONE),
        ] {
            let mut damaged = value.clone();
            damaged[byte] ^= 0x40;
            let other = Map::create(meta.shape(), None).expect("a map");
            other
                .update(&[0; 4], &damaged, Update::Any)
                .expect("written");
            fs::rename(&path, &aside).expect("put aside");
            other.pin(&path).expect("pinned");
            is_named_and_left_alone(&spec, &path, remedy);
            fs::remove_file(&path).expect("removed");
            fs::rename(&aside, &path).expect("put back");
        }
        is_well();
    });
}

/// With another index and another address.
#[test]
fn interfaces_that_were_made_again_are_named_and_followed() {
    isolated("tool_egress::made_again", || {
        let (_files, spec) = applied("made-again");
        for (near, far) in [("tap0", "vm0"), ("uplink0", "peer0")] {
            let before = ifindex(near);
            ip(&["link", "del", near]);
            let gone = egressd_json(&["status"]).exits(5).document();
            is_found(&gone, before);
            veth("spare0", "spare1");
            veth(near, far);
            ip(&["link", "set", near, "address", "02:00:00:00:0a:01"]);
            ip(&["link", "del", "spare0"]);
            assert_ne!(ifindex(near), before);
            let again = egressd_json(&["status"]).exits(5).document();
            is_found(&again, before);
            egressd(&["apply", &spec]).exits(0);
            is_well();
        }
    });
}

#[track_caller]
fn is_found(status: &Value, ifindex: u32) {
    let findings = status["findings"].as_array().expect("a list").iter();
    let mut found = findings.filter(|finding| finding["code"] == "no-interface");
    let found = found.next().unwrap_or_else(|| panic!("{status:#}"));
    assert_eq!(found["object"], format!("index {ifindex} (gone)"));
    assert!(found["remedy"].is_string());
}

/// What others attach around ours stays theirs.
#[test]
fn a_program_of_others_beside_ours_is_left_alone() {
    isolated("tool_egress::beside", || {
        let (_files, spec) = applied("beside");
        let theirs = foreign_program("theirs", Kind::Classifier).expect("load");
        let path = Path::new(netns::BPFFS).join("theirs");
        pin(&theirs, &path);
        let program = Program::open(&path).expect("open");
        let attached = tc::Attachment::new(&program, ifindex("tap0"), &tc::Options::default());
        let tc::Attachment::Tcx(link) = attached.expect("attached") else {
            // A kernel without TCX has no links here.
            return;
        };
        ip(&["link", "del", "tap1"]);
        veth("tap1", "vm1");
        egressd(&["apply", &spec]).exits(0);
        is_well();
        let state = |link: &TcxLink| link.state().expect("state");
        assert_eq!(state(&link).program_id, program.id());
        assert_eq!(state(&link).ifindex, Some(ifindex("tap0")));
    });
}

/// The error says what a person can do, and what comes of it: links go with their pins, filters do not.
#[test]
fn a_state_that_nothing_tells_the_version_of_is_removed_by_hand() {
    isolated("tool_egress::by_hand", || {
        machine();
        let files = Files::new("by-hand");
        let path = files.write("spec.json", &document());
        for way in ["tcx", "clsact"] {
            egressd(&["apply", &path, "--attach", way]).exits(0);
            let ours = programs("tap0");
            assert_eq!(ours.len(), 1);
            fs::remove_file(directory().join("maps/gw_eg_meta")).expect("removed");
            let before = dump();
            for arguments in [&["apply", &path][..], &["detach", "--purge"]] {
                let error = egressd_json(arguments).fails(1, "not-found");
                let message = error["message"].as_str().expect("text");
                for part in ["remove the directory by hand", "detached", "tc filter del"] {
                    assert!(message.contains(part), "{part}: {message}");
                }
                assert_eq!((dump(), programs("tap0")), (before.clone(), ours.clone()));
            }
            fs::remove_dir_all(directory()).expect("removed");
            if way == "clsact" {
                egressd_json(&["apply", &path, "--attach", way]).exits(3);
                assert_eq!(programs("tap0"), ours, "no pin has held it");
                for name in ["tap0", "tap1"] {
                    remove_filter(name);
                }
            }
            let gone = || programs("tap0").is_empty();
            assert!(netns::within(Duration::from_secs(10), gone), "{way}");
            egressd(&["apply", &path, "--attach", way]).exits(0);
            is_well();
            egressd(&["detach", "--purge"]).exits(0);
        }
    });
}

/// As the documentation says it.
fn remove_filter(interface: &str) {
    let filter = "ingress pref 1 handle 0x1 bpf";
    let mut arguments = vec!["filter", "del", "dev", interface];
    arguments.extend(filter.split(' '));
    let output = Command::new("tc").args(arguments).output().expect("tc");
    assert!(output.status.success(), "{output:?}");
}
