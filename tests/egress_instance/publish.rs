// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a publication does, and what is left when a step of it fails.

use guideway::egress::{Aborted, PublishError, Step, Subject};
use guideway::encap::{Dscp, Encap};
use guideway::error::ErrorKind;
use guideway::group::{Change, Class, GroupId};
use guideway::kernel::snapshot::{Slots, Snapshot};
use guideway::kernel::statedir::Section;

use crate::netns::isolated;
use crate::support::*;

fn stop_at(step: Step) -> impl FnMut(Subject, Step) -> Result<(), Aborted> {
    move |_, at| match at == step {
        true => Err(Aborted),
        false => Ok(()),
    }
}

#[test]
fn a_step_that_fails_is_invisible_and_burns_its_numbers() {
    isolated("egress_instance::failed_steps", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10, 0x11]).group;
        let subject = Subject::Group(group);
        let mut given = vec![1, 2];
        for (number, step) in (0x20..).zip(Step::ALL) {
            let before = (live_id(subject), members(&writer, group), stored());
            let next = plan(&writer, Class::Nat66, &[0x10, 0x11, number]);
            let results = writer.publish_observed(&[next], stop_at(step));
            let error = results.expect("possible").remove(0).expect_err("stopped");
            assert!(
                matches!(&error, PublishError::Aborted { step: at, .. } if *at == step),
                "{error}"
            );
            assert_eq!(error.is_in_force(), step > Step::Swap);
            if step <= Step::Swap {
                assert_eq!(
                    before,
                    (live_id(subject), members(&writer, group), stored())
                );
            } else {
                assert_ne!(before.0, live_id(subject));
                assert_eq!(members(&writer, group).len(), 3, "{step}");
                assert_eq!(stored(), ["g0", "g0-next"]);
            }

            // The shard comes at last, and leaves again: it gets a number that nobody had.
            publish(&mut writer, Class::Nat66, &[0x10, 0x11, number]);
            assert_eq!(
                stored(),
                if step > Step::Swap {
                    vec!["g0", "g0-next"]
                } else {
                    vec!["g0"]
                }
            );
            let newest = members(&writer, group)[2];
            assert_eq!((newest.0, newest.1), (number, 2));
            assert!(
                !given.contains(&newest.2),
                "{step}: {newest:?} after {given:?}"
            );
            given.push(newest.2);
            publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
            assert_eq!(stored(), ["g0"], "{step}");
            assert_eq!(members(&writer, group), [(0x10, 0, 1), (0x11, 1, 2)]);
        }
        // Each failed publication but the last, which came into force, has burnt one number.
        let failed = Step::ALL.len() as u32 - 1;
        let last = given.last().copied();
        assert_eq!(last, Some(2 + failed * 2 + 1));
    });
}

#[test]
fn what_does_not_change_is_not_published() {
    isolated("egress_instance::unchanged", || {
        let mut writer = load();
        let first = publish(&mut writer, Class::Nat66, &[0x11, 0x10]);
        assert_eq!((first.change, first.group.get()), (Change::Open, 0));
        assert!(first.upstream_compatible);
        let live = live_id(Subject::Group(first.group));
        let again = publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        assert_eq!(again.change, Change::Unchanged);
        assert_eq!(again.publication, first.publication);
        assert_eq!(live_id(Subject::Group(first.group)), live);
        assert_eq!(stored(), ["g0"]);
    });
}

#[test]
fn groups_go_out_together_and_each_has_its_result() {
    isolated("egress_instance::batch", || {
        let mut writer = load();
        let both = [
            plan(&writer, Class::Nat66, &[0x10]),
            plan(&writer, nat64(), &[0x20, 0x21]),
        ];
        // One that is stopped stops no other.
        let results = writer.publish_observed(&both, |subject, step| match (subject, step) {
            (Subject::Group(group), Step::Swap) if group.get() == 0 => Err(Aborted),
            _ => Ok(()),
        });
        let results = results.expect("possible");
        assert!(matches!(
            results[0],
            Err(PublishError::Aborted {
                step: Step::Swap,
                ..
            })
        ));
        let second = results[1].as_ref().expect("published");
        assert_eq!((second.group.get(), second.class), (1, nat64()));
        assert_eq!(
            (
                live_id(Subject::Group(GroupId::new(0).expect("a group"))),
                stored()
            ),
            (None, vec!["g1".to_owned()])
        );

        let both = [
            plan(&writer, Class::Nat66, &[0x10]),
            plan(&writer, nat64(), &[0x20]),
        ];
        for result in writer.publish(&both).expect("possible") {
            result.expect("published");
        }
        assert_eq!(members(&writer, both[0].group()), [(0x10, 0, 2)]);
        assert_eq!(members(&writer, both[1].group()), [(0x20, 0, 1)]);
        assert_eq!(stored(), ["g0", "g1"]);
    });
}

