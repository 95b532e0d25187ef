// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The demos themselves, on a small scale: they hold what they claim, and stop when told to.

#[path = "common/e2e.rs"]
mod e2e;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// A demo, which Cargo builds beside the tests.
fn example(name: &str, arguments: &[&str]) -> Command {
    let tests = std::env::current_exe().expect("this test's file");
    let target = tests.ancestors().nth(2).expect("target/debug/deps");
    let mut demo = Command::new(target.join("examples").join(name));
    demo.args(arguments).stdin(Stdio::null());
    demo
}

fn demo() -> Command {
    example("demo", &["100", "3"])
}

/// What the egress demo says, and whether it is content; nothing where it cannot run.
fn egress_demo(test: &str, arguments: &[&str]) -> Option<(String, bool)> {
    of_egress(test, "demo-egress", arguments)
}

/// The same of another demo of egress.
fn of_egress(test: &str, name: &str, arguments: &[&str]) -> Option<(String, bool)> {
    if !e2e::require_kernel(test) || !e2e::netns::require_seg6(test) {
        return None;
    }
    let output = example(name, arguments).output().expect("the demo");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((text, output.status.success()))
}

/// Alive, ended, broken, and moved: the last that the egress demo shows of a shard.
fn shard(text: &str, number: u32) -> [usize; 4] {
    let start = format!("{number:>4} ");
    let row = text.lines().rfind(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("{text}"));
    let columns: Vec<_> = row.split_whitespace().rev().collect();
    // Packets and pins are behind them.
    [5, 4, 3, 2].map(|column| columns[column].parse().expect("a number"))
}

#[test]
fn the_egress_demo_holds_what_it_claims() {
    let test = "the_egress_demo_holds_what_it_claims";
    let Some((text, passed)) = egress_demo(test, &["24"]) else {
        return;
    };
    assert!(passed, "{text}");
    for step in 1..=5 {
        assert!(text.contains(&format!("[{step}/5]")), "{text}");
    }
    let [drained, lost, third, added] = [1, 2, 3, 4].map(|number| shard(&text, number));
    // Two connections of each address.
    assert_eq!(drained, [0, 2 * drained[3], 0, drained[3]], "{text}");
    assert_eq!(lost, [0, 0, 2 * lost[3], lost[3]], "{text}");
    assert_eq!([&third[1..], &added[1..]], [[0, 0, 0]; 2], "{text}");
    // 24 addresses at first, and 12 in each of four steps.
    assert_eq!(third[0] + added[0], 2 * (24 + 4 * 12), "{text}");
    assert!(drained[3] > 0 && lost[3] > 0, "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

/// What it claims is no matter of course: without pins each change breaks connections.
#[test]
fn the_egress_demo_notices_connections_that_change_their_shard() {
    let test = "the_egress_demo_notices_connections_that_change_their_shard";
    let Some((text, passed)) = egress_demo(test, &["24", "0s"]) else {
        return;
    };
    assert!(!passed, "{text}");
    let [drained, _, third, _] = [1, 2, 3, 4].map(|number| shard(&text, number));
    // Those that stayed through the addition went by the drain.
    assert!(drained[2] > 0 && drained[1] == 0, "{text}");
    assert!(third[2] > 0, "{text}");
    assert!(text.contains("\nFAIL:\n"), "{text}");
}

#[test]
fn the_control_demo_holds_what_it_claims() {
    let test = "the_control_demo_holds_what_it_claims";
    let Some((text, passed)) = of_egress(test, "demo-control", &["24"]) else {
        return;
    };
    assert!(passed, "{text}");
    for step in 1..=6 {
        assert!(text.contains(&format!("[{step}/6]")), "{text}");
    }
    let [deleted, lost, third, added] = [1, 2, 3, 4].map(|number| shard(&text, number));
    // Two connections of each address; all that went by the shards that went broke, and no other.
    for gone in [&deleted, &lost] {
        assert_eq!(gone[..], [0, 0, 2 * gone[3], gone[3]], "{text}");
        assert!(gone[3] > 0, "{text}");
    }
    assert_eq!([&third[1..], &added[1..]], [[0, 0, 0]; 2], "{text}");
    assert_eq!(third[0] + added[0], 2 * (24 + 4 * 12), "{text}");
    assert!(
        text.contains("nothing had changed: it published nothing"),
        "{text}"
    );
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
