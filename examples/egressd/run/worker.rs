// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The thread that sweeps: publications, guards and look-ups block here and nowhere else.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::time::Duration;

use guideway::control::kernel::{Failure as SweepFailure, KernelError, Live, Stage};
use guideway::control::machine::Trigger;
use guideway::control::metrics::Carried;
use guideway::control::netlink::{Failures, Resolution, Resolver};
use guideway::control::sweep::{sweep, Swept};
use guideway::control::{Deadline, Desired};
use guideway::egress::pins::{Report, Table, Tick};
use guideway::egress::{Loader, LoopReport, LoopReportError, Writer};
use guideway::error::ErrorKind;
use guideway::id::InterfaceName;
/// The monotonic clock of everything here.
pub(crate) use guideway::kernel::clock::monotonic as now;
use guideway::kernel::statedir::StateDir;

use super::health::Health;
use super::told;
use crate::tool::Failure;

/// How long a sweep may begin new steps.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a step waits for those who write routes: who stops the daemon waits with it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something to do.
pub(crate) enum Work {
    Sweep(Box<Order>),
    /// Remove idle and stale pins from a table.
    Expire(Table),
}

/// Something that was done.
pub(crate) enum Ended {
    Sweep(Box<Done>),
    Expire(Table, Result<Report, String>),
}

/// A sweep to do.
pub(crate) struct Order {
    pub(crate) trigger: Trigger,
    pub(crate) desired: Desired,
    pub(crate) uplinks: Vec<InterfaceName>,
    pub(crate) down_hold: Duration,
    /// The longest time to the next sweep; none: there is none.
    pub(crate) interval: Option<Duration>,
    /// Which configuration says so: they are counted.
    pub(crate) configuration: u64,
}

/// A sweep that was done.
pub(crate) struct Done {
    pub(crate) trigger: Trigger,
    pub(crate) desired: Desired,
    pub(crate) configuration: u64,
    pub(crate) took: Duration,
    pub(crate) result: Result<Swept, SweepFailure>,
    pub(crate) resolution: Option<Resolution>,
    /// How often shards were not reached, since the start.
    pub(crate) unreached: Failures,
    /// When a neighbour must be looked at again.
    pub(crate) hold: Option<Duration>,
    /// Why others cannot see what was done.
    pub(crate) untold: Option<String>,
    /// Interfaces of tenants whose packets do not meet the program; an error if they cannot be told.
    pub(crate) astray: Result<Vec<u32>, String>,
}

/// The thread has died. What the kernel has goes on forwarding; a new start goes on from there.
#[derive(Debug, thiserror::Error)]
#[error("the thread that sweeps has died")]
pub(crate) struct Gone;

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Self {
        Self::new(ErrorKind::Kernel, gone)
    }
}

/// The thread, from the side of who gives it orders.
pub(crate) struct Worker {
    orders: Sender<Work>,
    done: Receiver<Ended>,
    wake: UnixStream,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Starts it for the instance of this directory, which exists.
    pub(crate) fn start(dir: StateDir, health: Arc<Health>) -> std::io::Result<Self> {
        let (orders, receiver) = mpsc::channel();
        let (sender, done) = mpsc::channel();
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut state = State {
            dir,
            resolver: None,
            unreached: Carried::default(),
            stop: Arc::clone(&stop),
            health,
            told: None,
        };
        std::thread::Builder::new()
            .name("sweep".to_owned())
            .spawn(move || {
                for work in receiver {
                    let ended = match work {
                        Work::Sweep(order) => Ended::Sweep(Box::new(state.sweep(*order))),
                        Work::Expire(table) => Ended::Expire(table, state.expire(table)),
                    };
                    // Nobody is left to be told when the other side is gone.
                    if sender.send(ended).is_err() || waker.write_all(b".").is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self {
            orders,
            done,
            wake,
            stop,
        })
    }

    /// Gives an order; its end makes [`fd`](Self::fd) readable.
    ///
    /// # Errors
    /// The thread is gone.
    pub(crate) fn order(&self, work: Work) -> Result<(), Gone> {
        self.orders.send(work).map_err(|_| Gone)
    }

    /// Begins no further step from now on.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What was done, if anything.
    ///
    /// # Errors
    /// The thread is gone.
    pub(crate) fn done(&mut self) -> Result<Option<Ended>, Gone> {
        let mut byte = [0];
        // Whether or not it could be read: the channel knows.
        let _ = std::io::Read::read(&mut self.wake, &mut byte);
        match self.done.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Gone),
        }
    }
}

