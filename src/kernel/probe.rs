// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What this kernel can do and this process may do.

use std::fmt;
use std::os::fd::AsFd;

use nix::libc;

use super::sys::{self, SysError};
use super::{log::Capture, program, tc};

/// A right that operations here may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Attach programs, configure interfaces.
    NetAdmin,
    /// Mount file systems, open kernel objects by number.
    SysAdmin,
    /// Trace the kernel.
    Perfmon,
    /// Load programs and create maps.
    Bpf,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NetAdmin, Self::SysAdmin, Self::Perfmon, Self::Bpf];

    const fn bit(self) -> u32 {
        match self {
            Self::NetAdmin => 12,
            Self::SysAdmin => 21,
            Self::Perfmon => 38,
            Self::Bpf => 39,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// The effective rights of the calling thread among [`Capability::ALL`].
pub fn capabilities() -> Result<Vec<Capability>, SysError> {
    let path = "/proc/thread-self/status";
    let status = std::fs::read_to_string(path).map_err(|e| SysError::from_io("read", path, &e))?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| SysError::new("find CapEff in", path, libc::ENODATA))?;
    Ok(Capability::ALL
        .into_iter()
        .filter(|right| mask >> right.bit() & 1 == 1)
        .collect())
}

/// Those of `needed` that the calling thread lacks. CAP_SYS_ADMIN stands for CAP_BPF and
/// CAP_PERFMON, as in the kernel. Empty where the rights cannot be read.
pub fn missing(needed: &[Capability]) -> Vec<Capability> {
    let Ok(held) = capabilities() else {
        return Vec::new();
    };
    let all_powerful = held.contains(&Capability::SysAdmin);
    let stands_in = |right| matches!(right, Capability::Bpf | Capability::Perfmon) && all_powerful;
    needed
        .iter()
        .copied()
        .filter(|right| !held.contains(right) && !stands_in(*right))
        .collect()
}

/// Number of CPUs that can ever be present: the values in an entry of a per-CPU map.
pub fn possible_cpus() -> Result<usize, SysError> {
    // SAFETY: no memory is passed.
    let count = unsafe { libbpf_sys::libbpf_num_possible_cpus() };
    let count = sys::check(count, "count", "possible CPUs")?;
    usize::try_from(count).map_err(|_| SysError::new("count", "possible CPUs", libc::EINVAL))
}

/// Version of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The whole text, as `uname -r` prints it.
    pub text: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The running kernel's version; numbers that cannot be read are 0.
pub fn release() -> Release {
    let text = nix::sys::utsname::uname()
        .map(|names| names.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|digits| digits.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Release { text, major, minor }
}

impl Release {
    /// Whether it is at least Linux `major.minor`.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// What the kernel offers beyond the oldest one supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// XDP programs are attached through links (Linux 5.9); `None` without the rights to try.
    pub xdp_link: Option<bool>,
    /// TC programs are attached through links (TCX, Linux 6.6); `None` without the rights to look.
    pub tcx: Option<bool>,
    /// XDP programs may take packets in fragments (Linux 5.18).
    pub xdp_frags: bool,
    /// Programs can decrypt (`bpf_crypto_decrypt`, Linux 6.10).
    pub crypto_kfuncs: bool,
    /// Programs can ask a map for its number of elements (`bpf_map_sum_elem_count`, Linux 6.6).
    pub map_count_kfunc: bool,
}

/// Tries what can be tried without an effect, and reads the kernel's type information for the
/// rest.
pub fn features() -> Features {
    let capture = Capture::start();
    let types = libbpf_rs::btf::Btf::from_vmlinux().ok();
    let function = |name: &str| {
        types.as_ref().is_some_and(|types| {
            types
                .type_by_name::<libbpf_rs::btf::types::Func<'_>>(name)
                .is_some()
        })
    };
    let features = Features {
        xdp_link: xdp_link(),
        tcx: tc::has_tcx(LOOPBACK).ok(),
        // A program cannot be told apart from one that is refused for lack of rights, and no
        // kernel that has the feature lacks it by configuration.
        xdp_frags: release().at_least(5, 18),
        crypto_kfuncs: function("bpf_crypto_ctx_create") && function("bpf_crypto_decrypt"),
        map_count_kfunc: function("bpf_map_sum_elem_count"),
    };
    drop(capture);
    features
}

/// Loopback, the first interface of every network namespace.
const LOOPBACK: u32 = 1;

/// Whether XDP links exist: loopback refuses native XDP in any case, but a kernel without XDP
/// links refuses the kind of link before it looks at the device.
pub(super) fn xdp_link() -> Option<bool> {
    let program = program::load_pass(c"gw_probe").ok()?;
    match sys::link::create_xdp(program.as_fd(), LOOPBACK, libbpf_sys::XDP_FLAGS_DRV_MODE) {
        Ok(_) => Some(true),
        Err(error) if error.errno == libc::EPERM => None,
        Err(error) => Some(error.errno != libc::EINVAL),
    }
}
