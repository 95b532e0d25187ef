// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which frames are ours, where they go, and as what.

use std::net::Ipv4Addr;

use guideway::encap::{Dscp, DscpValue, Ecn, Encap};
use guideway::group::{HashMode, Incarnation, Settings, State};
use guideway::oracle::egress::{decide, Action, By, Packet};
use guideway::placement::{HashGroup, HashTable};
use guideway::reason::egress::{End, Selection};
use guideway::route::{Block, Key, Prefix, Route, Target};

use crate::frames::*;
use crate::scene::*;

/// The hashes of the specification: table 42, group 0, by source.
#[test]
fn the_published_packets_land_where_they_are_to() {
    let mut scene = Scene::of_group(group(off()));
    let decision = scene.send(&v6());
    let choice = decision.choice.expect("a choice");
    assert_eq!((choice.hash, choice.word), (0x0c29_e964, 941));
    let member = choice.member.expect("a member");
    assert_eq!(member.sid.to_string(), "2001:db8:ff09:10:e000::");
    assert_eq!(member.by, By::Table);
    assert_eq!(decision.counters, [Selection::Maglev]);
    let choice = scene.send(&v4()).choice.expect("a choice");
    assert_eq!((choice.hash, choice.word), (0x193a_19b1, 893));
}

/// The bytes of the specification: after the Ethernet header of what goes to a shard.
#[test]
fn the_published_header_comes_out() {
    let mut scene = Scene::new(|_| to_shard(0));
    let frame = v6();
    let decision = scene.send(&frame);
    assert_eq!(decision.action, Action::Redirect { ifindex: UPLINK });
    assert_eq!((decision.end, decision.slot), (End::Shard, None));
    let header = "60000000 0070 29 40 20010db8ff010001e2a5000000000000 \
                  20010db8ff090010e2a5000000000000";
    let digits = decision.output[14..54]
        .iter()
        .map(|byte| format!("{byte:02x}"));
    assert_eq!(digits.collect::<String>(), header.replace([' ', '\n'], ""));
    assert_eq!(decision.output[..14], ethernet(DMAC, SMAC, 0x86dd));
    assert_eq!(decision.output[54..], frame[14..]);
    let frame = v4();
    let (from, to) = ("2001:db8:ff01:1:e2a5::", "2001:db8:ff09:10:e2a5::");
    let expected = encapsulated(&frame, (DMAC, SMAC), from, to);
    assert_eq!(scene.send(&frame).output, expected);
    assert_eq!(expected[20], 4);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let mut scene = Scene::new(|_| to_shard(0));
    for bytes in [0, 13, 14, 53] {
        scene.skips(&v6()[..bytes], End::Short);
    }
    scene.skips(&v4()[..33], End::Short);
    let with = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    scene.skips(&with(v6(), 14, 0x40), End::Short);
    scene.skips(&with(v4(), 14, 0x65), End::Short);
    scene.skips(&with(v6(), 13, 0xde), End::NotIp);
    scene.skips(&with(with(v6(), 12, 0x81), 13, 0), End::NotIp);
    for first in [[0xff, 0x02], [0xff, 0x0e], [0xfe, 0x80], [0xfe, 0xbf]] {
        scene.skips(&with(with(v6(), 38, first[0]), 39, first[1]), End::Local);
    }
    for kind in 133..=137 {
        let frame = v6_from("2001:db8:aaaa::7", ICMPV6, &[kind, 0, 0, 0]);
        scene.skips(&frame, End::Local);
    }
    for kind in [128, 132, 138] {
        let frame = v6_from("2001:db8:aaaa::7", ICMPV6, &[kind, 0, 0, 0]);
        assert_eq!(scene.send(&frame).end, End::Shard);
    }
    for (at, byte) in [(30, 224), (30, 239)] {
        scene.skips(&with(v4(), at, byte), End::Local);
    }
    let mut broadcast = v4();
    broadcast[30..34].fill(255);
    scene.skips(&broadcast, End::Local);
    // The host's metadata address is reached like any other.
    let mut metadata = v4();
    metadata[30..34].copy_from_slice(&[169, 254, 169, 254]);
    assert_eq!(scene.send(&metadata).end, End::Shard);

    let tagged = Packet {
        tagged: true,
        ..Packet::new(TENANT, &metadata, 0)
    };
    let decision = decide(&scene.world, &mut scene.pins, &tagged);
    assert_eq!((decision.action, decision.end), (Action::Next, End::NotIp));
    let elsewhere = Packet::new(UPLINK, &metadata, 0);
    let decision = decide(&scene.world, &mut scene.pins, &elsewhere);
    assert_eq!(
        (decision.action, decision.end),
        (Action::Next, End::NoTenant)
    );

    let encap = scene.world.encap.take();
    scene.skips(&v6(), End::NoSource);
    scene.world.encap = encap;
    scene
        .world
        .routes
        .remove(&Key::new(TABLE, Prefix::DEFAULT_IPV4));
    scene.skips(&v4(), End::NoRoute);
    scene
        .world
        .tenants
        .get_mut(&TENANT)
        .expect("a tenant")
        .enabled = false;
    scene.skips(&v6(), End::NoTenant);
}

