// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is refused, and that nothing has changed then.

use std::process::Stdio;
use std::time::Duration;

use guideway::kernel::map::{Map, Update};
use guideway::quiclb::StateRoot;
use serde_json::{json, Value};

use crate::harness::{
    coded, command, draining, ethtool, example, machine, quiclb, quiclb_json, state, state_dir,
    Files, Ran, EXAMPLE, INSTANCE,
};
use crate::netns::{
    self, foreign_link, foreign_program, ifindex, ip, isolated, netlink_attach, netlink_detach,
    program_id, within, xdp_seen_by_ip, Kind,
};

/// Insists that a message has this part.
#[track_caller]
fn says(object: &Value, part: &str) {
    let message = object["message"].as_str().expect("text");
    assert!(message.contains(part), "{part}: {message}");
}

#[test]
fn a_foreign_program_is_named_before_anything_is_created() {
    isolated("tool::foreign", || {
        machine();
        let files = Files::new("foreign");
        let spec = files.write("spec.json", EXAMPLE);
        let foreign = foreign_program("somebody", Kind::Xdp).expect("a program");
        let id = program_id(&foreign);
        let edge = ifindex("edge0");
        for (mode, flag) in [
            ("native", libbpf_sys::XDP_FLAGS_DRV_MODE),
            ("generic", libbpf_sys::XDP_FLAGS_SKB_MODE),
        ] {
            netlink_attach(edge, &foreign, flag).expect("attached");
            let error = quiclb_json(&["apply", &spec]).fails(4, "occupied");
            let message = error["message"].as_str().expect("text");
            for part in ["edge0", mode, "somebody", &id.to_string()] {
                assert!(message.contains(part), "{part}: {message}");
            }
            assert_eq!(state(), Vec::<String>::new(), "{mode}");
            assert_eq!(
                xdp_seen_by_ip("edge0"),
                Some((mode.to_owned(), u64::from(id)))
            );
            let diagnosis = quiclb_json(&["doctor", &spec]).exits(5).document();
            let check = coded(&diagnosis["checks"], "foreign-program").expect("a check");
            assert_eq!(check["result"], "error");
            let probe = quiclb_json(&["probe", "edge0"]).exits(0).document();
            let occupant = json!({"mode": mode, "program_id": id, "name": "somebody",
                                  "link_id": null});
            assert_eq!(probe["xdp"]["occupants"], json!([occupant]));
            netlink_detach(edge, flag).expect("detached");
        }
        let link = foreign_link(edge, &foreign);
        let error = quiclb_json(&["apply", &spec]).fails(4, "occupied");
        assert!(
            error["message"].as_str().expect("text").contains("link"),
            "{error}"
        );
        netns::detach_link(link.expect("a link"));
        quiclb(&["apply", &spec]).exits(0);
    });
}

#[test]
fn detaching_takes_nothing_while_somebody_else_holds_the_interface() {
    isolated("tool::detach_foreign", || {
        machine();
        let files = Files::new("detach-foreign");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        quiclb(&["detach", INSTANCE]).exits(0);
        let foreign = foreign_program("somebody", Kind::Xdp).expect("a program");
        let flag = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_attach(ifindex("edge0"), &foreign, flag).expect("attached");
        let before = state();
        for arguments in [&["detach", INSTANCE][..], &["detach", INSTANCE, "--purge"]] {
            quiclb_json(arguments).fails(4, "occupied");
            assert_eq!(state(), before);
        }
        let seen = xdp_seen_by_ip("edge0").expect("a program");
        assert_eq!(seen.1, u64::from(program_id(&foreign)));
        let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        assert_eq!(status["health"], "detached");
        assert_eq!(status["attachment"]["owner"], "foreign");
        let finding = coded(&status["findings"], "foreign-program").expect("a finding");
        assert_eq!(finding["severity"], "error");
    });
}

