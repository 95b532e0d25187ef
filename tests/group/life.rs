// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The life of a group: absent, open, closing, disabled, and open again.

use guideway::group::{
    close, disable, track, Change, HashMode, Incarnation, PinIdle, Settings, State, Warning,
};
use guideway::placement::HashGroup;

use crate::support::*;

fn incarnation(group: &Group) -> u32 {
    group.snapshot().incarnation.get()
}

#[test]
fn every_way_through_the_states() {
    let mut group = Group::new();
    let plan = group.publish(&shards("10"));
    assert_eq!(plan.change(), Change::Open);
    assert_eq!(
        (group.snapshot().state, incarnation(&group)),
        (State::Open, 1)
    );

    assert_eq!(group.publish(&shards("10 11")).change(), Change::Update);
    assert_eq!(group.publish(&shards("10 11")).change(), Change::Unchanged);
    assert_eq!(group.close().change(), Change::Close);
    assert_eq!(
        (group.snapshot().state, incarnation(&group)),
        (State::Closing, 1)
    );

    // Open again before it was disabled: the same tenure, so routes are still good.
    let members = group.members();
    assert_eq!(group.publish(&shards("10 11")).change(), Change::Reopen);
    assert_eq!(
        (group.snapshot().state, incarnation(&group)),
        (State::Open, 1)
    );
    assert_eq!(group.members(), members);

    group.close();
    assert_eq!(group.disable().change(), Change::Disable);
    assert_eq!(
        (group.snapshot().state, incarnation(&group)),
        (State::Disabled, 1)
    );
    assert_eq!(group.disable().change(), Change::Unchanged);

    assert_eq!(group.publish(&shards("10 11")).change(), Change::Open);
    assert_eq!(
        (group.snapshot().state, incarnation(&group)),
        (State::Open, 2)
    );
    assert_eq!(group.members(), rows(&[("10", 0, 3), ("11", 1, 4)]));
    assert_eq!(group.snapshot().publication.get(), 7);
}

#[test]
fn a_disabled_group_keeps_numbers_and_nothing_else() {
    let mut group = Group::new();
    let mut wanted = shards("10 11");
    wanted.settings = Settings {
        hash_mode: HashMode::Flow,
        pin_idle: PinIdle::from_secs(60).expect("in range"),
        reject: true,
        ecn_normal: true,
    };
    wanted.ineligible = 3;
    group.place.hash_group = HashGroup(5);
    group.publish(&wanted);
    let open = group.snapshot().clone();
    group.close();
    group.disable();
    let disabled = group.snapshot();
    assert!(!disabled.forwards());
    assert!(disabled.members.is_empty());
    assert!(disabled.table.iter().all(|&slot| slot == 0xffff));
    assert_eq!(disabled.table.len(), open.table.len());
    assert_eq!(disabled.ineligible, 0);
    assert_eq!(
        disabled.settings,
        Settings {
            hash_mode: HashMode::Source,
            pin_idle: PinIdle::OFF,
            reject: false,
            ecn_normal: false,
        }
    );
    assert_eq!(disabled.class, open.class);
    assert_eq!(disabled.hash_group, HashGroup(5));
    assert_eq!(disabled.incarnation, open.incarnation);
    assert_eq!(disabled.next_slot_generation, open.next_slot_generation);
}

#[test]
fn closing_changes_one_thing() {
    let mut group = Group::new();
    let mut wanted = spec(&[active("10"), draining("11"), unreachable("12")]);
    wanted.settings.hash_mode = HashMode::Flow;
    wanted.ineligible = 70_000;
    group.publish(&wanted);
    let open = group.snapshot().clone();
    assert_eq!(open.ineligible, u16::MAX);
    let plan = group.close();
    let mut closing = group.snapshot().clone();
    assert!(closing.forwards());
    assert_eq!(plan.disruption().moved, 0);
    assert!(!plan.moves_unpinned() && !plan.rewrites_routes());
    closing.state = open.state;
    closing.publication = open.publication;
    assert_eq!(closing, open);
}

#[test]
fn only_an_open_group_can_be_closed_and_only_a_closing_one_disabled() {
    let mut group = Group::new();
    group.publish(&shards("10"));
    let refused = disable(group.snapshot(), &group.context()).expect_err("open");
    assert_eq!(
        refused.to_string(),
        "group 0 (nat66) is open; only a closing group can be disabled"
    );
    group.close();
    let refused = close(group.snapshot(), &group.context()).expect_err("closing");
    assert_eq!(
        refused.to_string(),
        "group 0 (nat66) is closing; only an open group can be closed"
    );
    group.disable();
    let refused = close(group.snapshot(), &group.context()).expect_err("disabled");
    assert_eq!(
        refused.to_string(),
        "group 0 (nat66) is disabled; only an open group can be closed"
    );
    let refused = track(group.snapshot(), |_| None, &group.context()).expect_err("disabled");
    assert_eq!(
        refused.to_string(),
        "group 0 (nat66) is disabled; only an open or closing group has members"
    );
}

