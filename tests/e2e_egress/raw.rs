// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames byte by byte, out of an interface and off it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{bind, recv, sendto, setsockopt, socket, sockopt};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::net::Namespace;
use crate::netns;

/// A socket for whole frames of one interface.
pub(crate) struct Raw {
    socket: OwnedFd,
    interface: LinkAddr,
}

impl Raw {
    /// Sends alone.
    pub(crate) fn sender(inside: &Namespace, interface: &str) -> Self {
        let open = || Self {
            socket: socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::empty(),
                None,
            )
            .expect("a socket"),
            interface: netns::packet_address(netns::ifindex(interface)),
        };
        inside.run(open).expect("inside")
    }

    /// Sees a copy of each frame that comes and goes from now on.
    pub(crate) fn listener(inside: &Namespace, interface: &str) -> Self {
        let open = || {
            let all = SockProtocol::EthAll;
            let flags = SockFlag::empty();
            let socket =
                socket(AddressFamily::Packet, SockType::Raw, flags, all).expect("a socket");
            let limit = TimeVal::seconds(10);
            setsockopt(&socket, sockopt::ReceiveTimeout, &limit).expect("a time-out");
            let interface = netns::packet_address(netns::ifindex(interface));
            bind(socket.as_raw_fd(), &interface).expect("bound");
            Self { socket, interface }
        };
        inside.run(open).expect("inside")
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        let sent = sendto(
            self.socket.as_raw_fd(),
            frame,
            &self.interface,
            MsgFlags::empty(),
        );
        assert_eq!(sent.expect("sent"), frame.len());
    }

    /// Sends a frame of a page or more in such a way that the kernel keeps only its first 14 bytes
    /// where it looks for headers, and all others in pages.
    pub(crate) fn send_in_pages(&self, frame: &[u8]) {
        assert!(frame.len() >= 4096);
        let on: libc::c_int = 1;
        let set = |value: &libc::c_int| {
            // SAFETY: the value is an integer of the length that is said, and outlives the call.
            let result = unsafe {
                libc::setsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_VNET_HDR,
                    std::ptr::from_ref(value).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        };
        set(&on);
        // struct virtio_net_hdr: only hdr_len is not 0.
        let mut bytes = vec![0, 0, 14, 0, 0, 0, 0, 0, 0, 0];
        if cfg!(target_endian = "big") {
            bytes.swap(2, 3);
        }
        bytes.extend(frame);
        self.send(&bytes);
        set(&0);
    }

    /// The next frame that `wanted` holds for.
    pub(crate) fn receive(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
        let mut buffer = vec![0; 70_000];
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while std::time::Instant::now() < end {
            let got = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
            let frame = &buffer[..got.expect("a frame in time")];
            if wanted(frame) {
                return frame.to_vec();
            }
        }
        panic!("other frames only");
    }
}
