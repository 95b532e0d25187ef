// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A socket on which the kernel reports changes.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    bind, getsockopt, recvmsg, setsockopt, socket, sockopt, AddressFamily, MsgFlags, NetlinkAddr,
    SockFlag, SockProtocol, SockType,
};

use super::notice::{notices, Notice};
use crate::kernel::netlink::BUFFER_BYTES;
use crate::kernel::SysError;

/// Changes of links, of neighbours of both families, and of IPv6 routes.
const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_NEIGH | libc::RTMGRP_IPV6_ROUTE;
const OP: &str = "watch";
const OBJECT: &str = "links, neighbours and routes";

/// Changes of links, IPv6 neighbours and IPv6 routes in the network namespace of the thread that
/// opened it. Its descriptor is readable while there are some.
#[derive(Debug)]
pub struct Subscription {
    socket: OwnedFd,
    buffer: Vec<u8>,
    receive_buffer_bytes: usize,
}

/// Why notices are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The kernel had no room for them. It has none for others either until all that are there
    /// were taken, and does not say so again.
    Overrun,
    /// A message was longer than any is.
    Truncated,
    /// A message was not what it says.
    Malformed,
}

/// What came of one attempt to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// There is nothing.
    Nothing,
    /// One datagram, all of whose notices were handed over.
    Notices,
    /// Something is missing; what could be read was handed over.
    Lost(Loss),
}

impl Subscription {
    /// Subscribes, and asks for room for so many bytes of reports that wait. Any thread may; more
    /// room than the host's `net.core.rmem_max` takes CAP_NET_ADMIN, see
    /// [`receive_buffer_bytes`](Self::receive_buffer_bytes).
    ///
    /// # Errors
    /// The kernel gives no socket.
    pub fn open(receive_buffer_bytes: usize) -> Result<Self, SysError> {
        let told = |errno| SysError::from_nix(OP, OBJECT, errno);
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )
        .map_err(told)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &receive_buffer_bytes).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &receive_buffer_bytes).map_err(told)?;
        }
        // The kernel doubles what is asked for, to have room for its own, and tells the double.
        let receive_buffer_bytes = getsockopt(&socket, sockopt::RcvBuf).map_err(told)? / 2;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS as u32)).map_err(told)?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER_BYTES],
            receive_buffer_bytes,
        })
    }

    /// How many bytes there is room for: what was asked for, or what the host allows.
    #[must_use]
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// Takes one datagram without waiting; `each` gets its notices, in the order in which things
    /// happened.
    ///
    /// # Errors
    /// The socket fails in another way than by losing notices.
    pub fn receive(&mut self, each: impl FnMut(Notice)) -> Result<Received, SysError> {
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let received =
            recvmsg::<NetlinkAddr>(self.socket.as_raw_fd(), &mut parts, None, MsgFlags::empty());
        let (length, truncated, sender) = match received {
            Ok(message) => (
                message.bytes,
                message.flags.contains(MsgFlags::MSG_TRUNC),
                message.address.map_or(0, |address| address.pid()),
            ),
            Err(Errno::EAGAIN) => return Ok(Received::Nothing),
            Err(Errno::EINTR) => return Ok(Received::Notices),
            Err(Errno::ENOBUFS) => return Ok(Received::Lost(Loss::Overrun)),
            Err(errno) => return Err(SysError::from_nix(OP, OBJECT, errno)),
        };
        // The kernel is number 0; others can write to this socket too.
        if sender != 0 {
            return Ok(Received::Notices);
        }
        if truncated {
            return Ok(Received::Lost(Loss::Truncated));
        }
        Ok(match notices(&self.buffer[..length], each) {
            Ok(()) => Received::Notices,
            Err(_) => Received::Lost(Loss::Malformed),
        })
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
