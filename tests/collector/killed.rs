// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A collector stopped or killed at any moment: connections stay, and the next one goes on.

use std::process::Command;
use std::time::{Duration, Instant};

use guideway::plan::plan;
use guideway::quiclb::{observe, Aborted, Collector, Options, PublishError, QuicLb, Step, Writer};

use crate::harness::*;
use crate::netns::isolated;

const CONNECTIONS: u16 = 300;

fn services(weights: &[u16], idle: &str) -> guideway::quiclb::Spec {
    let mut document = service("tcp", "tcp", 443, weights);
    document["flow_idle"] = idle.into();
    spec(&[document])
}

fn marks() -> (u32, u32) {
    let live = QuicLb::open(&dir()).expect("open").live_record();
    let marks = live.expect("readable").expect("live").all_marks();
    (marks.open, marks.held)
}

/// Connections that exist since before the table changed.
struct Connections {
    client: Client,
    backends: Vec<u8>,
}

impl Connections {
    fn begin() -> Self {
        let client = Client::new(443);
        let backends = (0..CONNECTIONS).map(|number| client.begin(number));
        Self {
            backends: backends.collect(),
            client,
        }
    }

    /// One packet of each: none goes elsewhere.
    fn stay(&self, what: &str) {
        for (number, &backend) in (0..).zip(&self.backends) {
            assert_eq!(
                self.client.go_on(number),
                backend,
                "{what}, connection {number}"
            );
        }
    }
}

#[test]
fn a_window_whose_end_is_stopped_at_any_step_is_ended_by_the_next() {
    isolated("collector::stopped", || {
        interfaces();
        for step in Step::ALL {
            publish(&services(&[1, 1, 1], "60s"));
            let connections = Connections::begin();
            publish(&services(&[1, 1, 1, 1], "60s"));
            connections.stay("open");
            let open = marks().0;
            assert!(open > 40);

            let over = now() + 64 * SECOND;
            let mut writer = Writer::open(&dir()).expect("open");
            let live = writer.live_record().expect("readable").expect("live");
            let mut world = observe().expect("interfaces");
            world.monotonic_ns = over;
            let plan = plan(Some(&live), live.spec(), &world, Options::default()).expect("a plan");
            let stopped = writer.publish_observed(&plan, 2, |at| match at == step {
                true => Err(Aborted),
                false => Ok(()),
            });
            drop(writer);
            if step <= Step::Swap {
                assert!(
                    matches!(stopped, Err(PublishError::Aborted { .. })),
                    "{step}"
                );
                assert_eq!(marks(), (open, 0), "{step}");
            }
            connections.stay("stopped");
            let mut collector = Collector::new(&dir(), eager());
            collector.step(over).expect("a step");
            let (still_open, held) = marks();
            // If it was ended before, the sweep of this step released some slots.
            assert_eq!(
                (still_open, held == open),
                (0, step <= Step::Swap),
                "{step}"
            );
            connections.stay("held");
            Writer::open(&dir())
                .expect("open")
                .purge()
                .expect("removed");
        }
    });
}

#[test]
fn a_collector_that_is_killed_over_and_over_gets_there_and_moves_nobody() {
    isolated("collector::killed", || {
        interfaces();
        publish(&services(&[1, 1, 1], "5s"));
        let connections = Connections::begin();
        publish(&services(&[1, 1, 1, 1], "5s"));
        connections.stay("open");
        let (open, _) = marks();
        assert!(open > 40);
        // The longest run is three times what one takes here that is not killed.
        let began = Instant::now();
        step(eager(), now());
        let unit = (began.elapsed() / 12).max(Duration::from_millis(7));
        let mut killed = 0;
        // Runs a collector for a while, and kills it wherever it is.
        let mut kill_one = || {
            let mut child = Command::new(std::env::current_exe().expect("this test"))
                .args([
                    "--exact",
                    "killed::the_collector_that_is_killed",
                    "--nocapture",
                ])
                .env("GW_TEST_COLLECTOR", "1")
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("a child");
            // From its start on, for a little longer each time, and from the start again.
            std::thread::sleep(unit * (1 + killed % 37));
            child.kill().expect("killed");
            child.wait().expect("a child");
            killed += 1;
        };
        let end = Instant::now() + Duration::from_secs(180);
        let differing = loop {
            kill_one();
            connections.stay("under way");
            let now = marks();
            // Slots of which no connection differs are released, the others held.
            if now.0 == 0 && now.1 < open {
                break now.1;
            }
            assert!(Instant::now() < end, "{now:?}");
        };
        assert!(differing > 0);
        for _ in 0..20 {
            kill_one();
            connections.stay("held");
        }
        // Nobody talks any more.
        let end = Instant::now() + Duration::from_secs(180);
        while marks() != (0, 0) {
            kill_one();
            assert!(Instant::now() < end, "{:?}", marks());
        }
        println!("{killed} collectors were killed");
    });
}

/// Not a test by itself: the process that the test above kills.
#[test]
fn the_collector_that_is_killed() {
    if std::env::var_os("GW_TEST_COLLECTOR").is_none() {
        return;
    }
    let mut collector = Collector::new(&dir(), eager());
    loop {
        let stepped = collector.step(now()).expect("a step");
        assert_eq!(stepped.problem, None);
    }
}
