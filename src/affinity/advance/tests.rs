// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::affinity::slots::MarkCount;
use crate::affinity::Mark;

const SECOND: u64 = 1_000_000_000;
/// Of a flow that may be silent for two minutes.
const WINDOW: u64 = 122 * SECOND;

/// A publication of an ordinary service, 1000 s after boot.
fn to<'a>(owners: &'a [u16], removed: &'a BTreeSet<u16>) -> SlotChange<'a> {
    SlotChange {
        owners,
        removed,
        now_ns: 1000 * SECOND,
        returned_ns: None,
        window_ns: WINDOW,
        refused_ns: None,
        differing: None,
        before: Tracking::Exceptions,
        after: Tracking::Exceptions,
    }
}

fn none() -> &'static BTreeSet<u16> {
    const { &BTreeSet::new() }
}

/// One slot of this owner and kind; an open one since 1000 s after boot.
fn slot(owner: u16, kind: SlotKind) -> Slots {
    let mark = |open| Mark { slot: 0, open };
    let (openings, marks) = match kind {
        SlotKind::Plain => (vec![], vec![]),
        SlotKind::Held => (vec![], vec![mark(None)]),
        SlotKind::Open { base } => (vec![Some(1000 * SECOND)], vec![mark(Some((base, 0)))]),
    };
    Slots::with_marks(&[owner], openings, marks).expect("sound")
}

/// Owner, kind and opening of the only slot.
fn only(slots: &Slots) -> (u16, SlotKind, Option<OpenedNs>) {
    let word = slots.words()[0];
    (word.owner, kind(&word), slots.opened(0))
}

use SlotKind::{Held, Open, Plain};

#[test]
fn a_change_of_owner_opens_a_slot_with_the_owner_before_as_its_base() {
    for before in [Plain, Held] {
        let slots = advance(&slot(3, before), &to(&[5], none()));
        assert_eq!(
            only(&slots),
            (5, Open { base: 3 }, Some(None)),
            "{before:?}"
        );
        // Also to nobody.
        let slots = advance(&slot(3, before), &to(&[NONE], none()));
        assert_eq!(
            only(&slots),
            (NONE, Open { base: 3 }, Some(None)),
            "{before:?}"
        );
    }
}

#[test]
fn nothing_opens_where_no_live_flow_depends_on_the_owner_before() {
    let gone = BTreeSet::from([3]);
    for before in [Plain, Held] {
        let slots = advance(&slot(NONE, before), &to(&[5], none()));
        assert_eq!(only(&slots), (5, before, None), "from nobody, {before:?}");
        let slots = advance(&slot(3, before), &to(&[5], &gone));
        assert_eq!(only(&slots), (5, before, None), "removed, {before:?}");
        // The row of the one that is gone goes to somebody else at once.
        let slots = advance(&slot(3, before), &to(&[3], &gone));
        assert_eq!(only(&slots), (3, before, None), "row reused, {before:?}");
    }
}

#[test]
fn a_second_change_moves_neither_base_nor_time() {
    let mut change = to(&[7], none());
    change.now_ns += 100 * SECOND;
    let slots = advance(&slot(5, Open { base: 3 }), &change);
    let (owner, kind, opened) = only(&slots);
    assert_eq!((owner, kind), (7, Open { base: 3 }));
    let opened = opened.flatten().expect("a time");
    // Rounded up by at most a 64th of the window.
    assert!(
        (0..=WINDOW / 64).contains(&(opened - 1000 * SECOND)),
        "{opened}"
    );
}

#[test]
fn a_slot_that_returns_to_its_base_is_held_at_once() {
    let slots = advance(&slot(5, Open { base: 3 }), &to(&[3], none()));
    assert_eq!(only(&slots), (3, Held, None));
}

