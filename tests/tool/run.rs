// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The collector as a process: what it prints, who may work beside it, how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::harness::{
    assert_valid, command, draining, example, machine, quiclb, quiclb_json, state, Files, INSTANCE,
};
use crate::netns::isolated;

/// The example, placed by flow, with state that is swept every second.
pub(crate) fn quick(mut spec: Value) -> Value {
    spec["services"][0]["quic"] = json!({"routing": "tuple"});
    spec["services"][0]["tracking"] = json!("exceptions");
    spec["services"][0]["flow_idle"] = json!("1s");
    spec["services"][0]["cid_idle"] = json!("1s");
    spec
}

/// `quiclb run`, ended with the test at the latest.
struct Collector {
    child: Child,
    lines: Reader,
}

type Reader = BufReader<Box<dyn Read>>;

impl Collector {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the tool runs");
        let lines = Reader::new(Box::new(child.stdout.take().expect("its output")));
        Self { child, lines }
    }

    /// The next line; there must be one.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("readable");
        assert!(line.ends_with('\n'), "it ended: {line}");
        line
    }

    /// The first line from here on that a test looks for, as a document.
    fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let line = self.line();
            assert!(
                line.starts_with("{\"schema\":\"guideway.quiclb.run/v1\""),
                "{line}"
            );
            let document: Value = serde_json::from_str(&line).expect("JSON");
            assert_valid("run", &document);
            if is_it(&document) {
                return document;
            }
            assert!(Instant::now() < end, "last: {line}");
        }
    }

    /// Ends it by a signal; gives its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("running");
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_sweeps_until_it_is_told_to_end_and_leaves_everything_as_it_is() {
    isolated("tool::run", || {
        machine();
        let files = Files::new("run");
        let spec = files.write("spec.json", quick(example()).to_string());
        quiclb(&["apply", &spec]).exits(0);
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut collector = Collector::start(&["-o", "json", "run", INSTANCE]);
            let line = collector.find(|line| !line["sweep"].is_null());
            assert_eq!(line["instance_id"], INSTANCE);
            assert_eq!(line["generation"], 1);
            assert_eq!(line["sweep"]["complete"], true);
            assert_eq!(line["sweep"]["services"][0]["name"], "quic-api");
            assert!(line["time"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z')));
            let before = state();
            assert_eq!(collector.end(signal), Some(0), "{signal}");
            assert_eq!(state(), before);
            let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
            assert_eq!(status["attachment"]["owner"], "ours");
            assert!(status["affinity"]["last_sweep"]["age_seconds"].is_u64());
        }
    });
}

#[test]
fn it_ends_the_transitions_of_what_is_applied_meanwhile() {
    isolated("tool::run_transition", || {
        machine();
        let files = Files::new("run-transition");
        let first = files.write("first.json", quick(example()).to_string());
        let second = files.write("second.json", quick(draining()).to_string());
        quiclb(&["apply", &first]).exits(0);
        let mut collector = Collector::start(&["-o", "json", "run", INSTANCE]);
        collector.find(|line| line["generation"] == 1);
        // Nobody who applies is kept out by a collector.
        for round in 0..10 {
            let spec = if round % 2 == 0 { &second } else { &first };
            quiclb(&["apply", spec]).exits(0);
        }
        quiclb(&["apply", &second]).exits(0);
        let open = |status: &Value| status["affinity"]["flows"]["open_slots"].as_u64();
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        assert!(open(&status) > Some(1000), "half the slots: {status}");
        // The window is the idle time and two seconds, and nobody has an entry.
        let windows = collector.find(|line| line["published"]["causes"] == json!(["windows"]));
        let [before, after] = [0, 1].map(|at| windows["published"]["open_slots"][at].as_u64());
        assert_eq!((before, after), (open(&status), Some(0)));
        collector.find(|line| line["published"]["held_slots"][1] == 0);
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        let flows = &status["affinity"]["flows"];
        assert_eq!(
            (&flows["open_slots"], &flows["held_slots"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(collector.end(Signal::SIGTERM), Some(0));
    });
}

#[test]
fn it_says_in_words_what_it_does() {
    isolated("tool::run_text", || {
        machine();
        let files = Files::new("run-text");
        let spec = files.write("spec.json", quick(example()).to_string());
        quiclb(&["apply", &spec]).exits(0);
        let mut collector = Collector::start(&["run", INSTANCE]);
        let line = collector.line();
        assert!(
            line.contains(" generation 1: swept 0 entries in "),
            "{line}"
        );
        assert!(
            line.trim_end()
                .ends_with(" ms, 0 live (0 expiring), 0 deleted"),
            "{line}"
        );
        // Nobody reads any more: the next line ends it, and that is no error.
        let Collector { child, lines } = &mut collector;
        let closed = std::fs::File::open("/dev/null").expect("nothing");
        *lines = Reader::new(Box::new(closed));
        assert_eq!(child.wait().expect("a child").code(), Some(0));
    });
}

#[test]
fn a_quiet_one_tells_what_it_publishes_and_nothing_of_sweeps() {
    isolated("tool::run_quiet", || {
        machine();
        let files = Files::new("run-quiet");
        let first = files.write("first.json", quick(example()).to_string());
        let second = files.write("second.json", quick(draining()).to_string());
        quiclb(&["apply", &first]).exits(0);
        quiclb(&["apply", &second]).exits(0);
        let mut collector = Collector::start(&["-o", "json", "run", "--quiet", INSTANCE]);
        // Windows take some sweeps to close, and none is told of.
        let first = collector.find(|_| true);
        assert_eq!(first["published"]["causes"], json!(["windows"]));
        assert_eq!(first["sweep"], Value::Null);
        assert_eq!(collector.end(Signal::SIGTERM), Some(0));
    });
}

#[test]
fn without_an_instance_it_has_nothing_to_do() {
    isolated("tool::run_nothing", || {
        let error = quiclb_json(&["run", INSTANCE]).fails(1, "not-found");
        assert_eq!(error["object"], INSTANCE);
    });
}
