// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flow state: what a packet costs more when its slot is marked or its service tracks all flows,
//! beside the same operations on the same table without anything around them.
//!
//! Of each path the same program's cost in plain slots is subtracted, with as many flows: what is
//! left is what flow state costs. Of each bare operation the cost of reading the key out of the
//! packet is subtracted: what is left is the operation. The table has room for as many entries as
//! there are flows, and is full whenever something is found or missed in it. Before each hit all
//! entries are made so old that its time is written, as it is once a second.

use guideway::abi::{Counter, Level, Slot};
use guideway::plan::Generation;
use serde_json::{json, Value};

use super::bare::{Bare, Operation};
use super::kernel::{backends, segment, Balancer, Bench, Outcome, TRANSMIT, VIPS};
use super::measure::{self, Limits, Rounds};

/// The services, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// Each slot is its owner's.
    Plain,
    /// One slot of fifty is open.
    Moving,
    /// All slots are open.
    Marked,
    /// Tracks all flows.
    All,
    /// Tracks all flows, and may not insert any: the rest of the table is kept for changes.
    Reserve,
    /// The same, and the table is full.
    Full,
}

const SERVICES: [Service; 6] = [
    Service::Plain,
    Service::Moving,
    Service::Marked,
    Service::All,
    Service::Reserve,
    Service::Full,
];

impl Service {
    fn port(self) -> u16 {
        8000 + self as u16
    }

    fn specification(self) -> Value {
        let tracking = match self {
            Self::Plain | Self::Moving | Self::Marked => "exceptions",
            Self::All | Self::Reserve | Self::Full => "all",
        };
        json!({"name": format!("service-{}", self as u8), "vip": VIPS[0], "port": self.port(),
               "protocol": "tcp", "tracking": tracking, "backends": backends(|_| None)})
    }

    /// One of how many slots is open.
    fn opened(self) -> Option<usize> {
        match self {
            Self::Moving => Some(50),
            Self::Marked => Some(1),
            _ => None,
        }
    }
}

/// As a change of the table leaves slots: a flow that goes on is another backend's than its owner's.
fn open(generation: &mut Generation) {
    for (service, placed) in SERVICES.into_iter().zip(&mut generation.services) {
        let Some(every) = service.opened() else {
            continue;
        };
        let rows = placed.rows.len() as u16;
        let slots = placed.slots.iter().enumerate();
        let slots = slots.map(|(number, &slot)| match number % every {
            0 => Slot {
                base: (slot.owner + 1) % rows,
                ..slot
            },
            _ => slot,
        });
        placed.slots = slots.collect();
    }
}

/// The programs around one table.
struct Lab<'a> {
    bench: &'a Bench,
    balancer: Balancer,
    bare: Bare,
}

impl Lab<'_> {
    /// Nanoseconds of the load balancer for a packet, each of which must end under one of these
    /// counters; and how many each counted.
    fn run<const N: usize>(
        &self,
        service: Service,
        work: (u32, u32),
        outcomes: [Counter; N],
    ) -> (f64, [u64; N]) {
        let frame = segment(VIPS[0], service.port());
        let count = || {
            let counters = self.balancer.counters().counters;
            outcomes.map(|outcome| counters[outcome.0 as usize])
        };
        let before = count();
        let program = self.balancer.program();
        let ns = self
            .bench
            .time(program, &frame, work, Outcome::redirected());
        let mut counted = count();
        for (count, before) in counted.iter_mut().zip(before) {
            *count -= before;
        }
        let sum: u64 = counted.iter().sum();
        assert_eq!(
            sum,
            u64::from(work.1),
            "{service:?}: {outcomes:?} {counted:?}"
        );
        (ns, counted)
    }

    fn driver(&self, work: (u32, u32)) -> f64 {
        let frame = segment(VIPS[0], Service::Plain.port());
        self.bench.driver(&frame, work)
    }

    /// Nanoseconds of an operation on the entries of a service.
    fn bare(&self, operation: Operation, service: Service, work: (u32, u32)) -> f64 {
        let frame = segment(VIPS[0], service.port());
        let id = self.balancer.spec.services()[service as usize].id.get();
        let program = self.bare.program(operation, id);
        let untouched = Outcome::untouched(TRANSMIT);
        let ns = self.bench.time(program, &frame, work, untouched);
        assert_eq!(self.bare.done(), u64::from(work.1), "{operation:?}");
        ns
    }
}

/// What a hit on one hot flow may take beside the look-up and the write, in nanoseconds. Of 25 for all
/// of it these take 9 where nothing else runs.
const HOT: f64 = 16.0;

const PLAIN: Counter = Counter::GW_COUNTER_PLAIN;
const HIT: Counter = Counter::GW_COUNTER_HIT;
const BASE_INSERTED: Counter = Counter::GW_COUNTER_BASE_INSERTED;
const TRACKED: [(Service, &str, Counter); 2] = [
    (Service::Marked, "marked", BASE_INSERTED),
    (Service::All, "all", Counter::GW_COUNTER_ALL_INSERTED),
];
const REFUSED: [(Service, &str, Counter); 2] = [
    (
        Service::Reserve,
        "reserve",
        Counter::GW_COUNTER_REFUSED_HIGH,
    ),
    (Service::Full, "full", Counter::GW_COUNTER_REFUSED_FULL),
];

