// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which changes call for a sweep, and what it finds then.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use guideway::control::machine::Trigger;
use guideway::control::netlink::Monitor;
use guideway::control::Unreached;

use crate::netns::{ifindex, ip, isolated, veth, within};
use crate::scene::*;

fn only(trigger: Trigger) -> BTreeSet<Trigger> {
    BTreeSet::from([trigger])
}

fn none() -> BTreeSet<Trigger> {
    BTreeSet::new()
}

#[test]
fn a_route_that_comes_and_goes_is_news() {
    isolated("control_netlink::route", || {
        let _scene = scene();
        let (mut monitor, mut resolver) = (monitor(), resolver());
        assert!(!readable(&monitor, Duration::ZERO), "nothing happened yet");
        for route in [BLOCK, "2001:db8:ff09:10::/64", "2001:db8:ff09:10:e000::/80"] {
            node(&format!("route add {route} via fc00:0::2"));
            assert!(readable(&monitor, Duration::ZERO), "{route}");
            assert_eq!(triggers(&mut monitor), only(Trigger::Route), "{route}");
            // The neighbour is asked for by the first sweep, and its answer is news.
            if way(&mut resolver).is_err() {
                await_trigger(&mut monitor, Trigger::Neighbour);
            }
            assert!(way(&mut resolver).is_ok(), "{route}");
            triggers(&mut monitor);
            node(&format!("route del {route} via fc00:0::2"));
            assert_eq!(triggers(&mut monitor), only(Trigger::Route), "{route}");
            assert_eq!(way(&mut resolver), Err(Unreached::NoRoute), "{route}");
        }
    });
}

#[test]
fn the_default_route_is_news() {
    isolated("control_netlink::default_route", || {
        let _scene = scene();
        let (mut monitor, mut resolver) = (monitor(), resolver());
        node("-6 route add default via fc00:0::2");
        assert_eq!(triggers(&mut monitor), only(Trigger::Route));
        assert_eq!(reached(&mut resolver).ifindex(), ifindex("up0"));
        triggers(&mut monitor);
        node("-6 route replace default via fc00:1::2");
        assert_eq!(triggers(&mut monitor), only(Trigger::Route));
        assert_eq!(reached(&mut resolver).ifindex(), ifindex("up1"));
        triggers(&mut monitor);
        node("-6 route del default");
        assert_eq!(triggers(&mut monitor), only(Trigger::Route));
        assert_eq!(way(&mut resolver), Err(Unreached::NoRoute));
    });
}

#[test]
fn other_routes_neighbours_and_links_are_no_news() {
    isolated("control_netlink::no_news", || {
        let _scene = scene();
        veth("side", "other");
        node("addr add fc00:9::1/64 dev side nodad");
        let mut monitor = monitor();
        node(
            "route add 2001:db8:ff09:11::/64 via fc00:0::2\n\
             route add 2001:db8:ff0a::/48 via fc00:1::2\n\
             route add 10.0.0.0/8 dev up0\n\
             neigh add fc00:9::2 dev side lladdr 02:00:00:00:09:02\n\
             neigh add 10.9.0.2 dev up0 lladdr 02:00:00:00:09:02\n\
             link set side down\n\
             link del side",
        );
        assert!(
            readable(&monitor, Duration::ZERO),
            "the kernel reports them"
        );
        assert_eq!(triggers(&mut monitor), none());
        // Once it is watched, a route that was passed over is.
        let news = monitor.watch([SHARD, OTHER].map(sid));
        assert_eq!(
            news.triggers,
            [Trigger::Route],
            "what happened before is not known"
        );
        node("route del 2001:db8:ff09:11::/64 via fc00:0::2");
        assert_eq!(triggers(&mut monitor), only(Trigger::Route));
    });
}

#[test]
fn a_neighbour_that_fails_and_returns_is_news() {
    isolated("control_netlink::neighbour", || {
        let scene = scene();
        for (name, value) in [
            ("base_reachable_time_ms", 300),
            ("retrans_time_ms", 50),
            ("delay_first_probe_time", 1),
        ] {
            set("up0", name, value);
        }
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let (mut monitor, mut resolver) = (monitor(), resolver());
        let next_hop = reached(&mut resolver);
        await_trigger(&mut monitor, Trigger::Neighbour);
        scene.router("addr del fc00:0::2/64 dev far0");
        assert_eq!(
            await_trigger(&mut monitor, Trigger::Neighbour),
            only(Trigger::Neighbour)
        );
        assert_eq!(way(&mut resolver), Err(Unreached::NoNeighbour));
        scene.router("addr add fc00:0::2/64 dev far0 nodad");
        assert_eq!(
            await_trigger(&mut monitor, Trigger::Neighbour),
            only(Trigger::Neighbour)
        );
        assert_eq!(way(&mut resolver), Ok(next_hop));
    });
}

#[test]
fn a_neighbour_that_is_merely_confirmed_is_no_news() {
    isolated("control_netlink::confirmed", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        node("neigh add fc00:0::2 dev up0 lladdr 02:00:00:00:00:02 nud reachable");
        let mut monitor = monitor();
        for state in ["stale", "delay", "probe", "reachable"] {
            node(&format!(
                "neigh change fc00:0::2 dev up0 lladdr 02:00:00:00:00:02 nud {state}"
            ));
        }
        assert!(
            readable(&monitor, Duration::ZERO),
            "the kernel reports them"
        );
        assert_eq!(triggers(&mut monitor), none());
        node("neigh change fc00:0::2 dev up0 lladdr 02:00:00:00:00:33 nud reachable");
        assert_eq!(triggers(&mut monitor), only(Trigger::Neighbour));
        node("neigh del fc00:0::2 dev up0");
        assert_eq!(triggers(&mut monitor), only(Trigger::Neighbour));
    });
}

