// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance with something of everything that a packet can meet.

use std::net::{Ipv4Addr, Ipv6Addr};

use guideway::egress::{Loader, To, Writer};
use guideway::encap::Encap;
use guideway::group::{Candidate, Class, GroupSpec, HashMode, PinIdle, Settings};
use guideway::route::Block;
use guideway::srv6::{Mtu, NextHop};
use guideway::tenant::{PinQuota, Tenant};

use crate::chance::Random;
use crate::frames::*;
use crate::netns::veth;
use crate::support::*;

pub(crate) const TABLE: u32 = 42;
/// Pins that the tenant may have.
pub(crate) const QUOTA: u32 = 12;

pub(crate) struct Scene {
    pub(crate) writer: Writer,
    /// The tenant's.
    pub(crate) inside: u32,
    /// The same tenant's, disabled.
    pub(crate) disabled: u32,
    /// Nobody's.
    pub(crate) foreign: u32,
}

pub(crate) fn answered() -> Tenant {
    Tenant {
        icmp: true,
        pin_quota: PinQuota(QUOTA),
        gateway6: Some("2001:db8:aaaa::1".parse().expect("an address")),
        gateway4: Some("10.0.0.1".parse().expect("an address")),
        ..tenant(TABLE)
    }
}

/// NAT66 by source, with pins; NAT64 by flow, with pins; a shard behind a small link.
pub(crate) fn scene() -> Scene {
    let (inside, _) = veth("gw-inside", "gw-tenant");
    let (disabled, foreign) = veth("gw-off", "gw-foreign");
    let limits = guideway::egress::Limits::default();
    let limits = limits.with_flow_pins(64).expect("a limit");
    let mut writer = Loader::new(&dir()).limits(limits).load().expect("loaded");
    let node = "2001:db8:ff01:1:e000::".parse().expect("a SID");
    let encap = Encap {
        too_big: true,
        ..Encap::standard(node)
    };
    writer.set_encap(&encap).expect("published");
    publish(&mut writer, Class::Nat66, &[0x10, 0x11, 0x12]);
    let by_flow = GroupSpec {
        settings: Settings {
            hash_mode: HashMode::Flow,
            pin_idle: PinIdle::from_secs(600).expect("a time"),
            ..Settings::default()
        },
        candidates: [0x20, 0x21]
            .map(|number| Candidate::new(sid(number), hop(1)))
            .to_vec(),
        ..GroupSpec::default()
    };
    let plan = writer.plan_group(&place(&writer, nat64()), &by_flow);
    publish_plan(&mut writer, plan.expect("a plan"));

    let guard = writer.write_routes(PATIENCE).expect("free");
    let all = guard.ticket(Class::Nat66).expect("open");
    let some = guard.ticket(nat64()).expect("open");
    let mac = |text: &str| text.parse().expect("an address");
    let small = Mtu::new(1400).expect("an MTU");
    let (from, to) = (mac("02:00:00:00:08:08"), mac("02:00:00:00:09:09"));
    let shard = To::Shard {
        sid: sid(0x99),
        next_hop: NextHop::new(1, from, to, small).expect("a next hop"),
    };
    let routes = [
        ("::/0", To::Group(&all)),
        (PREFIX, To::Group(&some)),
        ("2001:db8:1::/48", To::Pass),
        ("2001:db8:2::/48", To::Block(Block::Drop)),
        ("2001:db8:3::/48", To::Block(Block::Unreachable)),
        ("2001:db8:4::/48", shard),
        ("198.51.100.0/24", shard),
        ("198.51.100.128/25", To::Block(Block::Drop)),
    ];
    let routes = routes.map(|(text, to)| (prefix(text), to));
    let tenant = answered();
    guard.install(&tenant, &routes).expect("room");
    guard.add_interface(inside, &tenant).expect("room");
    let off = Tenant {
        enabled: false,
        ..tenant
    };
    guard.add_interface(disabled, &off).expect("room");
    guard.verify().expect("written");
    Scene {
        writer,
        inside,
        disabled,
        foreign,
    }
}

pub(crate) fn source6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, number)
}

/// A frame that finds something in the scene, whole or broken.
pub(crate) fn random_frame(random: &mut Random) -> Vec<u8> {
    let protocol = *random.pick(&[TCP, UDP, UDP, ICMPV6, 0, 44, 132]);
    let bytes = match random.below(12) {
        0 => 1330 + random.below(60),
        1 => random.below(4),
        _ => 20 + random.below(60),
    };
    let mut payload = ports(
        *random.pick(&[1, 2]),
        *random.pick(&[53, 443]),
        bytes.max(4),
    );
    payload.truncate(bytes);
    if protocol == ICMPV6 {
        if let Some(kind) = payload.first_mut() {
            *kind = *random.pick(&[1, 128, 135]);
        }
    }
    let mut frame = if random.percent(75) {
        let to = *random.pick(&[
            "2001:4860::1",
            "2001:4860::1",
            "64:ff9b::c000:201",
            "64:ff9b::c000:201",
            "64:ff9b::c000:202",
            "2001:db8:1::1",
            "2001:db8:2::1",
            "2001:db8:3::1",
            "2001:db8:4::1",
            "fe80::1",
            "ff02::1",
        ]);
        let source = source6(random.below(10) as u16);
        ipv6(source, to.parse().expect("an address"), protocol, &payload)
    } else {
        let to = *random.pick(&[[198, 51, 100, 1], [198, 51, 100, 200], [203, 0, 113, 1]]);
        let source = Ipv4Addr::new(10, 0, 0, random.below(10) as u8);
        let fragment = *random.pick(&[0, 0x4000, 0x2000]);
        ipv4(source, to.into(), protocol, fragment, &payload)
    };
    if random.percent(5) {
        let at = 12 + random.below(3);
        frame[at] = random.byte();
    }
    frame
}
