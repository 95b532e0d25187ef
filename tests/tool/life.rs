// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The life of an instance: applied, looked at, changed, detached, removed.

use std::time::Duration;

use guideway::quiclb::{StateRoot, Status};
use nix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};

use crate::harness::{
    assert_valid, coded, draining, machine, quiclb, quiclb_json, send_initials, state, Files,
    EXAMPLE, INSTANCE,
};
use crate::netns::{drivers_declare_xdp, ifindex, isolated, within, xdp_seen_by_ip, BPFFS};

#[test]
fn an_instance_lives_from_apply_to_purge() {
    isolated("tool::life", || {
        machine();
        let files = Files::new("life");
        let spec = files.write("spec.json", EXAMPLE);
        let empty = quiclb_json(&["status"]).exits(0).document();
        assert_eq!(
            empty,
            json!({"schema": "guideway.quiclb.list/v1", "instances": []})
        );
        let error = quiclb_json(&["status", INSTANCE]).fails(1, "not-found");
        assert_eq!(error["object"], INSTANCE);

        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["schema"], "guideway.quiclb.apply/v1");
        assert_eq!(applied["result"], "created");
        assert_eq!(
            (&applied["generation"], &applied["previous_generation"]),
            (&json!(1), &Value::Null)
        );
        assert!(applied["publish_ms"].as_f64().expect("a number") > 0.0);
        assert_eq!(applied["attachment"]["owner"], "ours");
        assert_eq!(applied["findings"], json!([]));
        let (mode, id) = xdp_seen_by_ip("edge0").expect("a program");
        assert_eq!(
            (mode.as_str(), json!(id)),
            ("native", applied["attachment"]["program_id"].clone())
        );

        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(status["health"], "ok");
        assert_eq!(status["attachment"], applied["attachment"]);
        assert_eq!(status["attachment"]["live_program_id"], id);
        assert_eq!(status["ifindex"], ifindex("edge0"));
        assert_eq!(status["generation"]["number"], 1);
        assert_eq!(status["generation"]["high_water"], 1);
        assert_eq!(status["program"]["name"], "gw_quiclb");
        let service = &status["services"][0];
        assert_eq!(
            service["table"],
            json!({"size": 4093, "digest": "c2c1866ce84c1d4d"})
        );
        assert_eq!(service["backends"][0]["slots"], 2047);
        assert_eq!(service["backends"][0]["ifindex"], ifindex("vm-edge-a"));
        let affinity = json!({
            "flows": {"used": 0, "capacity": 1_048_576, "level": 0, "refused": 0, "open_slots": 0,
                      "held_slots": 0, "oldest_window_seconds": null},
            "cids": {"used": 0, "capacity": 262_144, "level": 0, "refused": 0},
            // Each apply does what is due.
            "last_sweep": {"age_seconds": 0, "learned": 0, "registered": 0, "imported": 0,
                           "blast_radius": 0, "duration_ms": 0},
        });
        let mut found = status["affinity"].clone();
        for measured in ["age_seconds", "duration_ms"] {
            assert!(
                found["last_sweep"][measured].as_u64() < Some(1000),
                "{found}"
            );
            found["last_sweep"][measured] = json!(0);
        }
        assert_eq!(found, affinity);

        let again = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            (&again["result"], &again["generation"]),
            (&json!("unchanged"), &json!(1))
        );
        let unchanged = quiclb_json(&["plan", &spec]).exits(0).valid("plan");
        assert_eq!(unchanged["result"], "unchanged");

        let drained = files.write("drained.json", draining().to_string());
        let plan = quiclb_json(&["plan", &drained]).exits(0).valid("plan");
        assert_eq!(plan["base"]["generation"], 1);
        let changed = quiclb_json(&["apply", &drained]).exits(0).document();
        assert_eq!(
            (&changed["result"], &changed["generation"]),
            (&json!("changed"), &json!(2))
        );
        assert_eq!(changed["previous_generation"], 1);
        for (key, value) in plan["services"][0]["disruption"]
            .as_object()
            .expect("an object")
        {
            // How many flows there are is an estimate of the moment.
            if !key.starts_with("flows_") {
                let done = &changed["disruption"][0][key];
                assert_eq!(done, value, "{key} is as predicted");
            }
        }
        assert_eq!(
            xdp_seen_by_ip("edge0"),
            Some((mode, id)),
            "the program stayed"
        );

        let list = quiclb_json(&["status"]).exits(0).document();
        let entry = json!({"instance_id": INSTANCE, "interface": "edge0", "mode": "native",
                           "health": "ok", "generation": 2, "errors": 0, "error": null});
        assert_eq!(list["instances"], json!([entry]));

        let detached = quiclb_json(&["detach", INSTANCE]).exits(0).document();
        let expected = json!({"schema": "guideway.quiclb.detach/v1", "instance_id": INSTANCE,
                              "detached": true, "removed": ["links/xdp"], "left": []});
        assert_eq!(detached, expected);
        assert_eq!(xdp_seen_by_ip("edge0"), None);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        assert_eq!(
            (&status["health"], &status["generation"]["number"]),
            (&json!("detached"), &json!(2))
        );
        assert_eq!(status["attachment"]["kind"], "none");

        // The generation is still there: applying it again only attaches.
        let back = quiclb_json(&["apply", &drained]).exits(0).document();
        assert_eq!(
            (&back["result"], &back["generation"]),
            (&json!("attached"), &json!(2))
        );
        assert!(xdp_seen_by_ip("edge0").is_some());

        let purged = quiclb_json(&["detach", INSTANCE, "--purge"])
            .exits(0)
            .document();
        let removed = purged["removed"].as_array().expect("a list");
        for name in [
            "links/xdp",
            "progs/gw_quiclb",
            "maps/gw_ql_gen",
            "gen/2-cells",
        ] {
            assert!(removed.contains(&json!(name)), "{name}: {purged}");
        }
        quiclb_json(&["status", INSTANCE]).fails(1, "not-found");
        assert_eq!(xdp_seen_by_ip("edge0"), None);
        let left: Vec<_> = state()
            .into_iter()
            .filter(|name| name.contains(INSTANCE))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    });
}

