// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One suite for a node in memory and for the kernel: what either does, the other does as well.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway::control::fake::Fake;
use guideway::control::kernel::{
    Checked, Kernel, Live, LiveRoutes, RouteChange, RouteWriters, Stage, Ticket,
};
use guideway::egress::Changed;
use guideway::egress_spec::RouteTarget;
use guideway::encap::Encap;
use guideway::error::ErrorKind;
use guideway::group::{
    self, Candidate, Change, Class, Context, GroupId, GroupPlan, GroupSpec, Place, Snapshot, State,
};
use guideway::placement::HashGroup;
use guideway::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use guideway::tenant::Tenant;

use crate::fixture::*;
use crate::live;
use crate::netns::isolated;

const PATIENCE: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(40);
const NOWHERE: RouteTarget = RouteTarget::Block(Block::Drop);

/// Programs that keep no barrier.
trait Careless {
    fn put_tenant(&self, ifindex: u32, tenant: &Tenant);
    fn put_row(&self, key: &Key, row: &guideway::abi::Route);
}

impl Careless for Fake {
    fn put_tenant(&self, ifindex: u32, tenant: &Tenant) {
        Fake::put_tenant(self, ifindex, *tenant);
    }

    fn put_row(&self, key: &Key, row: &guideway::abi::Route) {
        Fake::put_row(self, *key, *row);
    }
}

struct Kernelly;

impl Careless for Kernelly {
    fn put_tenant(&self, ifindex: u32, tenant: &Tenant) {
        live::put_tenant(ifindex, tenant);
    }

    fn put_row(&self, key: &Key, row: &guideway::abi::Route) {
        live::put_row(key, row);
    }
}

type Case = fn(&mut dyn Kernel, &dyn RouteWriters, &dyn Careless);

fn on_both(name: &str, case: Case) {
    let fake = Fake::new(limits());
    fake.set_room(live::ROOM);
    case(&mut fake.kernel(), &fake.routes(), &fake);
    isolated(name, move || {
        let mut writer = live::load();
        let egress = live::open();
        case(
            &mut Live::new(&mut writer),
            &LiveRoutes::new(&egress),
            &Kernelly,
        );
    });
}

fn id(number: u32) -> GroupId {
    GroupId::new(number).expect("a group")
}

fn group_of(kernel: &dyn Kernel, group: GroupId) -> Option<Snapshot> {
    let groups = kernel.groups().expect("readable").known;
    groups.into_iter().find(|live| live.group == group)
}

