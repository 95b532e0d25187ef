// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Rights of the calling thread.

#![allow(dead_code)] // each test binary uses a part

use nix::libc;

/// The bits of <linux/capability.h>.
pub(crate) const NET_ADMIN: u32 = 12;
pub(crate) const SYS_ADMIN: u32 = 21;
pub(crate) const PERFMON: u32 = 38;
pub(crate) const BPF: u32 = 39;

/// What all of this takes: before Linux 6.13 verifiers are too strict without the third.
pub(crate) fn enough() -> Vec<u32> {
    let mut rights = vec![BPF, NET_ADMIN];
    if !guideway::kernel::probe::release().at_least(6, 13) {
        rights.push(PERFMON);
    }
    rights
}

/// Leaves the calling thread with these rights alone.
pub(crate) fn keep(rights: &[u32]) {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut data = [Data::default(); 2];
    for right in rights {
        let half = &mut data[(right / 32) as usize];
        half.effective |= 1 << (right % 32);
        half.permitted |= 1 << (right % 32);
    }
    // Version 3 of the structure, of the calling thread.
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    // SAFETY: version 3 takes a header and two elements of data, and writes to the header only if
    // it does not know the version.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