#[test]
fn the_text_forms_say_the_same() {
    isolated("tool::text", || {
        machine();
        let files = Files::new("text");
        let spec = files.write("spec.json", EXAMPLE);
        let says = |arguments: &[&str], parts: &[&str]| {
            let ran = quiclb(arguments).exits(0);
            assert_eq!(ran.stderr, "", "{arguments:?}");
            assert!(
                ran.stdout.is_ascii() && ran.stdout.ends_with('\n'),
                "{}",
                ran.stdout
            );
            for part in parts {
                assert!(
                    ran.stdout.contains(part),
                    "{arguments:?} {part}: {}",
                    ran.stdout
                );
            }
        };
        let lacks = |arguments: &[&str], parts: &[&str]| {
            let ran = quiclb(arguments).exits(0);
            for part in parts {
                assert!(!ran.stdout.contains(part), "{part}: {}", ran.stdout);
            }
        };
        let index = format!("index {}", ifindex("edge0"));
        says(&["status"], &["no instances"]);
        says(
            &["plan", &spec],
            &["creates the instance", &index, "2047", "####", "50.01 %"],
        );
        lacks(&["plan", &spec], &["moves", "flows live"]);
        says(
            &["doctor", &spec],
            &["ok", "target-napi", "foreign-program"],
        );
        let modes = match drivers_declare_xdp() {
            true => "native generic",
            false => "not told by this kernel",
        };
        says(
            &["probe", "edge0"],
            &["veth", &index, modes, "generic", "offload"],
        );
        says(
            &["apply", &spec],
            &[
                "created, generation 1, published in",
                "(ours)",
                "warnings",
                "seed /hash_seed",
            ],
        );
        lacks(&["apply", &spec], &["published", "moves"]);
        send_initials(10);
        says(&["status"], &[INSTANCE, "edge0", "ok"]);
        says(
            &["status", INSTANCE],
            &[
                "generation 1",
                "table 10",
                "forwarded",
                "all_inserted 10",
                "2047",
            ],
        );
        says(
            &["doctor", INSTANCE],
            &["no-generation", "mac-drift", "lost-pin"],
        );
        says(
            &["-o", "text", "events", INSTANCE, "1", "3"],
            &["flow_start", "3 events"],
        );
        says(&["diff", INSTANCE, &spec], &["say the same"]);
        let frame = "02".repeat(14);
        says(
            &["trace", &spec, "--hex", &frame],
            &["pass, not_ip", "1 packets: 0 redirect"],
        );
        let drained = files.write("drained.json", draining().to_string());
        says(&["plan", &drained], &["moves 2047 slots (50.01 %)"]);
        quiclb(&["detach", INSTANCE]).exits(0);
        let detached = quiclb(&["status", INSTANCE]).stdout;
        assert!(detached.contains("held by nothing, program "), "{detached}");
        assert!(detached.contains("interface runs no program"), "{detached}");
        says(
            &["detach", INSTANCE, "--purge"],
            &["was not attached", "removed progs/gw_quiclb"],
        );
    });
}