#[test]
fn a_slot_whose_base_is_removed_is_held_whoever_gets_the_row() {
    let gone = BTreeSet::from([3]);
    for owner in [5, 7, 3] {
        let slots = advance(&slot(5, Open { base: 3 }), &to(&[owner], &gone));
        assert_eq!(only(&slots), (owner, Held, None));
    }
    // Another one that goes is not the base.
    let gone = BTreeSet::from([5]);
    let slots = advance(&slot(5, Open { base: 3 }), &to(&[7], &gone));
    assert_eq!(only(&slots).1, Open { base: 3 });
}

#[test]
fn a_window_closes_when_its_time_has_passed_and_not_before() {
    let open = slot(5, Open { base: 3 });
    let grid = WINDOW / 64;
    // The first publication settles the time, rounded up.
    let settled = (1000 * SECOND).div_ceil(grid) * grid;
    let mut change = to(&[5], none());
    change.now_ns = settled + WINDOW - 1;
    assert_eq!(only(&advance(&open, &change)).1, Open { base: 3 });
    change.now_ns += 1;
    assert_eq!(only(&advance(&open, &change)), (5, Held, None));
    // Also when the owner changes at that moment.
    change.owners = &[7];
    assert_eq!(only(&advance(&open, &change)), (7, Held, None));
}

#[test]
fn a_refused_insert_keeps_a_window_open_for_another() {
    let open = slot(5, Open { base: 3 });
    let mut change = to(&[5], none());
    change.now_ns = 5000 * SECOND;
    change.refused_ns = Some(change.now_ns - WINDOW + 1);
    assert_eq!(only(&advance(&open, &change)).1, Open { base: 3 });
    change.refused_ns = Some(change.now_ns - WINDOW);
    assert_eq!(only(&advance(&open, &change)), (5, Held, None));
    // A refusal does not make up for time.
    change.now_ns = 1001 * SECOND;
    change.refused_ns = Some(0);
    assert_eq!(only(&advance(&open, &change)).1, Open { base: 3 });
}

#[test]
fn the_time_of_an_opening_is_when_its_publication_returned() {
    let pending = advance(&slot(3, Plain), &to(&[5], none()));
    let grid = WINDOW / 64;
    let mut change = to(&[5], none());
    change.now_ns = 1090 * SECOND;
    change.returned_ns = Some(1002 * SECOND);
    let opened = only(&advance(&pending, &change))
        .2
        .flatten()
        .expect("a time");
    assert!(
        opened >= 1002 * SECOND && opened < 1002 * SECOND + grid,
        "{opened}"
    );
    // Where nobody knows, it begins when it is asked for.
    change.returned_ns = None;
    let opened = only(&advance(&pending, &change))
        .2
        .flatten()
        .expect("a time");
    assert!(
        opened >= 1090 * SECOND && opened < 1090 * SECOND + grid,
        "{opened}"
    );
}

#[test]
fn a_held_slot_is_plain_when_a_sweep_found_no_entry_that_differs() {
    let held = slot(5, Held);
    let (clean, found) = (SlotSet::default(), SlotSet::from_iter([0]));
    let mut change = to(&[5], none());
    assert_eq!(only(&advance(&held, &change)), (5, Held, None), "no sweep");
    change.differing = Some(&found);
    assert_eq!(only(&advance(&held, &change)), (5, Held, None));
    change.differing = Some(&clean);
    assert_eq!(only(&advance(&held, &change)), (5, Plain, None));
    // What the sweep compared with is not the owner any more.
    change.owners = &[7];
    assert_eq!(
        only(&advance(&held, &change)),
        (7, Open { base: 5 }, Some(None))
    );
    // It says nothing of open slots, and a slot that closes was open while it ran.
    change.owners = &[5];
    let open = slot(5, Open { base: 3 });
    assert_eq!(only(&advance(&open, &change)).1, Open { base: 3 });
    change.now_ns = 9000 * SECOND;
    assert_eq!(only(&advance(&open, &change)), (5, Held, None));
}