/// Calls `work` with what plans of a group depend on.
fn with_context<T>(
    kernel: &dyn Kernel,
    group: GroupId,
    work: impl FnOnce(Option<&Snapshot>, &Context<'_>) -> T,
) -> T {
    let known = kernel.context(group).expect("readable");
    let context = Context {
        limits: kernel.limits(),
        high_water: known.high_water,
        counters: &known.counters,
        now_ns: kernel.wall_ns(),
        rewrite: false,
    };
    work(group_of(kernel, group).as_ref(), &context)
}

/// The plan that a class's group has these shards.
fn planned(kernel: &dyn Kernel, group: u32, class: Class, shards: &[u16]) -> GroupPlan {
    let place = Place {
        group: id(group),
        class,
        hash_group: HashGroup(u8::try_from(group).expect("small")),
    };
    let candidates = shards
        .iter()
        .map(|number| Candidate::new(sid(*number), hop(*number)));
    let spec = GroupSpec {
        candidates: candidates.collect(),
        ..GroupSpec::default()
    };
    with_context(kernel, id(group), |live, context| {
        group::plan(live, &place, &spec, context).expect("a plan")
    })
}

fn publish(kernel: &mut dyn Kernel, plan: &GroupPlan) {
    let mut results = kernel
        .publish(std::slice::from_ref(plan))
        .expect("possible");
    let published = results.remove(0).expect("published");
    assert_eq!(published.change, plan.change());
    assert_eq!(published.publication, plan.snapshot().publication);
    let live = group_of(kernel, plan.group()).expect("published");
    assert_eq!(&live, plan.snapshot());
}

fn open(kernel: &mut dyn Kernel, group: u32, class: Class, shards: &[u16]) {
    let plan = planned(kernel, group, class, shards);
    publish(kernel, &plan);
}

fn close(kernel: &mut dyn Kernel, group: u32) {
    let plan = with_context(kernel, id(group), |live, context| {
        group::close(live.expect("published"), context).expect("open")
    });
    publish(kernel, &plan);
}

fn disable(kernel: &mut dyn Kernel, group: u32) {
    let mut guard = kernel.exclusive(PATIENCE).expect("free");
    guard.disable(&[id(group)]).remove(0).expect("disabled");
}

fn senseless_row(origin: u16, group: Option<u32>) -> guideway::abi::Route {
    guideway::abi::Route {
        // A route to a group without an Argument, or a kind that there is not.
        kind: if group.is_some() { 3 } else { 77 },
        origin,
        group_id: group.unwrap_or(0),
        ..Default::default()
    }
}

fn routes_of(kernel: &dyn Kernel) -> BTreeMap<Key, Route> {
    kernel.routes().expect("readable").by_key
}

#[test]
fn the_configuration_is_published_once() {
    on_both("control_apply::encap", |kernel, _, _| {
        assert_eq!(kernel.encap().expect("readable"), None);
        assert!(kernel.set_encap(&encap()).expect("published"));
        assert!(!kernel.set_encap(&encap()).expect("unchanged"));
        assert_eq!(kernel.encap().expect("readable"), Some(encap()));
        let other = Encap::compat("2001:db8:ff09:2::".parse().expect("a SID"));
        assert!(kernel.set_encap(&other).expect("published"));
        assert_eq!(kernel.encap().expect("readable"), Some(other));
    });
}

#[test]
fn groups_are_published_as_they_were_planned() {
    on_both("control_apply::publish", |kernel, _, _| {
        assert_eq!(kernel.limits(), limits());
        let none = kernel.context(id(0)).expect("readable");
        assert_eq!(none.high_water.next(), None);
        assert!(kernel.groups().expect("readable").known.is_empty());
        let first = planned(kernel, 0, Class::Nat66, &[1, 2]);
        assert_eq!(first.change(), Change::Open);
        publish(kernel, &first);
        let known = kernel.context(id(0)).expect("readable");
        assert_eq!(known.high_water.next(), Some(first.next_generation()));

        // The same again is nothing.
        let again = planned(kernel, 0, Class::Nat66, &[2, 1]);
        assert_eq!(again.change(), Change::Unchanged);
        let result = kernel.publish(&[again]).expect("possible").remove(0);
        assert_eq!(result.expect("nothing to do").change, Change::Unchanged);
        assert_eq!(group_of(kernel, id(0)).as_ref(), Some(first.snapshot()));

        // Of two plans made at one time the second is too late.
        let one = planned(kernel, 0, Class::Nat66, &[1, 2, 3]);
        let other = planned(kernel, 0, Class::Nat66, &[1, 2, 4]);
        publish(kernel, &one);
        let result = kernel.publish(&[other]).expect("possible").remove(0);
        let error = result.expect_err("stale");
        assert_eq!(error.kind(), ErrorKind::StalePlan, "{error}");
        assert!(error.is_race());
        assert_eq!(group_of(kernel, id(0)).as_ref(), Some(one.snapshot()));
    });
}

#[test]
fn one_group_may_fail_where_others_succeed() {
    on_both("control_apply::batch", |kernel, _, _| {
        open(kernel, 0, Class::Nat66, &[1]);
        let second = planned(kernel, 1, Class::Nat66, &[1]);
        let other = planned(kernel, 2, nat64(NAT64), &[1]);
        let mut results = kernel.publish(&[second, other.clone()]).expect("possible");
        results.remove(1).expect("published");
        let error = results.remove(0).expect_err("group 0 is the class's");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(group_of(kernel, id(1)), None);
        assert_eq!(group_of(kernel, id(2)).as_ref(), Some(other.snapshot()));

        // What contradicts itself is not begun.
        let twice = planned(kernel, 3, nat64(OTHER64), &[1]);
        let error = kernel.publish(&[twice.clone(), twice]).expect_err("twice");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let error = kernel.context(id(9)).expect_err("no such group");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let place = Place {
            group: id(9),
            class: nat64(OTHER64),
            hash_group: HashGroup(9),
        };
        let context = Context {
            limits: kernel.limits(),
            ..Context::default()
        };
        let beyond = group::plan(None, &place, &GroupSpec::default(), &context);
        let beyond = beyond.expect("a plan");
        let error = kernel.publish(&[beyond]).expect_err("no such group");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(kernel.groups().expect("readable").known.len(), 2);
    });
}

#[test]
fn a_group_is_disabled_with_a_proof_alone() {
    on_both("control_apply::disable", |kernel, writers, careless| {
        let (nat66, other) = (Class::Nat66, nat64(NAT64));
        open(kernel, 0, nat66, &[1]);
        open(kernel, 1, other, &[1]);
        let fault = |kernel: &mut dyn Kernel, group: u32| {
            let mut guard = kernel.exclusive(PATIENCE).expect("free");
            let failure = guard.disable(&[id(group)]).remove(0).expect_err("no proof");
            assert_eq!(failure.stage, Stage::Retire, "{failure}");
            assert_eq!(failure.kind(), ErrorKind::Conflict, "{failure}");
            failure.cause.to_string()
        };
        let text = "group 0 is open, only a closing one can be disabled";
        assert_eq!(fault(kernel, 0), text);
        let text = "group 3 is absent, only a closing one can be disabled";
        assert_eq!(fault(kernel, 3), text);
        // Not by a publication either.
        let mut shared = writers.shared(PATIENCE).expect("free");
        let to = BTreeMap::from([(Prefix::from(nat66), RouteTarget::Class(nat66))]);
        shared.install(&tenant(1), &to).expect("open");
        drop(shared);
        close(kernel, 0);
        let plan = with_context(kernel, id(0), |live, context| {
            group::disable(live.expect("published"), context).expect("closing")
        });
        let error = kernel.publish(&[plan]).expect_err("no proof");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");

        let named =
            "group 0 is named by 1 routes, 0 of them of other writers, the first is ::/0 of \
                     table 1";
        assert_eq!(fault(kernel, 0), named);
        let key = key(1, nat66);
        careless.put_row(&key, &senseless_row(7, Some(0)));
        let named =
            "group 0 is named by 1 routes, 1 of them of other writers, the first is ::/0 of \
                     table 1";
        assert_eq!(fault(kernel, 0), named);

        // Of two groups one is named.
        close(kernel, 1);
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let mut results = guard.disable(&[id(0), id(1)]);
        let published = results.remove(1).expect("nothing names it");
        assert_eq!(published.change, Change::Disable);
        results.remove(0).expect_err("named still");
        let report = guard.change(&[RouteChange::Mend { key }]);
        assert_eq!(report.done, [Changed::Done]);
        guard.disable(&[id(0)]).remove(0).expect("named no more");
        drop(guard);
        let text = "group 0 is disabled, only a closing one can be disabled";
        assert_eq!(fault(kernel, 0), text);
        let states: Vec<_> = kernel.groups().expect("readable").known;
        assert!(states.iter().all(|live| live.state == State::Disabled));
        // Numbers go on from there.
        let incarnation = states[0].incarnation;
        let next = states[0].next_slot_generation;
        open(kernel, 0, nat66, &[5]);
        let live = group_of(kernel, id(0)).expect("published");
        assert_eq!(live.incarnation, incarnation.next());
        assert_eq!(live.members[0].generation, next);
    });
}

#[test]
fn routes_change_only_if_they_are_what_they_were() {
    on_both("control_apply::change", |kernel, _, careless| {
        let (nat66, other) = (Class::Nat66, nat64(NAT64));
        careless.put_tenant(101, &tenant(1));
        careless.put_tenant(
            102,
            &Tenant {
                enabled: false,
                ..tenant(2)
            },
        );
        open(kernel, 0, nat66, &[1]);
        let shard = RouteTarget::Shard {
            sid: sid(4),
            next_hop: hop(4),
        };
        let insert = |table, class, to| RouteChange::Insert {
            key: key(table, class),
            to,
        };
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let to_group = RouteTarget::Class(nat66);
        let report = guard.change(&[
            insert(1, nat66, to_group),
            insert(1, nat66, shard),
            insert(1, other, shard),
            insert(2, nat66, shard),
            insert(3, nat66, shard),
        ]);
        use Changed::{Done, Orphaned, Other};
        assert_eq!(report.done, [Done, Other, Done, Orphaned, Orphaned]);
        assert!(report.failed.is_none());
        drop(guard);
        let routes = routes_of(kernel);
        let live = group_of(kernel, id(0)).expect("published");
        let scope = guideway::placement::Scope {
            table: tenant(1).hash_table,
            group: live.hash_group,
        };
        let prefix = Prefix::from(nat66);
        let grouped = Target::group(argument(1), id(0), live.incarnation, scope, prefix);
        let expected = BTreeMap::from([
            (key(1, nat66), Route::new(grouped)),
            (key(1, other), to_shard(1, 4)),
        ]);
        assert_eq!(routes, expected);

        // Origin and Argument stay when it leads elsewhere, also of a tenant that nobody knows.
        let theirs = Route {
            origin: Origin(5),
            ..to_shard(9, 4)
        };
        careless.put_row(&key(9, nat66), &theirs.to_row());
        let exchange = |key, before, to| RouteChange::Exchange { key, before, to };
        let next = RouteTarget::Shard {
            sid: sid(6),
            next_hop: hop(6),
        };
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let report = guard.change(&[
            exchange(key(1, nat66), to_shard(1, 4), next),
            exchange(key(1, other), to_shard(1, 4), next),
            exchange(key(9, nat66), theirs, next),
            exchange(key(9, nat66), theirs, next),
            exchange(key(8, nat66), theirs, next),
            RouteChange::Remove {
                key: key(1, nat66),
                before: to_shard(1, 4),
            },
        ]);
        assert_eq!(report.done, [Other, Done, Done, Other, Other, Other]);
        drop(guard);
        let routes = routes_of(kernel);
        let moved = Route {
            origin: Origin(5),
            ..to_shard(9, 6)
        };
        assert_eq!(routes[&key(9, nat66)], moved);
        assert_eq!(routes[&key(1, other)], to_shard(1, 6));

        // To a group only of a tenant that is known, and which is open.
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let to_other = RouteTarget::Class(other);
        let report = guard.change(&[
            exchange(key(9, nat66), moved, to_group),
            RouteChange::Remove {
                key: key(1, other),
                before: to_shard(1, 6),
            },
            exchange(key(1, nat66), Route::new(grouped), to_other),
            insert(1, other, NOWHERE),
        ]);
        assert_eq!(report.done, [Orphaned, Done]);
        let error = report.failed.expect("no group");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        drop(guard);
        assert!(!routes_of(kernel).contains_key(&key(1, other)));
        close(kernel, 0);
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let report = guard.change(&[insert(1, other, to_group)]);
        let error = report.failed.expect("closing");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    });
}

#[test]
fn rows_without_sense_are_seen_and_written_over() {
    on_both("control_apply::senseless", |kernel, _, careless| {
        let (nat66, other) = (Class::Nat66, nat64(NAT64));
        careless.put_tenant(101, &tenant(1));
        careless.put_row(&key(1, nat66), &senseless_row(0, None));
        careless.put_row(&key(1, other), &senseless_row(3, Some(2)));
        let routes = kernel.routes().expect("readable");
        assert!(routes.by_key.is_empty() && routes.unreadable.is_empty());
        let found = &routes.senseless[&key(1, nat66)];
        assert_eq!((found.origin, found.group), (Origin(0), None));
        let found = &routes.senseless[&key(1, other)];
        assert_eq!((found.origin, found.group), (Origin(3), Some(id(2))));
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let report = guard.change(&[
            RouteChange::Mend { key: key(1, other) },
            RouteChange::Insert {
                key: key(1, nat66),
                to: RouteTarget::Pass,
            },
            // There is none, or one that makes sense.
            RouteChange::Mend { key: key(1, nat66) },
            RouteChange::Mend { key: key(2, nat66) },
        ]);
        use Changed::{Done, Other};
        assert_eq!(report.done, [Done, Done, Other, Other]);
        drop(guard);
        let expected = BTreeMap::from([
            (key(1, nat66), Route::new(Target::Pass)),
            (key(1, other), Route::new(Target::Block(Block::Drop))),
        ]);
        assert_eq!(routes_of(kernel), expected);
        assert!(kernel.routes().expect("readable").senseless.is_empty());
    });
}

#[test]
fn there_is_no_more_room_than_there_is() {
    on_both("control_apply::room", |kernel, writers, careless| {
        careless.put_tenant(101, &tenant(1));
        let key = |number: usize| {
            let prefix = format!("2001:db8:{number:x}::/48")
                .parse()
                .expect("a prefix");
            Key::new(TableId::new(1), prefix)
        };
        let changes: Vec<_> = (0..=live::ROOM)
            .map(|number| RouteChange::Insert {
                key: key(number),
                to: NOWHERE,
            })
            .collect();
        let mut guard = kernel.exclusive(PATIENCE).expect("free");
        let report = guard.change(&changes);
        assert_eq!(report.done.len(), live::ROOM);
        let error = report.failed.expect("full");
        assert_eq!(error.to_string(), "there is no room for more than 8 routes");
        let before = Route::new(Target::Block(Block::Drop));
        let key = key(0);
        let report = guard.change(&[RouteChange::Remove { key, before }]);
        assert_eq!(report.done, [Changed::Done]);
        drop(guard);
        // Of two routes one fits: none is written.
        let mut shared = writers.shared(PATIENCE).expect("free");
        let classes = [Class::Nat66, nat64(NAT64)];
        let routes = classes.map(|class| (Prefix::from(class), NOWHERE));
        let error = shared.install(&tenant(1), &routes.into());
        let error = error.expect_err("full");
        assert_eq!(error.to_string(), "there is no room for more than 8 routes");
        drop(shared);
        assert_eq!(routes_of(kernel).len(), live::ROOM - 1);
    });
}

#[test]
fn those_who_write_and_who_retires_keep_apart() {
    on_both("control_apply::barrier", |kernel, writers, _| {
        let one = writers.shared(PATIENCE).expect("free");
        let two = writers.shared(PATIENCE).expect("beside another");
        let error = kernel.exclusive(SHORT).err().expect("two hold it");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop(one);
        let error = kernel.exclusive(SHORT).err().expect("one holds it");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop(two);
        let guard = kernel.exclusive(PATIENCE).expect("free");
        assert!(guard.waited() < PATIENCE);
        let error = writers.shared(SHORT).err().expect("held alone");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop(guard);
        drop(writers.shared(PATIENCE).expect("free"));
    });
}

#[test]
fn who_writes_is_told_what_takes_routes_and_what_came_of_them() {
    on_both("control_apply::shared", |kernel, writers, careless| {
        let (nat66, other) = (Class::Nat66, nat64(NAT64));
        careless.put_tenant(101, &tenant(1));
        let ticket = |class| writers.shared(PATIENCE).expect("free").ticket(class);
        assert_eq!(ticket(nat66).expect("readable"), Ticket::Absent);
        open(kernel, 0, nat66, &[1]);
        let live = group_of(kernel, id(0)).expect("published");
        let expected = Ticket::Open {
            group: id(0),
            incarnation: live.incarnation,
        };
        assert_eq!(ticket(nat66).expect("readable"), expected);

        let to_group = RouteTarget::Class(nat66);
        let both =
            |to| BTreeMap::from([(Prefix::from(nat66), to_group), (Prefix::from(other), to)]);
        let mut guard = writers.shared(PATIENCE).expect("free");
        assert_eq!(guard.group(id(0)).expect("readable").as_ref(), Some(&live));
        assert_eq!(guard.group(id(1)).expect("readable"), None);
        // All or none: the other class has no group.
        let error = guard.install(&tenant(1), &both(RouteTarget::Class(other)));
        assert_eq!(error.expect_err("no group").kind(), ErrorKind::NotFound);
        assert!(routes_of(kernel).is_empty());
        let contrary = Tenant {
            argument: argument(2),
            ..tenant(1)
        };
        let error = guard
            .install(&contrary, &both(NOWHERE))
            .expect_err("contrary");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(routes_of(kernel).is_empty());
        guard.install(&tenant(1), &both(NOWHERE)).expect("room");
        assert_eq!(guard.check().expect("readable"), Checked::Sound);
        assert_eq!(routes_of(kernel).len(), 2);

        // Another program changes one, and puts it back.
        let mine = routes_of(kernel)[&key(1, other)];
        careless.put_row(&key(1, other), &to_shard(1, 4).to_row());
        let changed = Checked::Changed { key: key(1, other) };
        assert_eq!(guard.check().expect("readable"), changed);
        careless.put_row(&key(1, other), &mine.to_row());
        assert_eq!(guard.check().expect("readable"), Checked::Sound);

        // The group closes, but is not disabled as long as the guard is held.
        close(kernel, 0);
        let closed = Checked::Closed {
            group: id(0),
            state: State::Closing,
        };
        assert_eq!(guard.check().expect("readable"), closed);
        assert_eq!(guard.ticket(nat66).expect("readable"), Ticket::Closing);
        guard
            .install(
                &tenant(1),
                &BTreeMap::from([(Prefix::from(nat66), NOWHERE)]),
            )
            .expect("room");
        assert_eq!(guard.check().expect("readable"), Checked::Sound);
        drop(guard);
        disable(kernel, 0);
        assert_eq!(ticket(nat66).expect("readable"), Ticket::Disabled);

        let theirs = Route {
            origin: Origin(2),
            target: Target::Pass,
        };
        careless.put_row(&key(1, other), &theirs.to_row());
        let guard = writers.shared(PATIENCE).expect("free");
        let prefixes = [Prefix::from(nat66), Prefix::from(other)];
        let foreign = guard.foreign(TableId::new(1), &prefixes);
        assert_eq!(foreign.expect("readable"), [Prefix::from(other)]);
    });
}
