// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bulk transfers and datagrams of every size, both ways.

use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::tc;
use nix::sys::socket::{getsockopt, sockopt};

use crate::frames::*;
use crate::machine::*;
use crate::netns;
use crate::raw::Raw;
use crate::world::*;

/// With segmentation by the device and without, and with checksums by it and by the tenant.
fn through_the_kernel(name: &'static str, server: &'static str) {
    netns::isolated(name, move || {
        if !netns::require_seg6(name) {
            return;
        }
        let world = world(&tc::Options::default());
        let off = |feature: &str| {
            let set = world.tenant.offload("gw-inside", feature, "off");
            set.expect("a feature");
        };
        // What the device is to cut up is longer than any frame.
        let average = world.exchange(server);
        assert!(average > u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tso");
        off("gso");
        let average = world.exchange(server);
        assert!(average <= u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tx");
        world.exchange(server);
        let dropped: u64 = world.machine.counters()[32..64].iter().sum();
        assert_eq!(dropped, 0);
    });
}

#[test]
fn linux_decapsulates_ipv6() {
    through_the_kernel("e2e_egress::dx6", SERVER6);
}

#[test]
fn linux_decapsulates_ipv4() {
    through_the_kernel("e2e_egress::dx4", SERVER4);
}

/// As on kernels before Linux 6.6.
#[test]
fn a_filter_of_clsact_does_the_same() {
    netns::isolated("e2e_egress::clsact", || {
        if !netns::require_seg6("e2e_egress::clsact") {
            return;
        }
        let world = world(&tc::Options {
            way: tc::Way::Clsact,
            ..tc::Options::default()
        });
        world.exchange(SERVER6);
        world.exchange(SERVER4);
        assert!(world.count(C::GW_EGRESS_GROUP) > 20);
    });
}

/// Echo requests are answered by the server, and the answers come back past the shard.
#[test]
fn echo_requests_come_back() {
    in_world("e2e_egress::echo", |world| {
        let raw = Raw::listener(&world.tenant, "gw-inside");
        let mut echo = vec![0, 0, 0, 0, 0x12, 0x34, 0, 1];
        echo.extend(bytes(777));
        let far6 = SERVER6.parse().expect("an address");
        let far4 = SERVER4.parse().expect("an address");
        let tenant6 = TENANT6.parse().expect("an address");
        let tenant4 = TENANT4.parse().expect("an address");
        echo[0] = 128;
        raw.send(&with_checksums(ipv6(tenant6, far6, ICMPV6, &echo)));
        raw.receive(|frame| {
            frame.len() == 54 + echo.len() && frame[54] == 129 && frame[58..] == echo[4..]
        });
        echo[0] = 8;
        let sum = checksum(&echo);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut frame = ipv4(tenant4, far4, 1, 0, &echo);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        raw.send(&frame);
        raw.receive(|frame| {
            frame.len() == 34 + echo.len() && frame[34] == 0 && frame[38..] == echo[4..]
        });
    });
}

/// The server sends what the node allows, and not what the tenant's link does.
#[test]
fn a_lowered_segment_size_is_kept() {
    for offloads in [&[][..], &["tx"]] {
        in_world("e2e_egress::mss", move |world| {
            for offload in offloads {
                let set = world.tenant.offload("gw-inside", offload, "off");
                set.expect("a feature");
            }
            let flags = abi::TenantFlag::GW_TENANT_ENABLED.0 | abi::TenantFlag::GW_TENANT_MSS.0;
            world.machine.want_answers(|row| row.flags = flags as u16);
            world.machine.set_config(&abi::EgressConfig {
                node_sid: NODE.parse::<Ipv6Addr>().expect("a SID").octets(),
                profile: abi::EgressProfile::GW_PROFILE_MSS_CLAMP.0,
                hop_limit: 64,
                mss6: 700,
                mss4: 800,
                ..Zeroable::zeroed()
            });
            for (server, most) in [(SERVER6, 700), (SERVER4, 800)] {
                let at = address(server);
                let listener = world.server.run(|| TcpListener::bind(at)).expect("inside");
                let listener = listener.expect("a listener");
                let limit = Duration::from_secs(20);
                let stream = world.tenant.run(|| TcpStream::connect_timeout(&at, limit));
                let _stream = stream.expect("inside").expect("connected");
                let (accepted, _) = listener.accept().expect("a connection");
                // Less the bytes of options that every segment has.
                let size = getsockopt(&accepted, sockopt::TcpMaxSeg).expect("a size");
                assert!(size <= most && size >= most - 40, "{size}");
            }
        });
    }
}
