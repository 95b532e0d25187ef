// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A program in the array of an interface's owner, of which the one who puts it there, exchanges it or
//! takes it out is killed before any change: packets meet one whole program or none, as they did or as
//! they will, and the next one ends what was begun.

use std::fs;

use crate::harness::{command, names_in, quiclb, quiclb_json, state_dir, INSTANCE};
use crate::killing::{as_many, killed_before, objects};
use crate::netns::{ifindex, isolated, netlink_detach};
use crate::root_array::{at, is_well, links, map_id, path, Owned, INDEX};

/// Has `arguments` killed before each change in turn, and tells `after` where, until it ends by itself.
fn killed_before_each(
    arguments: &[&str],
    mut before: impl FnMut(),
    mut after: impl FnMut(&str, bool),
) {
    let mut changes = Vec::new();
    loop {
        before();
        let killed = killed_before(&mut command(arguments), changes.len());
        let number = changes.len();
        let what = format!("{arguments:?} before change {number} ({killed:?})");
        after(&what, killed.is_some());
        match killed {
            Some(change) => changes.push(change),
            None => break,
        }
    }
    println!("{arguments:?}: {changes:?}");
    assert!(changes.len() > 1, "{changes:?}");
}

#[test]
fn who_is_killed_putting_it_there_or_taking_it_out_is_followed_by_who_ends_it() {
    isolated("tool::killed_attaching", || {
        let (owned, spec) = Owned::applied("killed-attaching");
        let dir = state_dir();
        let program = owned.at_place().expect("the program");
        let attached = objects(&dir);
        quiclb(&["detach", INSTANCE]).exits(0);
        let detached = objects(&dir);
        let one_or_none = |what: &str| {
            let there = owned.at_place();
            assert!(
                there.is_none() || there == Some(program),
                "{what}: {there:?}"
            );
            // Whoever looks finds it, and changes nothing.
            let before = names_in(&dir.join("links"));
            let status = quiclb_json(&["status", INSTANCE]);
            assert!(
                status.code == 0 || status.code == 5,
                "{what}: {}",
                status.code
            );
            assert_eq!(names_in(&dir.join("links")), before);
        };
        let detach = || {
            quiclb(&["detach", INSTANCE]).exits(0);
        };
        killed_before_each(&["apply", &spec], detach, |what, _| {
            one_or_none(what);
            quiclb(&["apply", &spec]).exits(0);
            is_well(&owned);
            as_many(&dir, &attached, what);
        });
        // What was begun is taken out too.
        killed_before_each(
            &["apply", &spec],
            || {},
            |what, _| {
                quiclb(&["detach", INSTANCE]).exits(0);
                assert_eq!((owned.at_place(), links()), (None, vec![]), "{what}");
                as_many(&dir, &detached, what);
            },
        );
        let apply = || {
            quiclb(&["apply", &spec]).exits(0);
        };
        killed_before_each(&["detach", INSTANCE], apply, |what, _| {
            one_or_none(what);
            quiclb(&["detach", INSTANCE]).exits(0);
            assert_eq!((owned.at_place(), links()), (None, vec![]), "{what}");
            as_many(&dir, &detached, what);
        });
        apply();
        is_well(&owned);
        as_many(&dir, &attached, "in the end");
    });
}

#[test]
fn who_is_killed_exchanging_it_leaves_the_old_one_or_the_new_one() {
    isolated("tool::killed_exchanging", || {
        let (owned, spec) = Owned::applied("killed-exchanging");
        let dir = state_dir();
        // A program that is not known as this build's is exchanged.
        let unknown = || {
            let progs = dir.join("progs");
            for record in names_in(&progs) {
                if record.starts_with("build-") {
                    fs::remove_file(progs.join(record)).expect("removed");
                }
            }
        };
        unknown();
        quiclb(&["upgrade", INSTANCE]).exits(0);
        let whole = objects(&dir);
        let both = || {
            let id = |role: &str| {
                let pin = dir.join("progs").join(role);
                guideway::kernel::program::Program::open(&pin)
                    .map(|program| u64::from(program.id()))
            };
            [
                id("gw_quiclb").expect("a program"),
                id("gw_quiclb-previous").expect("a program"),
            ]
        };
        for role in ["rollback", "upgrade"] {
            let old = std::cell::Cell::new([0; 2]);
            let before = || {
                old.set(both());
                if role == "upgrade" {
                    unknown();
                }
            };
            killed_before_each(&[role, INSTANCE], before, |what, _| {
                let [running, previous] = old.get();
                let there = owned.at_place().expect("a program");
                match role {
                    "rollback" => assert!([running, previous].contains(&there), "{what}"),
                    _ => assert_ne!(there, previous, "{what}"),
                }
                if there == running {
                    quiclb(&[role, INSTANCE]).exits(0);
                } else {
                    // The next one of any kind ends it.
                    quiclb(&["apply", &spec]).exits(0);
                }
                is_well(&owned);
                let [now, kept] = both();
                assert_eq!(owned.at_place(), Some(now), "{what}");
                assert_ne!(now, running, "{what}");
                assert_eq!(kept, running, "{what}");
                as_many(&dir, &whole, what);
            });
        }
    });
}

#[test]
fn who_is_killed_moving_it_to_another_array_leaves_it_in_one_of_them_at_least() {
    isolated("tool::killed_moving", || {
        let (first, spec) = Owned::applied("killed-moving");
        let dir = state_dir();
        let program = first.at_place().expect("the program");
        let whole = objects(&dir);
        // The owner makes another array, and makes its own program call what is there when it likes.
        fs::remove_file(path()).expect("unpinned");
        let second = Owned::absent("killed-moving-2");
        let flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
        netlink_detach(ifindex("edge0"), flags).expect("the owner's");
        second.attach();
        let arrays = [first.array(), second.array()];
        let turn = std::cell::Cell::new(0);
        let pinned = |at: usize| {
            fs::remove_file(path()).expect("unpinned");
            let mut array = if at == 0 {
                first.array()
            } else {
                second.array()
            };
            array.pin(path()).expect("pinned");
        };
        let mut changes = 0;
        loop {
            let to = 1 - turn.get();
            pinned(to);
            let killed = killed_before(&mut command(&["apply", &spec]), changes);
            let what = format!("before change {changes} ({killed:?})");
            let there = arrays.each_ref().map(|array| at(array, INDEX));
            assert!(there.contains(&Some(program)), "{what}: {there:?}");
            quiclb(&["apply", &spec]).exits(0);
            let pin = format!("root-{INDEX}-{}", map_id(&arrays[to]));
            assert_eq!(links(), [pin.as_str()], "{what}");
            assert_eq!(at(&arrays[to], INDEX), Some(program), "{what}");
            assert_eq!(at(&arrays[1 - to], INDEX), None, "{what}");
            as_many(&dir, &whole, &what);
            turn.set(to);
            match killed {
                Some(_) => changes += 1,
                None => break,
            }
        }
        assert!(changes > 3, "{changes}");
    });
}
