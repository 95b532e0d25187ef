// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Kills a process before a call to the kernel that changes what others meet, and counts what there is
//! of an instance in the kernel afterwards.

#![allow(dead_code)] // each binary uses a part

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use guideway::kernel::map::Map;
use libbpf_rs::query::{LinkInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::Pid;

/// A call that changes something which outlives its process: its name, and what distinguishes a run of
/// such calls, which count as one.
fn change(pid: Pid, number: i64, arguments: &[u64; 6]) -> Option<(&'static str, u64)> {
    const UPDATES: [libbpf_sys::bpf_cmd; 4] = [
        libbpf_sys::BPF_MAP_UPDATE_ELEM,
        libbpf_sys::BPF_MAP_DELETE_ELEM,
        libbpf_sys::BPF_MAP_UPDATE_BATCH,
        libbpf_sys::BPF_MAP_DELETE_BATCH,
    ];
    if number == libc::SYS_bpf {
        let command = arguments[0] as libbpf_sys::bpf_cmd;
        return match command {
            libbpf_sys::BPF_OBJ_PIN => Some(("pin", 0)),
            libbpf_sys::BPF_PROG_ATTACH => Some(("attach", 0)),
            libbpf_sys::BPF_PROG_DETACH => Some(("detach", 0)),
            libbpf_sys::BPF_LINK_CREATE => Some(("link", 0)),
            libbpf_sys::BPF_LINK_UPDATE => Some(("exchange", 0)),
            libbpf_sys::BPF_LINK_DETACH => Some(("unlink", 0)),
            // The same command again and again fills one map.
            command if UPDATES.contains(&command) => {
                let map = word(pid, arguments[1]).unwrap_or_default();
                Some(("update", 1 + (u64::from(map) << 32 | u64::from(command))))
            }
            _ => None,
        };
    }
    #[cfg(target_arch = "x86_64")]
    match number {
        libc::SYS_unlink | libc::SYS_rmdir => return Some(("remove", 0)),
        libc::SYS_rename => return Some(("rename", 0)),
        libc::SYS_mkdir => return Some(("mkdir", 0)),
        _ => {}
    }
    match number {
        libc::SYS_unlinkat => Some(("remove", 0)),
        libc::SYS_renameat | libc::SYS_renameat2 => Some(("rename", 0)),
        libc::SYS_mkdirat => Some(("mkdir", 0)),
        libc::SYS_sendto if asks_for_change(pid, arguments[1]) => Some(("netlink", 0)),
        _ => None,
    }
}

/// Four bytes of a traced process's memory.
fn word(pid: Pid, address: u64) -> Option<u32> {
    let bytes = ptrace::read(pid, address as ptrace::AddressType).ok()?;
    let [a, b, c, d, ..] = bytes.to_ne_bytes();
    Some(u32::from_ne_bytes([a, b, c, d]))
}

/// Whether a netlink message wants an answer to more than a question, by its type and flags.
fn asks_for_change(pid: Pid, message: u64) -> bool {
    // The header begins with a length of four bytes.
    let Some(word) = word(pid, message + 4) else {
        return false;
    };
    let [a, b, c, d] = word.to_ne_bytes();
    let (kind, flags) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
    // The second bit of a type alone is a question.
    kind & 3 != 2 && flags & libc::NLM_F_ACK as u16 != 0
}

/// Runs a command of one thread and kills it before the change with this number, so that the calls
/// before it have been made and it has not. The name of the change; none if it ended before.
#[allow(clippy::zombie_processes)] // waited for by its number
pub(crate) fn killed_before(command: &mut Command, at: usize) -> Option<&'static str> {
    let traced = || Ok(ptrace::traceme()?);
    // SAFETY: one system call, between fork and exec.
    unsafe { command.pre_exec(traced) };
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool");
    let pid = Pid::from_raw(child.id() as i32);
    let (mut changes, mut same) = (0, 0);
    let mut status = waitpid(pid, None).expect("a child");
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).expect("traced");
    loop {
        let signal = match status {
            WaitStatus::Exited(..) => return None,
            WaitStatus::PtraceSyscall(_) => {
                let info = ptrace::syscall_info(pid).expect("a call");
                if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                    // SAFETY: an entry, as the kernel says.
                    let entry = unsafe { info.u.entry };
                    match change(pid, entry.nr as i64, &entry.args) {
                        Some((_, run)) if run != 0 && run == same => {}
                        Some((name, _)) if changes == at => {
                            kill(pid, Signal::SIGKILL).expect("a child");
                            while !matches!(status, WaitStatus::Signaled(..)) {
                                status = waitpid(pid, None).expect("a child");
                            }
                            return Some(name);
                        }
                        Some((_, run)) => (changes, same) = (changes + 1, run),
                        None => {}
                    }
                }
                None
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            other => panic!("{other:?}"),
        };
        ptrace::syscall(pid, signal).expect("traced");
        status = waitpid(pid, None).expect("a child");
    }
}

/// How many there are of an instance's objects, by whichever way the kernel keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objects {
    pins: usize,
    programs: usize,
    maps: usize,
    links: usize,
}

/// Counts what is pinned below a directory, programs that work on a map which is pinned there, all
/// maps of these, and links that run them. Others make objects at the same time, so that it is no use to
/// count all of the kernel's.
pub(crate) fn objects(directory: &Path) -> Objects {
    fn walk(path: &Path, pins: &mut usize, maps: &mut BTreeSet<u32>) {
        for entry in std::fs::read_dir(path).expect("a directory") {
            let path = entry.expect("an entry").path();
            *pins += 1;
            match path.is_dir() {
                true => walk(&path, pins, maps),
                false => maps.extend(Map::open_any(&path).ok().map(|map| map.id())),
            }
        }
    }
    let (mut pins, mut pinned) = (0, BTreeSet::new());
    walk(directory, &mut pins, &mut pinned);
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let (mut programs, mut maps) = (BTreeSet::new(), pinned.clone());
    for program in ProgInfoIter::with_query_opts(options) {
        if program.map_ids.iter().any(|id| pinned.contains(id)) {
            programs.insert(program.id);
            maps.extend(program.map_ids);
        }
    }
    let links = LinkInfoIter::default().filter(|link| programs.contains(&link.prog_id));
    Objects {
        pins,
        links: links.count(),
        programs: programs.len(),
        maps: maps.len(),
    }
}

/// There are as many as there were. What died with its process goes a little later.
#[track_caller]
pub(crate) fn as_many(directory: &Path, before: &Objects, what: &str) {
    let limit = std::time::Duration::from_secs(20);
    let same = crate::netns::within(limit, || objects(directory) == *before);
    assert!(same, "{what}: {before:?}, now {:?}", objects(directory));
}
