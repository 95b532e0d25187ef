// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances that lost something: found, named, and repaired by the next `apply` alone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use guideway::error::ErrorKind;
use guideway::kernel::attach::XdpLink;
use guideway::kernel::keys;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::program::Program;
use guideway::kernel::publish::Generation;
use guideway::kernel::statedir::{StateDir, META_MAP};
use guideway::kernel::typed::DevMap;
use guideway::quiclb::{detach, DetachError, Loader, StateRoot, Status};
use guideway::reason::Reason;
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::capabilities;
use crate::harness::{
    applied, coded, draining, example, finding, is_named_and_left_alone, is_well, machine, maps,
    names_in, poll, quiclb, quiclb_json, state, state_dir, Files, EXAMPLE, INSTANCE, LEFT_ALONE,
};
use crate::netns::{ifindex, ip, isolated, veth, within, xdp_seen_by_ip, BPFFS};

#[test]
fn a_target_that_was_made_again() {
    isolated("tool::drift", || {
        let (_files, spec) = applied("drift");
        let old = ifindex("vm-edge-a");
        ip(&["link", "del", "vm-edge-a"]);
        let status = finding("ifindex-drift");
        assert_eq!(status["health"], "degraded");
        let (new, _) = veth("vm-edge-a", "peer-a");
        poll("peer-a");
        assert_ne!(old, new);
        let status = finding("ifindex-drift");
        let found = coded(&status["findings"], "ifindex-drift").expect("a finding");
        let message = found["message"].as_str().expect("text");
        assert!(message.contains(&old.to_string()) && message.contains(&new.to_string()));
        assert_eq!(status["services"][0]["backends"][0]["ifindex"], old);
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "changed");
        is_well();
    });
}

/// The interfaces that the program may redirect to.
fn targets() -> Vec<u32> {
    let map = Map::open_any(&state_dir().join("maps/gw_ql_dev")).expect("the map");
    DevMap::new(map)
        .expect("its shape")
        .targets()
        .expect("readable")
}

#[test]
fn a_target_that_was_made_again_with_the_index_it_had() {
    isolated("tool::lost_target", || {
        let (_files, spec) = applied("lost-target");
        let (kept, index) = (ifindex("vm-edge-b"), ifindex("vm-edge-a").to_string());
        ip(&["link", "del", "vm-edge-a"]);
        ip(&[
            "link",
            "add",
            "vm-edge-a",
            "index",
            &index,
            "type",
            "veth",
            "peer",
            "name",
            "peer-a",
        ]);
        for name in ["vm-edge-a", "peer-a"] {
            ip(&["link", "set", name, "up"]);
        }
        poll("peer-a");
        assert_eq!(targets(), [kept], "the kernel forgets interfaces that go");
        let status = finding("lost-target");
        let found = coded(&status["findings"], "lost-target").expect("a finding");
        assert_eq!(found["object"], "vm-edge-a");
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "unchanged", "the generation was right");
        assert!(targets().contains(&index.parse().expect("a number")));
        is_well();
    });
}

#[test]
fn an_interface_that_was_made_again_under_the_program() {
    isolated("tool::link_without_interface", || {
        let (_files, spec) = applied("dead-link");
        ip(&["link", "del", "edge0"]);
        let status = finding("link-without-interface");
        assert!(coded(&status["findings"], "no-interface").is_some());
        assert_eq!(status["health"], "detached");
        // The list of instances ends as the worst of them.
        let list = quiclb_json(&["status"]).exits(5).valid("list");
        let listed = &list["instances"][0];
        assert_eq!(listed["health"], "detached");
        assert!(listed["errors"].as_u64() >= Some(2), "{listed}");
        let (new, _) = veth("edge0", "client0");
        let status = finding("link-without-interface");
        assert!(coded(&status["findings"], "ifindex-drift").is_some());
        quiclb(&["apply", &spec]).exits(0);
        is_well();
        quiclb(&["status"]).exits(0);
        let status = quiclb_json(&["status", INSTANCE]).document();
        assert_eq!(status["ifindex"], new);
    });
}

