// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Each operation of each transition fails, fails although it was done, or is the last of its
//! process. Packets are looked at before every operation.

use std::sync::{Arc, Mutex};

use guideway::control::fake::{Fake, Fault, How};
use guideway::control::{Desired, Reachability};
use guideway::group::{Class, Classes, Limits};
use guideway::maglev::TableSize;
use guideway::route::{Key, Origin, Prefix, Route, TableId, Target};

use crate::fixture::*;
use crate::node::*;

const TABLES: [u32; 2] = [1, 2];

/// A transition.
struct Scenario {
    limits: Limits,
    /// Where it comes from, with everything reached.
    from: Desired,
    /// What a program without the barrier does to it then.
    spoil: fn(&Fake),
    to: Desired,
    reach: Reachability,
    /// What is wanted after that; mostly the same.
    finally: Desired,
    /// The one step of it; none: several, or nobody cares.
    only: Option<&'static str>,
    /// Classes whose packets are looked at all the time, and whether none of them may be dropped.
    watched: Vec<(Class, bool)>,
}

impl Scenario {
    fn new(from: Desired, to: Desired) -> Self {
        Self {
            limits: limits(),
            from,
            spoil: |_| {},
            finally: to.clone(),
            to,
            reach: all(),
            only: None,
            watched: vec![(Class::Nat66, true), (nat64(NAT64), true)],
        }
    }

    fn node(&self) -> Fake {
        let fake = node_of(self.limits, &TABLES);
        settled(&fake, &self.from, &all());
        (self.spoil)(&fake);
        fake
    }

    fn wrong(&self, fake: &Fake) -> Option<String> {
        let mut watched = self.watched.iter();
        watched.find_map(|(class, strict)| wrong(fake, &TABLES, &[*class], *strict))
    }

    /// How many operations a round without faults has, and what it ends in.
    fn undisturbed(&self) -> (u64, Vec<String>) {
        let fake = self.node();
        let mut kernel = fake.kernel();
        let (plan, applied) = round(&mut kernel, &self.to, &self.reach).expect("readable");
        assert!(!plan.is_empty() && applied.is_complete(), "{applied:#?}");
        if let Some(step) = self.only {
            assert_eq!(names(&plan), [step]);
        }
        let operations = kernel.operations();
        converge(&mut kernel, &self.finally, &self.reach);
        (operations, summary(&fake))
    }

    /// One run with a fault.
    fn disturbed(&self, fault: Fault, expected: &[String]) {
        let fake = self.node();
        let seen = Arc::new(Mutex::new(None));
        let mut kernel = fake.kernel();
        kernel.set_fault(Some(fault));
        let (watch, found) = (fake.clone(), seen.clone());
        let watched = self.watched.clone();
        fake.set_hook(move |_, operation| {
            let mut watched = watched.iter();
            let wrong =
                watched.find_map(|(class, strict)| wrong(&watch, &TABLES, &[*class], *strict));
            if let Some(wrong) = wrong {
                let mut found = found.lock().expect("whole");
                found.get_or_insert(format!("before {operation}: {wrong}"));
            }
        });
        let done = round(&mut kernel, &self.to, &self.reach);
        let told = match &done {
            Err(failure) => Some(failure),
            Ok((_, applied)) => applied.failures().next(),
        };
        let failure = told.unwrap_or_else(|| panic!("{fault:?} is not told: {done:#?}"));
        assert!(!failure.object.is_empty(), "{failure}");
        if let Ok((plan, applied)) = &done {
            for (step, planned) in applied.steps.iter().zip(&plan.steps) {
                if let guideway::control::Outcome::Skipped { after } = &step.outcome {
                    assert!(planned.after.contains(after));
                }
            }
        }
        let middle = seen.lock().expect("whole").take();
        assert_eq!(middle, None, "{fault:?}");
        assert_eq!(self.wrong(&fake), None, "after {fault:?}: {failure}");
        assert_eq!(holds(&fake, &self.to).dead, 0, "{fault:?}");

        if kernel.is_killed() {
            kernel = restarted(&fake, kernel);
        }
        converge(&mut kernel, &self.finally, &self.reach);
        let middle = seen.lock().expect("whole").take();
        assert_eq!(middle, None, "on the way back from {fault:?}");
        fake.clear_hook();
        assert_eq!(self.wrong(&fake), None, "at the end, {fault:?}");
        assert!(holds(&fake, &self.finally).hold(), "{fault:?}");
        assert_eq!(summary(&fake), expected, "{fault:?}");
    }

