// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random frames: whole ones to a generation's services for the most part, and damaged ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::plan::{Generation, PlacedService};
use guideway::quic::Cid;
use guideway::service::{Protocol, Service};

use crate::build::{self, Ext};
use crate::payloads::{self, About};
use crate::pool::Pool;
use crate::random::Random;
use crate::specs::{PORTS, VIPS};
use crate::LEAST_FRAME;

pub(crate) fn frame(random: &mut Random, generation: &Generation, pool: &Pool) -> Vec<u8> {
    let mut frame = match random.below(100) {
        0..=1 => {
            let len = random.below(200);
            random.bytes(len)
        }
        2..=3 => other_ethertype(random),
        _ => whole(random, generation, pool),
    };
    damage(random, &mut frame);
    if frame.len() < LEAST_FRAME {
        frame.resize(LEAST_FRAME, 0);
    }
    frame
}

fn other_ethertype(random: &mut Random) -> Vec<u8> {
    let ethertype = *random.pick(&[0x0806, 0x9100, 0x0064, 0x88cc, 0x0800, 0x86dd]);
    let body = random.bytes(46);
    build::ethernet(&[], ethertype, &body)
}

/// Both ends of a flow of one service, or of one that is nearly one.
struct Ends<'a> {
    service: &'a Service,
    placed: &'a PlacedService,
    protocol: u8,
    client: IpAddr,
    client_port: u16,
    vip: IpAddr,
    vip_port: u16,
    cids: &'a [Cid],
}

impl<'a> Ends<'a> {
    fn about(&self) -> About<'a> {
        About {
            service: self.service,
            placed: self.placed,
            cids: self.cids,
        }
    }
}

fn ends<'a>(random: &mut Random, generation: &'a Generation, pool: &'a Pool) -> Ends<'a> {
    let index = random.below(generation.services.len());
    let service = &generation.spec.services()[index];
    let protocol = match random.percent(96) {
        true => service.protocol,
        false => *random.pick(Protocol::ALL),
    };
    let vip = match random.percent(96) {
        true => service.vip,
        false => random.pick(&VIPS).parse().unwrap(),
    };
    let vip_port = match random.below(40) {
        0 => 0,
        1 => *random.pick(&PORTS),
        2 => random.next() as u16,
        _ => service.port,
    };
    let (client, client_port) = match random.percent(85) {
        true => (pool.client(random, vip), *random.pick(&pool.ports)),
        false => (any_client(random, vip), random.next() as u16),
    };
    Ends {
        service,
        placed: &generation.services[index],
        protocol: protocol.number(),
        client,
        client_port,
        vip,
        vip_port,
        cids: &pool.cids[index],
    }
}

/// An address of the same family.
pub(crate) fn any_client(random: &mut Random, vip: IpAddr) -> IpAddr {
    match vip {
        IpAddr::V4(_) => Ipv4Addr::from(random.next() as u32).into(),
        IpAddr::V6(_) => {
            let (high, low) = (u128::from(random.next()), u128::from(random.next()));
            Ipv6Addr::from(high << 64 | low).into()
        }
    }
}

fn whole(random: &mut Random, generation: &Generation, pool: &Pool) -> Vec<u8> {
    let ends = ends(random, generation, pool);
    let packet = match random.below(100) {
        0..=16 => icmp(random, &ends),
        17..=19 => {
            let protocol = *random.pick(&[2, 41, 50, 59, 132, 135, 139, 140, 1, 58]);
            let body = random.bytes(24);
            packet(random, ends.client, ends.vip, protocol, &body)
        }
        _ => {
            let l4 = request(random, &ends);
            packet(random, ends.client, ends.vip, ends.protocol, &l4)
        }
    };
    let tags = match random.below(20) {
        0..=12 => 0,
        13..=15 => 1,
        16..=18 => 2,
        _ => 3,
    };
    let tags: Vec<_> = (0..tags)
        .map(|_| (*random.pick(&[0x8100, 0x88a8]), random.next() as u16))
        .collect();
    let ethertype = if ends.vip.is_ipv4() { 0x0800 } else { 0x86dd };
    let mut frame = build::ethernet(&tags, ethertype, &packet);
    frame[..12].copy_from_slice(&random.bytes(12));
    frame
}