#[test]
fn a_link_that_lost_its_pin_ends_with_its_holder() {
    isolated("tool::lost_link", || {
        let (_files, spec) = applied("lost-link");
        fs::remove_file(state_dir().join("links/xdp")).expect("removed");
        let gone = within(Duration::from_secs(10), || {
            xdp_seen_by_ip("edge0").is_none()
        });
        assert!(gone, "nothing holds the link");
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(status["health"], "detached");
        let applied = quiclb_json(&["apply", &spec]).exits(0).valid("apply");
        assert_eq!(applied["result"], "attached");
        is_well();
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "unchanged");
    });
}

#[test]
fn a_link_that_somebody_still_holds_is_pinned_again_or_detached() {
    isolated("tool::unpinned_link", || {
        let (_files, spec) = applied("unpinned-link");
        let pin = state_dir().join("links/xdp");
        let holder = XdpLink::open(&pin).expect("the link");
        let id = holder.state().expect("a state").id;
        fs::remove_file(&pin).expect("removed");
        let status = finding("unpinned-link");
        assert_eq!(
            (&status["health"], &status["attachment"]["link_id"]),
            (&json!("degraded"), &json!(id))
        );
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            applied["attachment"]["link_id"], id,
            "the same link: no packet was missed"
        );
        is_well();

        fs::remove_file(&pin).expect("removed");
        let detached = quiclb_json(&["detach", INSTANCE]).exits(0).document();
        assert_eq!(detached["detached"], true);
        assert_eq!(xdp_seen_by_ip("edge0"), None);
        drop(holder);
    });
}

#[test]
fn a_program_that_is_not_the_pinned_one() {
    isolated("tool::other_program", || {
        let (_files, spec) = applied("other-program");
        fs::remove_file(state_dir().join("progs/gw_quiclb")).expect("removed");
        // A writer that repairs and dies before it attaches.
        let limits = *Spec::from_json(EXAMPLE.as_bytes()).expect("valid").limits();
        let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
        drop(Loader::new(&dir, &limits).load().expect("repaired"));
        let status = finding("other-program");
        assert_eq!(status["attachment"]["owner"], "ours");
        quiclb(&["apply", &spec]).exits(0);
        is_well();
    });
}

#[test]
fn an_interface_with_another_address_than_published() {
    isolated("tool::source_mac", || {
        machine();
        let files = Files::new("source-mac");
        let mut spec = example();
        spec["source_mac"] = json!("interface");
        let spec = files.write("spec.json", spec.to_string());
        quiclb(&["apply", &spec]).exits(0);
        is_well();
        ip(&["link", "set", "vm-edge-a", "address", "02:00:00:00:0a:0a"]);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        let found = coded(&status["findings"], "source-mac-drift").expect("a finding");
        assert_eq!(
            (&found["severity"], &found["object"]),
            (&json!("warning"), &json!("vm-edge-a"))
        );
        assert!(found["message"]
            .as_str()
            .expect("text")
            .contains("02:00:00:00:0a:0a"));
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            (&applied["result"], &applied["findings"]),
            (&json!("changed"), &json!([]))
        );
    });
}

#[test]
fn pins_that_were_lost() {
    isolated("tool::lost_pins", || {
        let (_files, spec) = applied("lost-pins");
        for lost in ["progs/gw_quiclb", "maps/gw_ql_stats", "maps/gw_ql_dev"] {
            fs::remove_file(state_dir().join(lost)).expect("removed");
            let status = finding("lost-pin");
            let found = coded(&status["findings"], "lost-pin").expect("a finding");
            let name = lost.rsplit('/').next().expect("a name");
            assert!(
                found["message"].as_str().expect("text").contains(name),
                "{found}"
            );
            assert_eq!(
                status["attachment"]["owner"], "ours",
                "traffic goes on: {lost}"
            );
            let applied = quiclb_json(&["apply", &spec]).exits(0).document();
            assert_eq!(
                applied["attachment"]["link_id"], status["attachment"]["link_id"],
                "the same link: no packet was missed"
            );
            is_well();
            assert_eq!(targets().len(), 2, "{lost}");
        }
    });
}