#[test]
fn from_tracking_all_to_exceptions_every_slot_is_held() {
    let clean = SlotSet::default();
    let mut change = to(&[0, 1, 7], none());
    change.before = Tracking::All;
    change.differing = Some(&clean);
    let slots = advance(&Slots::plain(&[0, 1, 2]), &change);
    let kinds: Vec<_> = slots.words().iter().map(kind).collect();
    // A flow that was silent since every flow is tracked has no entry yet.
    assert_eq!(kinds, [Held, Held, Open { base: 2 }]);
}

#[test]
fn where_every_flow_is_tracked_no_slot_is_marked() {
    for before in [Tracking::All, Tracking::Exceptions] {
        let mut change = to(&[5], none());
        (change.before, change.after) = (before, Tracking::All);
        for kind in [Plain, Held, Open { base: 3 }] {
            assert_eq!(only(&advance(&slot(4, kind), &change)), (5, Plain, None));
        }
    }
}

#[test]
fn a_table_of_another_size_is_held_throughout() {
    let owners = [0, 1, 0];
    let slots = advance(&slot(0, Open { base: 1 }), &to(&owners, none()));
    assert_eq!(slots.count(), MarkCount { open: 0, held: 3 });
    let owners: Vec<_> = slots.words().iter().map(|word| word.owner).collect();
    assert_eq!(owners, [0, 1, 0]);
    assert!(slots.openings().is_empty());
}

#[test]
fn what_contradicts_itself_is_not_read() {
    let mark = |slot, open| Mark { slot, open };
    let owners = [0, 1];
    let read = |openings, marks: Vec<Mark>| Slots::with_marks(&owners, openings, marks);
    read(vec![Some(5)], vec![mark(0, Some((1, 0))), mark(1, None)]).expect("sound");
    for (openings, marks) in [
        (vec![], vec![mark(2, None)]),
        (vec![], vec![mark(1, None), mark(0, None)]),
        (vec![], vec![mark(1, None), mark(1, None)]),
        (vec![], vec![mark(0, Some((1, 0)))]),
        (vec![Some(5)], vec![mark(0, Some((0, 0)))]),
        (vec![Some(5)], vec![mark(0, Some((0xfffe, 0)))]),
        (vec![Some(5)], vec![mark(0, Some((1, 1)))]),
        (vec![Some(5)], vec![mark(0, None)]),
        (vec![Some(5), None], vec![mark(0, Some((1, 0)))]),
    ] {
        read(openings.clone(), marks.clone()).expect_err(&format!("{openings:?} {marks:?}"));
    }
}

/// One publication of a random history.
#[derive(Debug, Clone)]
struct Event {
    owners: Vec<u16>,
    removed: BTreeSet<u16>,
    elapsed_ns: u64,
    returned: bool,
    refused_before: Option<u64>,
    differing: Option<Vec<u32>>,
}

const SLOTS: usize = 12;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let owner = prop_oneof![9 => 0_u16..4, 1 => Just(NONE)];
    let removed = prop_oneof![
        3 => Just(BTreeSet::new()),
        1 => (0_u16..4).prop_map(|row| BTreeSet::from([row])),
    ];
    let event = (
        vec(owner, SLOTS),
        removed,
        0..WINDOW,
        any::<bool>(),
        proptest::option::weighted(0.2, 0..2 * WINDOW),
        proptest::option::weighted(0.3, vec(0..SLOTS as u32, 0..SLOTS)),
    );
    let event = event.prop_map(
        |(owners, removed, elapsed_ns, returned, refused_before, differing)| Event {
            owners,
            removed,
            elapsed_ns,
            returned,
            refused_before,
            differing,
        },
    );
    vec(event, 1..40)
}