    fn run(&self) {
        let (operations, expected) = self.undisturbed();
        assert!(operations > 8, "{operations}");
        for at in 0..operations {
            for how in How::ALL {
                self.disturbed(Fault { at, how }, &expected);
            }
        }
    }
}

fn mixed() -> Desired {
    hashed(list([dual(1), dual(2), shard66(ONLY66)]))
}

fn single() -> Desired {
    Desired {
        classes: classes(&[]),
        ..mixed()
    }
}

fn to_static() -> Desired {
    ordered(&[STATIC])
}

#[test]
fn publications() {
    let more = hashed(list([dual(1), dual(2), dual(4), shard66(ONLY66)]));
    Scenario::new(mixed(), more).run();
}

/// A shard is lost, and another one drains.
#[test]
fn members_leave() {
    let mut drained = dual(2);
    drained.drain = true;
    let rest = hashed(list([dual(1), drained, shard66(ONLY66)]));
    let reach = reach((0..16).map(|number| (number, number != 1)));
    Scenario {
        reach,
        watched: vec![(Class::Nat66, false), (nat64(NAT64), false)],
        ..Scenario::new(mixed(), rest)
    }
    .run();
}

/// A shard is lost before anybody has listed shards: the others take its share.
#[test]
fn a_member_is_lost_while_no_list_is_known() {
    Scenario {
        reach: reach((0..16).map(|number| (number, number != 1))),
        only: Some("publish-liveness"),
        ..Scenario::new(mixed(), unlisted(mixed()))
    }
    .run();
}

#[test]
fn packets_are_encapsulated_otherwise() {
    let otherwise = Desired {
        encap: other_encap(),
        ..mixed()
    };
    Scenario {
        only: Some("publish-config"),
        ..Scenario::new(mixed(), otherwise)
    }
    .run();
}

#[test]
fn from_ordered_to_hashed() {
    let known = Desired {
        static_sids: vec![sid(STATIC)],
        ..mixed()
    };
    Scenario::new(to_static(), known).run();
}

#[test]
fn from_hashed_to_ordered() {
    Scenario::new(mixed(), to_static()).run();
}

/// The mode flips back before the loop has recovered.
#[test]
fn from_hashed_to_ordered_and_back() {
    let back = Desired {
        static_sids: vec![sid(STATIC)],
        ..mixed()
    };
    Scenario {
        finally: back,
        ..Scenario::new(mixed(), to_static())
    }
    .run();
}

#[test]
fn the_first_groups_of_tenants_without_routes() {
    let nothing = ordered(&[]);
    Scenario {
        // Blocked until there is a group.
        watched: vec![(Class::Nat66, false), (nat64(NAT64), false)],
        ..Scenario::new(nothing, mixed())
    }
    .run();
}

#[test]
fn a_class_is_added() {
    Scenario {
        watched: vec![(Class::Nat66, true)],
        ..Scenario::new(single(), mixed())
    }
    .run();
}

/// What goes to its prefix is NAT66's from the moment that the route is gone.
#[test]
fn a_class_is_removed() {
    Scenario {
        watched: vec![(Class::Nat66, true)],
        ..Scenario::new(mixed(), single())
    }
    .run();
}

