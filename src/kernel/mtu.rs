// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The MTU of an interface.

use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType};

use super::SysError;

/// Largest payload of a frame on the interface of this name, in bytes.
pub fn mtu(name: &str) -> Result<u32, SysError> {
    let failed = |errno| SysError::from_nix("read the MTU of", name, errno);
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(failed)?;
    // SAFETY: all zeros is a value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel wants the name terminated.
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open, and the request is an ifreq that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) };
    nix::errno::Errno::result(result).map_err(failed)?;
    // SAFETY: the call succeeded, so it is this member of the union that is set.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u32::try_from(mtu).unwrap_or(0))
}
