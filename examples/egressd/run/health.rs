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

/// How the loop goes, for those who ask from other threads.
pub(crate) struct Health {
    /// When the control thread came round last, in nanoseconds.
    turned_ns: AtomicU64,
    /// How long that may be ago, in nanoseconds.
    patience_ns: AtomicU64,
    /// What is waited for; none: ready.
    waiting: Mutex<Option<String>>,
}

impl Health {
    pub(crate) fn new(interval: Duration) -> Self {
        let health = Self {
            turned_ns: AtomicU64::new(clock::monotonic_ns()),
            patience_ns: AtomicU64::new(0),
            waiting: Mutex::new(Some("the first sweep".to_owned())),
        };
        health.interval(interval);
        health
    }

    /// Sets the time between two sweeps: a loop that did not come round in two of them is dead.
    pub(crate) fn interval(&self, interval: Duration) {
        let patience = (2 * interval).as_nanos();
        let patience = u64::try_from(patience).unwrap_or(u64::MAX);
        self.patience_ns.store(patience, Ordering::Relaxed);
    }

    pub(crate) fn turned(&self) {
        self.turned_ns
            .store(clock::monotonic_ns(), Ordering::Relaxed);
    }

    pub(crate) fn waits_for(&self, what: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn alive(&self) -> Response {
        let ago = clock::monotonic_ns().saturating_sub(self.turned_ns.load(Ordering::Relaxed));
        if ago <= self.patience_ns.load(Ordering::Relaxed) {
            return Response::text(Status::Ok, "ok");
        }
        let seconds = ago / 1_000_000_000;
        let text = format!("the loop did not come round for {seconds} s");
        Response::text(Status::ServiceUnavailable, text)
    }

    fn ready(&self) -> Response {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &*waiting {
            None => Response::text(Status::Ok, "ready"),
            Some(what) => {
                let text = format!("waiting for {what}");
                Response::text(Status::ServiceUnavailable, text)
            }
        }
    }
}

/// Answers requests; the maps are opened at the first scrape, and anew after an error.
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
        let egress = match self.egress.take() {
            Some(egress) => egress,
            None => Egress::open(&self.dir)?,
        };
        let reading = Reading::of(&egress, Tick::now())?;
        self.egress = Some(egress);
        Ok(reading)
    }
}
