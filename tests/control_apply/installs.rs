// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A tenant's routes from who sets it up: by each policy, beside a group that closes, and with each
//! operation failing.

use std::time::Duration;

use guideway::control::fake::{Fake, Fault, How};
use guideway::control::kernel::{Kernel, Operation};
use guideway::control::{
    install, Desired, Install, InstallError, InstallPolicy, Mode, Placed, Why,
};
use guideway::egress_spec::RouteTarget;
use guideway::error::ErrorKind;
use guideway::group::{Class, State};
use guideway::kernel::write_barrier::Mode as Lock;
use guideway::route::{Block, Origin, Route, Target};
use guideway::tenant::Tenant;

use crate::fixture::*;
use crate::node::*;

const PATIENCE: Duration = Duration::from_secs(5);
const NEW: u32 = 5;

fn to_static() -> RouteTarget {
    RouteTarget::Shard {
        sid: sid(STATIC),
        next_hop: hop(STATIC),
    }
}

/// Installs tenant 5 on a node; where its routes are said to lead, NAT66 first.
fn installed(
    fake: &Fake,
    desired: &Desired,
    policy: InstallPolicy,
    with_static: bool,
) -> Result<Vec<(RouteTarget, Why)>, InstallError> {
    let tenant = tenant(NEW);
    let ordered = with_static.then(|| (sid(STATIC), hop(STATIC)));
    let request = Install::new(&tenant, &desired.classes, desired.mode);
    let request = request.policy(policy).ordered(ordered);
    let installed = install(&fake.routes(), &request, PATIENCE)?;
    let placed = |placed: &Placed| (placed.to, placed.why);
    Ok(installed.classes.values().map(placed).collect())
}

/// What the routes of tenant 5 are, NAT66 first.
fn targets(fake: &Fake) -> Vec<Target> {
    let classes = [Class::Nat66, nat64(NAT64)];
    let routes = classes
        .iter()
        .filter_map(|class| fake.world(|world| world.routes.get(&key(NEW, *class)).copied()));
    routes.map(|route| route.target).collect()
}

fn is_group(target: &Target) -> bool {
    matches!(target, Target::Group { .. })
}

/// Shards that translate IPv6 only: NAT64 has a group without members.
fn no_nat64() -> Desired {
    hashed(list([shard66(1), shard66(2)]))
}

#[test]
fn an_empty_group_is_led_to_unless_the_policy_prefers_a_shard() {
    let fake = node(&[]);
    settled(&fake, &no_nat64(), &all());
    let group = |class| (RouteTarget::Class(class), Why::Group);
    for (policy, with_static) in [
        (InstallPolicy::AllowEmpty, true),
        (InstallPolicy::Ordered, false),
        // No candidate is no reason to refuse.
        (InstallPolicy::RequireActive, true),
    ] {
        let placed = installed(&fake, &no_nat64(), policy, with_static).expect("installed");
        assert_eq!(
            placed,
            [group(Class::Nat66), group(nat64(NAT64))],
            "{policy:?}"
        );
        assert!(targets(&fake).iter().all(is_group));
    }
    let placed = installed(&fake, &no_nat64(), InstallPolicy::Ordered, true).expect("installed");
    assert_eq!(
        placed,
        [group(Class::Nat66), (to_static(), Why::NobodyActive)]
    );
    // The loop moves it when a member is active.
    fake.put_tenant(100 + NEW, tenant(NEW));
    let served = Desired {
        static_sids: vec![sid(STATIC)],
        ..hashed(list([dual(1)]))
    };
    assert_eq!(targets(&fake)[1], to_shard(NEW, STATIC).target);
    settled(&fake, &served, &all());
    assert!(targets(&fake).iter().all(is_group));
}