/// There are two groups, so the new class waits for the old one's.
#[test]
fn a_class_is_replaced_where_no_group_is_free() {
    let limits = Limits::new(2, 8, TableSize::new(61).expect("a prime")).expect("limits");
    let of = |prefix: &str| Desired {
        classes: Classes::new([nat64(prefix).into()], limits).expect("classes"),
        ..hashed(list([dual(1), dual(2)]))
    };
    Scenario {
        limits,
        watched: vec![(Class::Nat66, true)],
        ..Scenario::new(of(NAT64), of(OTHER64))
    }
    .run();
}

#[test]
fn what_others_spoiled_is_repaired() {
    let spoil = |fake: &Fake| {
        let groups = fake.world(|world| world.groups.clone());
        let of = |class| groups.values().find(|group| group.class == class);
        let nat66 = of(Class::Nat66).expect("a group");
        // One route is missing, one leads to another class's group, one makes no sense.
        fake.remove_route(&key(1, nat64(NAT64)));
        let wrong = Route::new(Target::group(
            argument(2),
            nat66.group,
            nat66.incarnation,
            guideway::placement::Scope {
                table: tenant(2).hash_table,
                group: nat66.hash_group,
            },
            Prefix::from(nat64(NAT64)),
        ));
        fake.put_route(key(2, nat64(NAT64)), wrong);
        let row = guideway::abi::Route {
            kind: 77,
            ..Default::default()
        };
        fake.put_row(key(2, Class::Nat66), row);
        let other = Key::new(
            TableId::new(2),
            "2001:db8:77::/48".parse().expect("a prefix"),
        );
        let foreign = Route {
            origin: Origin(9),
            target: Target::Pass,
        };
        fake.put_route(other, foreign);
    };
    Scenario {
        spoil,
        watched: Vec::new(),
        ..Scenario::new(mixed(), mixed())
    }
    .run();
}

/// A group of which a member's row is damaged is published anew, and where that fails, the next time.
#[test]
fn what_is_damaged_is_published_anew() {
    let spoil = |fake: &Fake| {
        let groups = fake.world(|world| world.groups.clone());
        let group = groups.values().find(|group| group.class == Class::Nat66);
        let mut rest = group.expect("a group").clone();
        rest.members.remove(0);
        rest.table.fill(0xffff);
        fake.damage(rest.group, Some(rest));
    };
    Scenario {
        spoil,
        // Whose table was damaged.
        watched: vec![(Class::Nat66, false), (nat64(NAT64), true)],
        ..Scenario::new(mixed(), mixed())
    }
    .run();
}

/// Groups are closed and retired by one class at a time: where one fails the other goes on.
#[test]
fn what_does_not_depend_on_a_failure_is_done() {
    let from = mixed();
    let (operations, _) = Scenario::new(from.clone(), to_static()).undisturbed();
    let mut one_of_two = 0;
    for at in 0..operations {
        let scenario = Scenario::new(from.clone(), to_static());
        let fake = scenario.node();
        let mut kernel = fake.kernel();
        let how = How::Fails;
        kernel.set_fault(Some(Fault { at, how }));
        if let Ok((_, applied)) = round(&mut kernel, &scenario.to, &scenario.reach) {
            one_of_two += usize::from(applied.disabled.len() == 1);
        }
    }
    assert!(one_of_two >= 4, "{one_of_two}");
}

/// Without the mark that each operation is looked at this suite would show nothing.
#[test]
fn a_wrong_packet_is_seen() {
    let fake = node(&TABLES);
    settled(&fake, &mixed(), &all());
    let classes = [Class::Nat66, nat64(NAT64)];
    assert_eq!(wrong(&fake, &TABLES, &classes, true), None);
    fake.remove_route(&key(2, nat64(NAT64)));
    // NAT66 has a member that cannot translate it: some source finds it.
    let told = wrong(&fake, &TABLES, &classes, true).expect("a leak");
    assert!(told.starts_with("table 2, nat64"), "{told}");
}
