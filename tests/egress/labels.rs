// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flow labels of the outer header.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::abi;
use guideway::flow_label::{flow_label, Subject};

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

fn machine() -> Machine {
    let machine = Machine::new();
    machine.default_routes(&machine.to_shard(0x10));
    machine.configure(abi::EgressProfile::GW_PROFILE_FLOW_LABEL.0);
    machine
}

fn label(machine: &Machine, frame: &[u8]) -> u32 {
    let out = machine.run(frame).0.frame;
    let first = u32::from_be_bytes(out[14..18].try_into().expect("four bytes"));
    assert_eq!(first >> 20, 0x600);
    first & 0xf_ffff
}

fn far() -> Ipv6Addr {
    "2001:db8:2::1".parse().expect("an address")
}

/// The same with this label of its own.
fn labelled(mut frame: Vec<u8>, label: u32) -> Vec<u8> {
    frame[14..18].copy_from_slice(&(0x6000_0000 | label).to_be_bytes());
    frame
}

fn ports_of(protocol: u8, source: u16, destination: u16) -> Subject {
    Subject::Ports {
        protocol,
        source,
        destination,
    }
}

#[test]
fn the_kernel_and_the_library_agree() {
    isolated("egress::labels::agree", || {
        let machine = machine();
        for number in 0..500_u32 {
            let port = 1000 + number as u16;
            let source = Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, number as u16, 7);
            for next in [TCP, UDP, 44, 132] {
                let frame = ipv6(source, far(), next, &ports(port, 443, 20));
                let ends = (IpAddr::V6(source), IpAddr::V6(far()));
                let by_label = flow_label(ends.0, ends.1, Subject::Label(number + 1));
                assert_eq!(
                    label(&machine, &labelled(frame.clone(), number + 1)),
                    by_label
                );
                let subject = match next {
                    TCP | UDP => ports_of(next, port, 443),
                    _ => ports_of(next, 0, 0),
                };
                let by_ports = flow_label(ends.0, ends.1, subject);
                assert_eq!(label(&machine, &labelled(frame, 0)), by_ports);
            }
            let (from, to) = (
                Ipv4Addr::from(0x0a00_0000 + number),
                Ipv4Addr::new(9, 9, 9, 9),
            );
            for (fragment, hashed) in [(0x4000, [port, 443]), (0x2000, [0, 0]), (7, [0, 0])] {
                let frame = ipv4(from, to, UDP, fragment, &ports(port, 443, 20));
                let subject = ports_of(UDP, hashed[0], hashed[1]);
                let expected = flow_label(from.into(), to.into(), subject);
                assert_eq!(label(&machine, &frame), expected);
            }
        }
        // Cut off before its ports: labelled and sent.
        let frame = ipv6(far(), far(), UDP, &[1, 2]);
        let expected = flow_label(far().into(), far().into(), ports_of(UDP, 0, 0));
        assert_eq!(label(&machine, &labelled(frame, 0)), expected);
    });
}

#[test]
fn without_the_profile_there_is_none() {
    isolated("egress::labels::off", || {
        let machine = machine();
        machine.configure(0);
        let frame = ipv6(far(), far(), TCP, &ports(1, 2, 20));
        assert_eq!(label(&machine, &frame), 0);
    });
}

/// Sixteen buckets by the lowest bits, by the highest and by some between: the 99.9th percentile of
/// chi-square with 15 degrees of freedom is 37.70.
#[test]
fn flows_spread() {
    let flows = |number: u32| {
        let source = Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, (number % 100) as u16);
        let subject = ports_of(TCP, 1024 + (number / 100) as u16, 443);
        flow_label(source.into(), far().into(), subject)
    };
    let labels: Vec<_> = (0..10_000).map(flows).collect();
    assert!(labels.iter().all(|&label| label > 0 && label < 1 << 20));
    for shift in [0, 4, 8, 12, 16] {
        let mut buckets = [0_u32; 16];
        for label in &labels {
            buckets[(label >> shift & 15) as usize] += 1;
        }
        let expected = labels.len() as f64 / 16.0;
        let square = |&count: &u32| (f64::from(count) - expected).powi(2) / expected;
        let sum: f64 = buckets.iter().map(square).sum();
        assert!(
            sum < 37.70,
            "{sum} by the bits from {shift} on: {buckets:?}"
        );
    }
    // Of 10,000 draws out of 2^20 about 48 meet another.
    let different: BTreeSet<_> = labels.iter().collect();
    assert!(different.len() > 9_900, "{}", different.len());
}
