// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Steps that are not begun, and steps that somebody was faster than.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use guideway::control::kernel::{Kernel, Look, RouteWriters, Stage};
use guideway::control::{apply, Applied, Deadline, Outcome, Plan};
use guideway::error::ErrorKind;
use guideway::group::Class;
use guideway::route::{Block, Route, Target};

use crate::fixture::*;
use crate::node::*;

fn soon(kernel: &dyn Kernel) -> Deadline<'static> {
    Deadline::at(kernel.now() + Duration::from_secs(60)).patient(Duration::from_secs(1))
}

fn done(plan: &Plan, kernel: &mut dyn Kernel) -> Applied {
    let deadline = soon(kernel);
    apply(plan, kernel, &deadline)
}

#[test]
fn nothing_is_begun_after_the_deadline_or_once_it_shall_stop() {
    let fake = node(&[1]);
    let desired = hashed(list([dual(1)]));
    let mut kernel = fake.kernel();
    let plan = plan(&kernel, &desired, &all()).expect("readable");
    let before = summary(&fake);
    let late = Deadline::at(kernel.now());
    let stop = AtomicBool::new(true);
    let stopped = soon(&kernel).unless(&stop);
    for deadline in [late, stopped] {
        let applied = apply(&plan, &mut kernel, &deadline);
        assert_eq!(applied.steps.len(), plan.steps.len());
        let mut steps = applied.steps.iter();
        assert!(
            steps.all(|step| matches!(step.outcome, Outcome::Late | Outcome::Skipped { .. })),
            "{applied:#?}"
        );
        assert_eq!(summary(&fake), before);
    }
    stop.store(false, std::sync::atomic::Ordering::Relaxed);
    let applied = apply(&plan, &mut kernel, &stopped);
    assert!(applied.is_complete(), "{applied:#?}");
}

/// Who writes routes makes the loop wait once, not once for each step.
#[test]
fn a_barrier_that_is_not_free_is_waited_for_once() {
    let fake = node(&[1, 2]);
    settled(&fake, &hashed(list([dual(1), dual(2)])), &all());
    let mut kernel = fake.kernel();
    let desired = ordered(&[STATIC]);
    let plan = plan(&kernel, &desired, &all()).expect("readable");
    let writer = fake.routes();
    let guard = writer.shared(Duration::from_secs(1)).expect("free");
    let (started, before) = (kernel.now(), summary(&fake));
    let applied = done(&plan, &mut kernel);
    let took = kernel.now() - started;
    assert!(took <= Duration::from_millis(1500), "{took:?}");
    // Of several steps that need it: those behind the first do not wait, and count for nothing.
    let waiting = |step: &guideway::control::StepReport| matches!(&step.outcome, Outcome::Failed(failure) if failure.kind() == ErrorKind::Locked);
    let waiting = applied.steps.iter().filter(|step| waiting(step)).count();
    assert!(waiting >= 2, "{applied:#?}");
    assert_eq!((applied.timeouts, applied.waits.len()), (1, 1));
    let failure = applied.failures().next().expect("a failure");
    assert_eq!(failure.kind(), ErrorKind::Locked, "{failure}");
    assert_eq!(
        applied.kind(),
        Some(ErrorKind::Partial),
        "groups close all the same"
    );
    assert!(applied.disabled.is_empty());
    // All that happened is that groups close: they forward.
    let open = before
        .iter()
        .map(|line| line.replace(" open ", " closing "));
    assert_eq!(summary(&fake), open.collect::<Vec<_>>());
    assert_eq!(
        wrong(&fake, &[1, 2], &[Class::Nat66, nat64(NAT64)], true),
        None
    );
    drop(guard);
    converge(&mut kernel, &desired, &all());
    assert_eq!(
        holds(&fake, &desired).group_routes.get(&Class::Nat66),
        Some(&0)
    );
}

/// Routes that are not what they were stay, and the others move.
#[test]
fn a_route_that_changed_meanwhile_is_left_alone() {
    let fake = node(&[1, 2]);
    let known = guideway::control::Desired {
        static_sids: vec![sid(STATIC)],
        ..hashed(list([dual(1)]))
    };
    settled(&fake, &ordered(&[STATIC]), &all());
    let mut kernel = fake.kernel();
    let plan = plan(&kernel, &known, &all()).expect("readable");
    let blocked = Route::new(Target::Block(Block::Unreachable));
    fake.put_route(key(1, Class::Nat66), blocked);
    fake.remove_route(&key(2, nat64(NAT64)));
    let applied = done(&plan, &mut kernel);
    assert!(applied.is_complete(), "{applied:#?}");
    assert_eq!((applied.routes.moved, applied.routes.raced), (2, 2));
    fake.world(|world| {
        assert_eq!(world.routes[&key(1, Class::Nat66)], blocked);
        assert!(
            !world.routes.contains_key(&key(2, nat64(NAT64))),
            "not brought back"
        );
        assert!(world.routes[&key(2, Class::Nat66)].group().is_some());
    });
}

