// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which shards are members of which class's group.

use std::collections::BTreeMap;

use guideway::control::{Known, Pool};
use guideway::control::{Problem, Shard, ShardFault, ShardList};
use guideway::group::{Class, MemberState, Nat64Prefix};
use guideway::srv6::BaseSid;

use super::fixture::{classes, dual, hashed, list, nat64, observed, shard66, sid, NAT64, OTHER64};
use super::world::settled;

const WELL_KNOWN: &str = "64:ff9b::/96";

/// What a shard is in a group: an active or draining member, a candidate that cannot be one, or
/// nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Active,
    Draining,
    Ineligible,
    Absent,
}
use Is::{Absent, Active, Draining, Ineligible};

/// The shards of the table: name, what it says, and what it is to NAT66, `NAT64` and the well-known
/// prefix.
fn table() -> Vec<(&'static str, Shard, [Is; 3])> {
    let other = Some(OTHER64.parse().expect("a prefix"));
    vec![
        ("dual", dual(0), [Active, Active, Ineligible]),
        ("NAT66 only", shard66(1), [Active, Ineligible, Ineligible]),
        (
            "NAT64 only",
            Shard {
                ipv6: false,
                ..dual(2)
            },
            [Ineligible, Active, Ineligible],
        ),
        (
            "another prefix",
            Shard {
                nat64_prefix: other,
                ..dual(3)
            },
            [Active, Ineligible, Ineligible],
        ),
        (
            "well-known prefix",
            Shard {
                nat64_prefix: other,
                well_known_prefix: true,
                ..dual(4)
            },
            [Active, Ineligible, Active],
        ),
        (
            "draining",
            Shard {
                drain: true,
                ..dual(5)
            },
            [Draining, Draining, Ineligible],
        ),
        (
            "deleting",
            Shard {
                terminating: true,
                ..dual(6)
            },
            [Absent; 3],
        ),
        (
            "not programmed",
            Shard {
                programmed: false,
                ..dual(7)
            },
            [Absent; 3],
        ),
        (
            "not ready",
            Shard {
                ready: false,
                ..dual(8)
            },
            [Absent; 3],
        ),
        (
            "no SID",
            Shard {
                sid: None,
                ..dual(9)
            },
            [Absent; 3],
        ),
        (
            "prefix without IPv4",
            Shard {
                ipv4: false,
                well_known_prefix: true,
                ..dual(10)
            },
            [Active, Ineligible, Ineligible],
        ),
    ]
}

#[test]
fn shards_are_members_where_they_translate() {
    let table = table();
    let classes = [
        Class::Nat66,
        nat64(NAT64),
        Class::Nat64(Nat64Prefix::WELL_KNOWN),
    ];
    let mut desired = hashed(list(table.iter().map(|(_, shard, _)| shard.clone())));
    desired.classes = self::classes(&[NAT64, WELL_KNOWN]);
    // An object with a bad SID could not be read. It is none of the others' business.
    let fault = ShardFault {
        name: "ns/bad".to_owned(),
        at: None,
        text: "status.shardSID is no SID".to_owned(),
    };
    if let Known::Known(list) = &mut desired.shards {
        list.faults.push(fault.clone());
    }
    let mut world = settled(observed([]), &desired);
    let plan = world.sweep(&desired);
    assert!(plan.problems.contains(&Problem::Shard(fault)));

    for (column, class) in classes.into_iter().enumerate() {
        let group = world.of(class).expect("a group");
        let told = plan.effect.classes.iter().find(|told| told.class == class);
        let told = told.expect("the class");
        let ineligible: BTreeMap<BaseSid, &str> = told
            .ineligible
            .iter()
            .map(|(name, sid)| (*sid, name.as_str()))
            .collect();
        for (row, (name, _, is)) in table.iter().enumerate() {
            let sid = sid(row as u16);
            let found = match group.member_by_sid(sid).map(|member| member.state()) {
                Some(MemberState::Active) => Active,
                Some(MemberState::Draining) => Draining,
                Some(MemberState::Unreachable) => panic!("{name} is reached"),
                None if ineligible.contains_key(&sid) => Ineligible,
                None => Absent,
            };
            assert_eq!(found, is[column], "{name} for {class}");
        }
        let count = table
            .iter()
            .filter(|(_, _, is)| is[column] == Ineligible)
            .count();
        assert_eq!(usize::from(group.ineligible), count, "{class}");
        assert_eq!(told.members.ineligible, count as u64, "{class}");
    }
}

fn pooled(shards: &[Shard]) -> (Vec<(BaseSid, bool)>, Vec<Vec<&str>>) {
    let pool = Pool::of(shards);
    let eligible = pool.eligible(Class::Nat66).collect();
    (
        eligible,
        pool.disagreements().map(|(_, names)| names).collect(),
    )
}