fn running() -> Program {
    Program::open(&state_dir().join("progs/gw_quiclb")).expect("a program")
}

#[test]
fn maps_that_lost_their_pins_come_back_with_what_is_in_them() {
    isolated("tool::lost_maps", || {
        let (_files, spec) = applied("lost-maps");
        let (before, program) = (maps(), running());
        let (_, runs) = xdp_seen_by_ip("edge0").expect("a program");
        let names: Vec<_> = before.keys().filter(|name| *name != META_MAP).collect();
        let in_use = |name: &String| program.map_ids().contains(&before[name]);
        assert!(names.iter().filter(|name| in_use(name)).count() > 10);
        let each = names.iter().map(|name| vec![*name]);
        for lost in each.chain([names.clone()]) {
            for name in &lost {
                fs::remove_file(state_dir().join("maps").join(name)).expect("removed");
            }
            let status = finding("lost-pin");
            let findings = status["findings"].as_array().expect("a list").iter();
            let named: Vec<_> = findings
                .filter(|found| found["code"] == "lost-pin")
                .collect();
            assert_eq!(named.len(), lost.len(), "{status:#}");
            let of = |list: &[&Value], name: &str| -> Value {
                let ends = |entry: &&&Value| {
                    let object = entry["object"].as_str().expect("text");
                    object.ends_with(&format!("/maps/{name}"))
                };
                let found = list.iter().find(ends);
                (*found.unwrap_or_else(|| panic!("{name}: {list:#?}"))).clone()
            };
            for name in &lost {
                let found = of(&named, name);
                let remedy = found["remedy"].as_str().expect("text");
                assert!(
                    remedy.starts_with("apply the specification again"),
                    "{found}"
                );
                assert_eq!(remedy.contains("pins it again"), in_use(name), "{found}");
            }

            let applied = quiclb_json(&["apply", &spec]).exits(0).valid("apply");
            assert_eq!(applied["result"], "repaired", "{applied:#}");
            assert_eq!(applied["generation"], 1);
            let repaired: Vec<_> = applied["repaired"]
                .as_array()
                .expect("a list")
                .iter()
                .collect();
            assert_eq!(repaired.len(), lost.len(), "{repaired:#?}");
            let now = maps();
            for name in &lost {
                let action = match in_use(name) {
                    true => "pinned-again",
                    false => "made-anew",
                };
                assert_eq!(of(&repaired, name)["action"], action, "{name}");
                assert_eq!(now[*name] == before[*name], in_use(name), "{name}");
            }
            assert_eq!(xdp_seen_by_ip("edge0").expect("a program").1, runs);
            is_well();
            let applied = quiclb_json(&["apply", &spec]).exits(0).document();
            assert_eq!(
                (&applied["result"], &applied["repaired"]),
                (&json!("unchanged"), &json!([]))
            );
        }
        let text = {
            fs::remove_file(state_dir().join("maps/gw_ql_flow")).expect("removed");
            quiclb(&["apply", &spec]).exits(0).stdout
        };
        assert!(
            text.contains(": repaired, generation 1\n")
                && text.contains("maps/gw_ql_flow: pinned again"),
            "{text}"
        );
    });
}

/// Without it an instance is whole, too, if its program does not decrypt; this one does.
#[test]
fn a_lost_map_of_contexts_is_no_other_build() {
    isolated("tool::lost_contexts", || {
        let (_files, spec) = applied("lost-contexts");
        let before = maps();
        if !before.contains_key(keys::MAP) {
            return assert_ne!(keys::support(), keys::Support::Works);
        }
        let build = state_dir().join(format!("progs/build-{}", running().id()));
        for record in [true, false] {
            fs::remove_file(state_dir().join("maps").join(keys::MAP)).expect("removed");
            if !record {
                fs::remove_file(&build).expect("removed");
            }
            let status = finding("lost-pin");
            assert_eq!(coded(&status["findings"], "other-build").is_some(), !record);
            let there = state();
            let error = quiclb_json(&["upgrade", INSTANCE]).fails(1, "not-found");
            let message = error["message"].as_str().expect("text");
            let named = message.contains(keys::MAP);
            assert!(
                named && message.contains("apply the specification"),
                "{message}"
            );
            assert_eq!(state(), there);
            let applied = quiclb_json(&["apply", &spec]).exits(0).document();
            assert_eq!(applied["result"], "repaired");
            assert_eq!(maps(), before);
        }
        quiclb(&["upgrade", INSTANCE]).exits(0);
        is_well();
    });
}

