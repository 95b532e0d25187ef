// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps of the demo, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::client::DEADLINE;
use super::fleet::{Fleet, Source};
use super::net::{Network, SERVER};
use super::node::{Applied, Failure, Gauge, Node};
use super::screen::Screen;
use super::server::Server;
use super::show::{render, total, Picture, Row};
use super::spec::{document, shard, sid, State};

/// Pause between two pictures.
const TICK: Duration = Duration::from_millis(250);

/// How far a count may be from its share, in standard deviations of the random placement.
const DEVIATIONS: f64 = 5.0;

/// Connections from each address.
const EACH: usize = 2;

const STEPS: usize = 5;

/// Size of the demo, and what pins are allowed.
pub(crate) struct Options {
    pub(crate) tenants: u32,
    /// How long a pin outlives its last packet, as the specification has it.
    pub(crate) pin_idle: String,
}

/// Runs every step. Returns what did not hold, one sentence each.
pub(crate) async fn run(options: &Options, screen: &mut Screen) -> Result<Vec<String>, Failure> {
    let Options { tenants, pin_idle } = options;
    screen.say(&format!(
        "guideway egress demo: {tenants} tenants, each with a namespace, a prefix and an Argument; TCP \
         to\n{SERVER} through shards that are Linux: seg6local takes the SRv6 header off,\nNAT66 \
         translates. A connection that came through another shard would break, as one NAT alone\n\
         knows it. Answers go back through that NAT, and then as plain IPv6, without SRv6. Pins may \
         be\nidle for {pin_idle}. A bar shows where addresses without a pin landed since the last \
         change, │ the planned\nend.\n"
    ));
    let mut demo = Demo::start(options, screen)?;
    let tenants = *tenants;
    let half = tenants / 2;
    let none = BTreeSet::new;

    demo.step(format!("connect: {tenants} tenants, 3 shards"));
    demo.apply()?;
    demo.connect(Source::of(0..tenants, 0), none()).await?;

    demo.step(format!("shard 4 is added, then {half} new addresses"));
    demo.states[3] = State::Active;
    demo.apply()?;
    demo.connect(Source::of(0..half, 1), none()).await?;

    demo.step(format!("shard 1 is drained, then {half} new addresses"));
    demo.states[0] = State::Draining;
    demo.apply()?;
    demo.connect(Source::of(0..half, 2), none()).await?;

    demo.step(format!(
        "shard 2 is lost; its addresses connect again, and {half} new ones"
    ));
    let returning = demo.lose(2).await?;
    demo.connect(Source::of(0..half, 3), returning).await?;

    demo.step(format!(
        "shard 1 is removed when empty; its addresses connect again, and {half} new ones"
    ));
    let returning = demo.empty(1).await?;
    demo.states[0] = State::Absent;
    demo.apply()?;
    demo.connect(Source::of(0..half, 4), returning).await?;

    Ok(demo.finish())
}

struct Demo<'a> {
    screen: &'a mut Screen,
    pin_idle: &'a str,
    network: Arc<Network>,
    _server: Server,
    node: Node,
    fleet: Fleet,
    /// Of all shards in their order.
    states: [State; 4],
    applied: Option<Applied>,
    /// The shard that each address goes through.
    homes: BTreeMap<Source, u32>,
    /// Addresses that have left each shard.
    moved: BTreeMap<u32, usize>,
    /// What was counted last for each shard that ever was listed.
    gauges: BTreeMap<u32, Gauge>,
    /// The shard that was lost, and its connections at that time.
    lost: Option<(u32, usize)>,
    step: usize,
    title: String,
    faults: Vec<String>,
}