#[test]
fn the_longest_prefix_decides() {
    let mut scene = Scene::new(|_| to_shard(0));
    let mut add = |prefix: &str, target| {
        let key = Key::new(TABLE, prefix.parse().expect("a prefix"));
        scene.world.routes.insert(key, Route::new(target));
    };
    add("2001:db8:2::/64", Target::Pass);
    add("198.51.100.0/24", Target::Pass);
    add("198.51.100.1/32", Target::Block(Block::Drop));
    scene.skips(&v6(), End::Pass);
    scene.drops(&v4(), End::Blocked);
    let mut neighbour = v4();
    neighbour[33] = 2;
    scene.skips(&neighbour, End::Pass);
    neighbour[32] = 101;
    let decision = scene.send(&neighbour);
    let (key, _) = decision.route.expect("a route");
    assert_eq!(
        (decision.end, key.prefix),
        (End::Shard, Prefix::DEFAULT_IPV4)
    );
}

#[test]
fn a_group_must_be_the_one_that_is_meant() {
    let first = Incarnation::FIRST;
    let mut scene = Scene::new(|family| to_group(8, first, family));
    scene.drops(&v6(), End::BadRoute);
    scene = Scene::new(|family| to_group(7, first, family));
    scene.drops(&v6(), End::GroupAbsent);

    let mut scene = Scene::of_group(group(pinned()));
    scene.group().incarnation = first.next();
    // Whatever its state: it is another's.
    scene.group().state = State::Disabled;
    scene.drops(&v6(), End::StaleRoute);
    scene.group().incarnation = first;
    scene.drops(&v6(), End::GroupDisabled);
    scene.group().state = State::Closing;
    assert_eq!(scene.send(&v6()).end, End::Group);

    let mut scene = Scene::of_group(group(off()));
    let table = scene.group().table.clone();
    for (word, end) in [
        (0xffff, End::GroupEmpty),
        (64, End::BadSnapshot),
        (63, End::MemberDead),
    ] {
        scene.group().table.fill(word);
        scene.drops(&v6(), end);
    }
    scene.group().table = table;
    scene
        .group()
        .members
        .iter_mut()
        .for_each(|member| member.next_hop = None);
    scene.drops(&v6(), End::MemberDead);
    scene.group().table = vec![0; 1019].into();
    scene.drops(&v6(), End::BadSnapshot);
}

/// Until routes are rewritten, packets are placed by what the routes say.
#[test]
fn a_route_that_is_not_rewritten_yet_is_told() {
    let mut scene = Scene::of_group(group(off()));
    let choice = |scene: &mut Scene| scene.send(&v6()).choice.expect("a choice");
    let before = choice(&mut scene);
    assert!(before.states_agree);
    scene.group().hash_group = HashGroup(1);
    let after = choice(&mut scene);
    assert_eq!((after.hash, after.states_agree), (before.hash, false));
    scene.group().hash_group = HashGroup(0);
    let tenant = scene.world.tenants.get_mut(&TENANT).expect("a tenant");
    tenant.hash_table = HashTable(43);
    let after = choice(&mut scene);
    assert_eq!((after.hash, after.states_agree), (before.hash, false));
}

/// Fragments go together, no extension header is walked, and what is cut off is dropped.
#[test]
fn flows_are_told_apart_by_the_first_header() {
    let settings = Settings {
        hash_mode: HashMode::Flow,
        ..off()
    };
    let mut scene = Scene::of_group(group(settings));
    let mut hash = |frame: &[u8]| scene.send(frame).choice.expect("a choice").hash;
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
    let v4 =
        |protocol, fragment, source| ipv4(from, to, protocol, fragment, &ports(source, 53, 12));
    assert_ne!(hash(&v4(UDP, 0, 1)), hash(&v4(UDP, 0, 2)));
    assert_ne!(hash(&v4(UDP, 0x4000, 1)), hash(&v4(UDP, 0x2000, 1)));
    let fragments = [0x2000, 0x2001, 1, 0x1fff].map(|fragment| hash(&v4(UDP, fragment, fragment)));
    assert!(
        fragments.iter().all(|&hash| hash == fragments[0]),
        "{fragments:x?}"
    );
    for protocol in [1, 33, 132] {
        assert_eq!(hash(&v4(protocol, 0, 1)), hash(&v4(protocol, 0, 2)));
    }
    for next in [0, 43, 44, 50, 51, 60, 132] {
        let v6 = |source| v6_from("2001:db8:aaaa::7", next, &ports(source, 53, 12));
        assert_eq!(hash(&v6(1)), hash(&v6(2)));
    }
    for bytes in 0..4 {
        let cut = &ports(1, 2, 4)[..bytes];
        scene.drops(&ipv4(from, to, TCP, 0, cut), End::Parse);
        scene.drops(&v6_from("2001:db8:aaaa::7", UDP, cut), End::Parse);
        // What pads the frame is none of the packet.
        let mut padded = ipv4(from, to, TCP, 0, cut);
        padded.extend([0x5a; 18]);
        scene.drops(&padded, End::Parse);
    }
    for ihl in 0..5 {
        let mut frame = ipv4(from, to, 1, 0, &[0; 40]);
        frame[14] = 0x40 | ihl;
        scene.drops(&frame, End::Parse);
    }
}

