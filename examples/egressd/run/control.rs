// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The control thread: waits for whatever may ask for a sweep, and blocks nowhere else.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use guideway::control::kernel::Failure as SweepFailure;
use guideway::control::machine::{Action, Machine, Timing, Trigger};
use guideway::control::netlink::Monitor;
use guideway::control::source::Source;
use guideway::control::sweep::{asked, Swept};
use guideway::control::{Desired, Mode};
use guideway::egress::interfaces_of;
use guideway::egress::pins::Table;
use guideway::error::ErrorKind;
use guideway::kernel::statedir::StateDir;
use guideway::srv6::BaseSid;
use nix::sys::signalfd::SignalFd;

use super::config::{Config, Flags};
use super::counting::Counting;
use super::health::Health;
use super::log::Log;
use super::notify::Notify;
use super::report;
use super::waiting::{ready, Rest};
use super::worker::{now, Done, Ended, Order, Work, Worker};
use crate::tool::{self, Failure};

/// Reports of the network that are taken in before others are attended to.
const BUDGET: usize = 1024;

/// Everything that the control thread has.
pub(crate) struct Control {
    pub(crate) flags: Flags,
    pub(crate) config: Config,
    pub(crate) source: Box<dyn Source>,
    pub(crate) monitor: Monitor,
    /// Of the monitor, where it fails.
    pub(crate) deaf: Rest,
    pub(crate) machine: Machine,
    pub(crate) worker: Worker,
    pub(crate) dir: StateDir,
    pub(crate) signals: SignalFd,
    pub(crate) log: Log,
    pub(crate) notify: Notify,
    pub(crate) health: Arc<Health>,
    pub(crate) counting: Counting,
    /// The shards whose ways the last sweep needed.
    pub(crate) watched: BTreeSet<BaseSid>,
    /// The table that idle pins are removed from next.
    pub(crate) expiring: Table,
    /// Why they could not be removed from a table the last time.
    pub(crate) untidy: Vec<(Table, String)>,
    /// Whether a sweep has ended without an error, and a list of shards was known where one is needed.
    pub(crate) ready: bool,
    /// Configurations that were refused since the start, and that were taken.
    pub(crate) refused: u64,
    pub(crate) configuration: u64,
    /// Whether it ends behind one sweep.
    pub(crate) once: bool,
}

/// How a sweep of `--once` went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Complete,
    Partial,
    Degraded,
}

/// What a turn of the loop found.
enum Turn {
    Swept(Result<Round, SweepFailure>),
    End,
    Nothing,
}

/// Whether each configured class has a shard that takes its packets.
fn is_served(swept: &Swept) -> bool {
    let mut classes = swept.plan.effect.classes.iter();
    classes.all(|class| class.served || !class.configured)
}

/// The times that the loop keeps.
pub(crate) fn timing(config: &Config) -> Timing {
    Timing {
        debounce: config.debounce,
        interval: config.sweep,
        tidy: config.sweep,
        ..Timing::default()
    }
}

impl Control {
    /// Goes on until it is told to end.
    pub(crate) fn run(mut self) -> Result<tool::Done, Failure> {
        loop {
            if let Turn::End = self.turn()? {
                return Ok(tool::Done::Well);
            }
        }
    }

    /// Does one sweep.
    pub(crate) fn once(mut self) -> Result<tool::Done, Failure> {
        loop {
            match self.turn()? {
                Turn::End => return Ok(tool::Done::Partly),
                Turn::Nothing => {}
                Turn::Swept(Ok(Round::Complete)) => return Ok(tool::Done::Well),
                Turn::Swept(Ok(Round::Partial)) => return Ok(tool::Done::Partly),
                Turn::Swept(Ok(Round::Degraded)) => return Ok(tool::Done::Degraded),
                Turn::Swept(Err(failure)) => return Err(Failure::new(failure.kind(), failure)),
            }
        }
    }

