// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What keeps it from starting, by exit code.

use std::os::unix::process::CommandExt;
use std::process::Command;

use guideway::kernel::program::Program;
use guideway::kernel::tc;
use nix::libc;

use crate::capabilities::{enough, BPF, NET_ADMIN};
use crate::daemon::*;
use crate::netns::{foreign_program, ifindex, Kind, BPFFS};
use crate::tool::{binary, Ran};

#[test]
fn there_is_one_publisher_and_the_second_is_told_who() {
    on_node("second", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[]);
        let before = group();
        let who = format!("process {} (egressd)", daemon.id());
        let error = node.once(&[]).fails(4, "locked");
        assert!(
            error["message"].as_str().expect("text").contains(&who),
            "{error}"
        );
        // Who applies a document is a publisher, too, and who removes the state is worse.
        let document = node.path("spec.json");
        std::fs::write(
            &document,
            r#"{"schema": "guideway.egress.spec/v1", "node_sid": "2001:db8:ff01:1:e000::",
                "limits": {"pins": 4096}, "classes": [], "tenants": []}"#,
        )
        .expect("written");
        let document = document.to_str().expect("text");
        for arguments in [
            &["-o", "json", "apply", document][..],
            &["-o", "json", "detach", "--purge"],
        ] {
            let error = Ran::with("egressd", arguments).fails(4, "locked");
            assert!(
                error["message"].as_str().expect("text").contains(&who),
                "{error}"
            );
        }
        // Who looks needs no lock, and who attaches tenants takes turns.
        Ran::with("egressd", &["status"]).exits(0);
        node.attach();
        assert_eq!(group(), before);
        // A lock does not outlive its process.
        daemon.kill();
        node.once(&[]).exits(0);
    });
}

#[test]
fn other_limits_than_the_state_was_made_with_are_refused_with_both_numbers() {
    on_node("limits", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        let error = node
            .once(&["--members=65", "--pins=4097"])
            .fails(4, "conflict");
        let message = error["message"].as_str().expect("text");
        for words in [
            "64 members, not 65",
            "4096 pins, not 4097",
            "--members 64 --pins 4096",
        ] {
            assert!(message.contains(words), "{message}");
        }
        // How packets are hashed is a publication like any other.
        node.once(&["--hash=flow"]).exits(0);
    });
}

/// Runs one sweep with these rights alone, whatever root would have.
fn with_rights(node: &Node, rights: &[u32]) -> Ran {
    let named = format!("run with {rights:?}");
    let rights = rights.to_vec();
    let mut command = Command::new(binary("egressd"));
    command
        .args(["-o", "json", "run", "--once"])
        .args(node.flags(&[]));
    let drop_others = move || {
        for right in 0..64 {
            if !rights.contains(&right) {
                // SAFETY: only numbers are passed. What the kernel has no right for fails, rightly.
                unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(right), 0, 0, 0) };
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(drop_others) };
    Ran::of(command.output().expect("the tool runs"), named)
}

#[test]
fn few_rights_are_enough_and_one_that_is_missing_is_named() {
    on_node("rights", |node| {
        node.manifest("a.json", shard(0x10));
        for (rights, named, other) in [
            (&[NET_ADMIN][..], "CAP_BPF", "CAP_NET_ADMIN"),
            (&[BPF], "CAP_NET_ADMIN", "CAP_BPF"),
        ] {
            let error = with_rights(node, rights).fails(1, "preflight");
            let faults = error["faults"].to_string();
            assert!(faults.contains(named) && !faults.contains(other), "{error}");
            assert!(!error.to_string().contains("ulimit"));
        }
        let error = with_rights(node, &[]).fails(1, "preflight");
        assert!(
            error["faults"]
                .to_string()
                .contains("CAP_BPF and CAP_NET_ADMIN")
                || error["faults"]
                    .to_string()
                    .contains("CAP_NET_ADMIN and CAP_BPF"),
            "{error}"
        );
        assert!(open_group().is_none());
        with_rights(node, &enough()).exits(0);
        // With what is there already, too.
        with_rights(node, &enough()).exits(0);
        assert_eq!(group().members.len(), 1);
    });
}