#[test]
fn a_map_and_the_program_that_lost_their_pins() {
    isolated("tool::lost_both", || {
        let (_files, spec) = applied("lost-both");
        let before = maps();
        for lost in ["progs/gw_quiclb", "maps/gw_ql_flow", "maps/gw_ql_gen"] {
            fs::remove_file(state_dir().join(lost)).expect("removed");
        }
        // The pinned link has the program, and that the maps.
        let status = finding("lost-pin");
        let findings = status["findings"].as_array().expect("a list").iter();
        assert!(findings.filter(|found| found["code"] == "lost-pin").count() >= 2);
        let applied = quiclb_json(&["apply", &spec]).exits(0).valid("apply");
        assert_eq!(applied["result"], "repaired");
        let actions = applied["repaired"].as_array().expect("a list").iter();
        let actions: Vec<_> = actions.map(|repair| &repair["action"]).collect();
        assert_eq!(actions, ["pinned-again", "pinned-again", "made-anew"]);
        assert_eq!(maps(), before);
        is_well();
    });
}

/// Flows would be forgotten, and nobody would say so.
#[test]
fn a_lost_map_that_cannot_be_asked_for_is_not_made_anew() {
    isolated("tool::lost_unseen", || {
        let (_files, spec) = applied("lost-unseen");
        let before = maps();
        let limits = *Spec::from_json(EXAMPLE.as_bytes()).expect("valid").limits();
        let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
        for lost in [&["gw_ql_flow"][..], &["gw_ql_bound"]] {
            for name in lost {
                fs::remove_file(state_dir().join("maps").join(name)).expect("removed");
            }
            let there = state();
            let few = std::thread::scope(|scope| {
                let few = scope.spawn(|| {
                    capabilities::keep(&capabilities::enough());
                    let loaded = Loader::new(&dir, &limits).load().map(drop);
                    (loaded, Status::of(&dir))
                });
                few.join().expect("a thread")
            });
            let error = few.0.expect_err("no right");
            assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
            let message = error.to_string();
            assert!(
                message.contains("gw_ql_flow") && message.contains("CAP_SYS_ADMIN"),
                "{message}"
            );
            let findings = few.1.expect("a status").findings;
            let remedy = findings.iter().find_map(|found| {
                let found = Some(found).filter(|found| found.object.ends_with("gw_ql_flow"));
                found?.remedy.clone()
            });
            assert!(remedy.expect("a remedy").contains("CAP_SYS_ADMIN"));
            assert_eq!(state(), there, "nothing is made");
        }
        quiclb(&["apply", &spec]).exits(0);
        assert_eq!(maps()["gw_ql_flow"], before["gw_ql_flow"]);
        is_well();
    });
}

#[test]
fn a_state_that_nothing_tells_the_version_of() {
    isolated("tool::no_meta", || {
        let (_files, spec) = applied("no-meta");
        fs::remove_file(state_dir().join("maps/gw_ql_meta")).expect("removed");
        let status = finding("lost-pin");
        assert_eq!(status["program"]["abi"], Value::Null);
        let before = state();
        for arguments in [&["apply", &spec][..], &["detach", INSTANCE, "--purge"]] {
            let ran = quiclb_json(arguments);
            assert!(ran.code == 1 || ran.code == 4, "{}", ran.code);
            let error = ran.error();
            let message = error["message"].as_str().expect("text");
            says_what_to_do_by_hand(message);
            assert_eq!(state(), before);
        }
        let found = coded(&status["findings"], "lost-pin").expect("a finding");
        says_what_to_do_by_hand(found["remedy"].as_str().expect("text"));

        // What they say is what happens.
        assert!(xdp_seen_by_ip("edge0").is_some(), "packets go on");
        fs::remove_dir_all(state_dir()).expect("removed");
        let gone = || xdp_seen_by_ip("edge0").is_none();
        assert!(
            within(Duration::from_secs(10), gone),
            "the link had one pin"
        );
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            (&applied["result"], &applied["generation"]),
            (&json!("created"), &json!(1))
        );
        is_well();
    });
}