    /// Waits until something happens, and attends to it.
    fn turn(&mut self) -> Result<Turn, Failure> {
        let until = loop {
            match self.machine.poll(now()) {
                Action::Sweep(trigger) => self.order(trigger)?,
                Action::Dump => self.dump(),
                Action::Tidy => self.work(Work::Expire(self.expiring))?,
                Action::Wait(until) => break until,
                // Nothing that this loop knows how to do.
                _ => break Some(now() + self.config.sweep),
            }
        };
        let [told, heard, listed, done] = self.wait(until)?;
        let mut turn = Turn::Nothing;
        if done {
            while let Some(ended) = self.worker.done()? {
                match ended {
                    Ended::Sweep(done) => {
                        let swept = self.swept(*done);
                        turn = swept.map_or(turn, Turn::Swept);
                    }
                    Ended::Expire(table, result) => self.tidied(table, result.err()),
                }
            }
        }
        if heard {
            self.hear();
        }
        if listed && self.source.acknowledge() {
            self.machine.kick(Trigger::Source, now());
        }
        self.counting.kicks(&self.machine);
        self.health.turned();
        if self.health.stuck().is_none() {
            self.notify.alive();
        }
        if told && self.signalled()? {
            return Ok(Turn::End);
        }
        Ok(turn)
    }

    /// Which of signals, network, source and worker have something to tell by then.
    pub(super) fn wait(&self, until: Option<Duration>) -> Result<[bool; 4], Failure> {
        // Often enough that the service manager and probes see that it lives.
        let longest = self
            .notify
            .watchdog()
            .map_or(self.config.sweep, |time| time / 2);
        let longest = longest.min(self.config.sweep);
        let time = now();
        let deaf = self.deaf.until(time);
        let until = until.into_iter().chain(deaf).min();
        let time = until.map_or(longest, |until| until.saturating_sub(time).min(longest));
        let fds = [
            Some(self.signals.as_fd()),
            Some(self.monitor.as_fd()).filter(|_| deaf.is_none()),
            Some(self.source.events()),
            Some(self.worker.fd()),
        ];
        ready(fds, time).map_err(|e| Failure::new(ErrorKind::Kernel, format!("poll: {e}")))
    }

    /// Begins a sweep of what is wanted now.
    fn order(&mut self, trigger: Trigger) -> Result<(), Failure> {
        let start = now();
        self.source.refresh(start);
        let desired = self.config.desired(self.source.latest());
        self.counting.source(self.source.as_ref());
        let shards = asked(&[], &desired);
        let shards = shards.union(&self.watched).copied();
        // No news: the ways are asked for after this.
        let _ = self.monitor.watch(shards);
        let order = Order {
            trigger,
            desired,
            uplinks: self.config.uplinks.clone(),
            down_hold: self.config.down_hold,
            interval: Some(self.config.sweep).filter(|_| !self.once),
            configuration: self.configuration,
        };
        self.work(Work::Sweep(Box::new(order)))
    }

    fn work(&self, work: Work) -> Result<(), Failure> {
        self.health.works();
        Ok(self.worker.order(work)?)
    }

    /// Takes in that idle pins of a table were removed, or why they could not be.
    pub(super) fn tidied(&mut self, table: Table, failure: Option<String>) {
        self.health.rests();
        self.untidy.retain(|(of, _)| *of != table);
        self.untidy.extend(failure.map(|why| (table, why)));
        let mut tables = Table::ALL.into_iter().skip_while(|one| *one != table);
        let next = tables.nth(1);
        self.expiring = next.unwrap_or(Table::ALL[0]);
        self.machine.tidied(next.is_some(), now());
    }

    /// Takes in what a sweep came to; none if the configuration that it was told is not in force any
    /// more: the next one says how things are.
    pub(super) fn swept(&mut self, done: Done) -> Option<Result<Round, SweepFailure>> {
        self.health.rests();
        self.machine.swept(done.hold);
        self.counting.swept(&done, &self.config.classes);
        for line in report::done(&done) {
            self.log.info("step", &line);
        }
        (done.configuration == self.configuration).then(|| self.found(done))
    }