#[test]
fn packets_are_counted_and_told() {
    isolated("tool::packets", || {
        machine();
        let files = Files::new("packets");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        send_initials(40);
        // The last of them may still be on its way, and a packet that comes while a status is
        // read is in one of its counters and not yet in another.
        let read = || quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        within(Duration::from_secs(10), || {
            read()["services"][0]["counters"]["packets"] == 40
        });
        let status = read();
        let service = &status["services"][0];
        assert_eq!(service["counters"]["packets"], 40);
        assert_eq!(service["rules"]["table"], 40);
        assert_eq!(status["reasons"]["forwarded"], 40);
        let backends = service["backends"].as_array().expect("a list");
        let packets: Vec<_> = backends
            .iter()
            .map(|backend| backend["counters"]["packets"].as_u64().expect("a number"))
            .collect();
        assert_eq!(packets.iter().sum::<u64>(), 40);
        assert!(packets.iter().all(|&packets| packets > 0), "{packets:?}");
        assert_eq!(status["redirect_errors"]["source"], "device");

        // 40 flows began; the events end at the limit, and then at the time.
        let ran = quiclb_json(&["events", INSTANCE, "5", "30"]).exits(0);
        let lines: Vec<Value> = lines(&ran.stdout);
        assert_eq!(lines.len(), 31);
        for line in &lines {
            assert_valid("event", line);
        }
        let first = &lines[0];
        assert_eq!(first["kind"], "flow_start");
        assert_eq!(
            (&first["service"], &first["family"]),
            (&json!("quic-api"), &json!("ipv4"))
        );
        assert_eq!(
            (&first["source"], &first["protocol"]),
            (&json!("198.51.100.7"), &json!("udp"))
        );
        assert_eq!(
            (&first["rule"], &first["reason"]),
            (&json!("table"), &json!("forwarded"))
        );
        assert_eq!(first["destination_port"], 443);
        assert_eq!(first["cid"], "5a5a5a5a5a5a5a5a");
        assert_eq!(first["ingress_ifindex"], ifindex("edge0"));
        let summary = json!({"schema": "guideway.quiclb.event/v1", "kind": "summary", "lines": 30,
                             "suppressed": 0, "lost": 0});
        assert_eq!(lines[30], summary);
        let rest = quiclb_json(&["events", INSTANCE, "0"]).exits(0);
        assert_eq!(self::lines(&rest.stdout).len(), 11, "{}", rest.stdout);
        let none = quiclb_json(&["events", INSTANCE, "5", "0"]).exits(0);
        assert_eq!(self::lines(&none.stdout).len(), 1);
    });
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    lines.collect()
}

#[test]
fn frames_that_a_target_does_not_take_are_counted_as_lost() {
    isolated("tool::lost", || {
        machine();
        let files = Files::new("lost");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        send_initials(10);
        let total = || {
            let status = quiclb_json(&["status", INSTANCE]).document();
            status["redirect_errors"]["total"]
                .as_u64()
                .expect("a number")
        };
        assert_eq!(total(), 0);
        for peer in ["peer-a", "peer-b"] {
            crate::harness::ethtool(&["-K", peer, "gro", "off"]);
        }
        send_initials(10);
        assert_eq!(total(), 10);
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(5).document();
        // They were lost where they came in, which tells nothing of single targets.
        let status = quiclb_json(&["status", INSTANCE]).document();
        let backend = &status["services"][0]["backends"][0];
        assert_eq!(backend["counters"]["redirect_errors"], Value::Null);
        let napi = coded(&diagnosis["checks"], "target-napi").expect("a check");
        assert_eq!(napi["result"], "error");
        assert_eq!(diagnosis["result"], "error");
    });
}

#[test]
fn a_generic_instance_is_attached_in_generic_mode() {
    isolated("tool::generic", || {
        machine();
        let files = Files::new("generic");
        let mut spec = crate::harness::example();
        spec["mode"] = json!("generic");
        let spec = files.write("spec.json", spec.to_string());
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(applied["attachment"]["owner"], "ours");
        let (mode, _) = xdp_seen_by_ip("edge0").expect("a program");
        assert_eq!(mode, "generic");
    });
}

#[test]
fn looking_at_64_services_is_cheap() {
    isolated("tool::cheap", || {
        machine();
        let files = Files::new("cheap");
        let mut spec = crate::harness::example();
        let service = spec["services"][0].clone();
        let services = (0..64).map(|index| {
            let mut service = service.clone();
            service["name"] = json!(format!("s{index}"));
            service["port"] = json!(1000 + index);
            service["maglev_table_size"] = json!(65_537);
            // No two services share a table.
            service["backends"][0]["weight"] = json!(1 + index);
            service
        });
        spec["services"] = services.collect();
        let path = files.write("spec.json", spec.to_string());
        quiclb(&["apply", &path]).exits(0);
        let dir = StateRoot::new(BPFFS).quiclb(INSTANCE.parse().expect("a UUID"));
        let cost = || {
            let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
            let now = || Duration::from(clock_gettime(clock).expect("a clock"));
            let start = now();
            let status = Status::of(&dir).expect("a status");
            assert_eq!(status.services.len(), 64);
            now() - start
        };
        // Of the processor, the kernel's part included: the machine may have other things to do.
        let least = (0..5).map(|_| cost()).min().expect("five");
        assert!(least < Duration::from_millis(50), "{least:?}");
    });
}
