// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets at random, at full speed, while a collector on another CPU forgets flows all along: none
//! that is live. `GW_LONG=1` takes ten minutes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use guideway::abi;
use guideway::hash::{slot, splitmix64};
use guideway::kernel::map::Update;
use guideway::kernel::typed::Hash;
use guideway::quiclb::{Collector, Options, QuicLb, Spec, Writer};
use serde_json::json;

use crate::cpus::stay_on;
use crate::harness::*;
use crate::netns::isolated;

/// Where the flows are, and where the table sends them.
const HOME: u8 = 1;
const OWNER: u8 = 2;

/// Flows of each kind; each gets a quarter of the packets of the kind before. So on any machine
/// some are silent for about as long as they may be.
const FLOWS: usize = 400;
const KINDS: usize = 6;
const IDLE: Duration = Duration::from_secs(1);
/// The clock that packets read is so much late at most.
const TICK: Duration = Duration::from_millis(10);

fn tracked() -> Spec {
    let mut document = service("tcp", "tcp", 443, &[1, 1]);
    document["tracking"] = json!("all");
    document["flow_idle"] = json!("1s");
    spec(&[document])
}

/// Connections that the table sends to one backend and whose entries say another.
struct Connections {
    spec: Spec,
    home: (u16, u32),
    table: Hash<abi::FlowKey, abi::Binding>,
    /// Numbers of connections, round and round.
    numbers: std::iter::Cycle<std::vec::IntoIter<u16>>,
}

impl Connections {
    fn new(spec: Spec) -> Self {
        let writer = Writer::open(&dir()).expect("an instance");
        let plan = writer.plan(&spec, Options::default()).expect("a plan");
        let placed = &plan.generation().services[0];
        let row = |id: u8| {
            let mut rows = placed.rows.iter().flatten();
            let row = rows
                .find(|row| row.id.get() == u32::from(id))
                .expect("a row");
            (row.row, row.incarnation)
        };
        let owned = |number: &u16| {
            let (_, value) = entry(&spec, 0, *number, (0, 1), 0);
            let slot = slot(value.hash, placed.slots.len() as u32);
            placed.slots[slot as usize].owner == row(OWNER).0
        };
        let numbers: Vec<_> = (0..u16::MAX - 1024).filter(owned).collect();
        Self {
            home: row(HOME),
            table: flows(),
            numbers: numbers.into_iter().cycle(),
            spec,
        }
    }

    /// One more, seen now; none if its number is still known or there is no room.
    fn begin(&mut self) -> Option<(u16, Instant)> {
        let number = self.numbers.next()?;
        let seen = Instant::now();
        let (key, value) = entry(&self.spec, 0, number, self.home, now());
        let inserted = self.table.update(&key, &value, Update::Insert);
        inserted.ok().map(|()| (number, seen))
    }
}

#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    /// Not where their entry said although a packet had come in time.
    lost: u64,
    /// The same, later.
    forgotten: u64,
    /// Where their entry said although none had.
    spared: u64,
}

impl Seen {
    /// Otherwise nothing was tried.
    fn is_enough(&self) -> bool {
        self.forgotten > 100 && self.spared > 100
    }
}

/// Sends packets until the end, and says when they are enough.
fn touch(mut connections: Connections, end: &AtomicBool, enough: &AtomicBool) -> Seen {
    let client = Client::new(443);
    let mut flows: Vec<_> = (0..KINDS * FLOWS).map(|_| connections.begin()).collect();
    let mut random = 0x2545_f491_4f6c_dd1d;
    let mut seen = Seen::default();
    while !end.load(Ordering::Relaxed) {
        let random = splitmix64(&mut random);
        let kind = (random.trailing_zeros() as usize / 2).min(KINDS - 1);
        let flow = &mut flows[kind * FLOWS + (random >> 32) as usize % FLOWS];
        let Some((number, before)) = *flow else {
            *flow = connections.begin();
            continue;
        };
        let sent = Instant::now();
        let went = client.go_on(number);
        // It was not silent for longer: both ends are on the outside.
        let in_time = before.elapsed() <= IDLE - TICK;
        seen.packets += 1;
        match (went == HOME, in_time) {
            (true, in_time) => {
                seen.spared += u64::from(!in_time);
                *flow = Some((number, sent));
                continue;
            }
            (false, true) => seen.lost += 1,
            (false, false) => seen.forgotten += 1,
        }
        *flow = connections.begin();
        enough.store(seen.is_enough(), Ordering::Relaxed);
    }
    seen
}

#[test]
fn no_live_flow_is_forgotten_whatever_its_packets_do() {
    isolated("collector::touched", || {
        interfaces();
        let spec = tracked();
        publish(&spec);
        let connections = Connections::new(spec);
        let long = std::env::var_os("GW_LONG").is_some();
        let time = Duration::from_secs(if long { 600 } else { 5 });
        let [end, enough] = [(); 2].map(|()| AtomicBool::new(false));
        let seen = std::thread::scope(|scope| {
            let touching = scope.spawn(|| {
                stay_on(0);
                touch(connections, &end, &enough)
            });
            let _end = End(&end);
            stay_on(1);
            let mut collector = Collector::new(&dir(), eager());
            let started = Instant::now();
            let is_over = |time| started.elapsed() >= time;
            // A slow machine needs longer.
            while !is_over(time) || !enough.load(Ordering::Relaxed) && !is_over(12 * time) {
                collector.step(now()).expect("a step");
            }
            end.store(true, Ordering::Relaxed);
            touching.join().expect("packets")
        });
        let stats = QuicLb::open(&dir())
            .expect("open")
            .stats()
            .expect("counters");
        let counters = &stats.services[0].counters;
        let told = ["deleted_idle", "dead_used", "resurrected"].map(|name| (name, counters[name]));
        println!("{seen:?}, {told:?}");
        assert_eq!(seen.lost, 0);
        assert!(seen.is_enough(), "{seen:?}");
    });
}

/// Ends packets also when the test fails: their thread is waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
