// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What this kernel can do and this process may do.

use std::fmt;
use std::os::fd::AsFd;

use nix::libc;

use super::map::{Map, MapKind, MapShape, Update};
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

/// The error of a call that takes these rights, with those in it that the calling thread lacks.
pub(crate) fn lacking(mut error: SysError, needed: &[Capability]) -> SysError {
    let missing = match error.errno {
        libc::EPERM => missing(needed),
        _ => Vec::new(),
    };
    if !missing.is_empty() {
        error.detail = format!("missing right: {}", list(&missing));
    }
    error
}

/// Rights as messages name them.
pub(super) fn list(rights: &[Capability]) -> String {
    let names = rights.iter().map(ToString::to_string);
    names.collect::<Vec<_>>().join(", ")
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

/// What the egress datapath needs, by name: whether nothing goes without it, and why it is not
/// there. Takes CAP_BPF and CAP_NET_ADMIN.
pub(crate) fn egress() -> Vec<(&'static str, bool, Option<String>)> {
    let _quiet = Capture::start();
    // SAFETY: absent options are allowed, and no other memory is passed.
    let program = unsafe { libbpf_sys::libbpf_probe_bpf_prog_type(SCHED_CLS, std::ptr::null()) };
    let mut found = vec![("program type sched_cls", true, verdict(program))];
    for (name, kind) in [
        ("map type hash", libbpf_sys::BPF_MAP_TYPE_HASH),
        ("map type lpm_trie", libbpf_sys::BPF_MAP_TYPE_LPM_TRIE),
        (
            "map type array_of_maps",
            libbpf_sys::BPF_MAP_TYPE_ARRAY_OF_MAPS,
        ),
        ("map type ringbuf", libbpf_sys::BPF_MAP_TYPE_RINGBUF),
        (
            "map type percpu_array",
            libbpf_sys::BPF_MAP_TYPE_PERCPU_ARRAY,
        ),
    ] {
        // SAFETY: as above.
        let map = unsafe { libbpf_sys::libbpf_probe_bpf_map_type(kind, std::ptr::null()) };
        found.push((name, true, verdict(map)));
    }
    for (name, helper) in [
        (
            "helper ktime_get_coarse_ns",
            libbpf_sys::BPF_FUNC_ktime_get_coarse_ns,
        ),
        (
            "helper skb_adjust_room",
            libbpf_sys::BPF_FUNC_skb_adjust_room,
        ),
        (
            "helper skb_change_head",
            libbpf_sys::BPF_FUNC_skb_change_head,
        ),
        ("helper redirect", libbpf_sys::BPF_FUNC_redirect),
    ] {
        // SAFETY: as above.
        let helper =
            unsafe { libbpf_sys::libbpf_probe_bpf_helper(SCHED_CLS, helper, std::ptr::null()) };
        found.push((name, true, verdict(helper)));
    }
    let trie = trie_updates().err().map(|error| error.to_string());
    found.push(("updates of what exists in lpm_trie", true, trie));
    let batch = batches().err().map(|error| error.to_string());
    found.push(("updates in batches", false, batch));
    let tcx = match tc::has_tcx(LOOPBACK) {
        Ok(true) => None,
        Ok(false) => Some("the kernel has none (Linux 6.6): clsact is used".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    found.push(("tcx", false, tcx));
    found
}

const SCHED_CLS: libbpf_sys::bpf_prog_type = libbpf_sys::BPF_PROG_TYPE_SCHED_CLS;

/// Why something is not there, by what libbpf found.
fn verdict(found: i32) -> Option<String> {
    match found {
        1 => None,
        0 => Some("the kernel does not have it".to_owned()),
        error => {
            let error = std::io::Error::from_raw_os_error(error.saturating_neg());
            Some(format!("cannot be tried: {error}"))
        }
    }
}

/// Whether several entries can be written at once.
fn batches() -> Result<(), SysError> {
    let shape = MapShape {
        name: "gw_probe".to_owned(),
        kind: MapKind::HASH,
        key_size: 4,
        value_size: 4,
        max_entries: 2,
        flags: 0,
    };
    Map::create(&shape, None)?.update_batch(&[0, 0, 0, 0, 1, 0, 0, 0], &[0; 8])
}

/// Whether a trie tells an entry that is there from one that is not.
fn trie_updates() -> Result<(), SysError> {
    let shape = MapShape {
        name: "gw_probe".to_owned(),
        kind: MapKind::LPM_TRIE,
        key_size: 8,
        value_size: 4,
        max_entries: 1,
        flags: libbpf_sys::BPF_F_NO_PREALLOC,
    };
    let map = Map::create(&shape, None)?;
    match map.update(&[0; 8], &[0; 4], Update::Replace) {
        Err(error) if error.errno == libc::ENOENT => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(SysError::new("update", "only what exists", libc::EEXIST)),
    }
}
