// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loop as a program embeds it: one thread, woken by the network and by its own deadlines.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use guideway::control::kernel::Live;
use guideway::control::machine::{Action, Machine, Timing, Trigger};
use guideway::control::netlink::{Monitor, Resolver};
use guideway::control::sweep::sweep;
use guideway::control::{Deadline, Desired};
use guideway::egress::Loader;
use guideway::id::InterfaceName;
use guideway::kernel::clock::monotonic as now;
use guideway::kernel::statedir::StateDir;
use guideway::srv6::BaseSid;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::namespace::Namespace;

/// What the loop is told.
pub(crate) enum Order {
    /// This is wanted from now on.
    Want(Box<Desired>),
    /// Nothing is heard of the network from now on, or again.
    Deaf(bool),
}

/// A loop that runs until it is dropped.
pub(crate) struct Loop {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    faults: Arc<Mutex<Vec<String>>>,
}

/// What the loop is for, and with.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) dir: StateDir,
    pub(crate) uplinks: Vec<InterfaceName>,
    pub(crate) timing: Timing,
    pub(crate) down_hold: Duration,
    /// Room for pins of the instance.
    pub(crate) pins: u32,
}

impl Loop {
    pub(crate) fn start(node: Arc<Namespace>, setup: Setup, desired: Desired) -> Self {
        let (orders, receiver) = channel();
        let faults = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&faults);
        let thread = std::thread::spawn(move || {
            let work = move || State::new(setup, desired, told).run(&receiver);
            node.run(work).expect("in the node");
        });
        Self {
            orders: Some(orders),
            thread: Some(thread),
            faults,
        }
    }

    pub(crate) fn order(&self, order: Order) {
        let orders = self.orders.as_ref().expect("it runs");
        orders.send(order).expect("it runs");
    }

    /// Ends it; the world goes on as it was left.
    pub(crate) fn end(mut self) {
        self.stop();
        let faults = self.faults.lock().expect("faults");
        assert!(faults.is_empty(), "{faults:#?}");
    }

    fn stop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                std::thread::panicking() || ended.is_ok(),
                "the loop panicked"
            );
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.stop();
    }
}

struct State {
    setup: Setup,
    desired: Desired,
    faults: Arc<Mutex<Vec<String>>>,
    monitor: Monitor,
    resolver: Resolver,
    machine: Machine,
    deaf: bool,
}

impl State {
    fn new(setup: Setup, desired: Desired, faults: Arc<Mutex<Vec<String>>>) -> Self {
        Self {
            monitor: Monitor::open(&setup.uplinks).expect("a monitor"),
            resolver: Resolver::keeping(&setup.uplinks, setup.down_hold).expect("a resolver"),
            machine: Machine::new(setup.timing, now()),
            deaf: false,
            setup,
            desired,
            faults,
        }
    }

    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            match orders.try_recv() {
                Ok(Order::Want(desired)) => {
                    self.desired = *desired;
                    self.machine.kick(Trigger::Command, now());
                }
                Ok(Order::Deaf(deaf)) => self.deaf = deaf,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            match self.machine.poll(now()) {
                Action::Sweep(_) => self.sweep(),
                Action::Dump => self.monitor.dump().expect("a dump"),
                // No pins are idle for as long as a test takes.
                Action::Tidy => self.machine.tidied(false, now()),
                Action::Wait(until) => self.wait(until),
                other => panic!("{other:?}"),
            }
        }
    }

    fn wait(&mut self, until: Option<Duration>) {
        // Orders do not wake it.
        let longest = Duration::from_millis(10);
        let time = until.map_or(longest, |until| until.saturating_sub(now()).min(longest));
        let time = PollTimeout::try_from(time.as_millis().max(1)).expect("a short time");
        let mut fds = [PollFd::new(self.monitor.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, time).expect("poll");
        let news = self.monitor.receive(256).expect("news");
        if !self.deaf {
            news.tell(&mut self.machine, now());
        }
    }

    fn sweep(&mut self) {
        let mut writer = Loader::new(&self.setup.dir).open().expect("the instance");
        let mut live = Live::new(&mut writer);
        let (resolver, monitor) = (&mut self.resolver, &mut self.monitor);
        let mut reach = |sids: &BTreeSet<BaseSid>, at| {
            // What happened before is found by what follows.
            let _ = monitor.watch(sids.iter().copied());
            let found = resolver.resolve(sids, at)?;
            assert_eq!(found.unkept, []);
            Ok(found.reachability)
        };
        let limit = Deadline::at(now() + Duration::from_secs(20));
        let swept = sweep(&mut live, &self.desired, &mut reach, &limit).expect("all of it");
        let mut faults = self.faults.lock().expect("faults");
        faults.extend(swept.failures().map(ToString::to_string));
        match &swept.invariants {
            Some(invariants) if invariants.hold() => {}
            other => faults.push(format!("{other:?}")),
        }
        drop(faults);
        self.machine.swept(self.resolver.hold_until());
    }
}