#[test]
fn errors_of_the_machine_block_unless_each_is_named() {
    isolated("tool::preflight", || {
        machine();
        let files = Files::new("preflight");
        let spec = files.write("spec.json", EXAMPLE);
        for peer in ["peer-a", "peer-b"] {
            ethtool(&["-K", peer, "gro", "off"]);
        }
        ip(&["link", "set", "vm-edge-a", "mtu", "1400"]);
        let blocked = |arguments: &[&str]| -> Vec<(String, String)> {
            let error = quiclb_json(&[&["apply", &spec], arguments].concat());
            let error = error.fails(1, "preflight");
            assert_eq!(state(), Vec::<String>::new());
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let faults = error["faults"].as_array().expect("a list").iter();
            faults
                .map(|fault| (text(&fault["code"]), text(&fault["pointer"])))
                .collect()
        };
        let of = |code: &str, object: &str| (code.to_owned(), object.to_owned());
        let mut all = blocked(&[]);
        all.sort();
        assert_eq!(
            all,
            [
                of("mtu", "vm-edge-a"),
                of("target-napi", "vm-edge-a"),
                of("target-napi", "vm-edge-b")
            ]
        );
        assert_eq!(
            blocked(&["--force", "target-napi"]),
            [of("mtu", "vm-edge-a")]
        );
        assert_eq!(blocked(&["--force", "mtu"]).len(), 2);
        quiclb(&["apply", &spec, "--force", "target-napi", "--force", "mtu"]).exits(0);
    });
}

#[test]
fn what_cannot_be_seen_does_not_block() {
    isolated("tool::unknown", || {
        machine();
        // Another namespace, as long as this child lives.
        let mut elsewhere = std::process::Command::new("unshare")
            .args(["--net", "sleep", "60"])
            .spawn()
            .expect("unshare, of util-linux");
        let moved = within(Duration::from_secs(10), || {
            let net = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
            net(&elsewhere.id().to_string()) != net("thread-self")
        });
        assert!(moved, "the child is in a namespace of its own");
        ip(&[
            "link",
            "set",
            "client0",
            "netns",
            &elsewhere.id().to_string(),
        ]);

        let files = Files::new("unknown");
        let spec = files.write("spec.json", EXAMPLE);
        let plan = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        let check = coded(&plan["preflight"], "tx-checksum").expect("a check");
        assert_eq!(check["result"], "unknown");
        quiclb(&["apply", &spec]).exits(0);
        // As with guests, whose addresses cannot be compared with those that are published.
        for peer in ["peer-a", "peer-b"] {
            ip(&["link", "set", peer, "netns", &elsewhere.id().to_string()]);
        }
        // Moving has taken them down.
        for moved in ["client0", "peer-a", "peer-b"] {
            let status = std::process::Command::new("nsenter")
                .args(["--net", "--target", &elsewhere.id().to_string()])
                .args(["ip", "link", "set", moved, "up"])
                .status();
            assert!(status.expect("nsenter, of util-linux").success());
        }
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(0).document();
        assert_eq!(diagnosis["result"], "unknown", "{diagnosis:#}");
        let checks = diagnosis["checks"].as_array().expect("a list").iter();
        let unknown = checks.filter(|check| check["result"] == "unknown").count();
        let text = quiclb(&["doctor", INSTANCE]).exits(0).stdout;
        let headline = format!("{INSTANCE}: ok, {unknown} unknown");
        assert_eq!(text.lines().next(), Some(headline.as_str()));
        elsewhere.kill().expect("ended");
        elsewhere.wait().expect("gone");
    });
}

