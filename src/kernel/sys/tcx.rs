// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is on the TC hook of an interface as far as it is TCX.

use libbpf_sys::bpf_prog_query_opts;
use nix::libc;

use super::{check, size, SysError};

/// `BPF_MPROG_MAX`: the kernel lets no more programs on a hook.
const MAX_PROGRAMS: usize = 64;

/// The TCX programs at the ingress of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) struct Hook {
    /// Changes with every change of what is attached; 1 while nothing is.
    pub(in crate::kernel) revision: u64,
    /// Ids of program and link, 0 for none, in the order in which they run.
    pub(in crate::kernel) programs: Vec<(u32, u32)>,
}

/// What is there; none on kernels without TCX.
pub(in crate::kernel) fn query(ifindex: u32) -> Result<Option<Hook>, SysError> {
    let (mut programs, mut links) = ([0_u32; MAX_PROGRAMS], [0_u32; MAX_PROGRAMS]);
    let mut options = bpf_prog_query_opts {
        sz: size::<bpf_prog_query_opts>(),
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MAX_PROGRAMS as u32;
    // SAFETY: the options and the two arrays, of as many members as is said, outlive the call.
    let result = unsafe {
        libbpf_sys::bpf_prog_query_opts(ifindex as i32, libbpf_sys::BPF_TCX_INGRESS, &mut options)
    };
    match check(result, "query TCX on interface", ifindex) {
        Err(error) if error.errno == libc::EINVAL => return Ok(None),
        result => result?,
    };
    // SAFETY: the only members of the union are two names of the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(Some(Hook {
        revision: options.revision,
        programs: programs.into_iter().zip(links).take(count).collect(),
    }))
}