#[test]
fn objects_of_one_sid_are_one_shard() {
    let twin = Shard {
        name: "ns/twin".to_owned(),
        ..shard66(0)
    };
    let drains = Shard {
        drain: true,
        ..twin.clone()
    };
    assert_eq!(
        pooled(&[shard66(0), twin.clone()]),
        (vec![(sid(0), false)], vec![])
    );
    // In this they may differ.
    assert_eq!(
        pooled(&[shard66(0), drains]),
        (vec![(sid(0), true)], vec![])
    );
}

#[test]
fn objects_that_differ_drain_their_shard_and_are_told() {
    let twin = Shard {
        name: "ns/twin".to_owned(),
        ..shard66(0)
    };
    let ways = [
        Shard {
            ipv6: false,
            ..twin.clone()
        },
        Shard {
            ipv4: true,
            ..twin.clone()
        },
        Shard {
            nat64_prefix: NAT64.parse().ok(),
            ..twin.clone()
        },
        Shard {
            well_known_prefix: true,
            ..twin.clone()
        },
        Shard {
            ready: false,
            ..twin.clone()
        },
        Shard {
            programmed: false,
            ..twin.clone()
        },
        Shard {
            terminating: true,
            ..twin
        },
    ];
    for other in ways {
        let names = vec![vec!["ns/shard-0", "ns/twin"]];
        let shards = [shard66(0), other];
        assert_eq!(pooled(&shards), (vec![(sid(0), true)], names), "{shards:?}");
    }
    // What an object says that is no candidate makes nobody eligible.
    let able = Shard {
        ipv6: false,
        ..shard66(0)
    };
    let unable = Shard {
        ready: false,
        ..shard66(0)
    };
    let shards = [able, unable];
    assert_eq!(pooled(&shards).0, vec![]);

    let differ = list([
        shard66(0),
        Shard {
            ipv4: true,
            ..shard66(0)
        },
    ]);
    let plan = guideway::control::reconcile(&observed([]), &hashed(differ));
    let kinds: Vec<_> = plan.problems.iter().map(Problem::kind).collect();
    assert!(kinds.contains(&"shards-disagree"), "{kinds:?}");
}

#[test]
fn more_shards_than_there_is_room_for_leave_the_members_that_there_are() {
    let some = hashed(list((0..8).map(dual)));
    let mut world = settled(observed([]), &some);
    let before = world.of(Class::Nat66).expect("a group").members.clone();

    let mut many = (0..10).map(dual).collect::<Vec<_>>();
    many[0].drain = true;
    let mut desired = hashed(list(many.clone()));
    world
        .0
        .reach
        .0
        .insert(sid(1), Err(guideway::control::Unreached::NoRoute));
    let plan = world.sweep(&desired);
    let problem = Problem::TooManyCandidates {
        class: Class::Nat66,
        candidates: 10,
        members: 8,
    };
    assert!(plan.problems.contains(&problem), "{:?}", plan.problems);
    assert!(problem.to_string().contains("10 shards") && problem.to_string().contains("for 8"));
    let after = &world.of(Class::Nat66).expect("a group").members;
    let tenures = |members: &[guideway::group::Member]| {
        let tenures = members
            .iter()
            .map(|member| (member.sid, member.slot, member.generation));
        tenures.collect::<Vec<_>>()
    };
    assert_eq!(tenures(after), tenures(&before));
    assert_eq!(after[0].state(), MemberState::Draining);
    assert_eq!(after[1].state(), MemberState::Unreachable);

    // A member that goes makes no room for the others as long as there are too many of them.
    many.remove(2);
    desired.shards = list(many.clone());
    world.sweep(&desired);
    let group = world.of(Class::Nat66).expect("a group");
    assert_eq!(
        (group.members.len(), group.member_by_sid(sid(2))),
        (7, None)
    );
    many.pop();
    desired.shards = list(many);
    world.sweep(&desired);
    assert_eq!(world.of(Class::Nat66).expect("a group").members.len(), 8);
}

#[test]
fn a_group_without_members_gets_the_first_of_too_many() {
    let desired = hashed(list((0..10).map(dual)));
    let mut world = settled(observed([]), &desired);
    assert!(world.sweep(&desired).is_empty());
    let members = &world.of(Class::Nat66).expect("a group").members;
    let mut texts: Vec<_> = (0..10).map(|number| sid(number).to_string()).collect();
    texts.sort();
    let mut found: Vec<_> = members
        .iter()
        .map(|member| member.sid.to_string())
        .collect();
    found.sort();
    assert_eq!(found, texts[..8]);
}

#[test]
fn an_empty_list_is_known_to_be_empty() {
    let desired = hashed(Known::Known(ShardList::default()));
    let world = settled(observed([1]), &desired);
    assert!(world.of(Class::Nat66).expect("a group").members.is_empty());
}