#[test]
fn plans_are_applied_only_to_what_they_were_made_for() {
    isolated("tool::stale", || {
        machine();
        let files = Files::new("stale");
        let spec = files.write("spec.json", EXAMPLE);
        let drained = files.write("drained.json", draining().to_string());
        let offline = files.path("offline.json");
        quiclb(&["plan", "--offline", &spec, &offline]).exits(0);
        quiclb_json(&["apply", &offline]).fails(1, "invalid");
        assert_eq!(state(), Vec::<String>::new());

        // A plan that was printed lacks its secrets.
        let printed = quiclb_json(&["plan", &spec]).exits(0).stdout;
        let printed = files.write("printed.json", printed);
        let error = quiclb_json(&["apply", &printed]).fails(1, "invalid");
        assert_eq!(error["faults"][0]["pointer"], "/spec/hash_seed");

        let first = files.path("first.json");
        quiclb(&["plan", &spec, &first]).exits(0);
        quiclb(&["apply", &first, "--disruptive"]).exits(2);
        let applied = quiclb_json(&["apply", &first]).exits(0).document();
        assert_eq!(applied["result"], "created");
        let error = quiclb_json(&["apply", &first]).fails(4, "stale-plan");
        assert_eq!(error["object"], INSTANCE);
        says(&error, "plan again");

        let second = files.path("second.json");
        quiclb(&["plan", &drained, &second]).exits(0);
        quiclb(&["apply", &drained]).exits(0);
        quiclb(&["apply", &spec]).exits(0);
        quiclb_json(&["apply", &second]).fails(4, "stale-plan");
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(status["generation"]["number"], 3);
        assert_eq!(status["services"][0]["backends"][0]["state"], "ready");

        // Numbers begin anew with a new instance, so they alone do not tell.
        let third = files.path("third.json");
        quiclb(&["plan", &drained, &third]).exits(0);
        quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
        for name in [&drained, &spec, &drained] {
            quiclb(&["apply", name]).exits(0);
        }
        quiclb_json(&["apply", &third]).fails(4, "stale-plan");
    });
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    isolated("tool::locked", || {
        machine();
        let files = Files::new("locked");
        let spec = files.write("spec.json", EXAMPLE);
        let drained = files.write("drained.json", draining().to_string());
        quiclb(&["apply", &spec]).exits(0);
        let root = StateRoot::new(netns::BPFFS);
        let lock = root
            .quiclb(INSTANCE.parse().expect("a UUID"))
            .lock()
            .expect("the lock");
        let error = quiclb_json(&["apply", &drained]).fails(4, "locked");
        says(&error, "try again");
        quiclb_json(&["detach", INSTANCE]).fails(4, "locked");
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(status["generation"]["number"], 1);
        quiclb(&["plan", &drained]).exits(0);
        drop(lock);
        quiclb(&["apply", &drained]).exits(0);
    });
}

#[test]
fn two_applies_at_once_leave_one_of_the_two() {
    isolated("tool::race", || {
        machine();
        let files = Files::new("race");
        let one = files.write("one.json", EXAMPLE);
        let two = files.write("two.json", draining().to_string());
        for round in 0..12 {
            // On every third round there is no instance to begin with.
            if round % 3 == 0 && round > 0 {
                quiclb(&["detach", INSTANCE, "--purge"]).exits(0);
            }
            let start = |path: &str| {
                command(&["-o", "json", "apply", path])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("the tool runs")
            };
            let children = [start(&one), start(&two)];
            let ran = children.map(|child| {
                Ran::of(
                    child.wait_with_output().expect("it ends"),
                    format!("round {round}"),
                )
            });
            for ran in &ran {
                match ran.code {
                    0 => drop(ran.document()),
                    4 => {
                        let kind = ran.error()["kind"].clone();
                        assert_eq!(kind, "locked", "nobody made a plan that could be stale");
                    }
                    code => panic!("exit {code}: {}", ran.stderr),
                }
            }
            assert!(
                ran.iter().any(|ran| ran.code == 0),
                "round {round}: nobody was served"
            );
            let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
            let plans = [&one, &two].map(|path| {
                let plan = quiclb_json(&["plan", path]).exits(0).valid("plan");
                plan["result"] == "unchanged"
            });
            assert_eq!(plans.iter().filter(|same| **same).count(), 1, "{status:#}");
        }
    });
}

