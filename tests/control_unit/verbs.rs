// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! egressd under the restrictions of its unit.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use guideway::kernel::statedir::StateRoot;
use nix::libc;
use nix::sys::signal::Signal;

use crate::daemon::{on_node, shard, Daemon, Node, PATIENCE};
use crate::machine::{document, Files};
use crate::netns::{isolated, BPFFS};
use crate::restricted::{Restrictions, PERFMON};
use crate::tool::{assert_current, binary, Ran};
use crate::udp6::frame;
use crate::unit::left_out;

/// The restrictions; where they are not known the test is left out.
fn restrictions(test: &str) -> Option<Restrictions> {
    let known = Restrictions::of_unit();
    if let Err(missing) = &known {
        left_out(test, missing);
    }
    known.ok()
}

fn run(restrictions: &Restrictions, program: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(program);
    command.args(arguments);
    restrictions.clone().apply(&mut command);
    command.output().expect("it starts")
}

fn egressd(restrictions: &Restrictions, arguments: &[&str]) -> Ran {
    let program = binary("egressd").display().to_string();
    let output = run(restrictions, &program, arguments);
    let what = format!("egressd {}", arguments.join(" "));
    assert!(
        output.status.code().is_some(),
        "{what} was killed: {output:?}"
    );
    Ran::of(output, what)
}

#[test]
fn they_are_in_force() {
    const NAME: &str = "control_unit::they_are_in_force";
    let Some(restrictions) = restrictions(NAME) else {
        return;
    };
    isolated(NAME, move || {
        let shell = |script: &str| {
            let output = run(&restrictions, "/bin/sh", &["-c", script]);
            let text = String::from_utf8(output.stdout).expect("text");
            (output.status.success(), text)
        };
        let (_, status) = shell("cat /proc/self/status");
        let rights = match restrictions.rights().contains(&PERFMON) {
            true => "000000c000001000",
            false => "0000008000001000",
        };
        for (key, value) in [
            ("CapEff", rights),
            ("CapBnd", rights),
            ("CapAmb", rights),
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
        ] {
            assert!(
                status.contains(&format!("{key}:\t{value}\n")),
                "{key}: {status}"
            );
        }
        assert!(!shell("touch /tmp/guideway-read-only 2>&1").0);
        assert!(!shell("touch /etc/guideway-read-only 2>&1").0);
        assert!(shell("mkdir /sys/fs/bpf/writable && rmdir /sys/fs/bpf/writable").0);
        // A system call that is not on the list is the end.
        let arguments = ["-t", "tmpfs", "none", "/mnt"];
        let killed = run(&restrictions, "/bin/mount", &arguments);
        assert_eq!(killed.status.signal(), Some(libc::SIGSYS), "{killed:?}");
    });
}

#[test]
fn the_daemon_keeps_its_node_in_line() {
    const NAME: &str = "control_unit::the_daemon_keeps_its_node_in_line";
    assert_current("egressd");
    let Some(restrictions) = restrictions(NAME) else {
        return;
    };
    on_node(NAME, move |node| {
        let address = "127.0.0.1:19479";
        let path = node.path("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        node.manifest("a.json", shard(0x10));
        let flag = format!("--metrics={address}");
        let daemon = Daemon::start(node, &[&flag], |command| {
            command.env("NOTIFY_SOCKET", &path);
            restrictions.apply(command);
        });
        node.has_active(&[0x10], &daemon);
        let mut message = [0; 256];
        let count = manager.recv(&mut message).expect("a message in time");
        let message = String::from_utf8_lossy(&message[..count]).into_owned();
        assert!(
            message.starts_with("READY=1\n"),
            "{message}\n{}",
            daemon.log()
        );
        // A change of each kind that it hears of: files, routes, a signal.
        node.manifest("b.json", shard(0x11));
        node.has_active(&[0x10, 0x11], &daemon);
        Node::unroute(0x10);
        node.has_active(&[0x11], &daemon);
        daemon.signal(Signal::SIGHUP);
        daemon.says("configuration");
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            .expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let kind = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(head.lines().any(|line| line == kind), "{head}");
        assert!(
            body.contains("\nguideway_egress_class_served{class=\"nat66\"} 1\n"),
            "{body}"
        );
        crate::strict::parse(body);
        daemon.stop();
    });
}

/// A capture of one packet of a tenant.
fn capture() -> Vec<u8> {
    let frame = frame("2001:db8:aaaa::7", "2001:db8:ffff::1");
    let length = u32::try_from(frame.len()).expect("a length");
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let words = header.into_iter().chain([0, 0, length, length]);
    let bytes = words.flat_map(u32::to_le_bytes);
    bytes.chain(frame).collect()
}

/// What a verb finds on its node.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    Nothing,
    /// Groups.
    Loop,
    /// A tenant as well.
    Tenant,
    /// And a program of another build.
    OtherBuild,
    /// Which was exchanged for this one's.
    Exchanged,
}

impl Found {
    /// Brings the node into this state, whatever it was in.
    fn make(self, node: &Node) {
        let purged = Ran::with("egressd", &["-o", "json", "detach", "--purge"]);
        assert!([0, 1].contains(&purged.code), "{}", purged.stderr);
        if self == Self::Nothing {
            return;
        }
        node.once(&[]).exits(0);
        if self == Self::Loop {
            return;
        }
        node.attach();
        if self == Self::Tenant {
            return;
        }
        let programs = StateRoot::new(BPFFS).egress().path().join("progs");
        for entry in std::fs::read_dir(&programs).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            if name.to_string_lossy().starts_with("build-") {
                std::fs::remove_file(programs.join(name)).expect("removed");
            }
        }
        if self == Self::Exchanged {
            Ran::with("egressd", &["upgrade"]).exits(0);
        }
    }
}

