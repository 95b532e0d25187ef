// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One round of the control loop, on a node in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel, Fault, How};
use guideway::control::kernel::{KernelError, Operation, Stage};
use guideway::control::machine::Trigger;
use guideway::control::metrics::{LoopCounters, Publication, SourceKind};
use guideway::control::sweep::{sweep, Swept};
use guideway::control::{
    Deadline, Desired, Known, Mode, Policy, Reachability, Repair, Shard, ShardList, Unreached,
};
use guideway::encap::Encap;
use guideway::error::ErrorKind;
use guideway::group::{Class, Classes, Limits, Settings};
use guideway::route::{Block, Key, Route, TableId, Target};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

fn sid(number: u16) -> BaseSid {
    let text = format!("2001:db8:ff09:{number:x}:e000::");
    text.parse().expect("a SID")
}

/// Hashed mode with these shards, of which one is static.
fn desired(shards: &[u16]) -> Desired {
    let shard = |&number: &u16| Shard {
        ipv6: true,
        ..Shard::new(format!("edge/s{number}"), sid(number))
    };
    Desired {
        mode: Mode::Hashed,
        classes: Classes::new([], Limits::default()).expect("NAT66"),
        settings: Settings::default(),
        encap: Encap::standard("2001:db8:ff01:1:e000::".parse().expect("a SID")),
        shards: Known::Known(ShardList {
            shards: shards.iter().map(shard).collect(),
            faults: Vec::new(),
        }),
        static_sids: vec![sid(0x99)],
        policy: Policy::default(),
        overrides: BTreeMap::new(),
    }
}

/// Every shard is reached but the static one.
fn ways(sids: &BTreeSet<BaseSid>) -> Reachability {
    let mac = |last| format!("02:00:00:00:00:{last:02x}").parse().expect("a MAC");
    let hop = NextHop::new(7, mac(1), mac(2), Mtu::UNCHECKED).expect("a way");
    let way = |&of: &BaseSid| match of == sid(0x99) {
        true => (of, Err(Unreached::NoRoute)),
        false => (of, Ok(hop)),
    };
    Reachability(sids.iter().map(way).collect())
}

fn round(
    kernel: &mut FakeKernel,
    desired: &Desired,
) -> Result<Swept, guideway::control::kernel::Failure> {
    let deadline = Deadline::at(Duration::MAX);
    sweep(kernel, desired, &mut |sids, _| Ok(ways(sids)), &deadline)
}

fn counters(desired: &Desired) -> LoopCounters {
    let interval = Duration::from_secs(30);
    LoopCounters::new(desired.mode, &desired.classes, SourceKind::Dir, interval)
}

fn publications(counters: &LoopCounters) -> [u64; 3] {
    [Publication::Ok, Publication::Unchanged, Publication::Failed]
        .map(|result| counters.publications.of(result))
}

#[test]
fn a_round_asks_for_every_way_and_does_what_follows() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    round(&mut kernel, &desired(&[1, 2])).expect("a round");
    // A member that is not listed any more is asked for, too.
    let swept = round(&mut kernel, &desired(&[2, 3])).expect("a round");
    assert_eq!(swept.asked, [1, 2, 3, 0x99].map(sid).into());
    assert!(swept.is_complete());
    let members = fake.world(|world| {
        let group = world.groups.values().next().expect("a group");
        group
            .members
            .iter()
            .map(|member| member.sid)
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(members, [2, 3].map(sid).into());
    let after = swept.after.expect("readable");
    assert_eq!(after.groups.len(), 1);
    assert_eq!(after.encap, Some(desired(&[]).encap));
}

#[test]
fn what_came_of_it_is_counted() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    let wanted = desired(&[1, 2]);
    let mut counted = counters(&wanted);
    counted.classes.clear();
    let tenant = Tenant::new(TableId::new(42), Argument::new(7).expect("in range"));
    fake.put_tenant(3, tenant);

    let swept = round(&mut kernel, &wanted).expect("a round");
    swept.count(&wanted.classes, &mut counted);
    assert_eq!(publications(&counted), [1, 0, 0]);
    assert_eq!(counted.classes, BTreeMap::from([(Class::Nat66, true)]));
    assert_eq!(counted.group_routes(Class::Nat66), Some(1));

    // Nothing to publish is a result as well.
    let swept = round(&mut kernel, &wanted).expect("a round");
    assert!(swept.plan.is_empty());
    swept.count(&wanted.classes, &mut counted);
    assert_eq!(publications(&counted), [1, 1, 0]);

    // The table has about half of its slots elsewhere with one more of two.
    let wanted = desired(&[1, 2, 3]);
    let swept = round(&mut kernel, &wanted).expect("a round");
    swept.count(&wanted.classes, &mut counted);
    assert_eq!(publications(&counted), [2, 1, 0]);
    let (moved, slots) = counted.moved_slots[&Class::Nat66];
    assert_eq!(slots, 1021);
    assert!((300..420).contains(&moved), "{moved}");
}

