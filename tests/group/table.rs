// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tables: those of the wire agreement, whatever slots shards have here, and what moves in them.

use guideway::group::{Candidate, GroupSpec, Slot, Warning};
use guideway::maglev::Digest;
use proptest::prelude::*;

use crate::reference;
use crate::support::*;

fn owners(group: &Group) -> Vec<Option<String>> {
    let snapshot = group.snapshot();
    let owner = |&slot: &u16| {
        let member = snapshot.member(Slot::new(slot.into())?)?;
        Some(member.sid.to_string())
    };
    snapshot.table.iter().map(owner).collect()
}

/// The golden table of the agreement: shares, whole-table check value and digest.
#[test]
fn golden_three_shards() {
    let mut group = Group::new();
    let plan = group.publish(&shards("12 10 11"));
    let snapshot = group.snapshot();
    let ranks = snapshot.table.iter().map(|&slot| slot as u8);
    // The slots of a first publication are ranks.
    let fnv = ranks.fold(2_166_136_261_u32, |hash, rank| {
        (hash ^ u32::from(rank)).wrapping_mul(16_777_619)
    });
    assert_eq!(fnv, 0x2ab0_96cf);
    assert_eq!(snapshot.digest.to_string(), "966625a83b6df9cd");
    let shares = &plan.disruption().shares;
    let after: Vec<_> = shares.iter().map(|share| share.after).collect();
    assert_eq!(after, [341, 340, 340]);
    assert!(plan.upstream_compatible());
    assert_eq!(plan.disruption().moved, 0, "nothing was there before");
    // The source vector of the agreement: table 42, 2001:db8:aaaa::7.
    let place = snapshot.place(0x0c29_e964).expect("a member");
    assert_eq!(place.sid.to_string(), "2001:db8:ff09:10:e000::");
}

#[test]
fn golden_weighted() {
    for (weights, slots, digest) in [
        ([3, 1, 2], [511, 170, 340], "b6d8fe40151de8dd"),
        ([100, 1, 1], [1001, 10, 10], "c5644856b6c1635d"),
        ([1, 0, 1], [511, 0, 510], "76e8caf23bd7194c"),
    ] {
        let [a, b, c] = weights;
        let mut group = Group::new();
        let candidates = [weighing("10", a), weighing("11", b), weighing("12", c)];
        let plan = group.publish(&spec(&candidates));
        let shares = plan.disruption().shares.iter();
        let after: Vec<_> = shares.map(|share| share.after).collect();
        assert_eq!(after, slots);
        assert_eq!(group.snapshot().digest.to_string(), digest);
        assert!(!plan.upstream_compatible());
    }
}

#[test]
fn golden_moves() {
    let three = shards("10 11 12");
    for (to, moved) in [
        ("11 12", [344, 341, 3]),
        ("10 12", [344, 340, 4]),
        ("10 11", [341, 340, 1]),
        ("10 11 12 13", [262, 255, 7]),
    ] {
        let mut group = Group::new();
        group.publish(&three);
        let plan = group.publish(&shards(to));
        let disruption = plan.disruption();
        let told = [disruption.moved, disruption.forced, disruption.extra];
        assert_eq!(told, moved, "{to}");
        assert_eq!(disruption.table_size, 1021);
        let lost: u32 = disruption.shares.iter().map(|share| share.lost).sum();
        let gained: u32 = disruption.shares.iter().map(|share| share.gained).sum();
        assert_eq!((lost, gained), (disruption.moved, disruption.moved));
        for share in &disruption.shares {
            assert_eq!(share.before + share.gained, share.after + share.lost);
        }
    }
}

#[test]
fn the_same_shards_are_the_same_table_whatever_their_slots() {
    let mut one = Group::new();
    one.publish(&shards("10 11 12"));
    let mut two = Group::new();
    for step in ["9", "9 12 8", "12 8", "12 8 11", "12 11 7", "12 11 10"] {
        two.publish(&shards(step));
    }
    assert_ne!(one.members(), two.members());
    assert_ne!(one.snapshot().table, two.snapshot().table);
    assert_eq!(owners(&one), owners(&two));
    assert_eq!(one.snapshot().digest, two.snapshot().digest);
}

#[test]
fn without_an_active_member_the_table_is_empty() {
    for candidates in [
        vec![],
        vec![draining("10"), unreachable("11")],
        vec![weighing("10", 0)],
        vec![Candidate {
            draining: true,
            ..unreachable("10")
        }],
    ] {
        let mut group = Group::new();
        let plan = group.publish(&spec(&candidates));
        let snapshot = group.snapshot();
        assert!(snapshot.table.iter().all(|&slot| slot == 0xffff));
        assert_eq!(snapshot.table.len(), 1021);
        assert_eq!(snapshot.digest, "8b2bafb95b9d7322".parse().expect("digest"));
        assert_eq!(snapshot.place(7), None);
        assert_eq!(snapshot.state, guideway::group::State::Open);
        assert_eq!(snapshot.members.len(), candidates.len());
        let members = candidates.len();
        assert!(plan.warnings().contains(&Warning::NobodyActive { members }));
    }
}

