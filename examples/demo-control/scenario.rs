// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps of the demo, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway::group::Snapshot;
use guideway::placement::{HashKey, HashTable, Scope};
use tokio::time::sleep;

use super::client::DEADLINE;
use super::fleet::{Fleet, Source};
use super::net::Network;
use super::node::{Failure, Gauge, Node};
use super::screen::Screen;
use super::server::Server;
use super::show::{render, total, Picture, Row};
use super::spec::{shard, sid, table, State};

/// Pause between two pictures.
const TICK: Duration = Duration::from_millis(250);

/// Connections from each address.
const EACH: usize = 2;

const STEPS: usize = 6;

/// Runs every step. Returns what did not hold, one sentence each.
pub(crate) async fn run(tenants: u32, screen: &mut Screen) -> Result<Vec<String>, Failure> {
    screen.say(&format!(
        "guideway control demo: {tenants} tenants, 4 shards, and one daemon, egressd run, that reads \
         manifests\nfrom a directory and looks at its uplinks. Nobody tells it anything else. A bar \
         shows where\naddresses without a pin landed since the last change, │ the published end.\n"
    ));
    let mut demo = Demo::start(tenants, screen)?;
    let half = tenants / 2;
    let none = BTreeSet::new;

    demo.step(format!(
        "3 manifests, egressd run, {tenants} tenants attached and connected"
    ));
    for number in 1..=3 {
        demo.write(number, State::Active)?;
    }
    let took = demo.node.start().await?;
    demo.say_after("ready", took);
    for tenant in 0..tenants {
        demo.node.attach(tenant)?;
    }
    demo.connect(Source::of(0..tenants, 0), none()).await?;

    demo.step(format!("shard-4.json appears, then {half} new addresses"));
    demo.changed(4, State::Active).await?;
    demo.connect(Source::of(0..half, 1), none()).await?;

    demo.step(format!(
        "shard-1.json says drain, then {half} new addresses"
    ));
    demo.changed(1, State::Draining).await?;
    demo.connect(Source::of(0..half, 2), none()).await?;

    demo.step(format!(
        "shard 2 loses its link; its addresses connect again, and {half} new ones"
    ));
    let returning = demo.lose(2).await?;
    demo.connect(Source::of(0..half, 3), returning).await?;

    demo.step(format!(
        "egressd is killed: {half} new addresses without it; then it starts again"
    ));
    demo.node.kill()?;
    demo.fleet.mark();
    demo.connect(Source::of(0..half, 4), none()).await?;
    demo.restart().await?;

    demo.step("shard-1.json is deleted; its addresses connect again".to_owned());
    let returning = demo.delete(1).await?;
    demo.connect(none(), returning).await?;

    Ok(demo.finish())
}

struct Demo<'a> {
    screen: &'a mut Screen,
    network: Arc<Network>,
    _server: Server,
    node: Node,
    fleet: Fleet,
    /// Of all shards in their order.
    states: [State; 4],
    /// The group before the last change.
    before: Option<Snapshot>,
    /// The shard that each address goes through.
    homes: BTreeMap<Source, u32>,
    /// Addresses that have left each shard.
    moved: BTreeMap<u32, usize>,
    gauges: BTreeMap<u32, Gauge>,
    /// The shards that went, and their connections at that time.
    lost: BTreeMap<u32, usize>,
    step: usize,
    title: String,
    faults: Vec<String>,
}

/// The shard that a source without a pin goes to.
fn place(group: &Snapshot, source: Source) -> Option<u32> {
    let scope = Scope {
        table: HashTable(table(source.tenant)),
        group: group.hash_group,
    };
    let hash = HashKey::source(scope, source.address.into()).hash32();
    group.place(hash).map(|member| shard(member.sid))
}

/// Slots of a table that lead to a shard.
fn slots(group: Option<&Snapshot>, number: u32) -> u32 {
    let slots = group.map_or(0, |group| group.table.len() as u32);
    let owner = |slot: &u32| Some(shard(group?.place(*slot)?.sid));
    let owned = (0..slots).filter(|slot| owner(slot) == Some(number));
    owned.count() as u32
}