#[test]
fn a_class_counts_as_configured_when_each_tenant_has_its_route_and_no_group_is_left_behind() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    let tenant = Tenant::new(TableId::new(42), Argument::new(7).expect("in range"));
    fake.put_tenant(3, tenant);
    let plain = desired(&[1]);
    let mut counted = counters(&plain);
    let nat64 = Class::Nat64("64:ff9b::/96".parse().expect("a prefix"));
    let mut both = desired(&[1]);
    both.classes = Classes::new([nat64.into()], Limits::default()).expect("two classes");
    counted.classes.insert(nat64, false);
    // No room for the route: it is not there for the tenant.
    fake.set_room(1);
    let swept = round(&mut kernel, &both).expect("a round");
    swept.count(&both.classes, &mut counted);
    assert!(!swept.is_complete());
    assert!(!counted.classes[&nat64], "{:?}", swept.applied);
    fake.set_room(10);
    round(&mut kernel, &both)
        .expect("a round")
        .count(&both.classes, &mut counted);
    assert!(counted.classes[&nat64]);
    // On its way out it counts until nothing forwards for it.
    for _ in 0..3 {
        round(&mut kernel, &plain)
            .expect("a round")
            .count(&plain.classes, &mut counted);
    }
    assert_eq!(counted.classes, BTreeMap::from([(Class::Nat66, true)]));
}

#[test]
fn whatever_fails_is_counted_where_it_failed_and_the_next_round_mends_it() {
    let wanted = desired(&[1, 2]);
    let (mut unread, mut unpublished) = (0, 0);
    for at in 0.. {
        let fake = Fake::new(Limits::default());
        let mut kernel = fake.kernel();
        kernel.set_fault(Some(Fault {
            at,
            how: How::Fails,
        }));
        let mut counted = counters(&wanted);
        match round(&mut kernel, &wanted) {
            // What there is could not be read: nothing was done.
            Err(failure) => {
                unread += 1;
                let reading = [Stage::Ownership, Stage::Census];
                assert!(reading.contains(&failure.stage), "{at}: {failure}");
                fake.world(|world| assert!(world.groups.is_empty(), "{at}"));
            }
            Ok(swept) => {
                swept.count(&wanted.classes, &mut counted);
                let [ok, unchanged, failed] = publications(&counted);
                assert_eq!(unchanged, 0);
                assert_eq!(ok == 0, failed > 0, "{at}: {:?}", swept.applied);
                assert!(failed == 0 || swept.failed_stages().contains(&Stage::Apply));
                unpublished += failed;
            }
        }
        let ended = kernel.operations() <= at;
        kernel.set_fault(None);
        let again = round(&mut kernel, &wanted).expect("a round");
        let swept = round(&mut kernel, &wanted).expect("a round");
        let outcomes = |swept: &Swept| -> Vec<String> {
            let steps = swept.applied.steps.iter();
            steps.map(|step| format!("{:?}", step.outcome)).collect()
        };
        let shown = [outcomes(&again), outcomes(&swept)];
        assert!(swept.plan.is_empty(), "{at}: {shown:?}");
        assert!(swept.is_complete(), "{at}: {shown:?}");
        if ended {
            break;
        }
    }
    assert!(unread >= 4 && unpublished >= 1, "{unread} {unpublished}");
}

#[test]
fn without_the_ways_to_shards_nothing_is_done() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    let deadline = Deadline::at(Duration::MAX);
    let mut reach = |_: &_, _| Err(KernelError::new(ErrorKind::Kernel, "no socket"));
    let failure = sweep(&mut kernel, &desired(&[1]), &mut reach, &deadline);
    let failure = failure.expect_err("nobody can be asked");
    assert_eq!(failure.stage, Stage::Resolve);
    assert!(failure.to_string().contains("no socket"), "{failure}");
    fake.world(|world| assert!(world.groups.is_empty()));
}

/// Members that a group has room for here.
const ROOM: u32 = 2;

