// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Groups belong to classes by identity: no order, no gap and no restart changes whose they are.

use guideway::group::{
    allocate, close, disable, plan, Class, Classes, ConfiguredClass, Context, GroupId, GroupSpec,
    Limits, Places, Snapshot, State,
};
use guideway::placement::HashGroup;
use proptest::prelude::*;

use crate::support::*;

/// What is published on a node.
struct Node {
    limits: Limits,
    groups: Vec<Snapshot>,
}

impl Node {
    fn new(groups: u32) -> Self {
        Self {
            limits: limits(groups, 8, 13),
            groups: Vec::new(),
        }
    }

    fn context(&self) -> Context<'static> {
        Context {
            limits: self.limits,
            ..Context::default()
        }
    }

    fn put(&mut self, snapshot: Snapshot) {
        self.groups.retain(|one| one.group != snapshot.group);
        // In no particular order.
        self.groups.insert(0, snapshot);
    }

    fn group(&self, group: GroupId) -> Option<&Snapshot> {
        self.groups.iter().find(|one| one.group == group)
    }

    fn places(&self, classes: &Classes) -> Places {
        allocate(classes, &self.groups, |_| 0, self.limits)
    }

    /// Opens what is configured and begins to retire the rest.
    fn configure(&mut self, prefixes: &[&str]) -> Places {
        let places = self.places(&configured(prefixes));
        for place in places.classes.iter().flatten() {
            let spec = GroupSpec::default();
            let plan = plan(self.group(place.group), place, &spec, &self.context());
            self.put(plan.expect("a plan").snapshot().clone());
        }
        for &group in &places.unconfigured {
            let group = self.group(group).expect("it is published");
            if group.state == State::Open {
                let plan = close(group, &self.context()).expect("open");
                self.put(plan.snapshot().clone());
            }
        }
        places
    }

    /// Ends what was begun.
    fn retire(&mut self) {
        let closing = |one: &&Snapshot| one.state == State::Closing;
        let closing: Vec<_> = self.groups.iter().filter(closing).cloned().collect();
        for group in closing {
            let plan = disable(&group, &self.context()).expect("closing");
            self.put(plan.snapshot().clone());
        }
    }

    /// Group, class and hash number of what forwards, by group.
    fn serving(&self) -> Vec<(u8, String, u8)> {
        let mut rows: Vec<_> = self
            .groups
            .iter()
            .filter(|one| one.forwards())
            .map(|one| (one.group.get(), one.class.to_string(), one.hash_group.0))
            .collect();
        rows.sort();
        rows
    }
}

const A: &str = "2001:db8:a::/96";
const B: &str = "2001:db8:b::/96";
const C: &str = "2001:db8:c::/96";

fn configured(prefixes: &[&str]) -> Classes {
    let classes = prefixes.iter().map(|prefix| nat64(prefix).into());
    Classes::new(classes, limits(64, 8, 13)).expect("no contradiction")
}

fn serving(rows: &[(u8, &str, u8)]) -> Vec<(u8, String, u8)> {
    let owned = |&(group, class, hash): &(u8, &str, u8)| match class {
        "nat66" => (group, class.into(), hash),
        prefix => (group, format!("nat64:{prefix}"), hash),
    };
    rows.iter().map(owned).collect()
}

