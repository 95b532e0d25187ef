// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Next hops that are kept alive.

use std::time::Duration;

use guideway::control::netlink::{Resolver, NEIGHBOUR_PROTOCOL};

use crate::netns::{ip, isolated, within};
use crate::scene::*;

/// What `ip` shows of a neighbour: state, whether it is managed, who wanted it, its address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    state: String,
    managed: bool,
    protocol: Option<String>,
    mac: Option<String>,
}

fn shown(address: &str, interface: &str) -> Option<Shown> {
    let text = ip(&["-6", "neigh", "show", address, "dev", interface]);
    let words: Vec<_> = text.split_whitespace().collect();
    let behind = |word: &str| {
        let at = words.iter().position(|one| *one == word)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    let state = words
        .iter()
        .find(|word| word.chars().all(|c| c.is_ascii_uppercase()))?;
    Some(Shown {
        state: (*state).to_owned(),
        managed: words.contains(&"managed"),
        protocol: behind("proto"),
        mac: behind("lladdr"),
    })
}

fn ours() -> Option<String> {
    Some(NEIGHBOUR_PROTOCOL.to_string())
}

#[test]
fn a_next_hop_stays_alive_without_packets() {
    isolated("control_netlink::alive", || {
        let scene = scene();
        for (number, uplink) in ["up0", "up1"].into_iter().enumerate() {
            // A router that looks for the node itself would keep the node's entries alive.
            for address in [
                format!("fc00:{number}::1"),
                format!("fe80::ff:fe00:{number}01"),
            ] {
                scene.router(&format!(
                    "neigh replace {address} dev far{number} lladdr 02:00:00:00:0{number}:01 \
                     nud permanent"
                ));
            }
            // An entry lasts half of this to one and a half. What is less than the delay before it
            // is probed again lasts for ever.
            set(uplink, "base_reachable_time_ms", 2_400);
            set(uplink, "retrans_time_ms", 100);
            set(uplink, "delay_first_probe_time", 1);
        }
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver = resolver();
        reached(&mut resolver);
        let kept = shown("fc00::2", "up0").expect("an entry");
        assert_eq!((kept.managed, kept.protocol), (true, ours()));
        // For comparison one that nobody keeps.
        node("neigh replace fc00:1::2 dev up1 lladdr 02:00:00:00:01:02 nud reachable");
        let state = |address, uplink| shown(address, uplink).map_or(String::new(), |at| at.state);
        let is_stale = || state("fc00:1::2", "up1") == "STALE";
        assert!(within(PATIENCE, is_stale), "{}", ip(&["-6", "neigh"]));

        // This one is confirmed again and again, by nothing but the kernel's own probes.
        let mut confirmed = 0;
        let mut last = state("fc00::2", "up0");
        let twice = within(PATIENCE, || {
            let now = state("fc00::2", "up0");
            assert!(now != "FAILED" && now != "INCOMPLETE", "{now}");
            confirmed += u32::from(now == "REACHABLE" && last != now);
            last = now;
            confirmed == 2
        });
        assert!(twice, "{last}, confirmed {confirmed} times");
        assert_eq!(state("fc00:1::2", "up1"), "STALE");
    });
}

#[test]
fn who_is_no_next_hop_any_more_keeps_its_address() {
    isolated("control_netlink::let_go", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver = resolver();
        let next_hop = reached(&mut resolver);
        assert!(shown("fc00::2", "up0").expect("an entry").managed);
        // The member goes.
        resolve(&mut resolver, &[], Duration::ZERO);
        let left = shown("fc00::2", "up0").expect("it is not deleted");
        assert!(!left.managed);
        assert_eq!(left.mac, Some(next_hop.destination().to_string()));
        // It comes back, and its route moves to the other uplink.
        reached(&mut resolver);
        assert!(shown("fc00::2", "up0").expect("an entry").managed);
        node(&format!("route replace {BLOCK} via fc00:1::2"));
        reached(&mut resolver);
        assert!(!shown("fc00::2", "up0").expect("an entry").managed);
        assert!(shown("fc00:1::2", "up1").expect("an entry").managed);
    });
}

#[test]
fn what_an_earlier_process_kept_is_let_go() {
    isolated("control_netlink::earlier", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        reached(&mut resolver());
        node(&format!("route replace {BLOCK} via fc00:1::2"));
        // Somebody else's is left alone.
        node("neigh add fc00:0::77 dev up0 managed proto 77");
        reached(&mut resolver());
        assert!(!shown("fc00::2", "up0").expect("an entry").managed);
        assert!(shown("fc00:1::2", "up1").expect("an entry").managed);
        let other = shown("fc00::77", "up0").expect("an entry");
        assert!(
            other.managed && other.protocol == Some("77".to_owned()),
            "{other:?}"
        );
    });
}

#[test]
fn entries_of_others_stay_as_they_are() {
    isolated("control_netlink::others", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver = resolver();
        for (mark, state) in [
            ("nud permanent", "PERMANENT"),
            ("nud reachable extern_learn", ""),
        ] {
            node(&format!(
                "neigh replace fc00:0::2 dev up0 lladdr 02:00:00:00:00:55 {mark}"
            ));
            let next_hop = reached(&mut resolver);
            assert_eq!(next_hop.destination().to_string(), "02:00:00:00:00:55");
            let found = shown("fc00::2", "up0").expect("an entry");
            assert!(!found.managed && found.protocol.is_none(), "{found:?}");
            assert!(state.is_empty() || found.state == state, "{found:?}");
            assert_eq!(
                state.is_empty(),
                ip(&["-6", "neigh"]).contains("extern_learn")
            );
            // Nor are they touched when the member goes.
            resolve(&mut resolver, &[], Duration::ZERO);
            assert_eq!(shown("fc00::2", "up0"), Some(found));
            node("neigh del fc00:0::2 dev up0");
        }
        // One of ours that is written down becomes the writer's.
        reached(&mut resolver);
        node("neigh replace fc00:0::2 dev up0 lladdr 02:00:00:00:00:55 nud permanent");
        resolve(&mut resolver, &[], Duration::ZERO);
        let found = shown("fc00::2", "up0").expect("an entry");
        assert_eq!(found.state, "PERMANENT");
    });
}

#[test]
fn an_entry_that_was_collected_is_looked_for_again() {
    isolated("control_netlink::collected", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver =
            Resolver::keeping(&uplinks(), Duration::from_secs(1)).expect("a resolver");
        let next_hop = reached(&mut resolver);
        let mut monitor = monitor();
        node("neigh del fc00:0::2 dev up0");
        // Whatever the kernel has found meanwhile, it counts as it was.
        assert_eq!(way(&mut resolver), Ok(next_hop));
        await_trigger(&mut monitor, guideway::control::machine::Trigger::Neighbour);
        assert!(within(PATIENCE, || {
            resolve(&mut resolver, &[SHARD], Duration::ZERO)
                .held
                .is_empty()
        }));
        assert!(shown("fc00::2", "up0").expect("an entry").managed);
    });
}

#[test]
fn who_only_looks_changes_nothing() {
    isolated("control_netlink::looking", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut looking = Resolver::looking(&uplinks());
        assert!(way(&mut looking).is_err());
        assert_eq!(shown("fc00::2", "up0"), None);
        let next_hop = reached(&mut resolver());
        assert_eq!(way(&mut looking), Ok(next_hop));
        node("neigh replace fc00:0::2 dev up0 lladdr 02:00:00:00:00:02 nud stale");
        let before = shown("fc00::2", "up0");
        assert_eq!(way(&mut looking), Ok(next_hop));
        assert_eq!(shown("fc00::2", "up0"), before);
    });
}