    /// Says how things are behind a sweep.
    fn found(&mut self, done: Done) -> Result<Round, SweepFailure> {
        let time = now();
        // Nobody reads the list in the other mode.
        let hashed = done.desired.mode == Mode::Hashed;
        let mut wrong = report::wrong(&done, self.source.failure().filter(|_| hashed));
        if hashed {
            wrong.extend(report::passed_over(self.source.as_ref()));
        }
        let untidy = self.untidy.iter();
        wrong.extend(untidy.map(|(_, why)| report::untidy(why)));
        self.log.standing(time, wrong);
        let swept = match done.result {
            Ok(swept) => swept,
            Err(failure) => {
                self.wait_for(Some(format!("a sweep without an error: {failure}")));
                return Err(failure);
            }
        };
        self.watched = swept.asked.clone();
        let news = self.monitor.watch(swept.asked.iter().copied());
        news.tell(&mut self.machine, time);
        let failed = swept.errors().next().map(|(_, error)| error);
        let listed = self.listed(&done.desired);
        self.wait_for(match (&failed, listed) {
            (Some(failure), _) => Some(format!("a sweep without an error: {failure}")),
            (None, false) => {
                let why = self.source.failure().unwrap_or_default();
                Some(format!("a complete list of shards: {why}"))
            }
            (None, true) => None,
        });
        Ok(match (failed, listed) {
            (Some(_), _) => Round::Partial,
            (None, _) if !swept.is_complete() => Round::Partial,
            (None, false) => Round::Degraded,
            (None, true) if !is_served(&swept) => Round::Degraded,
            (None, true) => Round::Complete,
        })
    }

    /// Whether as much is known of the shards as the mode needs.
    fn listed(&self, desired: &Desired) -> bool {
        desired.mode == Mode::Ordered || desired.shards.value().is_some()
    }

    /// Says what is waited for until it came once; none: nothing.
    fn wait_for(&mut self, what: Option<String>) {
        if self.ready {
            return;
        }
        match &what {
            Some(what) => self.notify.status(&format!("waiting for {what}")),
            None => {
                self.ready = true;
                let status = self.health.with_program("in line with its shards");
                self.notify.ready(&status);
                self.log
                    .info("ready", "the first sweep ended without an error");
            }
        }
        self.health.waits_for(what);
    }

    /// Takes in what the network reports. Where that fails it goes on without for an interval, as the
    /// next try may fail at once: the sweep that follows asks the kernel itself.
    pub(super) fn hear(&mut self) {
        let time = now();
        let received = self.monitor.receive(BUDGET);
        self.counting.network(&self.monitor);
        let error = received.as_ref().err().map(ToString::to_string);
        self.log.tried("network", "reports of changes", error);
        match received {
            Ok(news) => {
                news.tell(&mut self.machine, time);
                if self.is_a_tenants(&news.gone) {
                    self.machine.kick(Trigger::Link, time);
                }
            }
            Err(_) => {
                self.deaf.failed(time, self.config.sweep);
                self.machine.overrun(time);
            }
        }
    }

    /// Whether one of these interfaces is a tenant's: the next sweep says so.
    fn is_a_tenants(&self, gone: &[u32]) -> bool {
        // What cannot be read fails the next sweep, which is not long in coming.
        !gone.is_empty()
            && interfaces_of(&self.dir)
                .is_ok_and(|tenants| gone.iter().any(|index| tenants.contains(index)))
    }

    fn dump(&mut self) {
        let dumped = self.monitor.dump();
        self.counting.network(&self.monitor);
        let error = dumped.as_ref().err().map(ToString::to_string);
        self.log.tried("network", "view of the network", error);
        match dumped {
            // All that waited was taken.
            Ok(()) => self.deaf.works(),
            Err(_) => self.machine.overrun(now()),
        }
    }
}