/// A group whose number came from a list would be another class's as soon as the list changes.
#[test]
fn remove_reorder_replace_prefix_keeps_class() {
    let mut node = Node::new(8);
    node.configure(&[A, B]);
    let both = serving(&[(0, "nat66", 0), (1, A, 1), (2, B, 2)]);
    assert_eq!(node.serving(), both);

    // Reordered: nothing changes, not even a publication.
    let before = node.groups.len();
    let publications: Vec<_> = node.groups.iter().map(|one| one.publication).collect();
    node.configure(&[B, A]);
    assert_eq!(node.serving(), both);
    assert_eq!(node.groups.len(), before);
    assert!(node
        .groups
        .iter()
        .all(|one| publications.contains(&one.publication)));
    assert!(node.groups.iter().all(|one| one.publication.get() == 1));

    // Removed: B keeps its group, A's forwards until it is retired, and then waits for A.
    let places = node.configure(&[B]);
    assert_eq!(places.unconfigured, [id(1)]);
    assert_eq!(node.serving(), both);
    let closing = node.group(id(1)).expect("published");
    assert_eq!(closing.state, State::Closing);
    node.retire();
    assert_eq!(node.serving(), serving(&[(0, "nat66", 0), (2, B, 2)]));

    // Replaced: C takes a group that nobody had, and the lowest hash number that nobody has.
    node.configure(&[C, B]);
    let three = serving(&[(0, "nat66", 0), (2, B, 2), (3, C, 1)]);
    assert_eq!(node.serving(), three);

    // A comes back to its own group, in another incarnation; its hash number is C's by now.
    node.configure(&[A, C, B]);
    let four = serving(&[(0, "nat66", 0), (1, A, 3), (2, B, 2), (3, C, 1)]);
    assert_eq!(node.serving(), four);
    let group = |number| node.group(id(number)).expect("published");
    assert_eq!(group(1).incarnation.get(), 2);
    assert_eq!(group(2).incarnation.get(), 1);
}

#[test]
fn a_class_comes_back_to_its_own_group_and_number() {
    let mut node = Node::new(8);
    node.configure(&[A, B]);
    node.configure(&[]);
    node.retire();
    assert_eq!(node.serving(), serving(&[(0, "nat66", 0)]));
    node.configure(&[B]);
    assert_eq!(node.serving(), serving(&[(0, "nat66", 0), (2, B, 2)]));
}

/// Free groups come first, then the lowest disabled one, but never one that a configured class will
/// come back to.
#[test]
fn disabled_groups_are_used_again_when_no_other_is_left() {
    let mut node = Node::new(3);
    node.configure(&[A, B]);
    node.configure(&[B]);
    node.retire();
    let was = node.group(id(1)).expect("published").clone();
    node.configure(&[C, B]);
    let places = serving(&[(0, "nat66", 0), (1, C, 1), (2, B, 2)]);
    assert_eq!(node.serving(), places);
    let group = node.group(id(1)).expect("published");
    assert_eq!(group.incarnation, was.incarnation.next());
    assert_eq!(group.publication, was.publication.next());

    let mut node = Node::new(3);
    node.configure(&[A, B]);
    node.configure(&[]);
    node.retire();
    node.configure(&[C, A]);
    let places = serving(&[(0, "nat66", 0), (1, A, 1), (2, C, 2)]);
    assert_eq!(node.serving(), places);
}

/// While the group of a class that was taken out still forwards, nobody else can have it.
#[test]
fn without_a_free_group_there_is_no_place() {
    let mut node = Node::new(3);
    node.configure(&[A, B]);
    let places = node.places(&configured(&[C, B]));
    let refused: Vec<_> = places
        .classes
        .iter()
        .filter_map(|place| place.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        refused,
        ["no group is left for nat64:2001:db8:c::/96: of 3, configured classes have 2, the rest \
          is not disabled yet"]
    );
    assert!(places.of(nat64(B)).is_some() && places.of(nat64(C)).is_none());
    node.configure(&[C, B]);
    assert_eq!(node.serving().len(), 3);
    node.retire();
    node.configure(&[C, B]);
    let places = serving(&[(0, "nat66", 0), (1, C, 1), (2, B, 2)]);
    assert_eq!(node.serving(), places);
}

