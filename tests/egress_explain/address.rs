// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Addresses, without a packet.

use std::net::IpAddr;

use guideway::egress::explain::{Address, ExplainError, Leads, Transport, Who};
use guideway::error::ErrorKind;
use guideway::placement::Ports;
use guideway::reason::egress::End;
use guideway::route::TableId;

use crate::frames::UDP;
use crate::netns::{isolated, veth};
use crate::scene::*;
use crate::support::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn an_address_goes_by_each_route_where_its_packets_go() {
    isolated("egress_explain::address", || {
        let scene = scene();
        for number in 0..8 {
            let source = source6(number);
            let address = Address::new(source.into());
            let table = Who::Table(TableId::new(TABLE));
            let explained = scene.writer.explain_address(table, &address).expect("said");
            let text = |explain: &guideway::egress::explain::Explain| {
                explain.route.expect("a route").prefix.to_string()
            };
            let prefixes: Vec<_> = explained.routes.iter().map(text).collect();
            assert_eq!(
                prefixes,
                [
                    PREFIX,
                    "2001:db8:1::/48",
                    "2001:db8:2::/48",
                    "2001:db8:3::/48",
                    "2001:db8:4::/48",
                    "::/0"
                ]
            );
            let [by_flow, pass, block, unreachable, shard, all] = &explained.routes[..] else {
                panic!("{explained:?}");
            };
            // Nobody can say which shard without a flow.
            assert_eq!((by_flow.end, by_flow.member), (None, None));
            assert!(by_flow.group.is_some());
            let ends = [pass, block, unreachable, shard, all].map(|explain| explain.end);
            let expected = [
                End::Pass,
                End::Blocked,
                End::UnreachSent,
                End::Shard,
                End::Group,
            ];
            assert_eq!(ends, expected.map(Some));
            assert_eq!(shard.route.expect("a route").leads, Leads::Shard);
            let number = all.member.expect("one").sid.address().segments()[3];
            let source = source.to_string();
            let went = shard_of(&scene.writer, scene.inside, &source, "2001:4860::1");
            assert_eq!(went, Some(number));

            // A whole flow: ports 12345 and 443, as in the frame.
            let flow = Address {
                destination: Some(ip("64:ff9b::1")),
                transport: Some(Transport {
                    protocol: UDP,
                    ports: Some(Ports {
                        source: 0x3039,
                        destination: 443,
                    }),
                }),
                ..address
            };
            let explained = scene.writer.explain_address(table, &flow).expect("said");
            let [one] = &explained.routes[..] else {
                panic!("{explained:?}");
            };
            let number = one.member.expect("one").sid.address().segments()[3];
            let went = shard_of(&scene.writer, scene.inside, &source, "64:ff9b::1");
            assert_eq!(went, Some(number));
        }
        let address = Address::new(ip("10.0.0.7"));
        let interface = Who::Interface(scene.inside);
        let explained = scene.writer.explain_address(interface, &address);
        let explained = explained.expect("said");
        assert_eq!(explained.routes.len(), 2);
        assert_eq!(explained.interface.name.as_deref(), Some("gw-inside"));
        assert_eq!(explained.routes[0].end, Some(End::Blocked));
        let nowhere = Address {
            destination: Some(ip("203.0.113.1")),
            ..address
        };
        let explained = scene.writer.explain_address(interface, &nowhere);
        assert_eq!(explained.expect("said").routes[0].end, Some(End::NoRoute));
        let off = Who::Interface(scene.disabled);
        let explained = scene.writer.explain_address(off, &nowhere).expect("said");
        assert_eq!(explained.routes[0].end, Some(End::NoTenant));
        assert_eq!(
            explained.routes[0].why,
            "The tenant is disabled at this interface."
        );
    });
}

#[test]
fn who_is_nobody_or_could_be_two_is_told() {
    isolated("egress_explain::who", || {
        let scene = scene();
        let explain = |who, address| scene.writer.explain_address(who, &address);
        let address = Address::new(ip("2001:db8::7"));
        // Two interfaces of one tenant are one.
        assert_eq!(explain(Who::Only, address).expect("said").table, TABLE);
        for who in [
            Who::Table(TableId::new(7)),
            Who::Interface(scene.foreign),
            Who::Interface(1),
        ] {
            let error = explain(who, address).expect_err("nobody");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
        let mixed = Address {
            destination: Some(ip("192.0.2.1")),
            ..address
        };
        let error = explain(Who::Only, mixed).expect_err("two families");
        assert!(matches!(error, ExplainError::Families { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);

        let (other, _) = veth("gw-other", "gw-other-in");
        let guard = scene.writer.write_routes(PATIENCE).expect("free");
        guard.add_interface(other, &tenant(43)).expect("room");
        drop(guard);
        let error = explain(Who::Only, address).expect_err("two");
        assert!(
            matches!(error, ExplainError::Ambiguous { count: 2, first, second, .. }
                if first.get() == TABLE && second.get() == 43),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Usage);
        // Without a route of its family.
        let other = explain(Who::Table(TableId::new(43)), address);
        assert_eq!(other.expect("said").routes, []);
    });
}