const NET_ADMIN: &str = "CAP_NET_ADMIN";
const BPF: &str = "CAP_BPF";
/// Stand for paths of the test's own, and for what the loop is told.
const SPEC: &str = "<specification>";
const CAPTURE: &str = "<capture>";
const FLAGS: &str = "<flags>";

/// Each verb, with what it finds and the rights that it does not do without. On some kernels it takes
/// others as well.
const VERBS: [(&[&str], Found, &[&str]); 23] = [
    (&["check", FLAGS], Found::Nothing, &[]),
    (&["schema", "spec"], Found::Nothing, &[]),
    (
        &[
            "place",
            "--hash-table=42",
            "--source=2001:db8::7",
            "--shards=2001:db8:ff09:10:e000::",
        ],
        Found::Nothing,
        &[],
    ),
    (&["plan", SPEC], Found::Nothing, &[]),
    (&["apply", SPEC], Found::Nothing, &[NET_ADMIN, BPF]),
    (&["run", "--once", FLAGS], Found::Nothing, &[NET_ADMIN, BPF]),
    (
        &["attach", "tap0", "--table=42", "--argument=0x2a5", FLAGS],
        Found::Loop,
        &[NET_ADMIN],
    ),
    (&["plan", "--loop", FLAGS], Found::Tenant, &[]),
    (&["status"], Found::Tenant, &[]),
    (&["drain-status"], Found::Tenant, &[]),
    (&["pins"], Found::Tenant, &[]),
    (&["pins", "--expire"], Found::Tenant, &[BPF]),
    (
        &["explain", "2001:db8::7", "--table=42"],
        Found::Tenant,
        &[],
    ),
    (
        &["trace", CAPTURE, "--interface=tap0"],
        Found::Tenant,
        &[NET_ADMIN, BPF],
    ),
    (
        &["migrate", "--pins=8192"],
        Found::Tenant,
        &[NET_ADMIN, BPF],
    ),
    (&["upgrade"], Found::OtherBuild, &[NET_ADMIN, BPF]),
    (&["rollback"], Found::Exchanged, &[]),
    (&["retire", "nat66", "--block"], Found::Tenant, &[BPF]),
    (
        &["detach", "--interface=tap0", "--keep-tenant"],
        Found::Tenant,
        &[],
    ),
    (&["detach", "--interface=tap0"], Found::Tenant, &[]),
    (&["detach", "--tenant=42"], Found::Tenant, &[BPF]),
    (&["detach"], Found::Tenant, &[]),
    (&["detach", "--purge"], Found::Tenant, &[]),
];

#[test]
fn each_verb_has_the_rights_that_it_takes_and_names_one_that_is_missing() {
    const NAME: &str = "control_unit::each_verb_has_the_rights_that_it_takes";
    assert_current("egressd");
    let Some(restrictions) = restrictions(NAME) else {
        return;
    };
    on_node(NAME, move |node| {
        let files = Files::new("restricted");
        let spec = files.write("spec.json", &document());
        let capture = files.bytes("capture.pcap", &capture());
        node.manifest("a.json", shard(0x10));
        let flags = node.flags(&["no:--metrics"]);
        for (verb, found, needed) in VERBS {
            let mut arguments = vec!["-o", "json"];
            for argument in verb {
                match *argument {
                    SPEC => arguments.push(&spec),
                    CAPTURE => arguments.push(&capture),
                    FLAGS => arguments.extend(flags.iter().map(String::as_str)),
                    argument => arguments.push(argument),
                }
            }
            found.make(node);
            egressd(&restrictions, &arguments).exits(0);
            let mut lacked = BTreeSet::new();
            // Without the third one it depends on the kernel how much is refused.
            let rights = restrictions.rights().into_iter();
            for right in rights.filter(|right| *right != PERFMON) {
                found.make(node);
                let ran = egressd(&restrictions.clone().without(right), &arguments);
                if ran.code == 0 {
                    continue;
                }
                // What is done in part tells it beside what it did.
                let said = if ran.code == 3 {
                    ran.object().to_string()
                } else {
                    let error = ran.exits(1).error();
                    let kind = error["kind"].as_str().expect("text");
                    assert!(["permission", "preflight"].contains(&kind), "{error}");
                    error.to_string()
                };
                let rights = [NET_ADMIN, BPF].into_iter();
                let named: Vec<_> = rights.filter(|right| said.contains(right)).collect();
                assert_eq!(named, [right], "{verb:?}: {said}");
                lacked.insert(right);
            }
            let needed = needed.iter().copied().collect();
            assert!(lacked.is_superset(&needed), "{verb:?}: {lacked:?}");
        }
    });
}

#[test]
fn no_verb_is_left_out() {
    let help = Ran::with("egressd", &["--help"]).exits(0).stdout;
    let (_, verbs) = help.split_once("\nCommands:\n").expect("a list of verbs");
    let (verbs, _) = verbs.split_once("\n\n").expect("an end");
    // What goes on to the next line is further to the right.
    let verbs = verbs.lines().filter(|line| !line.starts_with("   "));
    let verbs = verbs.filter_map(|line| line.split_whitespace().next());
    let known: BTreeSet<_> = verbs.filter(|verb| *verb != "help").collect();
    let tried: BTreeSet<_> = VERBS.iter().map(|(verb, ..)| verb[0]).collect();
    assert_eq!(tried, known);
}
