// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Many long-lived connections, each asking for an echo every second and keeping account.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::net::{client4, client6, Namespace, Network, VIP4, VIP6};
use super::quic::{Broken, Client, Identity, PORT};

/// An echo that takes longer counts as lost.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// Pause between two echoes of a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Handshakes at a time: they cost processor time on both sides, which share this machine.
const HANDSHAKES: usize = 24;

/// All connections of the demo.
pub(crate) struct Fleet {
    network: Arc<Network>,
    identity: Identity,
    members: Arc<Mutex<Vec<Arc<Member>>>>,
    tasks: Mutex<JoinSet<()>>,
    stop: Arc<AtomicBool>,
}

/// One connection, from its attempt on.
struct Member {
    /// The plan that was in force when it was opened.
    epoch: usize,
    /// `None` when it did not come about.
    client: Option<Client>,
    broken: OnceLock<Broken>,
    answered: AtomicU64,
}

/// What has become of the connections of one backend, or of those that reached none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) opened: usize,
    pub(crate) alive: usize,
    pub(crate) broken: BTreeMap<Broken, usize>,
}

impl Tally {
    pub(crate) fn broken(&self) -> usize {
        self.broken.values().sum()
    }
}

impl Fleet {
    pub(crate) fn new(network: Arc<Network>, identity: Identity) -> Fleet {
        Fleet {
            network,
            identity,
            members: Arc::default(),
            tasks: Mutex::default(),
            stop: Arc::default(),
        }
    }

    /// Starts to open `count` connections, IPv4 and IPv6 in turn, and returns at once. They are
    /// counted under `epoch`.
    pub(crate) fn open(&self, epoch: usize, count: usize) {
        let gate = Arc::new(Semaphore::new(HANDSHAKES));
        let mut tasks = self.tasks.lock().expect("no holder of the lock panics");
        for n in 0..count {
            let (gate, network, identity) =
                (gate.clone(), self.network.clone(), self.identity.clone());
            let (members, stop) = (self.members.clone(), self.stop.clone());
            tasks.spawn(async move {
                let permit = gate.acquire().await;
                let member = Arc::new(attempt(epoch, n, &network.clients, &identity).await);
                drop(permit);
                let account = member.clone();
                members
                    .lock()
                    .expect("no holder of the lock panics")
                    .push(account);
                member.live(&stop).await;
            });
        }
    }

    /// Attempts of `epoch` that have succeeded or failed.
    pub(crate) fn attempted(&self, epoch: usize) -> usize {
        self.snapshot()
            .iter()
            .filter(|member| member.epoch == epoch)
            .count()
    }

    /// Where the connections of `epoch` come from, and the backend that each landed on.
    pub(crate) fn landed(&self, epoch: usize) -> Vec<(SocketAddr, u32)> {
        let members = self.snapshot();
        let opened = members.iter().filter(|member| member.epoch == epoch);
        let clients = opened.filter_map(|member| member.client.as_ref());
        clients
            .map(|client| (client.local(), client.backend))
            .collect()
    }

    /// Moves every living connection to a new address and port. Returns how many that were.
    pub(crate) async fn migrate(&self) -> std::io::Result<usize> {
        let mut moved = 0;
        for (n, member) in self.snapshot().iter().enumerate() {
            if let (Some(client), None) = (&member.client, member.broken.get()) {
                let local = match client.local().ip() {
                    IpAddr::V4(_) => client4(n + 1),
                    IpAddr::V6(_) => client6(n + 1),
                };
                client.migrate(&self.network.clients, local)?;
                member.answered.store(0, Ordering::Relaxed);
                moved += 1;
                sleep(Duration::from_millis(2)).await;
            }
        }
        Ok(moved)
    }

    /// Living connections with at least two answers since they were opened or last moved: the
    /// second was surely asked for afterwards.
    pub(crate) fn proven(&self) -> usize {
        self.snapshot()
            .iter()
            .filter(|member| member.is_alive() && member.answered.load(Ordering::Relaxed) >= 2)
            .count()
    }

    /// Answers received so far, by all.
    pub(crate) fn echoes(&self) -> u64 {
        let members = self.snapshot();
        let clients = members.iter().filter_map(|member| member.client.as_ref());
        clients.map(Client::answered).sum()
    }

    /// The account of every backend, and under `None` of the attempts that reached none; with an
    /// `epoch` only of the connections that were opened in it.
    pub(crate) fn tallies(&self, epoch: Option<usize>) -> BTreeMap<Option<u32>, Tally> {
        let mut tallies = BTreeMap::<_, Tally>::new();
        for member in self.snapshot() {
            if epoch.is_some_and(|epoch| epoch != member.epoch) {
                continue;
            }
            let backend = member.client.as_ref().map(|client| client.backend);
            let tally = tallies.entry(backend).or_default();
            tally.opened += 1;
            match member.broken.get() {
                None => tally.alive += 1,
                Some(broken) => *tally.broken.entry(broken.clone()).or_default() += 1,
            }
        }
        tallies
    }

    /// Ends every connection in good order, and returns when all have ended.
    pub(crate) async fn close(self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut tasks = self
            .tasks
            .into_inner()
            .expect("no holder of the lock panics");
        while tasks.join_next().await.is_some() {}
    }

    fn snapshot(&self) -> Vec<Arc<Member>> {
        self.members
            .lock()
            .expect("no holder of the lock panics")
            .clone()
    }
}

async fn attempt(epoch: usize, n: usize, clients: &Namespace, identity: &Identity) -> Member {
    let (local, vip) = if n % 2 == 0 {
        (client4(n / 2), IpAddr::V4(VIP4))
    } else {
        (client6(n / 2), IpAddr::V6(VIP6))
    };
    let remote = SocketAddr::new(vip, PORT);
    let opened = Client::connect(clients, identity, local, remote, DEADLINE).await;
    let broken = OnceLock::new();
    let client = match opened.unwrap_or_else(|error| Err(Broken::NotOpened(error.to_string()))) {
        Ok(client) => Some(client),
        Err(reason) => {
            broken.get_or_init(|| reason);
            None
        }
    };
    Member {
        epoch,
        client,
        broken,
        answered: AtomicU64::new(0),
    }
}

impl Member {
    fn is_alive(&self) -> bool {
        self.broken.get().is_none()
    }

    async fn live(&self, stop: &AtomicBool) {
        let Some(client) = &self.client else { return };
        while !stop.load(Ordering::Relaxed) {
            match client.echo().await {
                Ok(()) => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                Err(reason) => {
                    self.broken.get_or_init(|| reason);
                    return;
                }
            }
            sleep(PAUSE).await;
        }
        client.close();
    }
}
