// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! BPF links on the XDP hook and the TC hook.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys::{bpf_link_create_opts, bpf_link_info, bpf_link_update_opts};
use nix::libc;

use super::{check, object, owned, size, SysError};

/// What the kernel says about a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) struct LinkInfo {
    pub(in crate::kernel) id: u32,
    pub(in crate::kernel) program_id: u32,
    /// `None`: not a link on the XDP hook. `Some(0)`: its device is gone or it was detached.
    pub(in crate::kernel) xdp_ifindex: Option<u32>,
    /// As `xdp_ifindex`, for a link on the ingress of the TC hook.
    pub(in crate::kernel) tcx_ifindex: Option<u32>,
}

/// Attaches `program` to the XDP hook of an interface; the link owns the place until detached.
pub(in crate::kernel) fn create_xdp(
    program: BorrowedFd<'_>,
    ifindex: u32,
    flags: u32,
) -> Result<OwnedFd, SysError> {
    let options = bpf_link_create_opts {
        sz: size::<bpf_link_create_opts>(),
        flags,
        ..Default::default()
    };
    // SAFETY: the options outlive the call, their pointers are null; the descriptor is new.
    unsafe {
        let result = libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            libbpf_sys::BPF_XDP,
            &options,
        );
        owned(result, "create an XDP link on interface", ifindex)
    }
}

/// Where among the programs on a TC hook a new one runs: flags for the kernel and the number of the
/// program or link that they refer to, 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) struct Position {
    pub(in crate::kernel) flags: u32,
    pub(in crate::kernel) relative_id: u32,
}

/// Attaches `program` to the ingress of the TC hook of an interface, if what is there has the
/// revision `expected`, unless that is 0.
pub(in crate::kernel) fn create_tcx(
    program: BorrowedFd<'_>,
    ifindex: u32,
    position: Position,
    expected: u64,
) -> Result<OwnedFd, SysError> {
    let mut options = bpf_link_create_opts {
        sz: size::<bpf_link_create_opts>(),
        flags: position.flags,
        ..Default::default()
    };
    options.__bindgen_anon_1.tcx.relative_id = position.relative_id;
    options.__bindgen_anon_1.tcx.expected_revision = expected;
    // SAFETY: the options outlive the call, their pointers are null; the descriptor is new.
    unsafe {
        let result = libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            libbpf_sys::BPF_TCX_INGRESS,
            &options,
        );
        owned(result, "create a TCX link on interface", ifindex)
    }
}

/// Exchanges the program of a link in one step, if `expected` is its program now or not given.
pub(in crate::kernel) fn update(
    link: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    expected: Option<BorrowedFd<'_>>,
) -> Result<(), SysError> {
    let options = bpf_link_update_opts {
        sz: size::<bpf_link_update_opts>(),
        flags: expected.map_or(0, |_| libbpf_sys::BPF_F_REPLACE),
        old_prog_fd: expected.map_or(0, |expected| expected.as_raw_fd() as u32),
        ..Default::default()
    };
    // SAFETY: the options outlive the call.
    let result =
        unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), &options) };
    check(result, "exchange the program of the", "link").map(drop)
}

/// Takes the program of a link off its hook, although descriptors and pins of the link remain.
pub(in crate::kernel) fn detach(link: BorrowedFd<'_>) -> Result<(), SysError> {
    // SAFETY: no memory is passed.
    let result = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
    check(result, "detach the", "link").map(drop)
}

pub(in crate::kernel) fn info(link: BorrowedFd<'_>) -> Result<LinkInfo, SysError> {
    let mut raw = bpf_link_info::default();
    // SAFETY: callers pass descriptors of links; all pointers in the zeroed structure are null.
    unsafe { object::info(link, &mut raw, "link")? };
    let xdp_ifindex = if raw.type_ == libbpf_sys::BPF_LINK_TYPE_XDP {
        // SAFETY: the type says that the kernel filled this member; a u32 has no invalid value.
        Some(unsafe { raw.__bindgen_anon_1.xdp.ifindex })
    } else {
        None
    };
    let tcx_ifindex = if raw.type_ == libbpf_sys::BPF_LINK_TYPE_TCX {
        // SAFETY: as above.
        let tcx = unsafe { raw.__bindgen_anon_1.tcx };
        (tcx.attach_type == libbpf_sys::BPF_TCX_INGRESS).then_some(tcx.ifindex)
    } else {
        None
    };
    Ok(LinkInfo {
        id: raw.id,
        program_id: raw.prog_id,
        xdp_ifindex,
        tcx_ifindex,
    })
}

/// The link through which `program_id` is attached to `ifindex`. Looking for it needs
/// CAP_SYS_ADMIN; without, and for programs attached by netlink, there is none.
pub(in crate::kernel) fn find_xdp(ifindex: u32, program_id: u32) -> Option<(u32, OwnedFd)> {
    let mut id = 0;
    loop {
        // SAFETY: the place for the result outlives the call.
        if unsafe { libbpf_sys::bpf_link_get_next_id(id, &mut id) } < 0 {
            return None;
        }
        match by_id(id) {
            Ok(fd) => {
                let found = info(fd.as_fd());
                if found.is_ok_and(|l| l.xdp_ifindex == Some(ifindex) && l.program_id == program_id)
                {
                    return Some((id, fd));
                }
            }
            // Gone since it was listed.
            Err(error) if error.errno == libc::ENOENT => {}
            Err(_) => return None,
        }
    }
}

/// Opens a link by its number, which takes CAP_SYS_ADMIN.
pub(in crate::kernel) fn by_id(id: u32) -> Result<OwnedFd, SysError> {
    // SAFETY: the descriptor is new.
    unsafe { owned(libbpf_sys::bpf_link_get_fd_by_id(id), "open link", id) }
}
