// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A node in memory, rounds of the loop on it, and packets.

use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel};
use guideway::control::kernel::{Failure, Kernel};
use guideway::control::{
    apply, invariants, observe, reconcile, Applied, Deadline, Desired, Invariants, Known, Plan,
    Reachability,
};
use guideway::encap::Encap;
use guideway::group::{Class, Limits};
use guideway::oracle::egress::{Action, Packet};
use guideway::reason::egress::End;
use guideway::route::Target;
use guideway::srv6::BaseSid;

use crate::fixture::*;
use crate::udp6::frame;

/// The shard that translates IPv6 only.
pub(crate) const ONLY66: u16 = 3;
/// The shard of ordered mode, which translates everything.
pub(crate) const STATIC: u16 = 9;
/// A destination behind no prefix of NAT64.
pub(crate) const FAR: &str = "2001:db8:1::1";
pub(crate) const SOURCES: u16 = 4;

/// A node with these tenants and nothing else.
pub(crate) fn node_of(limits: Limits, tables: &[u32]) -> Fake {
    let fake = Fake::new(limits);
    for &table in tables {
        fake.put_tenant(100 + table, tenant(table));
    }
    fake
}

pub(crate) fn node(tables: &[u32]) -> Fake {
    node_of(limits(), tables)
}

/// Packets of another node than the fixture's, with marks that those have not.
pub(crate) fn other_encap() -> Encap {
    Encap::standard("2001:db8:ff09:2::".parse().expect("a SID"))
}

/// The same before anybody has listed shards, in hashed mode: members follow their next hops.
pub(crate) fn unlisted(desired: Desired) -> Desired {
    let mut desired = Desired {
        shards: Known::Unknown,
        ..desired
    };
    desired.policy.liveness_before_sync = true;
    desired
}

/// The names of a plan's steps, in their order.
pub(crate) fn names(plan: &Plan) -> Vec<&'static str> {
    let steps = plan.steps.iter();
    steps.map(|planned| planned.step.name()).collect()
}

/// All shards are reached.
pub(crate) fn all() -> Reachability {
    reach((0..16).map(|number| (number, true)))
}

/// What there is, and what follows from it.
pub(crate) fn plan(
    kernel: &dyn Kernel,
    desired: &Desired,
    reach: &Reachability,
) -> Result<Plan, Failure> {
    let observed = observe(kernel, false, |_| reach.clone())?;
    Ok(reconcile(&observed, desired))
}

/// One round.
pub(crate) fn round(
    kernel: &mut dyn Kernel,
    desired: &Desired,
    reach: &Reachability,
) -> Result<(Plan, Applied), Failure> {
    let plan = plan(kernel, desired, reach)?;
    let deadline = Deadline::at(kernel.now() + Duration::from_secs(60));
    let applied = apply(&plan, kernel, &deadline.patient(Duration::from_secs(1)));
    assert_eq!(applied.steps.len(), plan.steps.len());
    Ok((plan, applied))
}

/// Rounds until there is nothing to do; at most three with anything.
pub(crate) fn converge(kernel: &mut dyn Kernel, desired: &Desired, reach: &Reachability) {
    for _ in 0..3 {
        let (plan, applied) = round(kernel, desired, reach).expect("readable");
        assert!(applied.is_complete(), "{plan:#?}\n{applied:#?}");
        if plan.is_empty() {
            return;
        }
    }
    let rest = plan(kernel, desired, reach).expect("readable");
    assert!(rest.is_empty(), "no end in sight: {rest:#?}");
}

/// A node on which this is in force.
pub(crate) fn settled(fake: &Fake, desired: &Desired, reach: &Reachability) {
    converge(&mut fake.kernel(), desired, reach);
}

pub(crate) fn holds(fake: &Fake, desired: &Desired) -> Invariants {
    let observed = observe(&fake.kernel(), false, |_| all()).expect("readable");
    invariants(&observed, &desired.classes)
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Shard(BaseSid),
    Dropped(End),
    Passed(End),
}

/// A destination of a class.
pub(crate) fn destination(class: Class) -> String {
    match class {
        Class::Nat66 => FAR.to_owned(),
        Class::Nat64(prefix) => {
            let network = u128::from(prefix.address());
            std::net::Ipv6Addr::from(network | 0xc000_0201).to_string()
        }
    }
}

pub(crate) fn send(fake: &Fake, table: u32, source: u16, to: &str) -> Fate {
    let frame = frame(&format!("2001:db8:aaaa::{source:x}"), to);
    let decision = fake.send(&Packet::new(100 + table, &frame, 1));
    match decision.action {
        Action::Next => Fate::Passed(decision.end),
        Action::Redirect { .. } => {
            let chosen = decision.choice.and_then(|choice| choice.member);
            let chosen = chosen.map(|member| member.sid);
            let routed = decision.route.and_then(|(_, route)| match route.target {
                Target::Shard { sid, .. } => Some(sid),
                _ => None,
            });
            Fate::Shard(chosen.or(routed).expect("a shard"))
        }
        _ => Fate::Dropped(decision.end),
    }
}

/// Whether a shard of the fixture translates a class.
fn translates(shard: BaseSid, class: Class) -> bool {
    match class {
        Class::Nat66 => true,
        Class::Nat64(_) => shard != sid(ONLY66),
    }
}

/// What must not happen to any packet of the tenants, at no time: that it passes, that it reaches a
/// shard that cannot translate it, or that its route leads to what forwards nothing. `strict`: that
/// it is dropped at all.
pub(crate) fn wrong(
    fake: &Fake,
    tables: &[u32],
    classes: &[Class],
    strict: bool,
) -> Option<String> {
    for &table in tables {
        for &class in classes {
            for source in 0..SOURCES {
                let fate = send(fake, table, source, &destination(class));
                let fine = match fate {
                    Fate::Passed(_) => false,
                    Fate::Shard(shard) => translates(shard, class),
                    Fate::Dropped(End::Blocked | End::GroupEmpty) => !strict,
                    Fate::Dropped(_) => false,
                };
                if !fine {
                    return Some(format!("table {table}, {class}, source {source}: {fate:?}"));
                }
            }
        }
    }
    None
}

/// Everything that matters of a node's state: how packets are encapsulated, of groups who is served by
/// whom, of routes where they lead; no numbers.
pub(crate) fn summary(fake: &Fake) -> Vec<String> {
    fake.world(|world| {
        let groups = world.groups.values().filter(|group| group.forwards());
        let mut lines: Vec<_> = groups
            .map(|group| {
                let members = group.members.iter();
                let mut members: Vec<_> = members
                    .map(|member| format!("{} {:?}", member.sid, member.state()))
                    .collect();
                members.sort();
                format!("{} {} {members:?}", group.class, group.state)
            })
            .collect();
        lines.sort();
        lines.extend(world.encap.map(|encap| format!("{encap:?}")));
        for (key, route) in &world.routes {
            let to = match route.target {
                Target::Group { group, .. } => world
                    .groups
                    .get(&group)
                    .map_or("nothing".to_owned(), |group| group.class.to_string()),
                other => format!("{other:?}"),
            };
            lines.push(format!("{key} -> {to}"));
        }
        lines
    })
}

/// A process that publishes, started anew.
pub(crate) fn restarted(fake: &Fake, old: FakeKernel) -> FakeKernel {
    drop(old);
    fake.kernel()
}
