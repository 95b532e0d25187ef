// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Repairs that are killed before any change: packets go on meanwhile, the next one ends them, and
//! nothing stays behind.

use std::fs;
use std::time::Duration;

use serde_json::{json, Value};

use crate::harness::{
    command, machine, poll, quiclb, quiclb_json, send_initials, state_dir, Files, EXAMPLE, INSTANCE,
};
use crate::killing::{as_many, killed_before, objects};
use crate::netns::{ip, isolated, veth, within, without_ipv6, xdp_seen_by_ip};

/// Packets that have arrived behind the targets.
fn arrived() -> u64 {
    let received = ["peer-a", "peer-b"].map(|name| {
        let shown = ip(&["-json", "-statistics", "link", "show", "dev", name]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        shown[0]["stats64"]["rx"]["packets"]
            .as_u64()
            .expect("a number")
    });
    received.iter().sum()
}

#[track_caller]
fn packets_arrive(what: &str) {
    const PACKETS: u16 = 8;
    let before = arrived();
    send_initials(PACKETS);
    let all = || arrived() == before + u64::from(PACKETS);
    assert!(
        within(Duration::from_secs(10), all),
        "{what}: {} of {PACKETS}",
        arrived() - before
    );
}

#[track_caller]
fn is_well(what: &str) {
    for look in ["status", "doctor"] {
        let ran = quiclb(&[look, INSTANCE]);
        assert_eq!(ran.code, 0, "{what}: {}{}", ran.stdout, ran.stderr);
    }
    packets_arrive(what);
}

#[test]
fn a_repair_of_lost_pins_is_ended_by_the_next_one() {
    isolated("tool::killed_repair", || {
        without_ipv6();
        machine();
        let files = Files::new("killed-repair");
        let spec = files.write("spec.json", EXAMPLE);
        let dir = state_dir();
        quiclb(&["apply", &spec]).exits(0);
        for lost in [
            "progs/gw_quiclb",
            "maps/gw_ql_stats",
            "maps/gw_ql_dev",
            "links/xdp",
        ] {
            let mut changes = Vec::new();
            loop {
                let before = objects(&dir);
                fs::remove_file(dir.join(lost)).expect("removed");
                if lost == "links/xdp" {
                    // The kernel takes its time, and what is still there is pinned again.
                    let gone = || xdp_seen_by_ip("edge0").is_none();
                    assert!(
                        within(Duration::from_secs(10), gone),
                        "nothing holds the link"
                    );
                }
                let killed = killed_before(&mut command(&["apply", &spec]), changes.len());
                let what = format!("{lost}: before change {} ({killed:?})", changes.len());
                if lost != "links/xdp" {
                    packets_arrive(&what);
                }
                quiclb(&["apply", &spec]).exits(0);
                is_well(&what);
                as_many(&dir, &before, &what);
                match killed {
                    Some(change) => changes.push(change),
                    None => break,
                }
            }
            println!("{lost}: {changes:?}");
            assert!(changes.contains(&"pin"), "{lost}: {changes:?}");
        }
    });
}

/// A target that was made again is followed by a new generation.
#[test]
fn a_repair_by_watch_is_ended_by_the_next_one() {
    isolated("tool::killed_watch", || {
        without_ipv6();
        machine();
        let files = Files::new("killed-watch");
        let spec = files.write("spec.json", EXAMPLE);
        let dir = state_dir();
        quiclb(&["apply", &spec]).exits(0);
        let watch = [
            "watch",
            INSTANCE,
            "--repair",
            "--interval",
            "100ms",
            "--count",
            "1",
        ];
        let again = || {
            ip(&["link", "del", "vm-edge-a"]);
            veth("vm-edge-a", "peer-a");
            poll("peer-a");
        };
        // As many records as are kept.
        for _ in 0..3 {
            again();
            quiclb(&watch).exits(0);
        }
        is_well("before");
        let mut changes = Vec::new();
        loop {
            let before = objects(&dir);
            again();
            let killed = killed_before(&mut command(&watch), changes.len());
            let what = format!("before change {} ({killed:?})", changes.len());
            quiclb(&watch).exits(0);
            is_well(&what);
            let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
            assert_eq!(status["findings"], json!([]), "{what}");
            // Whoever publishes next keeps as many records as before.
            again();
            quiclb(&watch).exits(0);
            is_well(&what);
            as_many(&dir, &before, &what);
            match killed {
                Some(change) => changes.push(change),
                None => break,
            }
        }
        println!("{changes:?}");
        assert!(changes.contains(&"pin"), "{changes:?}");
    });
}
