// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants that ask all the time, some from addresses that are pinned and some from new ones. None
//! asks twice: a packet that is lost is a question without an answer.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::net::SERVER;
use crate::netns::within;
use crate::traffic::{Fresh, LIMIT};
use crate::world::PATIENCE;

/// Questions on their way at a time: fewer than any queue takes.
const BURST: usize = 16;
/// Of so many bursts one has a question of a new address.
const NEW: u64 = 16;
/// What is asked before it is said that packets go on.
const ENOUGH: u64 = 20 * BURST as u64;

/// Where an address without a pin goes: by tenant and address, the shard.
pub(crate) type ByTable = Box<dyn Fn(u32, Ipv6Addr) -> u32 + Send>;

/// An address of a tenant, and the shard that it was answered through first.
pub(crate) struct Asker {
    socket: UdpSocket,
    pub(crate) tenant: u32,
    pub(crate) from: Ipv6Addr,
    pub(crate) shard: u32,
}

impl Asker {
    fn new(tenants: &[Namespace], fresh: &Fresh) -> Self {
        let (tenant, from) = fresh.next(tenants.len() as u32);
        let address = SocketAddr::from(SocketAddrV6::new(from, 0, 0, 0));
        let socket = tenants[tenant as usize].run(|| UdpSocket::bind(address));
        let socket = socket.expect("inside").expect("an address of the tenant");
        socket.connect(SERVER).expect("a route");
        socket.set_read_timeout(Some(LIMIT)).expect("a time-out");
        Self {
            socket,
            tenant,
            from,
            shard: 0,
        }
    }

    fn ask(&self, number: u64) {
        let sent = self.socket.send(&number.to_be_bytes());
        assert_eq!(sent.expect("sent"), 8);
    }

    /// Asks alone; the shard that it was answered through.
    pub(crate) fn asks(&self, number: u64) -> io::Result<u32> {
        self.ask(number);
        self.answer(number)
    }

    /// The shard that the answer to this question came through.
    fn answer(&self, number: u64) -> io::Result<u32> {
        let mut answer = [0; 16];
        let length = self.socket.recv(&mut answer)?;
        match answer[..length].split_at_checked(8) {
            Some((of, shard)) if of == number.to_be_bytes() => {
                let shard = shard.try_into().map_err(io::Error::other)?;
                Ok(u32::from_be_bytes(shard))
            }
            _ => Err(io::Error::other("another answer")),
        }
    }
}

/// So many addresses that have a pin from now on.
pub(crate) fn pinned(tenants: &[Namespace], fresh: &Fresh, count: usize) -> Vec<Asker> {
    let one = || {
        let mut asker = Asker::new(tenants, fresh);
        asker.shard = asker.asks(0).expect("an answer");
        asker
    };
    std::iter::repeat_with(one).take(count).collect()
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Questions.
    pub(crate) sent: u64,
    /// Those that were the first of an address.
    pub(crate) new: u64,
    /// Those without an answer through the right shard.
    pub(crate) wrong: Vec<String>,
}

/// Goes on asking until it is told to stop.
pub(crate) struct Steady {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: JoinHandle<Outcome>,
}

impl Steady {
    pub(crate) fn start(
        tenants: &Arc<Vec<Namespace>>,
        fresh: &Arc<Fresh>,
        askers: Vec<Asker>,
        by_table: ByTable,
    ) -> Self {
        let (stop, answered) = (Arc::default(), Arc::default());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let (tenants, fresh) = (Arc::clone(tenants), Arc::clone(fresh));
        let thread = std::thread::spawn(move || {
            let mut outcome = Outcome::default();
            let mut bursts = 0;
            while !AtomicBool::load(&stopped, Ordering::Relaxed) {
                let new = (bursts % NEW == 0).then(|| {
                    let mut new = Asker::new(&tenants, &fresh);
                    new.shard = by_table(new.tenant, new.from);
                    outcome.new += 1;
                    new
                });
                let at = bursts as usize * BURST;
                let known = (at..at + BURST).map(|at| &askers[at % askers.len()]);
                burst(known.chain(&new), &mut outcome);
                AtomicU64::store(&count, outcome.sent, Ordering::Relaxed);
                bursts += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            outcome
        });
        Self {
            stop,
            answered,
            thread,
        }
    }

    /// Waits until a good many more questions were asked and answered.
    #[track_caller]
    pub(crate) fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        let enough = || self.answered.load(Ordering::Relaxed) >= before + ENOUGH;
        within(PATIENCE, || enough() || self.thread.is_finished());
        assert!(enough(), "nobody asks any more");
    }

    pub(crate) fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// All ask, and each is to be answered through its shard.
fn burst<'a>(askers: impl Iterator<Item = &'a Asker>, outcome: &mut Outcome) {
    let mut asked = Vec::new();
    for asker in askers {
        outcome.sent += 1;
        asker.ask(outcome.sent);
        asked.push((asker, outcome.sent));
    }
    for (asker, number) in asked {
        let answer = asker.answer(number);
        if !matches!(&answer, Ok(shard) if *shard == asker.shard) {
            let (from, shard) = (asker.from, asker.shard);
            let wrong = format!("question {number} of {from}: {answer:?}, not {shard}");
            outcome.wrong.push(wrong);
        }
    }
}
