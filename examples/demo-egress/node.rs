// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tenants' node: the egress program on each tenant's interface.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use guideway::egress::apply::How;
use guideway::egress::pins::Tick;
use guideway::egress::{Limits, Loader, Writer};
use guideway::egress_spec::{InterfaceFacts, Resolved, Spec};
use guideway::group::{Disruption, GroupId, Snapshot};
use guideway::id::InterfaceName;
use guideway::kernel::netdev;
use guideway::kernel::statedir::StateRoot;
use guideway::placement::{HashKey, HashTable, Scope};
use serde_json::Value;

use super::fleet::Source;
use super::net::Network;
use super::spec::{shard, table};

/// Any error, to be shown.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What the application of a specification made true.
pub(crate) struct Applied {
    pub(crate) took: Duration,
    /// What was foretold of the group's table.
    pub(crate) disruption: Disruption,
    /// The group before, if there was one.
    before: Option<Snapshot>,
    after: Snapshot,
}

impl Applied {
    /// The shard that a source without a pin goes to.
    pub(crate) fn shard(&self, source: Source) -> Option<u32> {
        place(&self.after, source)
    }

    /// The shard that it went to before.
    pub(crate) fn shard_before(&self, source: Source) -> Option<u32> {
        place(self.before.as_ref()?, source)
    }

    /// Slots of the tables in force before and after that lead to different shards.
    pub(crate) fn slots_moved(&self) -> u32 {
        let Some(before) = &self.before else { return 0 };
        let slots = 0..self.after.table.len() as u32;
        let differ = |slot: &u32| {
            let sids =
                [before, &self.after].map(|group| group.place(*slot).map(|member| member.sid));
            sids[0] != sids[1]
        };
        slots.filter(differ).count() as u32
    }
}

fn place(group: &Snapshot, source: Source) -> Option<u32> {
    let scope = Scope {
        table: HashTable(table(source.tenant)),
        group: group.hash_group,
    };
    let hash = HashKey::source(scope, source.address.into()).hash32();
    group.place(hash).map(|member| shard(member.sid))
}

/// What the node counts for a shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gauge {
    /// Sent to it.
    pub(crate) packets: u64,
    /// Addresses bound to it, in use or not idle for long enough.
    pub(crate) pins: u64,
}

/// The only writer of the node's instance.
pub(crate) struct Node {
    writer: Writer,
    /// The group of the only class, once it is published.
    group: Option<GroupId>,
}

impl Node {
    /// Makes the instance; nothing is attached yet.
    pub(crate) fn start(network: &Network, document: &Value) -> Result<Node, Failure> {
        let spec = Spec::from_json(document.to_string().as_bytes())?;
        let limits = Limits::try_from(spec.limits())?;
        let writer = network.node.run(|| {
            let dir = StateRoot::default().egress();
            Loader::new(&dir).limits(limits).load()
        })??;
        let group = None;
        Ok(Node { writer, group })
    }

    /// Makes `document` what packets see.
    pub(crate) fn apply(
        &mut self,
        network: &Network,
        document: &Value,
    ) -> Result<Applied, Failure> {
        let spec = Spec::from_json(document.to_string().as_bytes())?;
        network.node.run(|| self.apply_spec(&spec))?
    }

    fn apply_spec(&mut self, spec: &Spec) -> Result<Applied, Failure> {
        let wanted = resolve(spec)?;
        let changes = self.writer.compare(&wanted)?;
        let plan = changes.groups.first().ok_or("no class is configured")?;
        let (group, disruption) = (plan.group(), plan.disruption().clone());
        let before = self.writer.group(group)?;
        let started = Instant::now();
        self.writer.apply(&wanted, &How::default())?;
        let took = started.elapsed();
        self.group = Some(group);
        Ok(Applied {
            took,
            disruption,
            before,
            after: self.writer.group(group)?.ok_or("the group is gone")?,
        })
    }

    /// Removes pins that are idle, as a node does now and then.
    pub(crate) fn expire(&mut self, network: &Network) -> Result<(), Failure> {
        network.node.run(|| {
            self.writer.sweeper()?.expire(Tick::now())?;
            Ok(())
        })?
    }

    /// What is counted for each shard that is listed.
    pub(crate) fn gauges(&self, network: &Network) -> Result<BTreeMap<u32, Gauge>, Failure> {
        network.node.run(|| self.read_gauges())?
    }

    fn read_gauges(&self) -> Result<BTreeMap<u32, Gauge>, Failure> {
        let Some(id) = self.group else {
            return Ok(BTreeMap::new());
        };
        let group = self.writer.group(id)?.ok_or("the group is gone")?;
        let counters = self.writer.slot_counters(id)?;
        let pins = self.writer.pin_status(Tick::now())?.members;
        let gauge = |member: &guideway::group::Member| {
            let counted = counters.get(usize::from(member.slot.get()));
            let packets = counted.map_or(0, |counted| counted.packets);
            let pins = pins.get(&(id, member.slot)).copied().unwrap_or_default();
            let gauge = Gauge {
                packets: packets.saturating_sub(member.base.packets),
                pins: pins.current,
            };
            (shard(member.sid), gauge)
        };
        Ok(group.members.iter().map(gauge).collect())
    }
}

/// Puts in place of names what this namespace has by them.
fn resolve(spec: &Spec) -> Result<Resolved, Failure> {
    let interfaces = netdev::all()?;
    let facts = |interface: &netdev::Interface| InterfaceFacts {
        ifindex: interface.index,
        mac: interface.mac.into(),
        mtu: interface.mtu,
    };
    let interfaces: BTreeMap<_, _> = interfaces
        .iter()
        .map(|interface| (interface.name.as_str(), facts(interface)))
        .collect();
    let known = |name: &InterfaceName| interfaces.get(name.as_str()).copied();
    Ok(spec.resolve(known)?)
}