/// Interfaces that the program was attached to and that are gone, or run another one.
fn unattached(writer: &Writer) -> Result<Vec<u32>, String> {
    let attachments = writer.attachments().map_err(|error| error.to_string())?;
    let astray = attachments.iter().filter(|one| one.program_id.is_none());
    Ok(astray.map(|one| one.ifindex).collect())
}

/// What the thread keeps from sweep to sweep.
struct State {
    dir: StateDir,
    resolver: Option<(Vec<InterfaceName>, Resolver)>,
    unreached: Carried<Failures>,
    stop: Arc<AtomicBool>,
    health: Arc<Health>,
    /// What others were told last, of this process or the one before.
    told: Option<LoopReport>,
}

impl State {
    fn sweep(&mut self, order: Order) -> Done {
        let start = now();
        let mut resolution = None;
        let mut untold = None;
        let mut astray = Ok(Vec::new());
        let path = self.dir.path().display().to_string();
        // Held for this sweep alone: who attaches tenants takes turns.
        let opened = Loader::new(&self.dir).open();
        let opened =
            opened.map_err(|error| SweepFailure::new(Stage::Open, &path, KernelError::from(error)));
        let result = opened.and_then(|mut writer| {
            let result = self.round(&mut writer, &order, start, &mut resolution);
            let told = self.tell(&mut writer, &order, start, &result);
            untold = told.err().map(|error| error.to_string());
            astray = unattached(&writer);
            result
        });
        let resolver = self.resolver.as_ref().map(|(_, resolver)| resolver);
        Done {
            trigger: order.trigger,
            took: now().saturating_sub(start),
            result,
            resolution,
            unreached: self
                .unreached
                .told(resolver.map(Resolver::failures).unwrap_or_default()),
            hold: resolver.and_then(Resolver::hold_until),
            untold,
            astray,
            configuration: order.configuration,
            desired: order.desired,
        }
    }

    fn round(
        &mut self,
        writer: &mut Writer,
        order: &Order,
        start: Duration,
        resolution: &mut Option<Resolution>,
    ) -> Result<Swept, SweepFailure> {
        let failed =
            |stage, object: &str, cause: KernelError| SweepFailure::new(stage, object, cause);
        let (uplinks, down_hold) = (&order.uplinks, order.down_hold);
        self.health.works();
        let resolver = match self.resolver.take() {
            Some((names, resolver)) if names == *uplinks => resolver,
            _ => {
                self.unreached.replaced();
                let resolver = Resolver::keeping(uplinks, down_hold);
                let mut resolver = resolver.map_err(|error| {
                    let cause = KernelError::new(error.kind(), error);
                    failed(Stage::Resolve, "ways to shards", cause)
                })?;
                let groups = writer.groups_as_they_are();
                let groups =
                    groups.map_err(|error| failed(Stage::Ownership, "groups", error.into()))?;
                resolver.remember(&groups.known);
                resolver
            }
        };
        let (_, resolver) = self.resolver.insert((uplinks.clone(), resolver));
        resolver.set_down_hold(down_hold);
        let mut reach = |sids: &_, now| {
            let found = resolver.resolve(sids, now)?;
            let reachability = found.reachability.clone();
            *resolution = Some(found);
            Ok(reachability)
        };
        let deadline = Deadline::at(start.saturating_add(DEADLINE)).patient(PATIENCE);
        let deadline = deadline.unless(&self.stop);
        let health = Arc::clone(&self.health);
        let mut live = Live::observed(writer, move |_| {
            health.works();
            Ok(())
        });
        sweep(&mut live, &order.desired, &mut reach, &deadline)
    }

    fn expire(&self, table: Table) -> Result<Report, String> {
        self.health.passes_over_pins();
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Report::default());
        }
        let writer = Loader::new(&self.dir).open();
        let mut writer = writer.map_err(|error| error.to_string())?;
        let sweeper = writer.sweeper().map_err(|error| error.to_string())?;
        let report = sweeper.expire_in(table, Tick::now());
        report.map_err(|error| error.to_string())
    }

    /// Tells who looks at the instance what was done.
    fn tell(
        &mut self,
        writer: &mut Writer,
        order: &Order,
        start: Duration,
        result: &Result<Swept, SweepFailure>,
    ) -> Result<(), LoopReportError> {
        self.health.works();
        // What makes no sense is of another version, and is no reason to say nothing.
        let before = self
            .told
            .take()
            .or_else(|| writer.loop_report().ok().flatten());
        let report = told::report(order, start, result, before.as_ref());
        let told = writer.report_loop(&report);
        self.told = Some(report);
        told
    }
}