#[track_caller]
fn says_what_to_do_by_hand(text: &str) {
    for part in ["remove the directory by hand", "detached", "unsteered"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_directory_that_is_half_made() {
    isolated("tool::half_made", || {
        machine();
        let files = Files::new("half-made");
        let spec = files.write("spec.json", EXAMPLE);
        for sections in [&[][..], &["maps", "progs"]] {
            fs::create_dir_all(state_dir()).expect("made");
            for section in sections {
                fs::create_dir(state_dir().join(section)).expect("made");
            }
            let status = finding("lost-pin");
            assert_eq!(status["health"], "detached");
            let before = state();
            for arguments in [&["apply", &spec][..], &["detach", INSTANCE, "--purge"]] {
                let error = quiclb_json(arguments).fails(1, "not-found");
                says_what_to_do_by_hand(error["message"].as_str().expect("text"));
                assert_eq!(state(), before);
            }
            fs::remove_dir_all(state_dir()).expect("removed");
            quiclb(&["apply", &spec]).exits(0);
            is_well();
            quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        }
    });
}

#[test]
fn generations_that_nothing_describes() {
    isolated("tool::orphan", || {
        let (_files, spec) = applied("orphan");
        fs::remove_file(state_dir().join("gen/1-record")).expect("removed");
        finding("unreadable-record");
        fs::remove_file(state_dir().join("gen/1-cells")).expect("removed");
        let status = finding("orphan-generation");
        assert_eq!(status["attachment"]["owner"], "ours", "traffic goes on");
        let error = quiclb_json(&["apply", &spec]).fails(4, "incompatible");
        let found = coded(&status["findings"], "orphan-generation").expect("a finding");
        let (message, remedy) = (error["message"].as_str(), found["remedy"].as_str());
        let (message, remedy) = (message.expect("text"), remedy.expect("text"));
        assert!(message.ends_with(remedy), "{message}: {remedy}");
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        quiclb(&["apply", &spec]).exits(0);
        is_well();
    });
}

#[test]
fn leftovers_of_a_publication_that_died() {
    isolated("tool::leftover", || {
        let (_files, spec) = applied("leftover");
        // The pins that a writer leaves which dies before the swap.
        let unfinished = Generation::create("gw_ql_cells", 4096).expect("a map");
        let pin = state_dir().join("gen/7-cells");
        unfinished.map().pin(&pin).expect("pinned");
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        let found = coded(&status["findings"], "leftover").expect("a finding");
        assert_eq!(found["severity"], "warning");
        assert!(found["object"]
            .as_str()
            .expect("text")
            .ends_with("gen/7-cells"));
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["result"], "unchanged");
        assert!(!pin.exists());
        is_well();
    });
}

#[test]
fn an_error_that_stays_after_applying_is_degraded() {
    isolated("tool::internal", || {
        let (files, _) = applied("internal");
        let reasons = Map::open_any(&state_dir().join("maps/gw_ql_reason")).expect("the map");
        let mut value = vec![0; reasons.value_bytes()];
        reasons.lookup(&[0; 4], &mut value).expect("readable");
        let at = usize::from(Reason::Internal.number()) * 8;
        value[at..at + 8].copy_from_slice(&3_u64.to_ne_bytes());
        reasons
            .update(&[0; 4], &value, Update::Any)
            .expect("written");
        let status = finding("internal");
        assert_eq!(
            (&status["health"], &status["reasons"]["internal"]),
            (&json!("degraded"), &json!(3))
        );
        let drained = files.write("drained.json", draining().to_string());
        let applied = quiclb_json(&["apply", &drained]).exits(5).document();
        assert_eq!(applied["result"], "changed");
        assert!(coded(&applied["findings"], "internal").is_some());
    });
}

#[test]
fn what_cannot_be_removed_is_left_and_named() {
    isolated("tool::left", || {
        let (_files, _) = applied("left");
        quiclb(&["detach", INSTANCE]).exits(0);
        let sections = state_dir().join("gen");
        nix::mount::mount(
            Some("none"),
            &sections,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        )
        .expect("mounted");
        let detached = quiclb_json(&["detach", INSTANCE, "--purge"])
            .exits(3)
            .document();
        assert_eq!(detached["detached"], false);
        let left = detached["left"].as_array().expect("a list");
        assert!(
            left.len() == 1 && left[0]["reason"].is_string(),
            "{detached}"
        );
    });
}

/// Neither its pin nor that of its link tells of the program on the interface.
#[test]
fn a_program_that_has_lost_all_its_pins_is_taken_off() {
    isolated("tool::unheld", || {
        let (_files, spec) = applied("unheld");
        let runs = xdp_seen_by_ip("edge0");
        let kept = Path::new(BPFFS).join("kept");
        fs::rename(state_dir().join("links/xdp"), &kept).expect("moved");
        let is_refused = |act: &(dyn Fn(&StateDir) -> Result<(), DetachError> + Sync)| {
            let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
            let before = state();
            let refused = std::thread::scope(|scope| {
                let few = scope.spawn(|| {
                    capabilities::keep(&capabilities::enough());
                    act(&dir)
                });
                few.join().expect("a thread")
            });
            let error = refused.expect_err("no right");
            assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
            assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
            assert_eq!((state(), xdp_seen_by_ip("edge0")), (before, runs.clone()));
        };
        is_refused(&|dir| detach(dir, false).map(drop));
        is_refused(&|dir| detach(dir, true).map(drop));
        for name in names_in(&state_dir().join("progs")) {
            fs::remove_file(state_dir().join("progs").join(name)).expect("removed");
        }
        is_refused(&|dir| detach(dir, false).map(drop));
        let detached = quiclb_json(&["detach", INSTANCE]).exits(0).document();
        assert_eq!(detached["detached"], true, "{detached}");
        assert_eq!(xdp_seen_by_ip("edge0"), None);
        fs::remove_file(&kept).expect("removed");
        quiclb(&["apply", &spec]).exits(0);
        is_well();
    });
}

#[test]
fn what_was_kept_for_a_return_is_counted() {
    isolated("tool::keep", || {
        let (files, spec) = applied("keep");
        let drained = files.write("drained.json", draining().to_string());
        let records = || {
            let names = names_in(&state_dir().join("gen"));
            names.iter().filter(|name| name.ends_with("record")).count()
        };
        for (path, keep, expected) in [
            (&drained, "1", 2),
            (&spec, "3", 3),
            (&drained, "3", 4),
            (&spec, "0", 1),
        ] {
            quiclb(&["apply", path, "--keep", keep]).exits(0);
            assert_eq!(records(), expected, "--keep {keep}");
            is_well();
        }
    });
}

/// One bit of what tells the version and the owner.
#[test]
fn a_damaged_meta_map_is_named_and_left_alone() {
    isolated("tool::damaged_meta", || {
        let (_files, spec) = applied("damaged-meta");
        let path = state_dir().join("maps/gw_ql_meta");
        let meta = Map::open_any(&path).expect("the map");
        let mut value = vec![0; meta.value_bytes()];
        for (byte, remedy) in [
            (0, LEFT_ALONE),
            (4, "use the version that wrote it"),
            (8, LEFT_ALONE),
        ] {
            meta.lookup(&[0; 4], &mut value).expect("read");
            value[byte] ^= 0x40;
            meta.update(&[0; 4], &value, Update::Any).expect("written");
            is_named_and_left_alone(&spec, &path, remedy);
            value[byte] ^= 0x40;
            meta.update(&[0; 4], &value, Update::Any).expect("written");
        }
        is_well();
    });
}
