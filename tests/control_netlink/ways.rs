// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How shards are reached.

use std::time::Duration;

use guideway::control::netlink::Resolver;
use guideway::control::Unreached;

use crate::netns::{self, ifindex, isolated, veth};
use crate::scene::*;

/// Interface, source, destination and MTU as text.
fn text(next_hop: guideway::srv6::NextHop) -> String {
    let (source, destination) = (next_hop.source(), next_hop.destination());
    format!(
        "{} {source} {destination} {}",
        next_hop.ifindex(),
        next_hop.mtu().get()
    )
}

#[test]
fn a_next_hop_is_what_ip_would_use() {
    isolated("control_netlink::next_hop", || {
        let _scene = scene();
        let mut resolver = resolver();
        assert_eq!(way(&mut resolver), Err(Unreached::NoRoute));
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let up0 = ifindex("up0");
        assert_eq!(
            text(reached(&mut resolver)),
            format!("{up0} 02:00:00:00:00:01 02:00:00:00:00:02 1500")
        );
        // The uplink's own MTU and that of the route, whichever is less.
        node(&format!("route change {BLOCK} via fc00:0::2 mtu 1400"));
        assert_eq!(reached(&mut resolver).mtu().get(), 1400);
        node("link set up0 mtu 1350");
        assert_eq!(reached(&mut resolver).mtu().get(), 1350);
        node("link set up0 mtu 1319");
        let Err(Unreached::NoNextHop(why)) = way(&mut resolver) else {
            panic!("no room for an outer header");
        };
        assert!(
            why.contains("up0") && why.contains("1319") && why.contains("1320"),
            "{why}"
        );
        assert!(resolver.failures().not_uplink >= 1);
    });
}

#[test]
fn a_shard_on_the_link_is_its_own_next_hop() {
    isolated("control_netlink::on_link", || {
        let scene = scene();
        // Two of the same /64: one way, and two neighbours.
        let second = "2001:db8:ff09:10:d000::";
        let absent = "2001:db8:ff09:10:c000::";
        scene.router(&format!(
            "addr add {SHARD}/128 dev far1 nodad\naddr add {second}/128 dev far1 nodad"
        ));
        node("route add 2001:db8:ff09:10::/64 dev up1");
        let mut resolver = resolver();
        assert_eq!(reached(&mut resolver).ifindex(), ifindex("up1"));
        assert!(netns::within(PATIENCE, || {
            let found = resolve(&mut resolver, &[SHARD, second, absent], Duration::ZERO);
            assert_eq!(
                found.reachability.0[&sid(absent)],
                Err(Unreached::NoNeighbour)
            );
            found.reachability.next_hop(sid(second)).is_some()
        }));
    });
}

#[test]
fn routes_that_refuse_packets_are_none() {
    isolated("control_netlink::refuse", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver = resolver();
        reached(&mut resolver);
        for kind in ["blackhole", "unreachable", "prohibit", "throw"] {
            node(&format!("route add {kind} 2001:db8:ff09:10::/64"));
            let found = way(&mut resolver);
            if kind == "throw" {
                // The look-up goes on in the next table, and there is none.
                assert_eq!(found, Err(Unreached::NoRoute), "{kind}");
            } else {
                assert_eq!(found, Err(Unreached::NoRoute), "{kind}");
            }
            node(&format!("route del {kind} 2001:db8:ff09:10::/64"));
            assert!(way(&mut resolver).is_ok(), "{kind} was in the way");
        }
        assert_eq!(resolver.failures().no_route, 4);
    });
}

#[test]
fn a_route_by_another_interface_is_told_with_its_name() {
    isolated("control_netlink::not_uplink", || {
        let _scene = scene();
        veth("side", "other");
        node("addr add fc00:9::1/64 dev side nodad");
        node(&format!("route add {BLOCK} via fc00:9::2"));
        let mut resolver = resolver();
        assert_eq!(way(&mut resolver), Err(Unreached::NotUplink("side".into())));
        // A SID of this host itself.
        node(&format!("addr add {SHARD}/128 dev lo"));
        assert_eq!(way(&mut resolver), Err(Unreached::NotUplink("lo".into())));
        assert_eq!(resolver.failures().not_uplink, 2);
        node(&format!("addr del {SHARD}/128 dev lo"));
        node(&format!("route replace {BLOCK} via fc00:1::2"));
        assert_eq!(reached(&mut resolver).ifindex(), ifindex("up1"));
    });
}

#[test]
fn many_shards_are_asked_for_at_once() {
    isolated("control_netlink::many", || {
        let _scene = scene();
        // Every third locator by one uplink, every third by the other, every third by none.
        let locator = |number: usize| format!("2001:db8:ff09:{:x}", 0x100 + number);
        for number in 0..300 {
            if number % 3 < 2 {
                let (route, via) = (locator(number), number % 3);
                node(&format!("route add {route}::/64 via fc00:{via}::2"));
            }
        }
        let sids: Vec<_> = (0..300).map(|number| locator(number) + ":e000::").collect();
        let sids: Vec<&str> = sids.iter().map(String::as_str).collect();
        let mut resolver = resolver();
        let both = || {
            let found = resolve(&mut resolver, &sids, Duration::ZERO).reachability;
            [0, 1]
                .iter()
                .all(|&at| found.next_hop(sid(sids[at])).is_some())
        };
        assert!(netns::within(PATIENCE, both));
        let found = resolve(&mut resolver, &sids, Duration::ZERO).reachability;
        let [up0, up1] = [ifindex("up0"), ifindex("up1")];
        for (number, text) in sids.iter().enumerate() {
            let by = found.0[&sid(text)]
                .as_ref()
                .map(|next_hop| next_hop.ifindex());
            let expected = [Ok(up0), Ok(up1), Err(&Unreached::NoRoute)][number % 3];
            assert_eq!(by, expected, "{text}");
        }
    });
}

#[test]
fn a_lost_neighbour_counts_for_as_long_as_it_is_held() {
    isolated("control_netlink::held", || {
        let scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let ms = Duration::from_millis;
        let mut resolver = Resolver::keeping(&uplinks(), ms(1_000)).expect("a resolver");
        let next_hop = reached(&mut resolver);
        // The link is cut: the kernel drops its neighbours and keeps the route.
        scene.unplug();
        let mut at = |now| {
            let found = resolve(&mut resolver, &[SHARD], ms(now));
            let way = found.reachability.0[&sid(SHARD)].clone();
            (way, found.held, resolver.hold_until())
        };
        assert!(netns::ip(&["-6", "route", "show", BLOCK]).contains("via fc00::2"));
        for now in [100, 1_099] {
            assert_eq!(at(now), (Ok(next_hop), vec![sid(SHARD)], Some(ms(1_100))));
        }
        assert_eq!(at(1_100), (Err(Unreached::NoNeighbour), vec![], None));
        scene.plug();
        assert_eq!(reached(&mut resolver), next_hop);
        // A route that goes is not waited for.
        node(&format!("route del {BLOCK}"));
        assert_eq!(way(&mut resolver), Err(Unreached::NoRoute));
        assert!(resolver.failures().no_neighbour >= 3);
    });
}

#[test]
fn an_uplink_that_does_not_exist_is_told() {
    isolated("control_netlink::missing", || {
        let _scene = scene();
        node("link del up1");
        let mut resolver = resolver();
        let found = resolve(&mut resolver, &[SHARD], Duration::ZERO);
        assert_eq!(found.missing_uplinks, uplinks()[1..]);
        node(&format!("route add {BLOCK} via fc00:0::2"));
        assert_eq!(reached(&mut resolver).ifindex(), ifindex("up0"));
    });
}