/// A client's datagram or segment.
fn request(random: &mut Random, ends: &Ends<'_>) -> Vec<u8> {
    if ends.protocol == build::UDP {
        let payload = payloads::payload(random, &ends.about());
        let mut datagram = build::udp(ends.client_port, ends.vip_port, &payload);
        other_length(random, &mut datagram);
        return datagram;
    }
    let flags = match random.percent(70) {
        true => *random.pick(&[0x02, 0x10, 0x10, 0x11, 0x04]),
        false => random.byte(),
    };
    let mut segment = build::tcp(ends.client_port, ends.vip_port, flags);
    if random.percent(30) {
        segment[12] = random.byte();
    }
    if random.percent(60) {
        let len = random.below(40);
        segment.extend(random.bytes(len));
    }
    segment
}

/// Now and then, another UDP length.
fn other_length(random: &mut Random, datagram: &mut [u8]) {
    let len = match random.below(30) {
        0 => random.below(10),
        1 => random.next() as usize,
        2 => datagram.len() + 1,
        3 => random.between(8, datagram.len()),
        _ => return,
    };
    datagram[4..6].copy_from_slice(&(len as u16).to_be_bytes());
}

fn icmp(random: &mut Random, ends: &Ends<'_>) -> Vec<u8> {
    let is_v4 = ends.vip.is_ipv4();
    let errors: &[u8] = if is_v4 { &[3, 11] } else { &[1, 2, 3] };
    let icmp_type = match random.percent(90) {
        true => *random.pick(errors),
        false => *random.pick(&[0, 4, 5, 8, 12, 128, 135]),
    };
    // What the service sent.
    let l4 = if ends.protocol == build::UDP {
        let payload = payloads::sent(random, &ends.about());
        let mut datagram = build::udp(ends.vip_port, ends.client_port, &payload);
        other_length(random, &mut datagram);
        datagram
    } else {
        build::tcp(ends.vip_port, ends.client_port, random.byte())
    };
    let source = match random.percent(95) {
        true => ends.vip,
        false => ends.client,
    };
    let mut quoted = packet(random, source, ends.client, ends.protocol, &l4);
    if random.percent(30) {
        let len = random.between(0, quoted.len());
        quoted.truncate(len);
    }
    let message = build::icmp(icmp_type, random.byte(), &quoted);
    let router: IpAddr = if is_v4 {
        [192, 0, 2, 254].into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    let protocol = if is_v4 { build::ICMP } else { build::ICMPV6 };
    packet(random, router, ends.vip, protocol, &message)
}

/// An IP packet with options or extension headers now and then, whole or part of one.
fn packet(random: &mut Random, from: IpAddr, to: IpAddr, protocol: u8, l4: &[u8]) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let options = match random.percent(80) {
                true => 0,
                false => 4 * random.between(1, 10),
            };
            let mut packet = build::ipv4_between(from, to, protocol, options, l4);
            match random.below(30) {
                // More fragments; an offset; both.
                0 => packet[6] |= 0x20,
                1 => packet[7] = random.byte() | 1,
                2 => packet[6] = random.byte(),
                _ => {}
            }
            packet
        }
        (from, to) => {
            let count = match random.percent(70) {
                true => 0,
                false => random.between(1, 7),
            };
            let exts: Vec<_> = (0..count).map(|_| ext(random)).collect();
            build::ipv6_between(to_v6(from), to_v6(to), &exts, protocol, l4)
        }
    }
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn ext(random: &mut Random) -> Ext {
    let units = match random.percent(90) {
        true => random.between(1, 4),
        false => random.between(5, 64),
    };
    match random.below(14) {
        0..=3 => build::options(0, 8 * units),
        4..=6 => build::options(60, 8 * units),
        7 => build::routing(8 * units, u8::from(random.percent(20))),
        8..=9 => build::authentication(4 * (units + 1)),
        10 => build::fragment(0, false),
        _ => {
            let offset = *random.pick(&[0, 0, 1, 0x1fff]);
            build::fragment(offset, random.percent(50))
        }
    }
}

fn damage(random: &mut Random, frame: &mut Vec<u8>) {
    // Headers are where damage matters.
    let near = |random: &mut Random, len: usize| match random.percent(80) {
        true => random.below(len.min(120)),
        false => random.below(len),
    };
    if random.percent(20) {
        for _ in 0..random.between(1, 3) {
            if !frame.is_empty() {
                let at = near(random, frame.len());
                match random.percent(50) {
                    true => frame[at] ^= 1 << random.below(8),
                    false => frame[at] = random.byte(),
                }
            }
        }
    }
    match random.below(20) {
        0..=1 if !frame.is_empty() => {
            let len = near(random, frame.len());
            frame.truncate(len);
        }
        2..=4 => {
            let padding = match random.below(4) {
                0 => random.between(1, 6000),
                _ => 60_usize.saturating_sub(frame.len()),
            };
            frame.extend(random.bytes(padding));
        }
        _ => {}
    }
}