/// Reachability moves on in an open and in a closing group; nothing else does.
#[test]
fn tracking_changes_next_hops_and_the_table_alone() {
    for closing in [false, true] {
        let mut group = Group::new();
        group.publish(&spec(&[active("10"), draining("11"), weighing("12", 3)]));
        if closing {
            group.close();
        }
        let before = group.snapshot().clone();
        let reach = |node: &'static str| {
            move |one| match one {
                one if one == sid(node) => None,
                _ => Some(hop(9)),
            }
        };
        let plan = track(&before, reach("12"), &group.context()).expect("a plan");
        assert_eq!(plan.change(), Change::Update);
        let mut after = plan.snapshot().clone();
        assert!(after.table.iter().all(|&slot| slot == 0));
        let hops: Vec<_> = after.members.iter().map(|one| one.next_hop).collect();
        assert_eq!(hops, [Some(hop(9)), Some(hop(9)), None]);
        for (member, was) in after.members.iter_mut().zip(&before.members) {
            member.next_hop = was.next_hop;
        }
        assert_ne!(after.digest, before.digest);
        after.digest = before.digest;
        after.table = before.table.clone();
        after.publication = before.publication;
        assert_eq!(after, before);

        let same = |one| before.member_by_sid(one).and_then(|member| member.next_hop);
        let plan = track(&before, same, &group.context()).expect("a plan");
        assert!(!plan.is_changed());
        assert_eq!(plan.snapshot(), &before);
    }
}

#[test]
fn a_change_of_next_hop_is_a_publication() {
    let mut group = Group::new();
    group.publish(&shards("10"));
    let mut moved = active("10");
    moved.next_hop = Some(hop(2));
    let plan = group.publish(&spec(&[moved]));
    assert!(plan.is_changed());
    assert_eq!(plan.disruption().moved, 0);
    assert_eq!(group.snapshot().members[0].next_hop, Some(hop(2)));
}

/// Another class gets none of the slots, generations, routes or pins of who was there.
#[test]
fn class_change_starts_afresh() {
    let mut group = Group::new();
    group.publish(&shards("10 11 12"));
    let digest = group.snapshot().digest;
    group.close();
    group.disable();
    group.place.class = nat64("64:ff9b::/96");
    group.place.hash_group = HashGroup(1);
    let plan = group.publish(&shards("12 13"));
    assert_eq!(plan.change(), Change::Open);
    let snapshot = group.snapshot();
    assert_eq!(snapshot.class, nat64("64:ff9b::/96"));
    assert_eq!(snapshot.hash_group, HashGroup(1));
    assert_eq!(incarnation(&group), 2);
    assert_eq!(group.members(), rows(&[("12", 0, 4), ("13", 1, 5)]));
    assert_eq!(plan.joined().len(), 2);
    assert_eq!(plan.disruption().moved, 0);
    assert_ne!(snapshot.digest, digest);
}

#[test]
fn incarnations_go_round_without_zero() {
    let mut group = Group::new();
    group.publish(&shards("10"));
    group.close();
    group.disable();
    let last = Incarnation::new(u32::MAX).expect("not 0");
    group.published.as_mut().expect("published").incarnation = last;
    group.publish(&shards("10"));
    assert_eq!(incarnation(&group), 1);
}

#[test]
fn what_places_addresses_anew_is_told() {
    let mut group = Group::new();
    group.publish(&shards("10 11"));
    let plan = group.publish(&shards("10 11 12"));
    assert!(!plan.moves_unpinned() && !plan.rewrites_routes());

    let mut flow = shards("10 11 12");
    flow.settings.hash_mode = HashMode::Flow;
    let plan = group.publish(&flow);
    assert!(plan.moves_unpinned() && !plan.rewrites_routes());
    assert_eq!(plan.disruption().moved, 0);

    // The routes know the number that is hashed. Pins hold: it is the same tenure.
    group.place.hash_group = HashGroup(4);
    let plan = group.publish(&flow);
    assert!(plan.is_changed() && plan.moves_unpinned() && plan.rewrites_routes());
    assert_eq!(incarnation(&group), 1);
    assert_eq!(group.snapshot().hash_group, HashGroup(4));
    assert!(!group.publish(&flow).rewrites_routes());
}

#[test]
fn a_drain_that_keeps_nobody_is_told() {
    let mut group = Group::new();
    let unpinned = |candidates: &[_]| {
        let mut wanted = spec(candidates);
        wanted.settings.pin_idle = PinIdle::OFF;
        wanted
    };
    group.publish(&unpinned(&[active("10"), active("11")]));
    let wanted = unpinned(&[active("10"), draining("11")]);
    let told = Warning::DrainsUnpinned { sid: sid("11") };
    assert_eq!(group.publish(&wanted).warnings(), [told]);
    // It has been told.
    assert_eq!(group.publish(&wanted).warnings(), []);
    let plan = group.publish(&spec(&[draining("10"), active("11")]));
    assert_eq!(plan.warnings(), []);
}