fn narrow() -> Limits {
    let plain = Limits::default();
    let limits = Limits::new(plain.groups().into(), ROOM, plain.table_size());
    limits.expect("limits")
}

#[test]
fn more_shards_than_a_group_has_room_for_are_an_error_of_the_round() {
    let fake = Fake::new(narrow());
    let mut kernel = fake.kernel();
    let mut counted = counters(&desired(&[1, 2]));
    let swept = round(&mut kernel, &desired(&[1, 2])).expect("a round");
    assert_eq!(swept.errors().count(), 0);
    let wanted = desired(&[1, 2, 3]);
    let swept = round(&mut kernel, &wanted).expect("a round");
    let errors: Vec<_> = swept.errors().collect();
    let text = "nat66: 3 shards, but there is room for 2; the group keeps its members";
    assert_eq!(errors, [(Stage::Apply, text.to_owned())]);
    // What can be done is done, and nothing of it failed.
    assert!(swept.is_complete());
    let failed: Vec<_> = swept.failed_stages().into_iter().collect();
    counted.swept(Trigger::Source, Duration::ZERO, &failed, Duration::ZERO);
    assert_eq!(counted.sweep_errors.of(Stage::Apply), 1);
    assert_eq!(counted.last_successful_sweep, None);
}

#[test]
fn a_round_that_was_told_other_classes_brings_none_back_and_takes_none_away() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    let nat64 = Class::Nat64("64:ff9b::/96".parse().expect("a prefix"));
    let plain = desired(&[1]);
    let mut both = desired(&[1]);
    both.classes = Classes::new([nat64.into()], Limits::default()).expect("two classes");
    // The class came while the round ran: it does not count yet, and is known.
    let mut counted = counters(&plain);
    counted.classes.insert(nat64, false);
    let swept = round(&mut kernel, &plain).expect("a round");
    swept.count(&both.classes, &mut counted);
    assert_eq!(counted.classes.get(&Class::Nat66), Some(&true));
    assert!(counted.classes.contains_key(&nat64));
    // It went, and no group was ever opened for it.
    both.shards = Known::Unknown;
    let mut counted = counters(&plain);
    let swept = round(&mut kernel, &both).expect("a round");
    swept.count(&plain.classes, &mut counted);
    assert_eq!(counted.classes, BTreeMap::from([(Class::Nat66, true)]));
}

#[test]
fn repairs_are_those_that_were_made() {
    let fake = Fake::new(Limits::default());
    let mut kernel = fake.kernel();
    let tenant = Tenant::new(TableId::new(42), Argument::new(7).expect("in range"));
    fake.put_tenant(3, tenant);
    let wanted = desired(&[1]);
    let mut counted = counters(&wanted);
    let repairs = |counted: &LoopCounters| {
        [Repair::Missing, Repair::OldIncarnation].map(|repair| counted.routes_repaired.of(repair))
    };
    let mut sweep = |fake: &Fake, counted: &mut LoopCounters| {
        let swept = round(&mut kernel, &wanted).expect("a round");
        fake.clear_hook();
        swept.count(&wanted.classes, counted);
        swept
    };
    // It is planned, and there is no room for it.
    fake.set_room(0);
    let swept = sweep(&fake, &mut counted);
    assert!(!swept.is_complete() && !swept.plan.is_empty());
    assert_eq!(repairs(&counted), [0, 0]);
    fake.set_room(10);
    sweep(&fake, &mut counted);
    assert_eq!(repairs(&counted), [1, 0]);

    let key = Key::new(TableId::new(42), Class::Nat66.into());
    let old = |fake: &Fake| {
        let mut route = fake.world(|world| world.routes[&key]);
        let Target::Group { incarnation, .. } = &mut route.target else {
            panic!("{route:?}");
        };
        *incarnation = incarnation.next();
        fake.put_route(key, route);
    };
    // Somebody is faster than the guard.
    old(&fake);
    let other = fake.clone();
    fake.set_hook(move |_, operation| {
        if matches!(operation, Operation::Lock(_)) {
            other.put_route(key, Route::new(Target::Block(Block::Drop)));
        }
    });
    let swept = sweep(&fake, &mut counted);
    assert!(!swept.plan.is_empty());
    assert_eq!(repairs(&counted), [1, 0]);
    fake.remove_route(&key);
    sweep(&fake, &mut counted);
    assert_eq!(repairs(&counted), [2, 0]);
    old(&fake);
    sweep(&fake, &mut counted);
    assert_eq!(repairs(&counted), [2, 1]);
}
