// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What scrapes and probes are answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guideway::control::metrics::{render, Format, Reading, SharedCounters};
use guideway::egress::pins::Tick;
use guideway::egress::Egress;
use guideway::kernel::clock;
use guideway::kernel::statedir::StateDir;

use super::http::{Request, Response, Status};

/// What a pass over all pins may take beyond the patience for anything else: there may be millions.
const PASS: Duration = Duration::from_secs(60);

/// How the loop goes, for those who ask from other threads.
pub(crate) struct Health {
    /// When the control thread came round last, in nanoseconds.
    turned_ns: AtomicU64,
    /// When the thread that sweeps began what it is doing, in nanoseconds, and later where that may take
    /// long; 0: it has nothing to do.
    working_ns: AtomicU64,
    /// How long either may be ago, in nanoseconds.
    patience_ns: AtomicU64,
    /// What is waited for; none: ready.
    waiting: Mutex<Option<String>>,
    /// What the start did to the program; none: nothing.
    program: Option<String>,
}

impl Health {
    pub(crate) fn new(interval: Duration, program: Option<String>) -> Self {
        let health = Self {
            turned_ns: AtomicU64::new(clock::monotonic_ns()),
            working_ns: AtomicU64::new(0),
            patience_ns: AtomicU64::new(0),
            waiting: Mutex::new(Some("the first sweep".to_owned())),
            program,
        };
        health.interval(interval);
        health
    }

    /// Sets the time between two sweeps: a thread that does not come on in two of them is dead. That is
    /// more than any wait for who else writes, or for the last packets of a snapshot.
    pub(crate) fn interval(&self, interval: Duration) {
        let patience = (2 * interval).as_nanos();
        let patience = u64::try_from(patience).unwrap_or(u64::MAX);
        self.patience_ns.store(patience, Ordering::Relaxed);
    }

    pub(crate) fn turned(&self) {
        self.turned_ns
            .store(clock::monotonic_ns(), Ordering::Relaxed);
    }

    /// The thread that sweeps has something to do, or goes on with it.
    pub(crate) fn works(&self) {
        self.works_for(Duration::ZERO);
    }

    /// It begins a pass over all pins of a table.
    pub(crate) fn passes_over_pins(&self) {
        self.works_for(PASS);
    }

    fn works_for(&self, time: Duration) {
        let until = Duration::from_nanos(clock::monotonic_ns()).saturating_add(time);
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.working_ns.store(until, Ordering::Relaxed);
    }

    /// It has done what it had to do.
    pub(crate) fn rests(&self) {
        self.working_ns.store(0, Ordering::Relaxed);
    }

    pub(crate) fn waits_for(&self, what: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// A text that tells what the start did to the program, too.
    pub(crate) fn with_program(&self, text: &str) -> String {
        match &self.program {
            None => text.to_owned(),
            Some(program) => format!("{text}; {program}"),
        }
    }

    /// What does not go on; none if everything does.
    pub(crate) fn stuck(&self) -> Option<String> {
        let now = clock::monotonic_ns();
        let patience = self.patience_ns.load(Ordering::Relaxed);
        let late = |since: &AtomicU64| {
            let since = Some(since.load(Ordering::Relaxed)).filter(|&since| since > 0)?;
            let ago = now.saturating_sub(since);
            (ago > patience).then_some(ago / 1_000_000_000)
        };
        if let Some(seconds) = late(&self.turned_ns) {
            return Some(format!("the loop did not come round for {seconds} s"));
        }
        let seconds = late(&self.working_ns)?;
        Some(format!("the sweep did not come on for {seconds} s"))
    }

    fn alive(&self) -> Response {
        match self.stuck() {
            None => Response::text(Status::Ok, "ok"),
            Some(what) => Response::text(Status::ServiceUnavailable, what),
        }
    }

    fn ready(&self) -> Response {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &*waiting {
            None => Response::text(Status::Ok, self.with_program("ready")),
            Some(what) => {
                let text = format!("waiting for {what}");
                Response::text(Status::ServiceUnavailable, text)
            }
        }
    }
}

/// Answers requests; the maps are opened at the first scrape, and anew after an error or when they are
/// not the instance's any more.
pub(crate) struct Answers {
    health: std::sync::Arc<Health>,
    counters: SharedCounters,
    dir: StateDir,
    egress: Option<Egress>,
}

impl Answers {
    pub(crate) fn new(
        health: std::sync::Arc<Health>,
        counters: SharedCounters,
        dir: StateDir,
    ) -> Self {
        Self {
            health,
            counters,
            dir,
            egress: None,
        }
    }

    pub(crate) fn to(&mut self, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => self.metrics(request),
            "/healthz" => self.health.alive(),
            "/readyz" => self.health.ready(),
            _ => Response::text(Status::NotFound, "there are /metrics, /healthz and /readyz"),
        }
    }

    fn metrics(&mut self, request: &Request) -> Response {
        let reading = self.reading();
        match reading {
            Ok(reading) => {
                let format = Format::accepted(&request.accept);
                Response {
                    status: Status::Ok,
                    content_type: format.content_type(),
                    body: render(&self.counters.copy(), &reading, format),
                }
            }
            Err(error) => Response::text(Status::ServiceUnavailable, error),
        }
    }

    fn reading(&mut self) -> Result<Reading, guideway::egress::InstanceError> {
        // What was removed, or made anew, is not kept alive here.
        let held = self.egress.take().filter(Egress::is_current);
        let egress = match held {
            Some(egress) => egress,
            None => Egress::open(&self.dir)?,
        };
        let reading = Reading::of(&egress, Tick::now())?;
        self.egress = Some(egress);
        Ok(reading)
    }
}
