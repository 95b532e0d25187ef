// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Many long-lived connections, each asking the server twice a second and keeping account.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{Broken, Client};
use super::net::{address, Network};

/// Pause between two exchanges of a connection.
const PAUSE: Duration = Duration::from_millis(500);

/// Connections that are opened at a time.
const ATTEMPTS: usize = 32;

/// A tenant's address, which is what pins bind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Source {
    pub(crate) tenant: u32,
    pub(crate) address: Ipv6Addr,
}

impl Source {
    /// The address with this number of each of these tenants.
    pub(crate) fn of(tenants: Range<u32>, number: u32) -> BTreeSet<Source> {
        tenants
            .map(|tenant| Source {
                tenant,
                address: address(tenant, number),
            })
            .collect()
    }
}

/// All connections of the demo.
pub(crate) struct Fleet {
    network: Arc<Network>,
    members: Arc<Mutex<Vec<Arc<Member>>>>,
    tasks: JoinSet<()>,
}

/// One connection, from its attempt on.
struct Member {
    source: Source,
    /// The step that it was opened in.
    step: usize,
    /// What it goes through; `None` when it did not come about.
    shard: Option<u32>,
    broken: OnceLock<Broken>,
    /// It shall end in good order.
    asked_to_end: AtomicBool,
    ended: AtomicBool,
    /// Since the last [`Fleet::mark`].
    answered: AtomicU64,
    exchanges: AtomicU64,
}

impl Member {
    fn new(source: Source, step: usize, opened: &Result<Client, Broken>) -> Member {
        let broken = match opened {
            Ok(_) => OnceLock::new(),
            Err(reason) => OnceLock::from(reason.clone()),
        };
        Member {
            source,
            step,
            shard: opened.as_ref().ok().map(|client| client.shard),
            broken,
            asked_to_end: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            exchanges: AtomicU64::new(0),
        }
    }

    fn is_alive(&self) -> bool {
        self.broken.get().is_none() && !self.ended.load(Ordering::Relaxed)
    }
}

/// What has become of the connections of one shard, or of those that reached none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) opened: usize,
    pub(crate) alive: usize,
    /// In good order.
    pub(crate) ended: usize,
    pub(crate) broken: BTreeMap<Broken, usize>,
}

impl Tally {
    pub(crate) fn broken(&self) -> usize {
        self.broken.values().sum()
    }
}

impl Fleet {
    pub(crate) fn new(network: Arc<Network>) -> Fleet {
        Fleet {
            network,
            members: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Starts to open `each` connections from every source, and returns at once.
    pub(crate) fn open(&mut self, step: usize, sources: &BTreeSet<Source>, each: usize) {
        let gate = Arc::new(Semaphore::new(ATTEMPTS));
        for &source in sources.iter().flat_map(|source| vec![source; each]) {
            let (gate, network, members) =
                (gate.clone(), self.network.clone(), self.members.clone());
            self.tasks.spawn(async move {
                let permit = gate.acquire().await;
                let tenant = &network.tenants[source.tenant as usize];
                let opened = Client::connect(tenant, source.address).await;
                drop(permit);
                let member = Arc::new(Member::new(source, step, &opened));
                members
                    .lock()
                    .expect("no holder of the lock panics")
                    .push(member.clone());
                let Ok(client) = opened else { return };
                match member.live(client).await {
                    Ok(()) => member.ended.store(true, Ordering::Relaxed),
                    Err(reason) => drop(member.broken.set(reason)),
                }
            });
        }
    }

    /// Attempts of a step that have succeeded or failed.
    pub(crate) fn attempted(&self, step: usize) -> usize {
        let members = self.snapshot();
        members.iter().filter(|member| member.step == step).count()
    }

    /// Where the connections of a step come from, and the shard that each goes through.
    pub(crate) fn landed(&self, step: usize) -> Vec<(Source, u32)> {
        let members = self.snapshot();
        let opened = members.iter().filter(|member| member.step == step);
        opened
            .filter_map(|member| Some((member.source, member.shard?)))
            .collect()
    }

    /// Begins to count anew which connections are answered.
    pub(crate) fn mark(&self) {
        for member in self.snapshot() {
            member.answered.store(0, Ordering::Relaxed);
        }
    }

    /// Living connections that have not been answered twice since they were opened or last marked:
    /// the second answer was surely asked for afterwards.
    pub(crate) fn unproven(&self) -> usize {
        let members = self.snapshot();
        let unproven = members
            .iter()
            .filter(|member| member.is_alive() && member.answered.load(Ordering::Relaxed) < 2);
        unproven.count()
    }

    /// Living connections through a shard.
    pub(crate) fn alive(&self, shard: u32) -> usize {
        self.tallies()
            .get(&Some(shard))
            .map_or(0, |tally| tally.alive)
    }

    /// Asks the living connections through a shard to end in good order. Whose they are.
    pub(crate) fn end(&self, shard: u32) -> BTreeSet<Source> {
        self.sources(|member| {
            let asked = member.shard == Some(shard) && member.is_alive();
            if asked {
                member.asked_to_end.store(true, Ordering::Relaxed);
            }
            asked
        })
    }

    /// Whose connections through a shard have broken.
    pub(crate) fn broken(&self, shard: u32) -> BTreeSet<Source> {
        self.sources(|member| member.shard == Some(shard) && member.broken.get().is_some())
    }

    fn sources(&self, wanted: impl Fn(&Member) -> bool) -> BTreeSet<Source> {
        let members = self.snapshot();
        let wanted = members.iter().filter(|member| wanted(member));
        wanted.map(|member| member.source).collect()
    }

    /// Answers received so far, by all.
    pub(crate) fn exchanges(&self) -> u64 {
        let members = self.snapshot();
        let exchanges = members
            .iter()
            .map(|member| member.exchanges.load(Ordering::Relaxed));
        exchanges.sum()
    }

    /// The account of every shard, and under `None` of the attempts that reached none.
    pub(crate) fn tallies(&self) -> BTreeMap<Option<u32>, Tally> {
        let mut tallies = BTreeMap::<_, Tally>::new();
        for member in self.snapshot() {
            let tally = tallies.entry(member.shard).or_default();
            tally.opened += 1;
            match member.broken.get() {
                Some(broken) => *tally.broken.entry(broken.clone()).or_default() += 1,
                None if member.is_alive() => tally.alive += 1,
                None => tally.ended += 1,
            }
        }
        tallies
    }

    fn snapshot(&self) -> Vec<Arc<Member>> {
        self.members
            .lock()
            .expect("no holder of the lock panics")
            .clone()
    }
}

impl Member {
    /// Exchanges numbers until the connection breaks or is asked to end.
    async fn live(&self, mut client: Client) -> Result<(), Broken> {
        while !self.asked_to_end.load(Ordering::Relaxed) {
            client.exchange().await?;
            self.answered.fetch_add(1, Ordering::Relaxed);
            self.exchanges.fetch_add(1, Ordering::Relaxed);
            sleep(PAUSE).await;
        }
        client.close().await
    }
}
