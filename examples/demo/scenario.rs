// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps of the demo, and what must hold after each.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::fleet::{Fleet, Tally, DEADLINE};
use super::lb::{Balancer, Failure, Published};
use super::net::{Network, VIP4, VIP6};
use super::quic::{Identity, Ids, Server, ServerOptions, PORT};
use super::screen::Screen;
use super::show::{render, Picture, Row};
use super::spec::{document, service, Member, Routing, State};

/// Pause between two pictures.
const TICK: Duration = Duration::from_millis(250);

/// How far a share may be from the plan, in standard deviations of the random placement.
const DEVIATIONS: f64 = 5.0;

/// Names of the two services, which have the same backends and so the same shares.
const SERVICES: [&str; 2] = ["quic4", "quic6"];

/// How long handshakes of services routed by tuple stay where they are in slots that move between
/// backends that are ready. A drain moves some of these, too.
const GRACE: Duration = Duration::from_secs(5);

/// What an act of the demo is about.
#[derive(Clone, Copy)]
struct Act {
    /// Of the service of each address family.
    routing: [Routing; 2],
    /// What connection IDs say.
    ids: Ids,
    steps: usize,
    introduction: &'static str,
}

/// Servers put their ID into connection IDs.
const SERVER_IDS: Act = Act {
    routing: [Routing::ServerId; 2],
    ids: Ids::Plain,
    steps: 6,
    introduction: "Connection IDs carry server IDs: no state is needed.",
};

/// Servers know nothing of the balancer.
const FLOW_STATE: Act = Act {
    routing: [Routing::Learned, Routing::Tuple],
    ids: Ids::Random,
    steps: 5,
    introduction: "Connection IDs are random: flow state keeps connections where they are. IPv4: \
                   learned from packets.\nIPv6: by flow, remembered in slots that change.",
};

/// Size of the demo.
pub(crate) struct Options {
    pub(crate) connections: usize,
    pub(crate) backends: u32,
}

/// Runs every step. Returns what did not hold, one sentence each.
pub(crate) async fn run(options: &Options, screen: &mut Screen) -> Result<Vec<String>, Failure> {
    screen.say(&format!(
        "guideway demo: {VIP4} and {VIP6}, port {PORT}, on {} backends behind an XDP \
         program.\nClients, balancer and backends each have a network namespace; answers go \
         straight back.\nA bar shows where new connections landed under the plan in force, │ \
         its planned end.\n",
        options.backends
    ));
    let mut faults = server_ids(options, screen).await?;
    faults.extend(flow_state(options, screen).await?);
    Ok(faults)
}

async fn server_ids(options: &Options, screen: &mut Screen) -> Result<Vec<String>, Failure> {
    let mut demo = Demo::start(SERVER_IDS, options.backends, screen)?;
    let all = options.connections;
    let half = all / 2;

    demo.step(format!(
        "connect: {all} QUIC connections over IPv4 and IPv6"
    ));
    demo.connect(all).await?;

    demo.step("steady: an echo a second on every connection".to_owned());
    demo.watch(Duration::from_secs(4)).await?;
    demo.end_step()?;

    demo.step(format!("drain backend 2, then {half} new connections"));
    demo.members[1].state = State::Draining;
    demo.publish()?;
    demo.connect(half).await?;

    demo.step(format!(
        "weight of backend 3 from 1 to 4, then {half} new connections"
    ));
    demo.members[2].weight = 4;
    demo.publish()?;
    demo.connect(half).await?;

    demo.step("migrate every client to a new address and port".to_owned());
    demo.migrate().await?;

    demo.step(format!(
        "backend 1 loses power, then {half} new connections"
    ));
    demo.kill(0).await?;
    demo.connect(half).await?;

    demo.finish().await
}

/// No server ID anywhere, and nobody dies: no connection may break at all.
async fn flow_state(options: &Options, screen: &mut Screen) -> Result<Vec<String>, Failure> {
    let mut demo = Demo::start(FLOW_STATE, options.backends, screen)?;
    let all = options.connections / 2;
    let half = all / 2;

    demo.step(format!(
        "connect: {all} QUIC connections over IPv4 and IPv6"
    ));
    demo.connect(all).await?;

    demo.step(format!("drain backend 2, then {half} new connections"));
    demo.members[1].state = State::Draining;
    demo.publish()?;
    demo.watch(GRACE).await?;
    demo.connect(half).await?;

    demo.step(format!(
        "weight of backend 3 from 1 to 4, then {half} new connections"
    ));
    demo.members[2].weight = 4;
    demo.publish()?;
    demo.watch(GRACE).await?;
    demo.connect(half).await?;

    demo.step("weight of backend 1 from 2 to 1".to_owned());
    demo.members[0].weight = 1;
    demo.publish()?;
    demo.watch(Duration::from_secs(2)).await?;
    demo.end_step()?;

    demo.step(format!(
        "backend 2 is ready again, then {half} new connections"
    ));
    demo.members[1].state = State::Ready;
    demo.publish()?;
    demo.watch(GRACE).await?;
    demo.connect(half).await?;

    demo.finish().await
}