#[test]
fn hash_numbers_are_the_lowest_free_ones_or_those_given() {
    let numbers = |node: &Node, list: &[(Class, Option<u8>)]| -> Vec<u8> {
        let classes = list.iter().map(|&(class, hash_group)| ConfiguredClass {
            class,
            hash_group: hash_group.map(HashGroup),
        });
        let classes = Classes::new(classes, node.limits).expect("no contradiction");
        let places = node.places(&classes);
        let places = places.classes.iter().flatten();
        places.map(|place| place.hash_group.0).collect()
    };
    let (a, b, c) = (nat64(A), nat64(B), nat64(C));
    let empty = Node::new(8);
    // Those given are taken, wherever they stand.
    let list = [(Class::Nat66, None), (a, None), (b, Some(1)), (c, None)];
    assert_eq!(numbers(&empty, &list), [0, 2, 1, 3]);
    let list = [(Class::Nat66, Some(2)), (a, None), (b, None), (c, Some(7))];
    assert_eq!(numbers(&empty, &list), [2, 1, 3, 7]);
    // Two that are given may be the same: then two classes place alike.
    let list = [(Class::Nat66, None), (a, Some(0)), (b, Some(0))];
    assert_eq!(numbers(&empty, &list), [0, 0, 0]);

    // One that is on its way out still has its own.
    let mut node = Node::new(8);
    node.configure(&[A, B]);
    node.configure(&[B]);
    let list = [(Class::Nat66, None), (c, None), (b, None)];
    assert_eq!(numbers(&node, &list), [0, 3, 2]);
    node.retire();
    assert_eq!(numbers(&node, &list), [0, 1, 2]);
    // What is given wins over what is published.
    let list = [(Class::Nat66, None), (b, Some(9)), (c, None)];
    assert_eq!(numbers(&node, &list), [0, 9, 1]);
}

#[test]
fn duplicate_class_reported() {
    let mut node = Node::new(8);
    node.configure(&[A]);
    let mut second = node.group(id(1)).expect("published").clone();
    second.group = id(4);
    node.put(second.clone());
    second.group = id(6);
    node.put(second);
    let classes = configured(&[A]);

    // The lowest, if none has more routes.
    let places = node.places(&classes);
    assert_eq!(places.of(nat64(A)).map(|place| place.group), Some(id(1)));
    let [duplicate] = &places.duplicates[..] else {
        panic!("{:?}", places.duplicates);
    };
    assert_eq!((duplicate.class, duplicate.kept), (nat64(A), id(1)));
    assert_eq!(duplicate.others, [id(4), id(6)]);

    let routes = |group: GroupId| match group.get() {
        4 | 6 => 3,
        _ => 2,
    };
    let places = allocate(&classes, &node.groups, routes, node.limits);
    assert_eq!(places.of(nat64(A)).map(|place| place.group), Some(id(4)));
    assert_eq!(places.duplicates[0].others, [id(1), id(6)]);

    // A disabled one claims nothing.
    for group in [1, 6] {
        let mut other = node.group(id(group)).expect("published").clone();
        other.state = State::Disabled;
        node.put(other);
    }
    let places = node.places(&classes);
    assert_eq!(places.of(nat64(A)).map(|place| place.group), Some(id(4)));
    assert!(places.duplicates.is_empty());
}

proptest! {
    /// No group is two classes', whatever was configured before, and who forwards stays where it is.
    #[test]
    fn groups_are_never_shared_and_never_move(
        steps in prop::collection::vec(
            (prop::collection::btree_set(0_u8..8, 0..6), any::<bool>(), any::<usize>()),
            1..12,
        ),
        groups in 2_u32..8,
    ) {
        let mut node = Node::new(groups);
        for (set, retire, turn) in steps {
            let mut texts: Vec<_> = set
                .iter()
                .map(|prefix| format!("2001:db8:{prefix:x}::/96"))
                .collect();
            texts.truncate(groups as usize - 1);
            let places = texts.len().max(1);
            texts.rotate_left(turn % places);
            let prefixes: Vec<_> = texts.iter().map(String::as_str).collect();
            let before: Vec<_> = node.groups.clone();
            node.configure(&prefixes);
            for was in before.iter().filter(|was| was.forwards()) {
                let is = node.group(was.group).expect("published");
                prop_assert_eq!((is.class, is.incarnation), (was.class, was.incarnation));
                prop_assert_eq!(is.hash_group, was.hash_group);
            }
            let serving = node.serving();
            for (at, (_, class, hash)) in serving.iter().enumerate() {
                let rest = &serving[at + 1..];
                prop_assert!(rest.iter().all(|(_, other, number)| other != class && number != hash));
            }
            if retire {
                node.retire();
            }
        }
    }
}
