// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The collector as a process: what it prints, who may work beside it, how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::harness::{
    assert_valid, coded, command, draining, example, machine, poll, quiclb, quiclb_json, state,
    Files, INSTANCE,
};
use crate::netns::{
    foreign_program, ifindex, ip, isolated, netlink_attach, program_id, veth, within,
    xdp_seen_by_ip, Kind,
};

const PATIENCE: Duration = Duration::from_secs(20);

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

/// Makes a veth pair again, with other indices and another address.
fn made_again(near: &str, far: &str, mac: &str) {
    let before = ifindex(near);
    ip(&["link", "del", near]);
    // Another interface takes an index, so that the new one has another.
    veth("spare0", "spare1");
    veth(near, far);
    ip(&["link", "set", near, "address", mac]);
    ip(&["link", "del", "spare0"]);
    poll(far);
    assert_ne!(ifindex(near), before);
}

/// Never silent: gone it is a line, back it is another, and what is sent then arrives.
#[test]
fn interfaces_that_are_made_again_are_said_and_followed() {
    isolated("tool::run_interfaces", || {
        machine();
        let files = Files::new("run-interfaces");
        let mut spec = example();
        spec["source_mac"] = json!("interface");
        let spec = files.write("spec.json", spec.to_string());
        quiclb(&["apply", &spec]).exits(0);
        let mut collector = Collector::start(&["-o", "json", "run", "--quiet", INSTANCE]);
        let says = |line: &Value, name: &str| {
            let problem = line["problem"].as_str().unwrap_or_default();
            problem.contains(&format!("no such interface here: {name}"))
        };
        let published = |line: &Value| line["published"]["causes"] == json!(["interfaces"]);
        let is_well = || quiclb_json(&["status", INSTANCE]).code == 0;

        ip(&["link", "del", "vm-edge-a"]);
        collector.find(|line| says(line, "vm-edge-a"));
        veth("vm-edge-a", "peer-a");
        collector.find(published);
        made_again("vm-edge-a", "peer-a", "02:00:00:00:0a:01");
        assert!(within(PATIENCE, is_well), "a target with another address");

        // Where packets arrive: the link has lost what it held.
        ip(&["link", "del", "edge0"]);
        collector.find(|line| says(line, "edge0"));
        let gone = quiclb_json(&["status", INSTANCE]).exits(5).document();
        assert!(
            coded(&gone["findings"], "no-interface").is_some(),
            "{gone:#}"
        );
        veth("edge0", "client0");
        ip(&["link", "set", "edge0", "address", "02:00:00:00:0e:00"]);
        collector.find(published);
        assert!(within(PATIENCE, is_well), "where packets arrive");
        let status = quiclb_json(&["status", INSTANCE]).exits(0).document();
        assert_eq!(status["ifindex"], ifindex("edge0"));
        let (_, id) = xdp_seen_by_ip("edge0").expect("a program");
        assert_eq!(status["attachment"]["live_program_id"], id);

        // Somebody was faster: theirs stays, and that is said.
        ip(&["link", "del", "edge0"]);
        collector.find(|line| says(line, "edge0"));
        let theirs = foreign_program("theirs", Kind::Xdp).expect("load");
        ip(&[
            "link", "add", "taken0", "type", "veth", "peer", "name", "client0",
        ]);
        let flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_attach(ifindex("taken0"), &theirs, flags).expect("attach theirs");
        ip(&["link", "set", "taken0", "name", "edge0"]);
        ip(&["link", "set", "edge0", "up"]);
        let refused = collector.find(|line| {
            let problem = line["problem"].as_str().unwrap_or_default();
            problem.contains("not attached again")
        });
        let problem = refused["problem"].as_str().expect("text");
        assert!(problem.contains("(theirs)"), "{problem}");
        let seen = Some(("native".to_owned(), program_id(&theirs).into()));
        assert_eq!(xdp_seen_by_ip("edge0"), seen);
        assert_eq!(collector.end(Signal::SIGTERM), Some(0));
    });
}

#[test]
fn a_detached_instance_stays_detached() {
    isolated("tool::run_detached", || {
        machine();
        let files = Files::new("run-detached");
        let spec = files.write("spec.json", quick(example()).to_string());
        quiclb(&["apply", &spec]).exits(0);
        quiclb(&["detach", INSTANCE]).exits(0);
        made_again("edge0", "client0", "02:00:00:00:0e:00");
        let mut collector = Collector::start(&["-o", "json", "run", INSTANCE]);
        for _ in 0..2 {
            let line = collector.find(|line| line["sweep"]["complete"] == true);
            assert_eq!(line["problem"], Value::Null);
        }
        assert_eq!(xdp_seen_by_ip("edge0"), None);
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