struct Demo<'a> {
    act: Act,
    screen: &'a mut Screen,
    network: Arc<Network>,
    servers: Vec<Server>,
    balancer: Balancer,
    fleet: Fleet,
    members: Vec<Member>,
    dead: Option<usize>,
    published: Published,
    /// Plans published so far.
    epoch: usize,
    step: usize,
    title: String,
    faults: Vec<String>,
}

impl<'a> Demo<'a> {
    fn start(act: Act, backends: u32, screen: &'a mut Screen) -> Result<Demo<'a>, Failure> {
        screen.say(&format!("{}\n", act.introduction));
        let network = Arc::new(Network::build(backends)?);
        let identity = Identity::new();
        let options = ServerOptions {
            ids: act.ids,
            retry: false,
        };
        let servers = network
            .backends
            .iter()
            .map(|backend| {
                let addresses = [IpAddr::V4(VIP4), IpAddr::V6(VIP6)];
                let (namespace, number) = (&backend.namespace, backend.number);
                Server::start(namespace, number, &addresses, &identity, options)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let mut members = vec![
            Member {
                weight: 1,
                state: State::Ready,
            };
            network.backends.len()
        ];
        members[0].weight = 2;
        let document = specification(act, &network, &members);
        let (balancer, published) = Balancer::start(&network, &document)?;
        Ok(Demo {
            act,
            screen,
            fleet: Fleet::new(network.clone(), identity),
            network,
            servers,
            balancer,
            members,
            dead: None,
            published,
            epoch: 1,
            step: 0,
            title: String::new(),
            faults: Vec::new(),
        })
    }

    fn step(&mut self, title: String) {
        self.step += 1;
        self.title = format!("[{}/{}] {title}", self.step, self.act.steps);
    }

    /// Makes the members of this moment the ones that new connections see.
    fn publish(&mut self) -> Result<(), Failure> {
        let document = specification(self.act, &self.network, &self.members);
        self.published = self.balancer.publish(&self.network, &document)?;
        self.epoch += 1;
        let (moved, slots) = self.published.moved(SERVICES[0]);
        self.screen.say(&format!(
            "published generation {} in {:.1} ms; {moved} of {slots} slots got another backend",
            self.published.generation,
            self.published.took.as_secs_f64() * 1000.0
        ));
        Ok(())
    }

    /// Opens `count` connections, and looks where they land: each on the owner of its slot, and so
    /// all together in the planned shares.
    async fn connect(&mut self, count: usize) -> Result<(), Failure> {
        let accepted = self.accepted();
        self.fleet.open(self.epoch, count);
        while self.fleet.attempted(self.epoch) < count {
            self.watch(TICK).await?;
        }
        self.watch(Duration::from_secs(2)).await?;
        self.end_step()?;

        for (client, backend) in self.fleet.landed(self.epoch) {
            let service = SERVICES[usize::from(client.is_ipv6())];
            let owner = self.published.owner(service, client);
            if owner != Some(backend) {
                self.faults.push(format!(
                    "{}: {client} landed on backend {backend}, its slot belongs to {owner:?}",
                    self.title
                ));
            }
        }
        let landed = self.fleet.tallies(Some(self.epoch));
        for (row, backend) in self.network.backends.iter().enumerate() {
            let number = backend.number;
            let share = self.published.share(SERVICES[0], number);
            let got = landed.get(&Some(number)).map_or(0, |tally| tally.opened);
            let expected = share * count as f64;
            let tolerance = DEVIATIONS * (expected * (1.0 - share)).sqrt();
            if (got as f64 - expected).abs() > tolerance {
                self.faults.push(format!(
                    "{}: backend {number} got {got} of {count} new connections, planned were \
                     {expected:.0} (within {tolerance:.0})",
                    self.title
                ));
            }
            let told = self.accepted()[row] - accepted[row];
            if told != got as u64 {
                self.faults.push(format!(
                    "{}: backend {number} counts {told} new connections, its clients {got}",
                    self.title
                ));
            }
        }
        Ok(())
    }

    /// Moves all clients and waits until each has been answered at its new address.
    async fn migrate(&mut self) -> Result<(), Failure> {
        let before = self.fleet.tallies(None);
        let moved = self.fleet.migrate().await?;
        let patience = Instant::now() + 3 * DEADLINE;
        while self.fleet.proven() < moved && Instant::now() < patience {
            self.watch(TICK).await?;
        }
        self.end_step()?;
        let proven = self.fleet.proven();
        if proven < moved {
            self.faults.push(format!(
                "{}: {proven} of {moved} connections were answered at their new address",
                self.title
            ));
        }
        for (backend, tally) in self.fleet.tallies(None) {
            if before.get(&backend).map(|tally| tally.alive) != Some(tally.alive) {
                self.faults
                    .push(format!("{}: connections were lost", self.title));
            }
        }
        Ok(())
    }

    /// Takes the power of a backend, tells the balancer, and waits until its clients have noticed.
    async fn kill(&mut self, row: usize) -> Result<(), Failure> {
        self.servers[row].kill();
        self.network.backends[row].unplug()?;
        self.dead = Some(row);
        self.members[row].state = State::Unhealthy;
        self.publish()?;
        let number = self.network.backends[row].number;
        let patience = Instant::now() + 3 * DEADLINE;
        let alive = |fleet: &Fleet| {
            let tallies = fleet.tallies(None);
            tallies.get(&Some(number)).map_or(0, |tally| tally.alive)
        };
        while alive(&self.fleet) > 0 && Instant::now() < patience {
            self.watch(TICK).await?;
        }
        match alive(&self.fleet) {
            0 => {}
            count => self.faults.push(format!(
                "{}: {count} connections claim to live on a dead backend",
                self.title
            )),
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

    fn end_step(&mut self) -> Result<(), Failure> {
        let picture = self.picture()?;
        self.screen.keep(|elapsed| render(&picture, elapsed));
        self.screen.say("");
        Ok(())
    }

    fn accepted(&self) -> Vec<u64> {
        self.servers.iter().map(Server::accepted).collect()
    }

    fn picture(&self) -> Result<Picture, Failure> {
        let counters = self.balancer.counters(&self.network)?;
        let landed = self.fleet.tallies(Some(self.epoch));
        let tallies = self.fleet.tallies(None);
        let nothing = Tally::default();
        let rows = self
            .network
            .backends
            .iter()
            .enumerate()
            .map(|(row, backend)| {
                let key = Some(backend.number);
                let tally = tallies.get(&key).unwrap_or(&nothing);
                Row {
                    number: backend.number,
                    member: self.members[row],
                    dead: self.dead == Some(row),
                    planned: self.published.share(SERVICES[0], backend.number),
                    landed: landed.get(&key).unwrap_or(&nothing).opened,
                    alive: tally.alive,
                    broken: tally.broken(),
                    packets: counters.backends.get(&backend.number).copied().unwrap_or(0),
                }
            })
            .collect();
        let sum = |of: fn(&Tally) -> usize| tallies.values().map(of).sum();
        Ok(Picture {
            title: self.title.clone(),
            rows,
            opened: sum(|tally| tally.opened),
            alive: sum(|tally| tally.alive),
            broken: sum(Tally::broken),
            echoes: self.fleet.echoes(),
            rules: counters.rules,
            reasons: counters.reasons,
        })
    }

    /// Prints the account, and adds to the faults every connection that may not have broken.
    async fn finish(mut self) -> Result<Vec<String>, Failure> {
        let tallies = self.fleet.tallies(None);
        self.screen.say(&account(&tallies));
        let dead = self.dead.map(|row| self.network.backends[row].number);
        for (backend, tally) in &tallies {
            if tally.broken() > 0 && (backend.is_none() || *backend != dead) {
                self.faults.push(format!(
                    "{} connections of {} broke",
                    tally.broken(),
                    name(*backend)
                ));
            }
        }
        self.fleet.close().await;
        Ok(self.faults)
    }
}

fn specification(act: Act, network: &Network, members: &[Member]) -> serde_json::Value {
    let vips = [IpAddr::V4(VIP4), IpAddr::V6(VIP6)].map(|vip| SocketAddr::new(vip, PORT));
    let backends = &network.backends;
    document(vec![
        service(SERVICES[0], vips[0], act.routing[0], backends, members),
        service(SERVICES[1], vips[1], act.routing[1], backends, members),
    ])
}

/// The closing table: what became of every connection, by backend and by cause.
fn account(tallies: &BTreeMap<Option<u32>, Tally>) -> String {
    let mut text = format!(
        "{:<14}{:>8}{:>8}{:>8}   cause\n",
        "connections", "opened", "alive", "broken"
    );
    let mut line = |name: String, tally: &Tally| {
        let causes = tally
            .broken
            .iter()
            .map(|(cause, count)| format!("{count} x {cause}"));
        let causes = causes.collect::<Vec<_>>().join(", ");
        let (opened, alive, broken) = (tally.opened, tally.alive, tally.broken());
        text += format!("{name:<14}{opened:>8}{alive:>8}{broken:>8}   {causes}").trim_end();
        text.push('\n');
    };
    let mut total = Tally::default();
    for (backend, tally) in tallies {
        line(name(*backend), tally);
        total.opened += tally.opened;
        total.alive += tally.alive;
        for (cause, count) in &tally.broken {
            *total.broken.entry(cause.clone()).or_default() += count;
        }
    }
    line("all".to_owned(), &total);
    text
}

fn name(backend: Option<u32>) -> String {
    backend.map_or("no backend".to_owned(), |number| {
        format!("backend {number}")
    })
}