/// The kernel stops a batch at the first entry that it refuses, here one that the array does not have.
#[test]
fn a_batch_that_stops_in_the_middle_has_changed_what_came_before() {
    isolated("egress_instance::batch_stops", || {
        let writer = load();
        let map = guideway::kernel::map::Map::open_any(&dir().pin(Section::Maps, "gw_groups"));
        let slots = Slots::new(map.expect("a map")).expect("slots");
        let shape = guideway::kernel::egress_object::Sizes::default().snapshot_shape();
        let snapshots: Vec<_> = (0..3)
            .map(|_| Snapshot::create(&shape).expect("a snapshot"))
            .collect();
        let batch = [(0, &snapshots[0]), (999, &snapshots[1]), (2, &snapshots[2])];
        let error = slots.swap_all(&batch).expect_err("there is no entry 999");
        assert_eq!(error.errno, nix::libc::E2BIG);
        let live = |index| slots.live_id(index).expect("readable");
        assert_eq!(live(0), Some(snapshots[0].map().id()));
        assert_eq!(live(2), None);
        drop(writer);
    });
}

#[test]
fn plans_that_do_not_fit_are_refused_before_anything_is_tried() {
    isolated("egress_instance::refused", || {
        let mut writer = load();
        let first = plan(&writer, Class::Nat66, &[0x10]);
        let twice = [first.clone(), first.clone()];
        let error = writer.publish(&twice).expect_err("one group twice");
        assert!(matches!(error, PublishError::Twice { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(stored().is_empty());

        publish_plan(&mut writer, first.clone());
        let results = writer.publish(&[first]).expect("possible");
        let error = results
            .into_iter()
            .next()
            .expect("a result")
            .expect_err("stale");
        assert_eq!(
            error.to_string(),
            "group 0: the plan was made against none, in force is publication 1; plan again"
        );
        assert_eq!(error.kind(), ErrorKind::StalePlan);

        // A plan whose numbers another one took, which then failed.
        let failed = plan(&writer, Class::Nat66, &[0x10, 0x11]);
        let late = plan(&writer, Class::Nat66, &[0x10, 0x12]);
        let results = writer.publish_observed(&[failed], stop_at(Step::Fill));
        assert!(results.expect("possible")[0].is_err());
        let error = writer.publish(&[late]).expect("possible").remove(0);
        assert!(matches!(error, Err(PublishError::Claimed(_))), "{error:?}");
        assert_eq!(stored(), ["g0"]);

        // Made for another instance, which has more groups.
        let mut places = place(&writer, Class::Nat66);
        places.group = GroupId::new(60).expect("a group");
        let many = guideway::group::Limits::new(64, 64, writer.limits().groups().table_size());
        let context = guideway::group::Context {
            limits: many.expect("limits"),
            ..Default::default()
        };
        let foreign = guideway::group::plan(None, &places, &shards(&[1]), &context);
        let error = writer
            .publish(&[foreign.expect("a plan")])
            .expect_err("no such group");
        assert_eq!(
            error.to_string(),
            "there is no group 60: the instance was made for 8"
        );
    });
}

#[test]
fn the_configuration_is_published_as_groups_are() {
    isolated("egress_instance::config", || {
        let mut writer = load();
        assert_eq!(writer.encap().expect("readable"), None);
        let one = Encap::standard("2001:db8:ff01:1:e000::".parse().expect("a SID"));
        let other = Encap {
            dscp: Dscp::Zero,
            ..one
        };
        assert!(writer.set_encap(&one).expect("published"));
        let live = live_id(Subject::Config);
        assert!(!writer.set_encap(&one).expect("nothing to do"));
        assert_eq!(live_id(Subject::Config), live);
        let dark = Encap {
            hop_limit: 0,
            ..one
        };
        let error = writer.set_encap(&dark).expect_err("nothing would leave");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        for step in Step::ALL.into_iter().filter(|&step| step != Step::Purge) {
            let error = writer
                .set_encap_observed(&other, stop_at(step))
                .expect_err("stopped");
            let expected = if step > Step::Swap { other } else { one };
            assert_eq!(writer.encap().expect("readable"), Some(expected), "{error}");
            assert_eq!(open().encap().expect("readable"), Some(expected));
            writer.set_encap(&one).expect("published");
        }
        writer.set_encap(&other).expect("published");
        assert_eq!(stored(), ["conf"]);
    });
}

/// Whoever looks while groups are published finds one of the snapshots, whole.
#[test]
fn readers_find_what_is_in_force_at_any_moment() {
    isolated("egress_instance::readers", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = &stop;
            let reader = scope.spawn(move || {
                let egress = open();
                let mut looks = 0;
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    let found = egress
                        .group(group)
                        .unwrap_or_else(|error| panic!("{error}"));
                    assert!(!found.expect("published").members.is_empty());
                    looks += 1;
                }
                looks
            });
            for round in 0..60 {
                publish(&mut writer, Class::Nat66, &[0x10 + round % 2, 0x20]);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(reader.join().expect("a reader") > 60);
        });
    });
}