#[test]
fn state_of_a_newer_version_is_left_alone() {
    isolated("tool::newer", || {
        machine();
        let files = Files::new("newer");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        let meta = Map::open_any(&state_dir().join("maps/gw_ql_meta")).expect("the meta map");
        let mut value = vec![0; meta.value_bytes()];
        meta.lookup(&[0; 4], &mut value).expect("readable");
        // Behind the magic number: major and minor.
        value[4] += 1;
        meta.update(&[0; 4], &value, Update::Any).expect("written");
        let (before, seen) = (state(), xdp_seen_by_ip("edge0"));
        for arguments in [
            &["status", INSTANCE][..],
            &["apply", &spec],
            &["plan", &spec],
            &["doctor", INSTANCE],
            &["events", INSTANCE, "0"],
            &["detach", INSTANCE],
            &["detach", INSTANCE, "--purge"],
        ] {
            quiclb_json(arguments).fails(4, "incompatible");
        }
        assert_eq!((state(), xdp_seen_by_ip("edge0")), (before, seen));
        let list = quiclb_json(&["status"]).exits(5).document();
        let listed = &list["instances"][0];
        assert_eq!(listed["health"], Value::Null);
        let reason = listed["error"].as_str().expect("text");
        assert!(reason.contains("ABI"), "{reason}");
        let text = quiclb(&["status"]).exits(5).stdout;
        assert!(
            text.contains("unreadable") && text.contains(reason),
            "{text}"
        );
    });
}

#[test]
fn what_an_instance_cannot_change_is_a_fault() {
    isolated("tool::fixed", || {
        machine();
        let files = Files::new("fixed");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        let mut resized = example();
        resized["services"][0]["maglev_table_size"] = json!(16381);
        let resized = files.write("resized.json", resized.to_string());
        let error = quiclb_json(&["apply", &resized]).fails(1, "invalid");
        assert_eq!(error["faults"][0]["code"], "disruptive");
        says(&error["faults"][0], "confirm with --disruptive");
        // Connection IDs are learned, and with them every flow is tracked: in ten minutes all that
        // are live have an entry.
        says(
            &error["faults"][0],
            "or wait until tracking \"all\" has lasted 602s, in ",
        );
        let applied = quiclb_json(&["apply", &resized, "--disruptive"])
            .exits(0)
            .document();
        assert_eq!(applied["disruption"][0]["slots_moved"], 4093);
        let mut elsewhere = example();
        elsewhere["interface"] = json!("vm-edge-b");
        let elsewhere = files.write("elsewhere.json", elsewhere.to_string());
        let error = quiclb_json(&["apply", &elsewhere]).fails(1, "invalid");
        let fixed = coded(&error["faults"], "fixed").expect("a fault");
        says(fixed, "detach --purge and apply again");
    });
}

#[test]
fn an_instance_that_cannot_be_attached_is_not_left_behind() {
    isolated("tool::unattachable", || {
        machine();
        // A frame as large as this does not fit what a veth gives XDP where its sender is.
        ip(&["link", "set", "client0", "mtu", "9000"]);
        ip(&["link", "set", "edge0", "mtu", "9000"]);
        for target in ["vm-edge-a", "vm-edge-b"] {
            ip(&["link", "set", target, "mtu", "9000"]);
        }
        let files = Files::new("unattachable");
        let mut spec = example();
        // Loopback has no native XDP.
        spec["interface"] = json!("lo");
        let path = files.write("spec.json", spec.to_string());
        let error = quiclb_json(&["apply", &path, "--force", "mtu"]).fails(1, "unsupported");
        assert!(
            error["message"].as_str().expect("text").contains("lo"),
            "{error}"
        );
        let left: Vec<_> = state()
            .into_iter()
            .filter(|name| name.contains(INSTANCE))
            .collect();
        assert_eq!(left, Vec::<String>::new());
        spec["mode"] = json!("generic");
        let path = files.write("generic.json", spec.to_string());
        quiclb(&["apply", &path, "--force", "mtu"]).exits(0);
    });
}

#[test]
fn no_bpffs_is_told_with_the_remedy() {
    isolated("tool::no_bpffs", || {
        machine();
        let files = Files::new("no-bpffs");
        let spec = files.write("spec.json", EXAMPLE);
        let root = files.path("root");
        std::fs::create_dir(&root).expect("a directory");
        for verb in [&["apply", &spec][..], &["plan", &spec], &["status"]] {
            let arguments = [&["-o", "json", "--state-root", &root], verb].concat();
            let error = quiclb(&arguments).exits(1).error();
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("mount -t bpf bpf"), "{message}");
        }
    });
}