#[test]
fn a_state_that_is_on_no_bpffs_and_a_taken_address_are_errors() {
    on_node("places", |node| {
        let dir = format!(
            "--state-dir={}",
            std::env::temp_dir().join("guideway").display()
        );
        let error = node.once(&[&dir]).fails(1, "preflight");
        assert!(
            error["faults"].to_string().contains("is not a bpffs"),
            "{error}"
        );
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
        let metrics = format!("--metrics={}", taken.local_addr().expect("an address"));
        let ran = node.ran(&["-o", "json", "run"], &[&metrics]).exits(1);
        assert!(
            ran.stderr.contains("cannot serve metrics at"),
            "{}",
            ran.stderr
        );
    });
}

#[test]
fn another_directory_holds_another_state() {
    on_node("elsewhere", |node| {
        node.manifest("a.json", shard(0x10));
        let dir = format!("{}/node1", crate::netns::BPFFS);
        let flag = format!("--state-dir={dir}");
        node.once(&[&flag]).exits(0);
        assert!(open_group().is_none());
        let status = Ran::with("egressd", &["-o", "json", &flag, "status"]).exits(0);
        assert!(status.stdout.contains(&sid(0x10)), "{}", status.stdout);
    });
}

#[test]
fn a_tenant_that_nobody_would_serve_is_refused_where_that_is_asked_for() {
    on_node("nobody", |node| {
        node.manifest("a.json", shard(0x10));
        Node::unroute(0x10);
        node.once(&[]).exits(5);
        let attach = [
            "-o",
            "json",
            "attach",
            "tap0",
            "--table=42",
            "--argument=0x2a5",
        ];
        let policy = ["--install-policy=require-active"];
        let error = node.ran(&attach, &policy).fails(4, "conflict");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("the tenant is not served"), "{message}");
        let egress = egress();
        assert!(egress.tenants().expect("readable").is_empty());
        assert_eq!(egress.census().expect("readable").routes, 0);
        assert!(egress.attachments().expect("readable").is_empty());
        Node::route(0x10);
        node.once(&[]).exits(0);
        node.ran(&attach, &policy).exits(0);
        assert_eq!(send(1), Some(0x10));
    });
}

#[test]
fn an_interface_where_somebody_else_is_is_refused_with_his_number() {
    on_node("occupied", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        let program = foreign_program("foreign", Kind::Classifier).expect("a program");
        let pin = format!("{BPFFS}/foreign");
        crate::netns::pin(&program, pin.as_ref());
        let program = Program::open(pin.as_ref()).expect("a program");
        let options = tc::Options {
            way: tc::Way::Clsact,
            ..tc::Options::default()
        };
        let filter = tc::Attachment::new(&program, ifindex("tap0"), &options).expect("attached");
        let attach = [
            "-o",
            "json",
            "attach",
            "tap0",
            "--table=42",
            "--argument=0x2a5",
            "--attach=clsact",
        ];
        let error = node.ran(&attach, &[]).fails(4, "occupied");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(&program.id().to_string()), "{message}");
        let egress = egress();
        assert!(egress.tenants().expect("readable").is_empty());
        assert!(egress.attachments().expect("readable").is_empty());
        // Another place is free.
        let behind = [&attach[..], &["--priority=9", "--anchor=last"]].concat();
        node.ran(&behind, &[]).exits(0);
        assert_eq!(egress.tenants().expect("readable").len(), 1);
        drop(filter);
    });
}

#[test]
fn whatever_is_wrong_is_named_at_once_before_there_is_any_state() {
    on_node("faults", |node| {
        let ran = node.once(&["--sweep=4s", "--pins=0", "--groups=65"]);
        let error = ran.fails(2, "usage");
        let faults = error["faults"].as_array().expect("a list");
        let mut flags: Vec<_> = faults.iter().map(|fault| &fault["pointer"]).collect();
        flags.sort_by_key(|flag| flag.to_string());
        assert_eq!(flags, ["--groups", "--pins", "--sweep"], "{error}");
        let state = std::path::Path::new(BPFFS).join("guideway");
        assert!(!state.exists(), "state was made before");
    });
}
