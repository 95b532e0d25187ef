// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A private piece of kernel for each test: a thread in its own network and mount namespaces, with
//! an empty bpffs of its own on /sys/fs/bpf. All of it goes away with the thread, also on failure.

#![allow(dead_code)] // each test binary uses a part

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};

/// Where each test finds its empty bpffs.
pub(crate) const BPFFS: &str = "/sys/fs/bpf";

/// Whether kernel objects and namespaces can be made here. Where they cannot, the test says so on
/// the terminal and passes; with `CI=true` it fails.
pub(crate) fn require_kernel(test: &str) -> bool {
    let Err(missing) = std::thread::spawn(enter).join().expect("a thread") else {
        return true;
    };
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} cannot run: {missing}"
    );
    // Not `eprintln!`, which the test runner would swallow.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
    false
}

/// Whether programs can decrypt server IDs here. Where they cannot, the test says so and passes; with
/// `CI=true` it fails, unless the kernel has no functions for it or a compiler without was asked for.
pub(crate) fn require_keys(test: &str) -> bool {
    use guideway::kernel::{keys, probe};
    let support = keys::support();
    if support == keys::Support::Works {
        return true;
    }
    let expected = probe::features().crypto_kfuncs && std::env::var_os("GUIDEWAY_CLANG").is_none();
    assert!(
        !expected || std::env::var("CI").as_deref() != Ok("true"),
        "{test} cannot run: {support:?}, compiled by {}",
        keys::COMPILER
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {support:?}");
    false
}

/// Whether the kernel can decapsulate SRv6. Where it cannot, the test says so and passes; with
/// `CI=true` it fails.
pub(crate) fn require_seg6(test: &str) -> bool {
    if Path::new("/proc/sys/net/ipv6/conf/all/seg6_enabled").exists() {
        return true;
    }
    let missing = "the kernel has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)";
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} cannot run: {missing}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
    false
}

fn enter() -> Result<(), String> {
    // Competitors in these tests provoke errors, and libbpf prints what the kernel says.
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        libbpf_rs::set_print(None);
    });
    let told = |what: &str| {
        let what = what.to_owned();
        move |error: nix::Error| format!("{what}: {error} (root is needed)")
    };
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(told("unshare"))?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(told("mount"))?;
    mount(
        Some("bpf"),
        BPFFS,
        Some("bpf"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(told("mount a bpffs"))?;
    foreign_program("gw_test", Kind::Xdp)
        .map(drop)
        .map_err(|e| format!("load a program: {e}"))
}

/// Runs `test` in namespaces of its own, or skips it loudly.
pub(crate) fn isolated(name: &str, test: impl FnOnce() + Send + 'static) {
    if !require_kernel(name) {
        return;
    }
    let body = move || {
        enter().expect("what was possible a moment ago");
        ip(&["link", "set", "lo", "up"]);
        test();
    };
    if let Err(panic) = std::thread::spawn(body).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Keeps interfaces that are made from now on from sending anything of their own: the kernel looks
/// for neighbours and routers by IPv6.
pub(crate) fn without_ipv6() {
    for which in ["all", "default"] {
        let setting = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        std::fs::write(setting, "1").expect("a setting of this network namespace");
    }
}

/// Whether something comes true within a time.
pub(crate) fn within(limit: std::time::Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let end = std::time::Instant::now() + limit;
    loop {
        if is_true() {
            return true;
        }
        if std::time::Instant::now() > end {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Runs `ip` in this thread's network namespace.
pub(crate) fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .expect("ip, of iproute2");
    assert!(
        output.status.success(),
        "ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Whether the drivers of this kernel declare what they do with XDP frames. Where they do not, it
/// stays unknown.
pub(crate) fn drivers_declare_xdp() -> bool {
    guideway::kernel::probe::release().at_least(6, 3)
}

/// Creates a veth pair, both ends up, and returns their indices.
pub(crate) fn veth(one: &str, other: &str) -> (u32, u32) {
    ip(&["link", "add", one, "type", "veth", "peer", "name", other]);
    ip(&["link", "set", one, "up"]);
    ip(&["link", "set", other, "up"]);
    (ifindex(one), ifindex(other))
}

pub(crate) fn ifindex(name: &str) -> u32 {
    nix::net::if_::if_nametoindex(name).expect("an interface")
}

/// What `ip` sees on an XDP hook: mode as it calls it, and program id.
pub(crate) fn xdp_seen_by_ip(interface: &str) -> Option<(String, u64)> {
    let shown: serde_json::Value = serde_json::from_str(&ip(&[
        "-json", "-details", "link", "show", "dev", interface,
    ]))
    .expect("JSON");
    let xdp = &shown[0]["xdp"];
    let id = xdp["prog"]["id"].as_u64()?;
    // iproute2 names the modes by number: 1 driver, 2 generic, 3 hardware.
    let mode = match xdp["mode"].as_u64() {
        Some(1) => "native",
        Some(2) => "generic",
        other => panic!("mode {other:?}"),
    };
    Some((mode.to_owned(), id))
}

/// Types of program that tests load.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Xdp,
    Classifier,
    FlowDissector,
}

/// Loads a program that belongs to somebody else: it returns 2 (XDP_PASS) and does nothing.
pub(crate) fn foreign_program(name: &str, kind: Kind) -> std::io::Result<OwnedFd> {
    let kind = match kind {
        Kind::Xdp => libbpf_sys::BPF_PROG_TYPE_XDP,
        Kind::Classifier => libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
        Kind::FlowDissector => libbpf_sys::BPF_PROG_TYPE_FLOW_DISSECTOR,
    };
    load(
        name,
        kind,
        &[insn(MOVE_NUMBER, 0, 0, 2), insn(EXIT, 0, 0, 0)],
    )
}

/// Loads an XDP program that sends every frame to an interface.
pub(crate) fn redirecting_program(ifindex: u32) -> std::io::Result<OwnedFd> {
    let instructions = [
        insn(MOVE_NUMBER, 1, 0, ifindex as i32),
        insn(MOVE_NUMBER, 2, 0, 0),
        insn(CALL, 0, 0, libbpf_sys::BPF_FUNC_redirect as i32),
        insn(EXIT, 0, 0, 0),
    ];
    load("redirect", libbpf_sys::BPF_PROG_TYPE_XDP, &instructions)
}

const MOVE_NUMBER: u32 = libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K;
const CALL: u32 = libbpf_sys::BPF_JMP | libbpf_sys::BPF_CALL;
const EXIT: u32 = libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT;

/// One instruction without an offset.
pub(crate) fn insn(code: u32, to: u8, from: u8, number: i32) -> libbpf_sys::bpf_insn {
    let mut insn = libbpf_sys::bpf_insn {
        code: code as u8,
        imm: number,
        ..Default::default()
    };
    insn.set_dst_reg(to);
    insn.set_src_reg(from);
    insn
}

/// Loads an XDP program as `xdp.frags` does, but for no attach type.
pub(crate) fn untyped_program(name: &str) -> std::io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        prog_flags: libbpf_sys::BPF_F_XDP_HAS_FRAGS,
        ..Default::default()
    };
    let instructions = [insn(MOVE_NUMBER, 0, 0, 2), insn(EXIT, 0, 0, 0)];
    let kind = libbpf_sys::BPF_PROG_TYPE_XDP;
    load_with(name, kind, &instructions, &mut options)
}

/// Loads a program of the given type.
pub(crate) fn load(
    name: &str,
    kind: libbpf_sys::bpf_prog_type,
    instructions: &[libbpf_sys::bpf_insn],
) -> std::io::Result<OwnedFd> {
    load_with(name, kind, instructions, std::ptr::null_mut())
}

fn load_with(
    name: &str,
    kind: libbpf_sys::bpf_prog_type,
    instructions: &[libbpf_sys::bpf_insn],
    options: *mut libbpf_sys::bpf_prog_load_opts,
) -> std::io::Result<OwnedFd> {
    let name = CString::new(name).expect("a name");
    // SAFETY: all pointers outlive the call; absent options are allowed.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            kind,
            name.as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            options,
        )
    };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The address that sends a frame out of an interface as it is.
pub(crate) fn packet_address(ifindex: u32) -> nix::sys::socket::LinkAddr {
    use nix::sys::socket::SockaddrLike;
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut raw: nix::libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    raw.sll_family = nix::libc::AF_PACKET as u16;
    raw.sll_ifindex = ifindex as i32;
    let length = std::mem::size_of_val(&raw) as u32;
    // SAFETY: a whole address of this family, of this length.
    unsafe { SockaddrLike::from_raw(std::ptr::from_ref(&raw).cast(), Some(length)) }
        .expect("an address")
}

/// Id of a program.
pub(crate) fn program_id(program: &OwnedFd) -> u32 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = std::mem::size_of_val(&info) as u32;
    // SAFETY: the structure is as long as said, and its pointers are null.
    let result =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut length) };
    assert_eq!(result, 0);
    info.id
}

