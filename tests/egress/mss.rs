// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The maximum segment size of a tenant's TCP: what is lowered, and that nothing else is touched.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytemuck::Zeroable;
use guideway::abi;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

const MSS6: u16 = 1220;
const MSS4: u16 = 1240;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn machine() -> Machine {
    let machine = Machine::new();
    machine.default_routes(&machine.to_shard(0x10));
    flags(&machine, abi::TenantFlag::GW_TENANT_MSS.0);
    configure(
        &machine,
        abi::EgressProfile::GW_PROFILE_MSS_CLAMP.0,
        MSS6,
        MSS4,
    );
    machine
}

fn flags(machine: &Machine, more: u32) {
    let flags = (abi::TenantFlag::GW_TENANT_ENABLED.0 | more) as u16;
    machine.want_answers(|row| row.flags = flags);
}

fn configure(machine: &Machine, profile: u32, mss6: u16, mss4: u16) {
    machine.set_config(&abi::EgressConfig {
        node_sid: NODE.parse::<Ipv6Addr>().expect("a SID").octets(),
        profile,
        hop_limit: 64,
        mss6,
        mss4,
        ..Zeroable::zeroed()
    });
}

/// A segment with options, filled up with the one that ends them, and some payload.
fn segment(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut segment = ports(1000, 443, 20);
    segment.extend(options);
    segment.resize(segment.len().next_multiple_of(4), 0);
    segment[12] = (segment.len() as u8 / 4) << 4;
    segment[13] = flags;
    segment.extend([7; 5]);
    segment
}

/// Of both families, with right checksums.
fn frames(segment: &[u8]) -> [Vec<u8>; 2] {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
    let v6 = ipv6(
        address("2001:db8:aaaa::7"),
        address("2001:db8:2::1"),
        TCP,
        segment,
    );
    [v6, ipv4(from, to, TCP, 0x4000, segment)].map(with_checksums)
}

fn mss(value: u16) -> [u8; 4] {
    let [high, low] = value.to_be_bytes();
    [2, 4, high, low]
}

fn comes_out(machine: &Machine, frame: &[u8], inner: &[u8]) {
    let (ran, counted) = machine.run(frame);
    assert_eq!(counted, [(C::GW_EGRESS_SHARD, 1)]);
    assert_eq!(ran.frame[54..], inner[14..], "{frame:x?}");
}

/// All is as it was.
fn stays(machine: &Machine, frame: &[u8]) {
    comes_out(machine, frame, frame);
}