#[test]
fn an_uplink_that_goes_down_and_up_is_news() {
    isolated("control_netlink::uplink_down", || {
        let scene = scene();
        let route = format!("route add {BLOCK} via fc00:0::2");
        node(&route);
        let (mut monitor, mut resolver) = (monitor(), resolver());
        let next_hop = reached(&mut resolver);
        triggers(&mut monitor);
        node("link set up0 down");
        assert!(triggers(&mut monitor).contains(&Trigger::Link));
        assert_eq!(
            way(&mut resolver),
            Err(Unreached::NoRoute),
            "the kernel took it away"
        );
        node("link set up0 up\naddr add fc00:0::1/64 dev up0 nodad");
        node(&route);
        assert!(triggers(&mut monitor).contains(&Trigger::Link));
        assert_eq!(reached(&mut resolver), next_hop);
        // The cable alone.
        triggers(&mut monitor);
        scene.unplug();
        await_trigger(&mut monitor, Trigger::Link);
        assert_eq!(way(&mut resolver), Err(Unreached::NoNeighbour));
        scene.plug();
        await_trigger(&mut monitor, Trigger::Link);
        assert_eq!(reached(&mut resolver), next_hop);
    });
}

#[test]
fn an_uplink_is_followed_by_its_name() {
    isolated("control_netlink::uplink_again", || {
        let scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let (mut monitor, mut resolver) = (monitor(), resolver());
        let before = reached(&mut resolver);
        triggers(&mut monitor);
        node("link del up0");
        assert!(triggers(&mut monitor).contains(&Trigger::Link));
        assert_eq!(way(&mut resolver), Err(Unreached::NoRoute));
        veth("takes", "indices");
        triggers(&mut monitor);
        scene.connect(0);
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let seen = triggers(&mut monitor);
        assert!(
            seen.contains(&Trigger::Link) && seen.contains(&Trigger::Route),
            "{seen:?}"
        );
        let after = reached(&mut resolver);
        assert_ne!(after.ifindex(), before.ifindex());
        assert_eq!(after.ifindex(), ifindex("up0"));
        // Neighbours on it are heard of under its new number.
        triggers(&mut monitor);
        node("neigh replace fc00:0::2 dev up0 lladdr 02:00:00:00:00:44 nud reachable");
        assert_eq!(triggers(&mut monitor), only(Trigger::Neighbour));
    });
}

#[test]
fn addresses_that_change_are_news_and_another_next_hop() {
    isolated("control_netlink::mac", || {
        let scene = scene();
        let notify = || std::fs::write("/proc/sys/net/ipv6/conf/far0/ndisc_notify", "1");
        scene
            .router
            .run(notify)
            .expect("inside")
            .expect("a setting");
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let (mut monitor, mut resolver) = (monitor(), resolver());
        let first = reached(&mut resolver);
        triggers(&mut monitor);
        // The router takes another address and tells everybody.
        scene.router("link set far0 address 02:00:00:00:00:77");
        await_trigger(&mut monitor, Trigger::Neighbour);
        let second = reached(&mut resolver);
        assert_eq!(second.destination().to_string(), "02:00:00:00:00:77");
        assert_eq!(second.source(), first.source());
        // The uplink does.
        triggers(&mut monitor);
        node("link set up0 address 02:00:00:00:00:99");
        assert!(triggers(&mut monitor).contains(&Trigger::Link));
        assert_eq!(
            reached(&mut resolver).source().to_string(),
            "02:00:00:00:00:99"
        );
        triggers(&mut monitor);
        node("link set up0 mtu 1400");
        assert!(triggers(&mut monitor).contains(&Trigger::Link));
        assert_eq!(reached(&mut resolver).mtu().get(), 1400);
    });
}

#[test]
fn news_comes_well_within_a_window() {
    isolated("control_netlink::latency", || {
        let _scene = scene();
        let mut monitor = monitor();
        let times = ["add", "del"].into_iter().cycle().take(20).map(|verb| {
            let begin = Instant::now();
            node(&format!("route {verb} {BLOCK} via fc00:0::2"));
            await_trigger(&mut monitor, Trigger::Route);
            begin.elapsed()
        });
        let mut times: Vec<_> = times.collect();
        times.sort();
        // Half of a window, of which starting `ip` is the most.
        assert!(times[10] < Duration::from_millis(125), "{times:?}");
    });
}

#[test]
fn what_is_there_at_the_start_needs_no_news() {
    isolated("control_netlink::start", || {
        let _scene = scene();
        node("neigh add fc00:0::2 dev up0 lladdr 02:00:00:00:00:02 nud reachable");
        let monitor = Monitor::open(&uplinks()).expect("a monitor");
        let state = monitor.state().expect("a view");
        let names: Vec<_> = state
            .uplinks
            .values()
            .map(|uplink| uplink.name.as_str())
            .collect();
        assert_eq!(names, ["up0", "up1"]);
        let key = (ifindex("up0"), "fc00:0::2".parse().expect("an address"));
        assert_eq!(state.neighbours[&key].to_string(), "02:00:00:00:00:02");
        // Uplinks that do not exist yet are heard of later.
        let mut early = Monitor::open(&["up7".parse().expect("a name")]).expect("a monitor");
        node("link add up7 type veth peer name far7");
        assert!(triggers(&mut early).contains(&Trigger::Link));
        let view = |monitor: &Monitor| monitor.state().map(|state| state.uplinks.len());
        assert_eq!(view(&early), Some(1));
        ip(&["link", "set", "up7", "name", "up8"]);
        assert!(within(PATIENCE, || {
            drain(&mut early);
            view(&early) == Some(0)
        }));
    });
}
