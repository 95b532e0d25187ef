// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! More changes of routes than anybody reads.

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{send, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

use crate::netns::ifindex;

/// Adds or deletes routes to networks of 2001:db9::/32 through an interface, without waiting for
/// answers.
pub(crate) struct Flood {
    pub(crate) socket: OwnedFd,
    ifindex: u32,
}

impl Flood {
    pub(crate) fn new(interface: &str) -> Self {
        let route = SockProtocol::NetlinkRoute;
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, route);
        Self {
            socket: socket.expect("a socket"),
            ifindex: ifindex(interface),
        }
    }

    pub(crate) fn routes(&self, kind: u16, numbers: std::ops::Range<u32>) {
        let messages: Vec<u8> = numbers
            .flat_map(|number| self.route(kind, number))
            .collect();
        let socket = self.socket.as_raw_fd();
        let sent = send(socket, &messages, MsgFlags::empty()).expect("sent");
        assert_eq!(sent, messages.len());
    }

    pub(crate) fn route(&self, kind: u16, number: u32) -> Vec<u8> {
        // linux/netlink.h and linux/rtnetlink.h: a header, `struct rtmsg`, destination, interface.
        let network = Ipv6Addr::from((0x2001_0db9_u128 << 96) | (u128::from(number) << 64));
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_CREATE;
        let mut message = 60_u32.to_ne_bytes().to_vec();
        message.resize(16, 0);
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        let (table, protocol, unicast) = (254, 4, 1);
        message.extend([
            libc::AF_INET6 as u8,
            64,
            0,
            0,
            table,
            protocol,
            0,
            unicast,
            0,
            0,
            0,
            0,
        ]);
        for (attribute, value) in [
            (libc::RTA_DST, network.octets().to_vec()),
            (libc::RTA_OIF, self.ifindex.to_ne_bytes().to_vec()),
        ] {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(attribute.to_ne_bytes());
            message.extend(value);
        }
        message.resize(60, 0);
        message
    }
}