#[test]
fn the_outer_header_is_what_is_asked_for() {
    let mut scene = Scene::new(|_| to_shard(0));
    let plain = scene.world.encap.expect("an encapsulation");
    let fixed = Dscp::Fixed(DscpValue::new(10).expect("a DSCP"));
    // The tenants' frames have 0xba: DSCP 46, ECT(0).
    for (dscp, ecn, class) in [
        (Dscp::Zero, Ecn::Compatibility, 0),
        (Dscp::Copy, Ecn::Compatibility, 0xb8),
        (fixed, Ecn::Compatibility, 0x28),
        (Dscp::Zero, Ecn::Normal, 2),
        (Dscp::Copy, Ecn::Normal, 0xba),
        (fixed, Ecn::Normal, 0x2a),
    ] {
        scene.world.encap = Some(Encap {
            dscp,
            ecn,
            hop_limit: 17,
            ..plain
        });
        for frame in [v6(), v4()] {
            let out = scene.send(&frame).output;
            assert_eq!(out[14..18], (0x6000_0000_u32 | class << 20).to_be_bytes());
            assert_eq!(out[21], 17);
        }
    }
    // A group asks for it by itself.
    let mut scene = Scene::of_group(group(Settings {
        ecn_normal: true,
        ..off()
    }));
    assert_eq!(scene.send(&v6()).output[14..16], [0x60, 0x20]);
    scene.world.encap = Some(Encap {
        flow_label: true,
        ..plain
    });
    let label = |out: &[u8]| u32::from_be_bytes([0, out[15] & 0xf, out[16], out[17]]);
    assert_ne!(label(&scene.send(&v6()).output), 0);
}

#[test]
fn what_does_not_fit_is_dropped() {
    let mut scene = Scene::new(|_| to_shard(1400));
    let v6 = |bytes| v6_from("2001:db8:aaaa::7", UDP, &ports(1, 2, bytes));
    assert_eq!(scene.send(&v6(1400 - 80)).end, End::Shard);
    scene.drops(&v6(1400 - 80 + 1), End::TooBig);
    // What follows the packet's end crosses the link, too.
    let mut padded = v6(1400 - 80);
    padded.push(0);
    scene.drops(&padded, End::TooBig);
    // What says more than there is, and a jumbogram (RFC 2675).
    let mut long = v6(72);
    long[19] += 1;
    scene.drops(&long, End::Parse);
    let mut jumbo = v6_from("2001:db8:aaaa::7", 0, &[UDP, 0, 0xc2, 4, 0, 1, 0, 0]);
    jumbo[19] = 0;
    scene.drops(&jumbo, End::Parse);
    let mut short = self::v4();
    short[17] = 19;
    scene.drops(&short, End::Parse);

    // Segments are what crosses the link.
    let mut send = |payload: &[u8], next, gso_bytes| {
        let frame = v6_from("2001:db8:aaaa::7", next, payload);
        let packet = Packet {
            gso_bytes,
            ..Packet::new(TENANT, &frame, 0)
        };
        decide(&scene.world, &mut scene.pins, &packet).end
    };
    let mut tcp = ports(1, 2, 3000);
    tcp[12] = 8 << 4;
    for (payload, next, headers) in [(&tcp, TCP, 40 + 32), (&ports(1, 2, 3000), UDP, 40 + 8)] {
        let most = 1400 - 40 - headers;
        assert_eq!(send(payload, next, most), End::Shard);
        assert_eq!(send(payload, next, most + 1), End::TooBig);
    }
    // Behind a header of destination options.
    let options = [&[TCP, 0, 1, 4, 0, 0, 0, 0], &tcp[..]].concat();
    assert_eq!(send(&options, 60, 1400 - 40 - 80), End::Shard);
    assert_eq!(send(&options, 60, 1400 - 40 - 80 + 1), End::TooBig);
    // As many headers as may be, and one more.
    let options = |count: usize| {
        let last = [TCP, 0, 1, 4, 0, 0, 0, 0];
        let before = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count - 1);
        [&before[..], &last, &tcp].concat()
    };
    assert_eq!(send(&options(6), 60, 1000), End::Shard);
    assert_eq!(send(&options(7), 60, 1000), End::TooBig);
    // Nobody knows what the headers of that are.
    assert_eq!(send(&tcp, 132, 100), End::TooBig);
}
