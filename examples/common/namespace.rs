// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Network namespaces without names: the kernel removes them, and everything in them, with the
//! process, however that ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;

use nix::mount::{mount, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};
use nix::unistd::{chroot, fchdir};

/// A network namespace without a name, and where programs are loaded a mount namespace with its own
/// BPF file system. Both live as long as this value or a socket made in them.
pub(crate) struct Namespace {
    network: File,
    mounts: Option<Mounts>,
}

struct Mounts {
    namespace: File,
    /// The root directory there, which is not the namespace's if this process lives in a chroot.
    root: File,
}

impl Namespace {
    pub(crate) fn new() -> io::Result<Namespace> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            quiet_defaults()?;
            let network = File::open("/proc/thread-self/ns/net")?;
            Ok(Namespace {
                network,
                mounts: None,
            })
        })
    }

    pub(crate) fn with_private_bpffs() -> io::Result<Namespace> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
            quiet_defaults()?;
            let none = None::<&str>;
            // Nothing mounted here may show outside.
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(
                Some("bpf"),
                "/sys/fs/bpf",
                Some("bpf"),
                MsFlags::empty(),
                none,
            )?;
            Ok(Namespace {
                network: File::open("/proc/thread-self/ns/net")?,
                mounts: Some(Mounts {
                    namespace: File::open("/proc/thread-self/ns/mnt")?,
                    root: File::open("/")?,
                }),
            })
        })
    }

    /// Runs `work` inside. What it opens stays inside for good, wherever it is used.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            if let Some(mounts) = &self.mounts {
                // The kernel lets only a thread with a working directory of its own change mounts.
                unshare(CloneFlags::CLONE_FS)?;
                setns(&mounts.namespace, CloneFlags::CLONE_NEWNS)?;
                fchdir(&mounts.root)?;
                chroot(".")?;
            }
            setns(&self.network, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// A path to the network namespace, for `ip link ... netns PATH` and `nsenter --net=PATH`.
    pub(crate) fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.network.as_raw_fd()
        )
    }

    /// Runs commands of `ip`, one a line, all in one process.
    pub(crate) fn ip(&self, commands: &str) -> io::Result<()> {
        self.run(|| execute("ip", &["-batch", "-"], commands))?
    }

    /// Runs `ethtool -K INTERFACE FEATURE VALUE`.
    pub(crate) fn offload(&self, interface: &str, feature: &str, value: &str) -> io::Result<()> {
        self.run(|| execute("ethtool", &["-K", interface, feature, value], ""))?
    }
}

/// Settings that later interfaces inherit: answers may take another way than requests came, and
/// nothing is sent that nobody asked for.
fn quiet_defaults() -> io::Result<()> {
    for scope in ["all", "default"] {
        fs::write(format!("/proc/sys/net/ipv4/conf/{scope}/rp_filter"), "0")?;
        fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/accept_dad"), "0")?;
        fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/accept_ra"), "0")?;
    }
    Ok(())
}

/// Namespaces belong to threads: `work` gets one of its own, and its panic is passed on.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn execute(program: &str, arguments: &[&str], input: &str) -> io::Result<()> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {program}: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!(
        "{program} {}: {complaint}\n{input}",
        arguments.join(" ")
    )))
}