/// One flow, again and again.
fn one(lab: &Lab<'_>, repeat: u32, times: &mut Rounds) {
    let work = (1, repeat);
    times.push("driver", lab.driver(work));
    times.push("plain", lab.run(Service::Plain, work, [PLAIN]).0);
    times.push("bare key", lab.bare(Operation::Key, Service::All, work));
    for (service, name, inserted) in TRACKED {
        lab.bare.forget();
        lab.run(service, (1, 1), [inserted]);
        let (ns, _) = lab.run(service, work, [HIT]);
        times.push(&format!("{name}, hit"), ns);
    }
    times.push("bare hit", lab.bare(Operation::Hit, Service::All, work));
}

/// So many flows, each once a run.
fn many(lab: &Lab<'_>, flows: u32, times: &mut Rounds) {
    let work = (flows, flows);
    times.push("driver", lab.driver(work));
    times.push("plain", lab.run(Service::Plain, work, [PLAIN]).0);
    times.push("bare key", lab.bare(Operation::Key, Service::All, work));
    lab.bare.forget();
    times.push(
        "bare insert",
        lab.bare(Operation::Insert, Service::All, work),
    );
    times.push("bare miss", lab.bare(Operation::Miss, Service::Full, work));
    for (service, name, refused) in REFUSED {
        let (ns, _) = lab.run(service, work, [refused]);
        times.push(&format!("{name}, refused"), ns);
    }
    for (service, name, inserted) in TRACKED {
        lab.bare.forget();
        let (ns, _) = lab.run(service, work, [inserted]);
        times.push(&format!("{name}, insert"), ns);
        let ns = lab.bare(Operation::Hit, service, work);
        times.push(&format!("{name}, bare hit"), ns);
        let (ns, _) = lab.run(service, work, [HIT]);
        times.push(&format!("{name}, hit"), ns);
    }
    lab.bare.forget();
    let (ns, [inserted, _]) = lab.run(Service::Moving, work, [BASE_INSERTED, PLAIN]);
    times.push("transition, first packets", ns);
    let (ns, [hits, _]) = lab.run(Service::Moving, work, [HIT, PLAIN]);
    times.push("transition, later packets", ns);
    assert_eq!(inserted, hits);
    assert!((flows / 60..flows / 40).contains(&(hits as u32)), "{hits}");
}

pub(crate) fn measure(bench: &Bench, limits: &mut Limits) {
    let (rounds, flows) = if measure::is_full() {
        (9, 1 << 20)
    } else {
        (1, 1 << 12)
    };
    let services = SERVICES.map(Service::specification);
    let balancer = Balancer::load(flows, &json!(services), open);
    balancer.admit(Service::Reserve as u32, Level::GW_LEVEL_RESERVE);
    balancer.admit(Service::Full as u32, Level::GW_LEVEL_NONE);
    let bare = Bare::load(&balancer.flows);
    let lab = Lab {
        bench,
        balancer,
        bare,
    };
    // The first use of its memory is not that of a table in use.
    many(&lab, flows, &mut Rounds::default());
    let (mut hot, mut times) = (Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        // Short ones: some of them meet a machine that does nothing else.
        for _ in 0..10 {
            one(&lab, flows / 8, &mut hot);
        }
        many(&lab, flows, &mut times);
    }
    print("one flow", &hot);
    print("1,000,000 flows", &times);
    check(&hot, &times, limits);
}

fn print(flows: &str, times: &Rounds) {
    println!(
        "\nflow state, {flows:<16} {:>8} {:>8} {:>8}",
        "ns", "fastest", "spread"
    );
    for name in times.names().filter(|name| *name != "driver") {
        let ns = times.median(|of| of(name) - of("driver"));
        let fastest = times.fastest(name) - times.fastest("driver");
        let (_, spread) = times.summary(name);
        println!("{name:<28} {ns:>8.1} {fastest:>8.1} {spread:>8.1}");
        if measure::is_full() {
            measure::report(&json!({
                "part": "state", "case": name, "flows": flows, "ns": ns, "fastest_ns": fastest,
                "spread_ns": spread,
            }));
        }
    }
}

fn check(hot: &Rounds, times: &Rounds, limits: &mut Limits) {
    let ns = |times: &Rounds, name| times.median(|of| of(name) - of("driver"));
    for (packets, limit) in [
        ("plain", 1.3),
        ("transition, first packets", 2.0),
        ("transition, later packets", 2.0),
    ] {
        let ratio = ns(times, packets) / ns(hot, "plain");
        let what = format!("{packets}, 1,000,000 flows over one in plain slots");
        limits.at_most(limit, what, ratio);
    }
    let beside = |name: &str, bare: &str| {
        times.median(|of| (of(name) - of("plain")) / (of(bare) - of("bare key")))
    };
    // In the rounds that were disturbed least, as there is no ratio that holds under any load.
    let look_up = hot.fastest("bare hit") - hot.fastest("bare key");
    for (_, name, _) in TRACKED {
        let hit = format!("{name}, hit");
        let ns = hot.fastest(&hit) - hot.fastest("plain");
        println!("{hit}, one flow: {ns:.1} ns, of that {look_up:.1} ns of look-up and write");
        let what = format!("{hit}, one flow, ns over plain slots, look-up and write");
        limits.at_most(HOT, what, ns - look_up);
        let ratio = beside(&hit, &format!("{name}, bare hit"));
        limits.at_most(1.15, format!("{hit}, over a bare look-up and write"), ratio);
        let insert = format!("{name}, insert");
        let ratio = beside(&insert, "bare insert");
        limits.at_most(
            1.25,
            format!("{insert}, over a bare look-up and insert"),
            ratio,
        );
    }
    for (_, name, _) in REFUSED {
        let refused = format!("{name}, refused");
        let ratio = beside(&refused, "bare miss");
        limits.at_most(1.1, format!("{refused}, over a bare miss"), ratio);
    }
}