#[test]
fn who_requires_an_active_member_writes_nothing_without() {
    let fake = node(&[]);
    let desired = hashed(list([dual(1), shard66(2)]));
    let only_66 = reach((0..16).map(|number| (number, number != 1)));
    settled(&fake, &desired, &only_66);
    let error = installed(&fake, &desired, InstallPolicy::RequireActive, true);
    let error = error.expect_err("shard 1 is not reached");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        error.to_string(),
        "group 1 of nat64:2001:db8:64::/96 has 1 members, none of them active; nothing is written"
    );
    assert!(targets(&fake).is_empty());
    settled(&fake, &desired, &all());
    installed(&fake, &desired, InstallPolicy::RequireActive, true).expect("both are served");
    assert!(targets(&fake).iter().all(is_group));
}

#[test]
fn ordered_mode_leads_to_the_shard_or_nowhere() {
    let fake = node(&[]);
    let placed = installed(&fake, &ordered(&[STATIC]), InstallPolicy::AllowEmpty, true);
    assert_eq!(placed.expect("installed"), [(to_static(), Why::Ordered); 2]);
    assert_eq!(targets(&fake), [to_shard(NEW, STATIC).target; 2]);
    let placed = installed(&fake, &ordered(&[STATIC]), InstallPolicy::AllowEmpty, false);
    let nowhere = RouteTarget::Block(Block::Drop);
    assert_eq!(placed.expect("installed"), [(nowhere, Why::Ordered); 2]);
    assert_eq!(targets(&fake), [Target::Block(Block::Drop); 2]);
}

/// Closes all groups of a node, and disables them if that is asked for.
fn close(fake: &Fake, disable: bool) {
    let to = ordered(&[STATIC]);
    let mut kernel = fake.kernel();
    let plan = plan(&kernel, &to, &all()).expect("readable");
    for planned in &plan.steps {
        if let guideway::control::Step::CloseGroups(plans) = &planned.step {
            for result in kernel.publish(plans).expect("possible") {
                result.expect("published");
            }
        }
    }
    if disable {
        converge(&mut kernel, &to, &all());
    }
}

#[test]
fn a_class_without_an_open_group_gets_the_shard_of_ordered_mode_or_a_block() {
    let desired = hashed(list([dual(1)]));
    let nowhere = RouteTarget::Block(Block::Drop);
    for (state, why) in [
        (None, Why::Absent),
        (Some(State::Closing), Why::Closing),
        (Some(State::Disabled), Why::Disabled),
    ] {
        let fake = node(&[]);
        if let Some(state) = state {
            settled(&fake, &desired, &all());
            close(&fake, state == State::Disabled);
        }
        for (with_static, to) in [(true, to_static()), (false, nowhere)] {
            let policy = InstallPolicy::AllowEmpty;
            let placed = installed(&fake, &desired, policy, with_static).expect("installed");
            assert_eq!(placed, [(to, why); 2], "{state:?}");
            assert!(!targets(&fake).iter().any(is_group));
        }
    }
}

/// Whenever the groups close, what was written leads to no closing group when the guard is given
/// back.
#[test]
fn a_group_that_closes_meanwhile_is_seen_under_the_same_guard() {
    let desired = hashed(list([dual(1)]));
    let mut seen = std::collections::BTreeSet::new();
    for moment in 0..12 {
        let fake = node(&[]);
        settled(&fake, &desired, &all());
        let (node, mut number) = (fake.clone(), 0);
        fake.set_hook(move |_, operation| {
            if number == moment {
                close(&node, false);
            }
            number += 1;
            // It is the only one that waits for the barrier.
            assert!(number == 1 || !matches!(operation, Operation::Lock(Lock::Shared)));
        });
        let placed =
            installed(&fake, &desired, InstallPolicy::AllowEmpty, true).expect("installed");
        fake.clear_hook();
        let closed =
            fake.world(|world| world.groups.values().all(|one| one.state == State::Closing));
        let groups = targets(&fake)
            .iter()
            .filter(|target| is_group(target))
            .count();
        assert_eq!(
            groups,
            if closed { 0 } else { 2 },
            "moment {moment}: {placed:?}"
        );
        seen.extend(placed.iter().map(|(_, why)| format!("{why:?}")));
    }
    assert!(
        seen.contains("Closing") && seen.contains("Closed"),
        "{seen:?}"
    );
    assert!(
        seen.contains("Group"),
        "some moments are later than the install: {seen:?}"
    );
}

