// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The filters of system calls that systemd makes of a unit, made anew: of the lists that it prints and
//! the numbers in the kernel's header.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use nix::libc::{self, sock_filter};

/// Where the numbers of this machine's system calls are.
const HEADERS: [&str; 3] = [
    "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "/usr/include/aarch64-linux-gnu/asm/unistd_64.h",
    "/usr/include/asm/unistd_64.h",
];

/// The system calls that a list of names and `@sets` allows, by number, as
/// `SystemCallFilter=` has it: what every program needs to begin and end is always allowed. Or why
/// that is not known here.
pub(crate) fn allowed(filter: &str) -> Result<BTreeSet<u32>, String> {
    let output = Command::new("systemd-analyze")
        .arg("syscall-filter")
        .output();
    let output = output.map_err(|error| format!("systemd-analyze: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        match line.trim() {
            set if line.starts_with('@') => current = Some(set),
            "" => current = None,
            entry if entry.starts_with('#') => {}
            entry => {
                let set = current.ok_or_else(|| format!("{entry} is in no set"))?;
                sets.entry(set).or_default().push(entry);
            }
        }
    }
    let numbers = numbers()?;
    let mut allowed = BTreeSet::new();
    let mut names: Vec<&str> = filter.split_whitespace().chain(["@default"]).collect();
    while let Some(name) = names.pop() {
        if name.starts_with('@') {
            let set = sets
                .get(name)
                .ok_or_else(|| format!("systemd has no {name}"))?;
            names.extend(set);
        } else if let Some(number) = numbers.get(name) {
            // Others are of other machines.
            allowed.insert(*number);
        }
    }
    Ok(allowed)
}

fn numbers() -> Result<BTreeMap<String, u32>, String> {
    let text = HEADERS
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    let text = text.ok_or("no numbers of system calls (linux-libc-dev)")?;
    let numbers = text.lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    });
    Ok(numbers.collect())
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Places in `struct seccomp_data`; the low half of the first argument is first on these machines.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// A filter that kills the process at every other system call.
pub(crate) fn only(allowed: &BTreeSet<u32>) -> Vec<sock_filter> {
    let mut filter = vec![
        step(LOAD, MACHINE, 0, 0),
        step(EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(LOAD, NUMBER, 0, 0),
    ];
    for number in allowed {
        filter.push(step(EQUAL, *number, 0, 1));
        filter.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    filter.push(step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0));
    filter
}

/// A filter that refuses sockets of other families, as `RestrictAddressFamilies=` does.
pub(crate) fn families(families: &[u32]) -> Vec<sock_filter> {
    let socket = libc::SYS_socket as u32;
    let mut filter = vec![
        step(LOAD, NUMBER, 0, 0),
        step(EQUAL, socket, 1, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(LOAD, FIRST_ARGUMENT, 0, 0),
    ];
    for family in families {
        filter.push(step(EQUAL, *family, 0, 1));
        filter.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    let refused = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
    filter.push(step(RETURN, refused, 0, 0));
    filter
}
