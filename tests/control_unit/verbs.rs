// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! egressd under the restrictions of its unit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::libc;
use nix::sys::signal::Signal;

use crate::daemon::{on_node, shard, Daemon, Node, PATIENCE};
use crate::machine::{document, machine, Files};
use crate::netns::isolated;
use crate::restricted::Restrictions;
use crate::tool::{assert_current, binary, Ran};

/// The restrictions; where they are not known the test says so, and passes.
fn restrictions(test: &str) -> Option<Restrictions> {
    let known = Restrictions::of_unit();
    if let Err(missing) = &known {
        // Not `eprintln!`, which the test runner would swallow.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
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
        for (key, value) in [
            ("CapEff", "0000008000001000"),
            ("CapBnd", "0000008000001000"),
            ("CapAmb", "0000008000001000"),
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

#[test]
fn a_node_is_set_up_looked_at_and_taken_down() {
    const NAME: &str = "control_unit::a_node_is_set_up_looked_at_and_taken_down";
    assert_current("egressd");
    let Some(restrictions) = restrictions(NAME) else {
        return;
    };
    isolated(NAME, move || {
        machine();
        let files = Files::new("restricted");
        let spec = files.write("spec.json", &document());
        egressd(&restrictions, &["plan", &spec]).exits(0);
        egressd(&restrictions, &["apply", &spec]).exits(0);
        let status = egressd(&restrictions, &["status", "-o", "json"]);
        assert!([0, 5].contains(&status.code), "{}", status.stderr);
        egressd(&restrictions, &["pins", "--expire"]).exits(0);
        egressd(&restrictions, &["explain", "2001:db8::7", "--table", "42"]).exits(0);
        egressd(&restrictions, &["detach", "--purge"]).exits(0);
    });
}