#[test]
fn only_active_members_are_in_the_table() {
    let mut group = Group::new();
    group.publish(&spec(&[active("10"), draining("11"), unreachable("12")]));
    assert!(group.snapshot().table.iter().all(|&slot| slot == 0));
}

#[test]
fn what_the_upstream_project_would_build() {
    let compatible = |group: &mut Group, spec: &GroupSpec| {
        let plan = group.plan(spec).expect("a plan");
        plan.upstream_compatible()
    };
    let many = |count: u32| -> Vec<_> {
        let nodes = 1..=count;
        nodes.map(|node| active(&format!("{node:x}"))).collect()
    };
    let mut group = Group::new();
    assert!(compatible(&mut group, &spec(&[])));
    assert!(compatible(&mut group, &spec(&many(32))));
    assert!(!compatible(&mut group, &spec(&many(33))));
    // 32 candidates, of which some are not in the table.
    let mut drained = many(33);
    drained[0].draining = true;
    assert!(!compatible(&mut group, &spec(&drained)));
    // Equal weights of any value, also of members without a part.
    let equal = [weighing("10", 7), weighing("11", 7)];
    assert!(compatible(&mut group, &spec(&equal)));
    let drained = Candidate {
        weight: 3,
        ..draining("12")
    };
    let unequal = [equal[0], equal[1], drained];
    assert!(!compatible(&mut group, &spec(&unequal)));
    let zero = [weighing("10", 0), weighing("11", 0)];
    assert!(!compatible(&mut group, &spec(&zero)));
    group.limits = limits(8, 64, 4093);
    assert!(!compatible(&mut group, &shards("10 11")));
}

#[test]
fn small_tables_and_weights_without_slots_are_told() {
    let warned = |group: &Group, spec: &GroupSpec| -> Vec<String> {
        let plan = group.plan(spec).expect("a plan");
        plan.warnings().iter().map(ToString::to_string).collect()
    };
    let group = Group::new();
    let ten: Vec<_> = (0x10..0x1a)
        .map(|node| active(&format!("{node:x}")))
        .collect();
    assert_eq!(warned(&group, &spec(&ten)), [""; 0]);
    let mut eleven = ten.clone();
    eleven.push(active("1a"));
    assert_eq!(
        warned(&group, &spec(&eleven)),
        ["a table of 1021 for 11 active shards has fewer than 100 slots for each, so that equal \
          shares differ by more than 1 %; 4093 would do"]
    );
    // It counts who shares.
    eleven[3].draining = true;
    assert_eq!(warned(&group, &spec(&eleven)), [""; 0]);
    let light = spec(&[weighing("10", 100_000), weighing("11", 1)]);
    assert_eq!(
        warned(&group, &light),
        ["shard 2001:db8:ff09:11:e000:: gets none of 1021 table slots, as its weight is only 1"]
    );
}

/// From a table of one size to one of another nothing stays.
#[test]
fn another_size_moves_all() {
    let mut group = Group::new();
    group.publish(&shards("10 11"));
    group.limits = limits(8, 64, 4093);
    let plan = group.publish(&shards("10 11"));
    assert!(plan.is_changed());
    let disruption = plan.disruption();
    assert_eq!((disruption.moved, disruption.forced), (4093, 4093));
    assert_eq!(group.snapshot().table.len(), 4093);
    assert_eq!(group.members(), rows(&[("10", 0, 1), ("11", 1, 2)]));
}

proptest! {
    /// Every table is that of the transcribed rules, and so is its digest.
    #[test]
    fn tables_are_those_of_the_rules(
        members in prop::collection::btree_map(1_u16..0xdfff, (0_u32..5, 0_u8..4), 0..16),
    ) {
        let candidates: Vec<_> = members
            .iter()
            .map(|(node, &(weight, state))| {
                let node = format!("{node:x}");
                Candidate {
                    weight,
                    ..match state {
                        0 => draining(&node),
                        1 => unreachable(&node),
                        _ => active(&node),
                    }
                }
            })
            .collect();
        let mut group = Group::new();
        group.publish(&spec(&candidates));
        let texts: Vec<_> = candidates
            .iter()
            .filter(|one| one.next_hop.is_some() && !one.draining)
            .map(|one| (one.sid.to_string(), one.weight))
            .collect();
        let keys: Vec<_> = texts.iter().map(|(text, weight)| (text.as_bytes(), *weight)).collect();
        let expected = reference::build(1021, &keys);
        let digest = Digest::from(reference::digest(&expected));
        prop_assert_eq!(group.snapshot().digest, digest);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|owner| owner.map(|key| String::from_utf8(key.to_vec()).expect("text")))
            .collect();
        prop_assert_eq!(owners(&group), expected);
    }
}
