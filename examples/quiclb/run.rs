// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `run`: the collector, until it is told to end.

use std::os::fd::AsFd;
use std::time::Duration;

use guideway::error::ErrorKind;
use guideway::quiclb::collector::{
    Cause, Deleted, Followed, LevelChange, RunLine, StateTable, SweepReport,
};
use guideway::quiclb::{HardwareLb, StateRoot};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::args::RunArgs;
use crate::card;
use crate::collect::Collecting;
use crate::tool::{json, Done, Failure, Output};

pub(crate) fn run(arguments: &RunArgs, root: &StateRoot, output: &Output) -> Result<Done, Failure> {
    let instance = arguments.instance;
    let end = End::new()?;
    let dir = root.quiclb(instance);
    if HardwareLb::open(&dir).is_ok() {
        return card::run(&dir, &end, arguments.quiet, output);
    }
    let mut collecting = Collecting::new(instance, root);
    let mut told = None;
    loop {
        let step = collecting.step()?;
        let mut line = RunLine::new(instance, step.done);
        // Said once, and again when it was something else meanwhile.
        line.problem = step.problem.clone().filter(|_| told != step.problem);
        told = step.problem;
        if arguments.quiet {
            line.sweep = None;
        }
        if line.says_something() {
            let line = match output.is_json() {
                true => json(&line),
                false => text(&line),
            };
            if !output.print(&line)? {
                return Ok(Done::Well);
            }
        }
        if end.comes_within(step.next)? {
            return Ok(Done::Well);
        }
    }
}

/// Waits for the signals that end a run: nothing is ever interrupted, traffic goes on in any case.
pub(crate) struct End {
    signals: SignalFd,
}

impl End {
    fn new() -> Result<Self, Failure> {
        let failed = |error: Errno| Failure::new(ErrorKind::Kernel, format!("signals: {error}"));
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&set, flags).map_err(failed)?;
        Ok(Self { signals })
    }

    /// Whether one came by then.
    pub(crate) fn comes_within(&self, time: Duration) -> Result<bool, Failure> {
        // Rounded up: a step that comes too early finds nothing due.
        let milliseconds = time.as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
        let mut wanted = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, timeout) {
            Ok(count) => Ok(count > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(Failure::new(ErrorKind::Kernel, format!("poll: {error}"))),
        }
    }
}

fn text(line: &RunLine) -> String {
    let mut parts: Vec<String> = line.levels.iter().map(level_text).collect();
    parts.extend(line.sweep.as_ref().map(sweep_text));
    parts.extend(line.published.as_ref().map(published_text));
    parts.extend(line.problem.clone());
    let mut text = line.time.clone();
    if let Some(generation) = line.generation {
        text.push_str(&format!(" generation {generation}"));
    }
    format!("{text}: {}\n", parts.join("; "))
}

fn level_text(change: &LevelChange) -> String {
    let table = match change.table {
        StateTable::Flows => "flows",
        _ => "connection IDs",
    };
    let LevelChange {
        service, from, to, ..
    } = change;
    format!("level of {table} of {service} {from} -> {to}")
}

fn sweep_text(sweep: &SweepReport) -> String {
    let verb = if sweep.complete { "swept" } else { "sweeping:" };
    let mut text = format!(
        "{verb} {} entries in {:.1} ms, {} live ({} expiring), {} deleted{}",
        sweep.scanned,
        sweep.duration_ms,
        sweep.live,
        sweep.expiring,
        sweep.deleted.total(),
        deleted_text(&sweep.deleted),
    );
    if sweep.resurrected > 0 {
        text.push_str(&format!(", {} put back", sweep.resurrected));
    }
    if sweep.lost > 0 {
        text.push_str(&format!(", {} without room to be put back", sweep.lost));
    }
    text
}

fn deleted_text(deleted: &Deleted) -> String {
    let reasons = [
        (deleted.idle, "idle"),
        (deleted.closed, "closed"),
        (deleted.backend_gone, "backend gone"),
        (deleted.redundant, "redundant"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<_> = reasons
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons.join(", ")),
    }
}

fn published_text(published: &Followed) -> String {
    let causes = published.causes.iter().map(|cause| match cause {
        Cause::Windows => "windows are over",
        Cause::Released => "slots are released",
        _ => "interfaces changed",
    });
    let causes: Vec<_> = causes.collect();
    let [open_before, open] = published.open_slots;
    let [held_before, held] = published.held_slots;
    format!(
        "published {} in {:.1} ms, as {}: open slots {open_before} -> {open}, held {held_before} -> \
         {held}",
        published.generation,
        published.publish_ms,
        causes.join(" and "),
    )
}