/// What a tenant lacked was written by somebody else.
#[test]
fn routes_that_are_there_by_now_are_not_written_over() {
    let fake = node(&[1, 2]);
    let desired = hashed(list([dual(1)]));
    let mut kernel = fake.kernel();
    let plan = plan(&kernel, &desired, &all()).expect("readable");
    let blocked = Route::new(Target::Block(Block::Unreachable));
    fake.put_route(key(1, Class::Nat66), blocked);
    fake.remove_tenant(102);
    let applied = done(&plan, &mut kernel);
    let raced = applied
        .steps
        .iter()
        .filter(|step| matches!(step.outcome, Outcome::Raced(_)));
    assert_eq!(raced.count(), 2, "{applied:#?}");
    assert_eq!(applied.failures().count(), 0);
    fake.world(|world| {
        let routes: Vec<_> = world.routes.iter().collect();
        assert_eq!(routes, [(&key(1, Class::Nat66), &blocked)], "all or none");
    });
}

#[test]
fn a_group_that_was_published_meanwhile_is_not_published_over() {
    let fake = node(&[1]);
    settled(&fake, &hashed(list([dual(1)])), &all());
    let mut kernel = fake.kernel();
    let desired = hashed(list([dual(1), dual(2)]));
    let old = plan(&kernel, &desired, &all()).expect("readable");
    settled(&fake, &hashed(list([dual(1), dual(4)])), &all());
    let before = summary(&fake);
    let applied = done(&old, &mut kernel);
    assert!(
        matches!(applied.steps[0].outcome, Outcome::Raced(_)),
        "{applied:#?}"
    );
    assert_eq!(summary(&fake), before);
    converge(&mut kernel, &desired, &all());
}

/// A tenant gets all of its routes or none, and the others get theirs.
#[test]
fn a_full_table_leaves_no_half_set_of_routes() {
    let fake = node(&[1, 2]);
    fake.set_room(3);
    let desired = hashed(list([dual(1)]));
    let mut kernel = fake.kernel();
    let (_, applied) = round(&mut kernel, &desired, &all()).expect("readable");
    let failures: Vec<_> = applied.failures().collect();
    assert_eq!(failures.len(), 1, "{applied:#?}");
    assert_eq!(failures[0].stage, Stage::Refresh);
    let text = failures[0].to_string();
    assert!(text.contains("no room for more than 3 routes"), "{text}");
    let tables = fake.world(|world| {
        let tables = world.routes.keys().map(|key| key.table.get());
        tables.collect::<Vec<_>>()
    });
    assert_eq!(tables, [1, 1]);
    fake.set_room(4);
    converge(&mut kernel, &desired, &all());
}

/// A class whose group cannot be opened gets a block, so that no other class serves it.
#[test]
fn a_class_without_its_group_is_blocked() {
    let fake = node(&[1]);
    let desired = hashed(list([dual(1), shard66(ONLY66)]));
    let mut kernel = fake.kernel();
    let mut plan = plan(&kernel, &desired, &all()).expect("readable");
    for planned in &mut plan.steps {
        if let guideway::control::Step::PublishGroups(plans) = &mut planned.step {
            plans.retain(|plan| plan.class() == Class::Nat66);
        }
    }
    done(&plan, &mut kernel);
    let route = fake.world(|world| world.routes[&key(1, nat64(NAT64))]);
    assert_eq!(route.target, Target::Block(Block::Drop));
    converge(&mut kernel, &desired, &all());
    assert_eq!(
        wrong(&fake, &[1], &[Class::Nat66, nat64(NAT64)], true),
        None
    );
}

/// At no time does the default route of a tenant catch what is to have a route of its own.
#[test]
fn the_default_route_is_written_last() {
    let fake = node(&[1, 2]);
    let looks = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (watched, noted) = (fake.clone(), looks.clone());
    fake.set_hook(move |_, _| {
        let has = |class| watched.world(|world| world.routes.contains_key(&key(1, class)));
        let look = (has(Class::Nat66), has(nat64(NAT64)));
        noted.lock().expect("whole").push(look);
    });
    settled(&fake, &hashed(list([dual(1)])), &all());
    let mut looks = looks.lock().expect("whole").clone();
    looks.dedup();
    assert_eq!(looks, [(false, false), (false, true), (true, true)]);
}
