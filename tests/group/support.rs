// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards with short names, and a group whose publications succeed or fail.

use guideway::addr::MacAddr;
use guideway::group::{
    close, disable, plan, Candidate, Class, Context, Counters, Generation, GroupId, GroupPlan,
    GroupSpec, HighWater, Limits, Place, PlanError, Snapshot,
};
use guideway::maglev::TableSize;
use guideway::placement::HashGroup;
use guideway::srv6::{BaseSid, Mtu, NextHop};

/// The shard whose node ID has these hexadecimal digits.
pub(crate) fn sid(node: &str) -> BaseSid {
    let text = format!("2001:db8:ff09:{node}:e000::");
    text.parse().expect("a SID")
}

pub(crate) fn hop(number: u32) -> NextHop {
    let mac = |last| MacAddr::new([2, 0, 0, 0, 0, last]);
    NextHop::new(number, mac(1), mac(2), Mtu::UNCHECKED).expect("complete")
}

pub(crate) fn active(node: &str) -> Candidate {
    Candidate::new(sid(node), hop(1))
}

pub(crate) fn draining(node: &str) -> Candidate {
    Candidate {
        draining: true,
        ..active(node)
    }
}

pub(crate) fn unreachable(node: &str) -> Candidate {
    Candidate {
        next_hop: None,
        ..active(node)
    }
}

pub(crate) fn weighing(node: &str, weight: u32) -> Candidate {
    Candidate {
        weight,
        ..active(node)
    }
}

pub(crate) fn spec(candidates: &[Candidate]) -> GroupSpec {
    GroupSpec {
        candidates: candidates.to_vec(),
        ..GroupSpec::default()
    }
}

/// Active shards, one per word.
pub(crate) fn shards(nodes: &str) -> GroupSpec {
    let candidates: Vec<_> = nodes.split_whitespace().map(active).collect();
    spec(&candidates)
}

pub(crate) fn limits(groups: u32, members: u32, size: u32) -> Limits {
    let size = TableSize::new(size).expect("a prime");
    Limits::new(groups, members, size).expect("in range")
}

pub(crate) fn id(group: u32) -> GroupId {
    GroupId::new(group).expect("in range")
}

pub(crate) fn nat64(prefix: &str) -> Class {
    Class::Nat64(prefix.parse().expect("a prefix"))
}

/// A group as one process after the other sees it.
pub(crate) struct Group {
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    pub(crate) published: Option<Snapshot>,
    pub(crate) high_water: HighWater,
    pub(crate) counters: Vec<Counters>,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            place: Place {
                group: id(0),
                class: Class::Nat66,
                hash_group: HashGroup(0),
            },
            limits: Limits::default(),
            published: None,
            high_water: HighWater::default(),
            counters: Vec::new(),
        }
    }

    pub(crate) fn of(members: u32) -> Self {
        Self {
            limits: limits(8, members, 1021),
            ..Self::new()
        }
    }

    /// With the counter of generations shortly before its end, and these members.
    pub(crate) fn late(members: u32, nodes: &str, next: u32) -> Self {
        let mut group = Self::of(members);
        group.publish(&shards(nodes));
        let published = group.published.as_mut().expect("published");
        published.next_slot_generation = Generation::new(next).expect("not 0");
        group.restart();
        group
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            limits: self.limits,
            high_water: self.high_water,
            counters: &self.counters,
            now_ns: 7,
            rewrite: false,
        }
    }

    pub(crate) fn plan(&self, spec: &GroupSpec) -> Result<GroupPlan, PlanError> {
        plan(self.published.as_ref(), &self.place, spec, &self.context())
    }

    /// A publication that succeeds.
    pub(crate) fn publish(&mut self, spec: &GroupSpec) -> GroupPlan {
        let plan = self.plan(spec).expect("a plan");
        self.apply(&plan);
        plan
    }

    /// A publication that fails before anybody sees it.
    pub(crate) fn fail(&mut self, spec: &GroupSpec) -> GroupPlan {
        let plan = self.plan(spec).expect("a plan");
        self.high_water.claim(&plan).expect("the last plan");
        plan
    }

    pub(crate) fn close(&mut self) -> GroupPlan {
        let plan = close(self.snapshot(), &self.context()).expect("open");
        self.apply(&plan);
        plan
    }

    pub(crate) fn disable(&mut self) -> GroupPlan {
        let plan = disable(self.snapshot(), &self.context()).expect("not open");
        self.apply(&plan);
        plan
    }

    fn apply(&mut self, plan: &GroupPlan) {
        self.high_water.claim(plan).expect("the last plan");
        self.published = Some(plan.snapshot().clone());
    }

    /// Another process: it knows what is published.
    pub(crate) fn restart(&mut self) {
        self.high_water = HighWater::default();
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        self.published.as_ref().expect("published")
    }

    /// Node ID, slot and generation of each member, by slot.
    pub(crate) fn members(&self) -> Vec<(String, u16, u32)> {
        members(self.snapshot())
    }
}

pub(crate) fn members(snapshot: &Snapshot) -> Vec<(String, u16, u32)> {
    let members = snapshot.members.iter();
    let row = |member: &guideway::group::Member| {
        let node = format!("{:x}", member.sid.node_id());
        (node, member.slot.get(), member.generation.get())
    };
    members.map(row).collect()
}

pub(crate) fn rows(rows: &[(&str, u16, u32)]) -> Vec<(String, u16, u32)> {
    let owned = |&(node, slot, generation): &(&str, u16, u32)| (node.into(), slot, generation);
    rows.iter().map(owned).collect()
}
