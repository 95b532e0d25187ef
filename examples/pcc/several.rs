// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Several balancers behind routers that spread flows over them, and now and then spread them anew.

use std::net::{IpAddr, Ipv4Addr};

use guideway::affinity::{
    reconcile, rfc3339, AffinityDocument, BackendView, CidBinding, CidContract, Conflict,
    InstanceView, ReadOptions, ServiceBindings, ServiceView, Step,
};
use guideway::id::BackendId;
use guideway::service::{Protocol, Routing};

use crate::balancer::{Balancer, SECOND_NS};
use crate::fleet::{Change, Fleet};
use crate::policy::{Placed, Policy};
use crate::random::Random;
use crate::traffic::{Packet, PORT, SERVICE};

/// Balancers.
pub(crate) const BALANCERS: usize = 8;
/// Groups of flows that share a path.
const GROUPS: usize = 1024;
/// Time from one reshuffle to the next.
const RESHUFFLE_NS: u64 = 100 * SECOND_NS;
/// Share of the groups that a reshuffle moves to another balancer.
const MOVED: f64 = 0.5;
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 80));

/// The balancers and the paths to them.
pub(crate) struct Several {
    balancers: Vec<Balancer>,
    /// The balancer of each group.
    paths: Vec<u8>,
    random: Random,
    next_reshuffle_ns: u64,
    /// Whether the balancers tell each other their connection IDs before paths change.
    exchange: bool,
    exchanged_ns: u64,
}

impl Several {
    pub(crate) fn new(
        balancers: Vec<Balancer>,
        exchange: bool,
        mut random: Random,
        now_ns: u64,
    ) -> Self {
        Self {
            paths: (0..GROUPS)
                .map(|_| random.below(balancers.len()) as u8)
                .collect(),
            balancers,
            random,
            next_reshuffle_ns: now_ns + RESHUFFLE_NS,
            exchange,
            exchanged_ns: now_ns,
        }
    }

    fn reshuffle(&mut self) {
        let balancers = self.balancers.len();
        for path in &mut self.paths {
            if self.random.unit() < MOVED {
                let further = 1 + self.random.below(balancers - 1);
                *path = ((usize::from(*path) + further) % balancers) as u8;
            }
        }
    }

    /// Exports from each balancer and imports into all others.
    fn exchange(&mut self, fleet: &Fleet, now_ns: u64) {
        let documents: Vec<_> = self
            .balancers
            .iter()
            .map(|balancer| export(balancer, fleet, self.exchanged_ns, now_ns).to_json())
            .collect();
        let view = view(fleet, now_ns);
        for (from, document) in documents.iter().enumerate() {
            let document = AffinityDocument::from_json(document, &ReadOptions::default())
                .expect("a document is read as it was written");
            for (to, balancer) in self.balancers.iter_mut().enumerate() {
                if from != to {
                    import(balancer, &document, &view, now_ns);
                }
            }
        }
        self.exchanged_ns = now_ns;
    }
}

impl Policy for Several {
    fn place(&mut self, packet: &Packet, fleet: &Fleet, now_ns: u64) -> Placed {
        // Bits that neither the slot nor the tag is made of.
        let group = (packet.h64 >> 16) as usize % GROUPS;
        let path = usize::from(self.paths[group]);
        self.balancers[path].place(packet, fleet, now_ns)
    }

    fn publish(&mut self, change: &Change, fleet: &Fleet, now_ns: u64) {
        // All of them see the same publications, so one works out the slots of all.
        if let Some((first, others)) = self.balancers.split_first_mut() {
            first.publish(change, fleet, now_ns);
            for balancer in others {
                balancer.follow(first);
            }
        }
    }

    fn tick(&mut self, fleet: &Fleet, now_ns: u64) {
        for balancer in &mut self.balancers {
            balancer.tick(fleet, now_ns);
        }
        if now_ns >= self.next_reshuffle_ns {
            self.next_reshuffle_ns += RESHUFFLE_NS;
            if self.exchange {
                self.exchange(fleet, now_ns);
            }
            self.reshuffle();
        }
    }

    fn entries(&self) -> usize {
        self.balancers.iter().map(Policy::entries).sum()
    }
}

/// The connection IDs that packets used since the last exchange. The others are those of
/// connections that are over, which balancers would tell each other for ever.
fn export(balancer: &Balancer, fleet: &Fleet, since_ns: u64, now_ns: u64) -> AffinityDocument {
    let bindings = balancer.state.cids.iter().filter_map(|(key, entry)| {
        let server = fleet.standing(entry.row)?;
        let is_used = entry.seen_ns > since_ns && server.incarnation == entry.incarnation;
        is_used.then_some(CidBinding {
            cid: key.cid,
            backend: backend_id(entry.row)?,
            origin: entry.origin.into(),
            last_seen_ns: entry.seen_ns,
        })
    });
    let service = ServiceBindings {
        id: SERVICE,
        name: "simulated".into(),
        vip: VIP,
        protocol: Protocol::Udp,
        port: PORT,
        bindings: bindings.collect(),
    };
    AffinityDocument::new(rfc3339(now_ns / SECOND_NS), "", vec![service])
}

fn import(balancer: &mut Balancer, document: &AffinityDocument, view: &InstanceView, now_ns: u64) {
    let cids = &mut balancer.state.cids;
    let found = reconcile(document, view, Conflict::Keep, |key| {
        Ok::<_, std::convert::Infallible>(cids.get(key).copied())
    });
    let Ok(found) = found;
    for action in found.actions {
        let binding = action.binding(now_ns);
        match action.step {
            Step::Insert => cids
                .insert(action.key, binding)
                .expect("there is room, and there was none"),
            Step::Exchange(_) => {
                if let Some(entry) = cids.get_mut(&action.key) {
                    *entry = binding;
                }
            }
        }
    }
}

/// What an import needs to know of a balancer: the same of each.
fn view(fleet: &Fleet, now_ns: u64) -> InstanceView {
    let backends = (0..fleet.rows()).filter_map(|row| {
        Some(BackendView {
            id: backend_id(row)?,
            row,
            incarnation: fleet.standing(row)?.incarnation,
            usable: true,
        })
    });
    let service = ServiceView {
        id: SERVICE,
        vip: VIP,
        protocol: Protocol::Udp,
        port: PORT,
        contract: CidContract {
            reads_quic: true,
            routing: Routing::Learned,
            short_dcid_len: 8,
        },
        admits: true,
        backends: backends.collect(),
    };
    InstanceView {
        services: vec![service],
        room: u64::MAX,
        now_ns,
    }
}

/// The operator's number of the server in a row.
fn backend_id(row: u16) -> Option<BackendId> {
    BackendId::new(u32::from(row) + 1)
}
