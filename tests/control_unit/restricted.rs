// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Starts a program as systemd starts it by the unit.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use guideway::kernel::probe;
use nix::libc::{self, sock_filter};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};

use crate::seccomp;
use crate::unit::section;

const BITS: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_BPF", 39), (PERFMON, 38)];
/// What the unit has to be given on older kernels, as it says.
pub(crate) const PERFMON: &str = "CAP_PERFMON";
const FAMILIES: [(&str, i32); 4] = [
    ("AF_UNIX", libc::AF_UNIX),
    ("AF_INET", libc::AF_INET),
    ("AF_INET6", libc::AF_INET6),
    ("AF_NETLINK", libc::AF_NETLINK),
];

/// The restrictions of the unit.
#[derive(Debug, Clone)]
pub(crate) struct Restrictions {
    capabilities: u64,
    calls: Vec<sock_filter>,
    families: Vec<sock_filter>,
    writable: Vec<CString>,
    homes: Vec<&'static str>,
}

impl Restrictions {
    /// Those that the unit asks for, or why it is not known here what they are.
    pub(crate) fn of_unit() -> Result<Self, String> {
        let service = section("Service");
        let value = |key: &str| service[key].join(" ");
        let mut capabilities = value("CapabilityBoundingSet");
        if !probe::release().at_least(6, 13) {
            capabilities = format!("{capabilities} {PERFMON}");
        }
        let bits = capabilities.split(' ').map(|name| {
            let bit = BITS.iter().find(|(of, _)| *of == name);
            1 << bit.expect("a known capability").1
        });
        let families = value("RestrictAddressFamilies");
        let families: Vec<_> = families
            .split(' ')
            .map(|name| {
                let family = FAMILIES.iter().find(|(of, _)| *of == name);
                family.expect("a known family").1 as u32
            })
            .collect();
        let allowed = seccomp::allowed(&value("SystemCallFilter"))?;
        let (strict, home) = (value("ProtectSystem"), value("ProtectHome"));
        assert_eq!((&*strict, &*home), ("strict", "yes"));
        let own = ["/dev", "/proc", "/sys"].into_iter();
        let writable = own.chain(service["ReadWritePaths"].iter().copied());
        // Where the tests themselves are in a home it cannot be hidden.
        let this = std::env::current_exe().expect("this test");
        let homes = ["/home", "/root", "/run/user"].into_iter();
        Ok(Self {
            capabilities: bits.sum(),
            calls: seccomp::only(&allowed),
            families: seccomp::families(&families),
            writable: writable
                .map(|path| CString::new(path).expect("a path"))
                .collect(),
            homes: homes
                .filter(|home| Path::new(home).exists() && !this.starts_with(home))
                .collect(),
        })
    }

    /// The rights that they leave, by name.
    pub(crate) fn rights(&self) -> Vec<&'static str> {
        let left = BITS
            .iter()
            .filter(|(_, bit)| self.capabilities & 1 << bit != 0);
        left.map(|(name, _)| *name).collect()
    }

    /// The same without one of these rights.
    pub(crate) fn without(mut self, right: &str) -> Self {
        let (_, bit) = BITS
            .iter()
            .find(|(name, _)| *name == right)
            .expect("a known right");
        assert_ne!(self.capabilities & 1 << bit, 0, "{right} is not granted");
        self.capabilities &= !(1 << bit);
        self
    }

    /// Has a command run under them.
    pub(crate) fn apply(self, command: &mut Command) {
        // SAFETY: what runs between fork and exec makes system calls only, with memory that was
        // there before.
        unsafe {
            command.pre_exec(move || self.enter());
        }
    }

    fn enter(&self) -> io::Result<()> {
        self.mounts()?;
        self.leave_rights()?;
        for filter in [&self.families, &self.calls] {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_ptr().cast_mut(),
            };
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: the filter is as long as it says, and the kernel copies it.
            done(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) })?;
        }
        Ok(())
    }

    /// Everything is read-only but the kernel's own file systems, and homes are empty.
    fn mounts(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        set_read_only(c"/", true)?;
        for path in &self.writable {
            set_read_only(path, false)?;
        }
        for home in &self.homes {
            let flags = MsFlags::MS_RDONLY;
            mount(Some("tmpfs"), *home, Some("tmpfs"), flags, None::<&str>)?;
        }
        Ok(())
    }

    fn leave_rights(&self) -> io::Result<()> {
        let prctl = |option: i32, argument: u64, more: u64| {
            // SAFETY: these options take numbers.
            done(unsafe { libc::prctl(option, argument, more, 0, 0) }.into())
        };
        for bit in 0..64_u64 {
            let known = prctl(libc::PR_CAPBSET_READ, bit, 0).is_ok();
            if known && self.capabilities & 1 << bit == 0 {
                prctl(libc::PR_CAPBSET_DROP, bit, 0)?;
            }
        }
        #[repr(C)]
        struct Header {
            version: u32,
            pid: libc::c_int,
        }
        let header = Header {
            version: 0x2008_0522,
            pid: 0,
        };
        let half = |shift: u32| [(self.capabilities >> shift) as u32; 3];
        let data = [half(0), half(32)];
        // SAFETY: version 3 takes two elements of effective, permitted and inheritable rights.
        done(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) })?;
        for (_, bit) in BITS
            .iter()
            .filter(|(_, bit)| self.capabilities & 1 << bit != 0)
        {
            let raise = libc::PR_CAP_AMBIENT_RAISE as u64;
            prctl(libc::PR_CAP_AMBIENT, raise, u64::from(*bit))?;
        }
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes a mount and all below it.
fn set_read_only(path: &CStr, read_only: bool) -> io::Result<()> {
    let bit = libc::MOUNT_ATTR_RDONLY;
    let attributes = libc::mount_attr {
        attr_set: if read_only { bit } else { 0 },
        attr_clr: if read_only { 0 } else { bit },
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: a path, and a structure of the size that is given.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}