/// Whether the kernel has this program still, wherever it is pinned or attached.
pub(crate) fn is_loaded(program: u32) -> bool {
    // SAFETY: a call without pointers.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(program) };
    if fd >= 0 {
        // SAFETY: the descriptor is new.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    fd >= 0
}

/// Attaches by netlink as another tool would; `flags` are `XDP_FLAGS_*`.
pub(crate) fn netlink_attach(ifindex: u32, program: &OwnedFd, flags: u32) -> std::io::Result<()> {
    // SAFETY: absent options are allowed.
    let result = unsafe {
        libbpf_sys::bpf_xdp_attach(ifindex as i32, program.as_raw_fd(), flags, std::ptr::null())
    };
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result));
    }
    Ok(())
}

/// Detaches by netlink as another tool would.
pub(crate) fn netlink_detach(ifindex: u32, flags: u32) -> std::io::Result<()> {
    // SAFETY: absent options are allowed.
    let result = unsafe { libbpf_sys::bpf_xdp_detach(ifindex as i32, flags, std::ptr::null()) };
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result));
    }
    Ok(())
}

/// Attaches through a link as another tool would.
pub(crate) fn foreign_link(ifindex: u32, program: &OwnedFd) -> std::io::Result<OwnedFd> {
    // SAFETY: absent options are allowed.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            libbpf_sys::BPF_XDP,
            std::ptr::null(),
        )
    };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes a link of somebody else off its hook.
///
/// Closing it does not suffice: a process that another test starts at this moment holds a copy of
/// the descriptor until it has started.
pub(crate) fn detach_link(link: OwnedFd) {
    // SAFETY: the descriptor is open.
    let result = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
    assert_eq!(result, 0, "detach");
}

/// Pins any object.
pub(crate) fn pin(object: &OwnedFd, path: &Path) {
    let path = CString::new(path.to_str().expect("text")).expect("a path");
    // SAFETY: the path outlives the call.
    let result = unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) };
    assert_eq!(result, 0, "pin");
}