#[test]
fn routes_of_other_writers_stay() {
    let fake = node(&[]);
    let desired = hashed(list([dual(1)]));
    settled(&fake, &desired, &all());
    let theirs = Route {
        origin: Origin(7),
        target: Target::Pass,
    };
    fake.put_route(key(NEW, nat64(NAT64)), theirs);
    let placed = installed(&fake, &desired, InstallPolicy::AllowEmpty, false).expect("installed");
    assert_eq!(placed[1].1, Why::Foreign);
    let there = fake.world(|world| world.routes[&key(NEW, nat64(NAT64))]);
    assert_eq!(there, theirs);
    assert!(is_group(&targets(&fake)[0]));
}

/// The table is full: nothing is left of the tenant.
#[test]
fn where_there_is_no_room_nothing_is_written() {
    let fake = node(&[]);
    let desired = hashed(list([dual(1)]));
    settled(&fake, &desired, &all());
    fake.set_room(1);
    let error = installed(&fake, &desired, InstallPolicy::AllowEmpty, false).expect_err("full");
    assert!(
        error.to_string().contains("no room for more than 1 routes"),
        "{error}"
    );
    assert!(targets(&fake).is_empty());
}

#[test]
fn what_interfaces_say_must_agree() {
    let fake = node(&[NEW]);
    let desired = hashed(list([dual(1)]));
    settled(&fake, &desired, &all());
    let before = targets(&fake);
    let other = Tenant {
        argument: argument(6),
        ..tenant(NEW)
    };
    let request = Install::new(&other, &desired.classes, Mode::Hashed);
    let error = install(&fake.routes(), &request, PATIENCE).expect_err("another Argument");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(targets(&fake), before);
}

/// All routes or none; a killed process may leave the longer prefixes, which leak nothing.
#[test]
fn each_operation_of_an_install_fails() {
    let desired = hashed(list([dual(1), shard66(ONLY66)]));
    let request_of = |tenant| Install::new(tenant, &desired.classes, Mode::Hashed);
    let tenant = tenant(NEW);
    let operations = {
        let fake = node(&[]);
        settled(&fake, &desired, &all());
        let routes = fake.routes();
        install(&routes, &request_of(&tenant), PATIENCE).expect("installed");
        routes.operations()
    };
    assert!(operations >= 8, "{operations}");
    for at in 0..operations {
        for how in How::ALL {
            let fake = node(&[]);
            settled(&fake, &desired, &all());
            let routes = fake.routes();
            routes.set_fault(Some(Fault { at, how }));
            let error = install(&routes, &request_of(&tenant), PATIENCE).expect_err("told");
            let written = targets(&fake);
            if matches!(how, How::Fails | How::DoneButFails) {
                // After the last write all are there.
                let checked = error.to_string().contains("look again");
                assert_eq!(written.len(), if checked { 2 } else { 0 }, "{at}: {error}");
            } else {
                // Nobody is left to undo it; but nothing leaks.
                let default = key(NEW, Class::Nat66);
                let has_default = fake.world(|world| world.routes.contains_key(&default));
                assert!(
                    !has_default || written.len() == 2,
                    "{at} {how:?}: {written:?}"
                );
            }
            drop(routes);
            // Nobody holds the barrier, and another attempt ends it.
            install(&fake.routes(), &request_of(&tenant), PATIENCE).expect("installed");
            fake.put_tenant(100 + NEW, tenant);
            settled(&fake, &desired, &all());
            assert_eq!(
                wrong(&fake, &[NEW], &[Class::Nat66, nat64(NAT64)], true),
                None
            );
        }
    }
}