#[test]
fn what_is_larger_is_lowered_and_the_checksum_right() {
    isolated("egress::mss::lowered", || {
        let machine = machine();
        // What comes before it, at even places and at odd ones.
        let befores: [&[u8]; 7] = [
            &[],
            &[1],
            &[1, 1],
            &[4, 2],
            &[3, 3, 7],
            &[8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            &[1; 19],
        ];
        for before in befores {
            for flags in [SYN, SYN | ACK, SYN | 0xc0] {
                for value in [1, 536, MSS6, MSS6 + 1, MSS4, MSS4 + 1, 1460, 8960, u16::MAX] {
                    let options =
                        |value| segment(flags, &[before, &mss(value), &[1, 3, 3, 9]].concat());
                    let sent = frames(&options(value));
                    for ((sent, most), at) in sent.iter().zip([MSS6, MSS4]).zip(0..) {
                        let expected = &frames(&options(value.min(most)))[at];
                        comes_out(&machine, sent, expected);
                    }
                }
            }
        }
    });
}

/// Linux heeds the last that is one, others the first.
#[test]
fn every_option_is_lowered() {
    isolated("egress::mss::several", || {
        let machine = machine();
        let options = |values: [u16; 3]| {
            let [one, two, three] = values.map(mss);
            // Two of another length between, which are none.
            let broken = [2, 3, 0xff];
            let options = [
                &one[..],
                &broken,
                &two,
                &[2, 6, 0xff, 0xff, 0xff, 0xff],
                &[1],
                &three,
            ];
            segment(SYN, &options.concat())
        };
        for values in [
            [1460; 3],
            [1, 9000, 1300],
            [9000, 1, 1220],
            [1, 2, 9000],
            [1, 2, 3],
        ] {
            for (sent, (most, at)) in frames(&options(values)).iter().zip([(MSS6, 0), (MSS4, 1)]) {
                let expected = values.map(|value| value.min(most));
                comes_out(&machine, sent, &frames(&options(expected))[at]);
            }
        }
    });
}

#[test]
fn nothing_else_is_touched() {
    isolated("egress::mss::others", || {
        let machine = machine();
        let large = mss(9000);
        let behind = |before: &[u8]| segment(SYN, &[before, &large].concat());
        let mut segments = vec![
            // No SYN, or no option.
            segment(ACK, &large),
            segment(0, &large),
            segment(SYN, &[]),
            segment(SYN, &[4, 2, 3, 3, 7]),
            // Behind the end, a broken one, or more than are looked at.
            behind(&[0]),
            behind(&[3, 0]),
            behind(&[3, 1]),
            behind(&[1; 20]),
            behind(&[8, 200]),
            // An MSS that is none.
            segment(SYN, &[2, 3, 0x23, 0x28]),
            segment(SYN, &[2, 6, 0x23, 0x28, 0, 0]),
            // Cut off at the end of the header, which payload follows.
            segment(SYN, &[1, 1, 2, 4]),
            segment(SYN, &[1, 2, 4, 0x23]),
        ];
        // The header says to go on behind the packet's end, or to end before its options.
        let mut cut = segment(SYN, &large);
        cut.truncate(24);
        cut[12] = 0x70;
        segments.push(cut);
        let mut short = segment(SYN, &large);
        short[12] = 0x50;
        segments.push(short);
        let mut none = segment(SYN, &large);
        none[12] = 0x30;
        segments.push(none);
        for segment in segments {
            for frame in frames(&segment) {
                stays(&machine, &frame);
            }
        }
        // What fills the frame up is none of the packet.
        for mut frame in frames(&segment(SYN, &[])[..20]) {
            let at = frame.len() - 20 + 12;
            frame[at] = 0x60;
            frame.extend(large);
            stays(&machine, &frame);
        }
        let [v6, v4] = frames(&segment(SYN, &large));
        for (frame, at, value) in [
            // Fragments, and what is behind extension headers.
            (&v4, 20, 0x20),
            (&v4, 21, 1),
            (&v6, 20, 44),
            (&v6, 20, 60),
            // Other protocols, and a header shorter than there are.
            (&v6, 20, UDP),
            (&v4, 23, UDP),
            (&v4, 14, 0x44),
        ] {
            let mut frame = frame.clone();
            frame[at] = value;
            stays(&machine, &frame);
        }
    });
}

#[test]
fn nobodys_is_lowered_who_did_not_ask_for_it() {
    isolated("egress::mss::off", || {
        let machine = machine();
        let sent = frames(&segment(SYN, &mss(9000)));
        let silent = || sent.iter().for_each(|frame| stays(&machine, frame));
        let clamp = abi::EgressProfile::GW_PROFILE_MSS_CLAMP.0;
        flags(&machine, 0);
        silent();
        flags(&machine, abi::TenantFlag::GW_TENANT_MSS.0);
        configure(&machine, 0, MSS6, MSS4);
        silent();
        configure(&machine, clamp, 0, 0);
        silent();
        // Each family has its own.
        configure(&machine, clamp, 0, MSS4);
        stays(&machine, &sent[0]);
        comes_out(&machine, &sent[1], &frames(&segment(SYN, &mss(MSS4)))[1]);
        configure(&machine, clamp, MSS6, 0);
        stays(&machine, &sent[1]);
        comes_out(&machine, &sent[0], &frames(&segment(SYN, &mss(MSS6)))[0]);
    });
}
