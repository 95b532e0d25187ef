// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The demo itself, on a small scale: it holds what it claims, and stops when told to.

#[path = "common/e2e.rs"]
mod e2e;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// The demo, which Cargo builds beside the tests.
fn demo() -> Command {
    let tests = std::env::current_exe().expect("this test's file");
    let target = tests.ancestors().nth(2).expect("target/debug/deps");
    let mut demo = Command::new(target.join("examples/demo"));
    demo.args(["100", "3"]).stdin(Stdio::null());
    demo
}

#[test]
fn the_demo_holds_what_it_claims() {
    if !e2e::require_kernel("the_demo_holds_what_it_claims") {
        return;
    }
    let output = demo().output().expect("the demo");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for steps in [6, 5] {
        for step in 1..=steps {
            assert!(text.contains(&format!("[{step}/{steps}]")), "{text}");
        }
    }
    let closing = text.lines().filter(|line| line.starts_with("all "));
    let closing: Vec<Vec<usize>> = closing
        .map(|line| {
            let numbers = line.split_whitespace().skip(1).take(3);
            numbers
                .map(|number| number.parse().expect("a number"))
                .collect()
        })
        .collect();
    let [server_ids, flow_state] = &closing[..] else {
        panic!("{text}")
    };
    // 100 connections at first and 50 in each of three steps.
    assert_eq!(server_ids[0], 250, "{text}");
    assert_eq!(server_ids[1] + server_ids[2], 250, "{text}");
    // Half as many of each, and nobody dies.
    assert_eq!(flow_state[..], [125, 125, 0], "{text}");
    // A terminal's escapes are for terminals.
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn the_demo_stops_when_told_to() {
    if !e2e::require_kernel("the_demo_stops_when_told_to") {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut running = demo().stdout(Stdio::piped()).spawn().expect("the demo");
        let output = BufReader::new(running.stdout.take().expect("its output"));
        // Its first picture appears when the program is attached and connections exist.
        let mut lines = output.lines().map(|line| line.expect("text"));
        let mut shown = Vec::new();
        while !shown
            .last()
            .is_some_and(|line: &String| line.starts_with("[1/6]"))
        {
            match lines.next() {
                Some(line) => shown.push(line),
                None => panic!("{}", shown.join("\n")),
            }
        }
        kill(Pid::from_raw(running.id() as i32), signal).expect("a process of ours");
        let rest: Vec<String> = lines.collect();
        assert_eq!(running.wait().expect("its end").code(), Some(130));
        assert!(!rest.iter().any(|line| line.starts_with("PASS")));
    }
}
