// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The XDP hook by netlink. What the driver says about a refusal becomes the error's detail.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::{bpf_xdp_attach_opts, bpf_xdp_query_opts};

use super::{size, SysError};
use crate::kernel::log::Capture;

/// Program ids by attach mode, 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::kernel) struct Hook {
    pub(in crate::kernel) native: u32,
    pub(in crate::kernel) generic: u32,
    pub(in crate::kernel) hardware: u32,
}

pub(in crate::kernel) fn query(ifindex: u32) -> Result<Hook, SysError> {
    let mut options = bpf_xdp_query_opts {
        sz: size::<bpf_xdp_query_opts>(),
        ..Default::default()
    };
    // SAFETY: the options outlive the call.
    told("query XDP on interface", ifindex, || unsafe {
        libbpf_sys::bpf_xdp_query(ifindex as i32, 0, &mut options)
    })?;
    let mut hook = Hook {
        native: options.drv_prog_id,
        generic: options.skb_prog_id,
        hardware: options.hw_prog_id,
    };
    // With a single program old kernels name it only once, beside the mode.
    match u32::from(options.attach_mode) {
        libbpf_sys::XDP_ATTACHED_DRV if hook.native == 0 => hook.native = options.prog_id,
        libbpf_sys::XDP_ATTACHED_SKB if hook.generic == 0 => hook.generic = options.prog_id,
        libbpf_sys::XDP_ATTACHED_HW if hook.hardware == 0 => hook.hardware = options.prog_id,
        _ => {}
    }
    Ok(hook)
}

/// Attaches `program` where nothing is attached; somebody else's program is EBUSY or EEXIST.
pub(in crate::kernel) fn attach(
    ifindex: u32,
    program: BorrowedFd<'_>,
    mode: u32,
) -> Result<(), SysError> {
    let flags = mode | libbpf_sys::XDP_FLAGS_UPDATE_IF_NOEXIST;
    // SAFETY: absent options are allowed.
    told("attach XDP to interface", ifindex, || unsafe {
        libbpf_sys::bpf_xdp_attach(ifindex as i32, program.as_raw_fd(), flags, std::ptr::null())
    })
}

/// Exchanges `expected` for `program`; another program there is EEXIST.
pub(in crate::kernel) fn replace(
    ifindex: u32,
    program: BorrowedFd<'_>,
    expected: BorrowedFd<'_>,
    mode: u32,
) -> Result<(), SysError> {
    let options = expecting(expected);
    let flags = mode | libbpf_sys::XDP_FLAGS_REPLACE;
    // SAFETY: the options outlive the call.
    told(
        "exchange the XDP program of interface",
        ifindex,
        || unsafe {
            libbpf_sys::bpf_xdp_attach(ifindex as i32, program.as_raw_fd(), flags, &options)
        },
    )
}

/// Removes `expected`; another program in this mode, or none, is EEXIST.
pub(in crate::kernel) fn detach(
    ifindex: u32,
    expected: BorrowedFd<'_>,
    mode: u32,
) -> Result<(), SysError> {
    let options = expecting(expected);
    let flags = mode | libbpf_sys::XDP_FLAGS_REPLACE;
    // SAFETY: the options outlive the call.
    told("detach XDP from interface", ifindex, || unsafe {
        libbpf_sys::bpf_xdp_detach(ifindex as i32, flags, &options)
    })
}

/// Makes a netlink call of libbpf, which prints what the kernel says and returns only a number.
fn told(op: &'static str, ifindex: u32, call: impl FnOnce() -> i32) -> Result<(), SysError> {
    let capture = Capture::start();
    let result = call();
    let detail = capture.finish();
    if result < 0 {
        return Err(SysError {
            detail,
            ..SysError::new(op, ifindex, -result)
        });
    }
    Ok(())
}

fn expecting(program: BorrowedFd<'_>) -> bpf_xdp_attach_opts {
    bpf_xdp_attach_opts {
        sz: size::<bpf_xdp_attach_opts>(),
        old_prog_fd: program.as_raw_fd(),
        ..Default::default()
    }
}