proptest! {
    /// Against what was told of each slot's history, kept apart from the code under test.
    #[test]
    fn no_window_is_shorter_than_it_must_be(first in vec(0_u16..4, SLOTS), events in events()) {
        let mut slots = Slots::plain(&first);
        let mut now = 1_000_000 * SECOND;
        // Of each slot: when the publication that opened it had returned, if it is open.
        let mut opened: [Option<u64>; SLOTS] = [None; SLOTS];
        let mut last_refusal: Option<u64> = None;
        let mut returned = now;
        for event in events {
            now = returned + event.elapsed_ns;
            if let Some(ago) = event.refused_before {
                last_refusal = last_refusal.max(Some(now.saturating_sub(ago)));
            }
            let differing = event.differing.map(SlotSet::from_iter);
            let change = SlotChange {
                owners: &event.owners,
                removed: &event.removed,
                now_ns: now,
                returned_ns: event.returned.then_some(returned),
                window_ns: WINDOW,
                refused_ns: last_refusal,
                differing: differing.as_ref(),
                before: Tracking::Exceptions,
                after: Tracking::Exceptions,
            };
            let next = advance(&slots, &change);
            let over = |since: u64| now - since.min(now) >= WINDOW;
            returned = now + 20_000_000;
            for (index, opened) in opened.iter_mut().enumerate() {
                let (old, new) = (slots.words()[index], next.words()[index]);
                let (before, after) = (kind(&old), kind(&new));
                prop_assert_eq!(new.owner, event.owners[index]);
                if let Open { base } = after {
                    prop_assert!(base != new.owner, "an open slot has two owners");
                    prop_assert!(!event.removed.contains(&base), "the base is still there");
                }
                match (before, after) {
                    (Open { base }, Held) => {
                        let gone = event.removed.contains(&base);
                        let since = opened.expect("it was opened");
                        let closed = over(since) && last_refusal.is_none_or(over);
                        prop_assert!(gone || base == new.owner || closed, "closed too early");
                    }
                    (Open { base: old }, Open { base: new }) => prop_assert_eq!(old, new),
                    (Open { .. }, Plain) => prop_assert!(false, "forgets its flows"),
                    (_, Open { base }) => prop_assert_eq!(base, old.owner),
                    (Held, Plain) => prop_assert!(differing.as_ref().is_some_and(|found| !found.contains(index as u32))),
                    _ => {}
                }
                match (before, after) {
                    (Open { .. }, Open { .. }) => {
                        let time = next.opened(index as u32).flatten().expect("it is settled");
                        prop_assert!(time >= opened.expect("it was opened"), "moved earlier");
                        if let Some(earlier) = slots.opened(index as u32).flatten() {
                            prop_assert!(time >= earlier, "moved earlier than it said");
                        }
                    }
                    (_, Open { .. }) => *opened = Some(returned),
                    _ => *opened = None,
                }
            }
            // What is kept gives the same slots again.
            let owners: Vec<_> = next.words().iter().map(|word| word.owner).collect();
            let kept = Slots::with_marks(&owners, next.openings().to_vec(), next.marks());
            let kept = kept.expect("sound");
            prop_assert!(kept.has_words_of(&next));
            for slot in 0..SLOTS as u32 {
                prop_assert_eq!(kept.opened(slot), next.opened(slot));
            }
            slots = next;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// However long windows stay open, few times are told apart, and none moves earlier.
    #[test]
    fn few_openings_are_kept_while_refusals_go_on(steps in vec(1..WINDOW / 8, 600)) {
        let slots_count = 600;
        let mut owners = vec![0_u16; slots_count];
        let mut slots = Slots::plain(&owners);
        let mut now = SECOND;
        let mut opened = Vec::new();
        for (index, step) in steps.into_iter().enumerate() {
            owners[index] = 1;
            let mut change = to(&owners, none());
            change.now_ns = now;
            change.returned_ns = opened.last().copied();
            change.refused_ns = Some(now);
            slots = advance(&slots, &change);
            opened.push(now + 1);
            now += step;
            prop_assert!(slots.openings().len() <= OPENINGS);
            prop_assert_eq!(slots.count().open as usize, index + 1);
        }
        for (slot, &since) in (0..).zip(&opened).take(slots_count - 1) {
            prop_assert!(slots.opened(slot).flatten().is_some_and(|time| time >= since));
        }
    }
}
