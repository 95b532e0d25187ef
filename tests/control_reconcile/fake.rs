// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Plans that are applied to a node in memory do what they say.

use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel};
use guideway::control::kernel::Kernel;
use guideway::control::{apply, observe, reconcile, Deadline, Observed};
use guideway::group::Snapshot;
use proptest::prelude::*;

use super::fixture::senseless_row;
use super::random::{change, play, start, wish};
use super::world::World;

/// A node in which the same is published and written.
fn mirror(world: &World) -> (Fake, FakeKernel) {
    let fake = Fake::new(world.0.limits);
    for group in &world.0.groups {
        fake.force_group(group.clone());
    }
    for group in world.0.damaged.keys() {
        fake.damage(*group, world.group(*group).cloned());
    }
    for (ifindex, tenant) in &world.0.tenants {
        fake.put_tenant(*ifindex, *tenant);
    }
    for (key, route) in &world.0.routes {
        fake.put_route(*key, *route);
    }
    for (key, row) in &world.0.senseless {
        fake.put_row(*key, senseless_row(row.origin, row.group));
    }
    let mut kernel = fake.kernel();
    if let Some(encap) = world.0.encap {
        kernel.set_encap(&encap).expect("a configuration");
    }
    (fake, kernel)
}

/// What there is, but for times.
fn groups(observed: &Observed) -> Vec<Snapshot> {
    let mut groups = observed.groups.clone();
    groups.sort_by_key(|group| group.group);
    for group in &mut groups {
        group.published_ns = 0;
    }
    groups
}

#[test]
fn a_node_ends_where_the_plan_leads() {
    let changes = prop::collection::vec(change(), 0..10);
    play(150, &(changes, wish()), |(changes, wish)| {
        let mut world = start();
        changes.iter().for_each(|change| change.make(&mut world));
        // The process that applies has just started.
        world.0.contexts.clear();
        let desired = wish.desired();
        let (_fake, mut kernel) = mirror(&world);
        for round in 0..4 {
            let reach = world.0.reach.clone();
            let observed = observe(&kernel, false, |_| reach).expect("all of it");
            prop_assert_eq!(groups(&observed), groups(&world.0));
            prop_assert!(observed.damaged.keys().eq(world.0.damaged.keys()));
            prop_assert_eq!(&observed.routes, &world.0.routes);
            prop_assert_eq!(&observed.senseless, &world.0.senseless);
            prop_assert_eq!(observed.encap, world.0.encap);
            let plan = reconcile(&observed, &desired);
            let applied = apply(&plan, &mut kernel, &Deadline::at(Duration::MAX));
            prop_assert!(applied.is_complete(), "{:#?} of {:#?}", applied, plan.steps);
            world.sweep(&desired);
            if plan.is_empty() {
                return Ok(());
            }
            prop_assert!(round < 3, "no end in sight: {:#?}", plan.steps);
        }
        Ok(())
    });
}