impl<'a> Demo<'a> {
    fn start(options: &'a Options, screen: &'a mut Screen) -> Result<Demo<'a>, Failure> {
        let states = [State::Active, State::Active, State::Active, State::Absent];
        let network = Arc::new(Network::build(options.tenants, &[1, 2, 3, 4].map(sid))?);
        Ok(Demo {
            screen,
            _server: Server::start(&network.server)?,
            node: Node::start(&network, &document(&network, &states, &options.pin_idle))?,
            pin_idle: &options.pin_idle,
            fleet: Fleet::new(network.clone()),
            network,
            states,
            applied: None,
            homes: BTreeMap::new(),
            moved: BTreeMap::new(),
            gauges: BTreeMap::new(),
            lost: None,
            step: 0,
            title: String::new(),
            faults: Vec::new(),
        })
    }

    fn step(&mut self, title: String) {
        self.step += 1;
        self.title = format!("[{}/{STEPS}] {title}", self.step);
    }

    fn fault(&mut self, text: String) {
        self.faults.push(format!("{}: {text}", self.title));
    }

    /// Makes the states of this moment what packets see.
    fn apply(&mut self) -> Result<(), Failure> {
        let document = document(&self.network, &self.states, self.pin_idle);
        let applied = self.node.apply(&self.network, &document)?;
        self.fleet.mark();
        let foretold = &applied.disruption;
        let took_ms = applied.took.as_secs_f64() * 1000.0;
        self.screen.say(&match self.applied {
            None => format!(
                "applied in {took_ms:.1} ms: a program on {} interfaces, and {} slots of a table",
                self.network.tenants.len(),
                foretold.table_size
            ),
            Some(_) => format!(
                "applied in {took_ms:.1} ms; foretold: {} of {} slots get another shard, at least \
                 {} must",
                foretold.moved, foretold.table_size, foretold.forced
            ),
        });
        let (foretold, moved) = (foretold.moved, applied.slots_moved());
        if foretold != moved {
            self.fault(format!("{moved} slots moved, foretold were {foretold}"));
        }
        self.applied = Some(applied);
        Ok(())
    }

    /// Opens connections from addresses that no pin binds, new ones and others, and looks where they
    /// land: each address with all of its connections on the owner of its slot, and of the new ones
    /// so many elsewhere than before the change as was foretold.
    async fn connect(
        &mut self,
        new: BTreeSet<Source>,
        returning: BTreeSet<Source>,
    ) -> Result<(), Failure> {
        let sources: BTreeSet<_> = new.union(&returning).copied().collect();
        self.fleet.open(self.step, &sources, EACH);
        while self.fleet.attempted(self.step) < sources.len() * EACH {
            self.watch(TICK).await?;
        }
        let patience = Instant::now() + 3 * DEADLINE;
        while self.fleet.unproven() > 0 && Instant::now() < patience {
            self.watch(TICK).await?;
        }
        let unproven = self.fleet.unproven();
        if unproven > 0 {
            self.fault(format!("{unproven} connections were not answered since"));
        }
        self.check_places(&sources);
        let picture = self.picture()?;
        self.screen.keep(|elapsed| render(&picture, elapsed));
        if picture.total.alive == 0 {
            self.fault("no connection is alive".to_owned());
        }
        self.check_moved(&new);
        self.screen.say("");
        Ok(())
    }

    fn check_places(&mut self, sources: &BTreeSet<Source>) {
        let Some(applied) = &self.applied else { return };
        let mut seen = BTreeMap::<_, BTreeSet<_>>::new();
        for (source, shard) in self.fleet.landed(self.step) {
            seen.entry(source).or_default().insert(shard);
        }
        let mut faults = Vec::new();
        for source in sources {
            let planned = applied.shard(*source);
            let shards = seen.remove(source).unwrap_or_default();
            if !shards.iter().eq(&planned) {
                let address = source.address;
                faults.push(format!(
                    "{address} goes through {shards:?}, its slot belongs to {planned:?}"
                ));
            }
            for shard in shards {
                if let Some(left) = self.homes.insert(*source, shard) {
                    *self.moved.entry(left).or_default() += usize::from(left != shard);
                }
            }
        }
        for fault in faults {
            self.fault(fault);
        }
    }

    /// Compares what was foretold of addresses without a pin with where the new ones went.
    fn check_moved(&mut self, new: &BTreeSet<Source>) {
        let Some(applied) = &self.applied else { return };
        let before = new
            .iter()
            .map(|source| (source, applied.shard_before(*source)));
        let before: Vec<_> = before.filter(|(_, shard)| shard.is_some()).collect();
        if before.is_empty() {
            return;
        }
        let elsewhere = before
            .iter()
            .filter(|(source, shard)| self.homes.get(source) != shard.as_ref());
        let (moved, all) = (elsewhere.count(), before.len());
        let foretold = &applied.disruption;
        let share = f64::from(foretold.moved) / f64::from(foretold.table_size);
        let expected = share * all as f64;
        let tolerance = DEVIATIONS * (expected * (1.0 - share)).sqrt();
        self.screen.say(&format!(
            "  {moved} of {all} new addresses ({:.1}%) go elsewhere than before the change, all of \
             them by their slots;\n  foretold of all slots: {:.1}%",
            moved as f64 / all as f64 * 100.0,
            share * 100.0
        ));
        if (moved as f64 - expected).abs() > tolerance {
            self.fault(format!(
                "{moved} of {all} new addresses go elsewhere, foretold were {expected:.0} (within \
                 {tolerance:.0})"
            ));
        }
    }

    /// Takes the power of a shard, and a second later tells the node. Returns whose connections
    /// broke, when all that went through it have.
    async fn lose(&mut self, number: u32) -> Result<BTreeSet<Source>, Failure> {
        let row = number as usize - 1;
        self.lost = Some((number, self.fleet.alive(number)));
        self.network.shards[row].unplug()?;
        self.watch(Duration::from_secs(1)).await?;
        self.states[row] = State::Unreachable;
        self.apply()?;
        self.watch_until_empty(number).await?;
        Ok(self.fleet.broken(number))
    }

    /// Lets the connections through a draining shard end, and then its pins idle out. Returns whose
    /// they were.
    async fn empty(&mut self, number: u32) -> Result<BTreeSet<Source>, Failure> {
        let sources = self.fleet.end(number);
        if sources.is_empty() {
            self.fault(format!("shard {number} had no connections left"));
        }
        self.watch_until_empty(number).await?;
        let patience = Instant::now() + 4 * DEADLINE;
        loop {
            self.node.expire(&self.network)?;
            let pins = self.picture()?.rows[number as usize - 1].gauge.pins;
            if pins == 0 {
                self.screen.say(&format!(
                    "shard {number} has no connections and no pins any more"
                ));
                return Ok(sources);
            }
            if Instant::now() > patience {
                self.fault(format!("shard {number} has {pins} pins still"));
                return Ok(sources);
            }
            self.watch(TICK).await?;
        }
    }

    async fn watch_until_empty(&mut self, shard: u32) -> Result<(), Failure> {
        let patience = Instant::now() + 3 * DEADLINE;
        while self.fleet.alive(shard) > 0 && Instant::now() < patience {
            self.watch(TICK).await?;
        }
        match self.fleet.alive(shard) {
            0 => {}
            count => self.fault(format!("{count} connections live on through shard {shard}")),
        }
        Ok(())
    }

    async fn watch(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let picture = self.picture()?;
            self.screen.draw(|elapsed| render(&picture, elapsed));
            sleep(TICK).await;
        }
        Ok(())
    }

    fn picture(&mut self) -> Result<Picture, Failure> {
        // A shard that is not listed any more keeps what it counted, but for its pins.
        for gauge in self.gauges.values_mut() {
            gauge.pins = 0;
        }
        self.gauges.extend(self.node.gauges(&self.network)?);
        let mut placed = BTreeMap::<_, BTreeSet<_>>::new();
        for (source, shard) in self.fleet.landed(self.step) {
            placed.entry(shard).or_default().insert(source);
        }
        let tallies = self.fleet.tallies();
        let foretold = self.applied.as_ref().map(|applied| &applied.disruption);
        let shares = foretold.map_or(&[][..], |foretold| &foretold.shares);
        let rows = (1..).zip(&self.states).map(|(number, &state)| {
            let share = shares.iter().find(|share| shard(share.sid) == number);
            Row {
                number,
                state,
                slots: share.map_or([0, 0], |share| [share.before, share.after]),
                placed: placed.get(&number).map_or(0, BTreeSet::len),
                tally: tallies.get(&Some(number)).cloned().unwrap_or_default(),
                moved: self.moved.get(&number).copied().unwrap_or(0),
                gauge: self.gauges.get(&number).copied().unwrap_or_default(),
            }
        });
        Ok(Picture {
            title: self.title.clone(),
            rows: rows.collect(),
            slots: foretold.map_or(0, |foretold| foretold.table_size),
            total: total(&tallies),
            exchanges: self.fleet.exchanges(),
        })
    }

    /// Adds to the faults every connection that may not have broken.
    fn finish(mut self) -> Vec<String> {
        for (shard, tally) in self.fleet.tallies() {
            let lost = self.lost.filter(|(lost, _)| shard == Some(*lost));
            let (broken, expected) = (tally.broken(), lost.map_or(0, |(_, alive)| alive));
            if broken != expected {
                let shard = shard.map_or("no shard".to_owned(), |shard| format!("shard {shard}"));
                self.faults.push(format!(
                    "{broken} connections through {shard} broke, {expected} had to"
                ));
            }
        }
        self.faults
    }
}