impl<'a> Demo<'a> {
    fn start(tenants: u32, screen: &'a mut Screen) -> Result<Demo<'a>, Failure> {
        let network = Arc::new(Network::build(tenants, &[1, 2, 3, 4].map(sid))?);
        Ok(Demo {
            screen,
            _server: Server::start(&network.server)?,
            node: Node::new(network.clone())?,
            fleet: Fleet::new(network.clone()),
            network,
            states: [State::Absent; 4],
            before: None,
            homes: BTreeMap::new(),
            moved: BTreeMap::new(),
            gauges: BTreeMap::new(),
            lost: BTreeMap::new(),
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

    fn say_after(&mut self, what: &str, took: Duration) {
        let ms = took.as_secs_f64() * 1000.0;
        self.screen.say(&format!("{what} after {ms:.0} ms"));
    }

    fn write(&mut self, number: u32, state: State) -> Result<(), Failure> {
        self.states[number as usize - 1] = state;
        self.node.manifest(number, state)
    }

    /// Changes a manifest, and waits until packets see it.
    async fn changed(&mut self, number: u32, state: State) -> Result<(), Failure> {
        self.before = self.node.group()?;
        let from = Instant::now();
        self.write(number, state)?;
        let took = self.node.until(number, state, from).await?;
        self.fleet.mark();
        self.say_after("published", took);
        Ok(())
    }

    /// Takes the link of a shard. Returns whose connections broke.
    async fn lose(&mut self, number: u32) -> Result<BTreeSet<Source>, Failure> {
        let row = number as usize - 1;
        self.before = self.node.group()?;
        self.lost.insert(number, self.fleet.alive(number));
        let from = Instant::now();
        self.network.shards[row].unplug()?;
        self.states[row] = State::Unreachable;
        let took = self.node.until(number, State::Unreachable, from).await?;
        self.fleet.mark();
        self.say_after("found out and published", took);
        self.broken(number).await
    }

    /// Deletes the manifest of a shard. Returns whose connections broke.
    async fn delete(&mut self, number: u32) -> Result<BTreeSet<Source>, Failure> {
        self.lost.insert(number, self.fleet.alive(number));
        self.changed(number, State::Absent).await?;
        self.broken(number).await
    }

    /// Whose connections broke through a shard that went, when all of them have.
    async fn broken(&mut self, number: u32) -> Result<BTreeSet<Source>, Failure> {
        let patience = Instant::now() + 3 * DEADLINE;
        while self.fleet.alive(number) > 0 && Instant::now() < patience {
            self.watch(TICK).await?;
        }
        match self.fleet.alive(number) {
            0 => {}
            count => self.fault(format!(
                "{count} connections live on through shard {number}"
            )),
        }
        Ok(self.fleet.broken(number))
    }

    /// Starts the daemon again: there is nothing for it to do.
    async fn restart(&mut self) -> Result<(), Failure> {
        let before = self.node.group()?;
        let took = self.node.start().await?;
        self.say_after("ready again", took);
        let steps = self.node.steps()?;
        if steps > 0 || self.node.group()? != before {
            self.fault(format!(
                "{steps} steps were done though nothing had changed"
            ));
        } else {
            self.screen.say("nothing had changed: it published nothing");
        }
        Ok(())
    }

    /// Opens connections from addresses that no pin binds, new ones and others, and looks where they
    /// land: each address with all of its connections on the owner of its slot.
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
        self.check_places(&sources)?;
        let picture = self.picture()?;
        self.screen.keep(|elapsed| render(&picture, elapsed));
        if picture.total.alive == 0 {
            self.fault("no connection is alive".to_owned());
        }
        self.screen.say("");
        Ok(())
    }

    fn check_places(&mut self, sources: &BTreeSet<Source>) -> Result<(), Failure> {
        let group = self.node.group()?.ok_or("no group is published")?;
        let mut seen = BTreeMap::<_, BTreeSet<_>>::new();
        for (source, shard) in self.fleet.landed(self.step) {
            seen.entry(source).or_default().insert(shard);
        }
        for source in sources {
            let planned = place(&group, *source);
            let shards = seen.remove(source).unwrap_or_default();
            if !shards.iter().eq(&planned) {
                let address = source.address;
                self.fault(format!(
                    "{address} goes through {shards:?}, its slot belongs to {planned:?}"
                ));
            }
            for shard in shards {
                if let Some(left) = self.homes.insert(*source, shard) {
                    *self.moved.entry(left).or_default() += usize::from(left != shard);
                }
            }
        }
        Ok(())
    }

    async fn watch(&mut self, time: Duration) -> Result<(), Failure> {
        let picture = self.picture()?;
        self.screen.draw(|elapsed| render(&picture, elapsed));
        sleep(time).await;
        Ok(())
    }

    fn picture(&mut self) -> Result<Picture, Failure> {
        // A shard that is not listed any more keeps what it counted, but for its pins.
        for gauge in self.gauges.values_mut() {
            gauge.pins = 0;
        }
        self.gauges.extend(self.node.gauges()?);
        let mut placed = BTreeMap::<_, BTreeSet<_>>::new();
        for (source, shard) in self.fleet.landed(self.step) {
            placed.entry(shard).or_default().insert(source);
        }
        let tallies = self.fleet.tallies();
        let group = self.node.group()?;
        let rows = (1..).zip(&self.states).map(|(number, &state)| Row {
            number,
            state,
            slots: [
                slots(self.before.as_ref(), number),
                slots(group.as_ref(), number),
            ],
            placed: placed.get(&number).map_or(0, BTreeSet::len),
            tally: tallies.get(&Some(number)).cloned().unwrap_or_default(),
            moved: self.moved.get(&number).copied().unwrap_or(0),
            gauge: self.gauges.get(&number).copied().unwrap_or_default(),
        });
        Ok(Picture {
            title: self.title.clone(),
            rows: rows.collect(),
            slots: group.as_ref().map_or(0, |group| group.table.len() as u32),
            total: total(&tallies),
            exchanges: self.fleet.exchanges(),
        })
    }

    /// Adds to the faults every connection that may not have broken.
    fn finish(mut self) -> Vec<String> {
        for (shard, tally) in self.fleet.tallies() {
            let lost = shard.and_then(|shard| self.lost.get(&shard));
            let (broken, expected) = (tally.broken(), lost.copied().unwrap_or(0));
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
