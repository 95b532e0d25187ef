// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Processes that are killed in the middle.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use guideway::egress::{Move, Step, Subject, To};
use guideway::group::{Class, State};
use guideway::route::Block;
use nix::sys::signal::{raise, Signal};

use crate::netns::{isolated, veth};
use crate::support::*;

const ROLE: &str = "GW_TEST_ROLE";
const STEP: &str = "GW_TEST_KILLED_AT";

/// Runs `the_process_that_is_killed` until it kills itself.
fn killed(role: &str, step: usize) {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "killed::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(ROLE, role)
        .env(STEP, step.to_string())
        .status()
        .expect("a child");
    assert_eq!(status.signal(), Some(9), "{role} at step {step}");
}

fn die() -> ! {
    raise(Signal::SIGKILL).expect("killed");
    unreachable!()
}

/// Not a test by itself.
#[test]
fn the_process_that_is_killed() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let step: usize = std::env::var(STEP)
        .expect("a step")
        .parse()
        .expect("a number");
    let at = |_: Subject, now: Step| match now == Step::ALL[step] {
        true => die(),
        false => Ok(()),
    };
    match role.as_str() {
        "publisher" => {
            let mut writer = load();
            let next = plan(&writer, Class::Nat66, &[0x10, 0x11, 0x12]);
            let _ = writer.publish_observed(&[next], at);
        }
        "writer" => {
            let egress = open();
            let guard = egress.write_routes(PATIENCE).expect("free");
            let ticket = guard.ticket(Class::Nat66).expect("open");
            if step > 0 {
                let to = To::Group(&ticket);
                guard.put(&tenant(7), prefix("::/0"), to).expect("room");
            }
            die();
        }
        "retirer" => {
            let mut writer = load();
            let group = place(&writer, Class::Nat66).group;
            let mut guard = writer.retire(PATIENCE).expect("free");
            let blocked = guard.move_routes(|_, _| Move::To(To::Block(Block::Drop)));
            blocked.expect("moved");
            let proof = guard.prove_zero(group).expect("none is left");
            let _ = guard.disable_observed(proof, at);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_publisher_killed_at_any_step_leaves_one_whole_group() {
    isolated("egress_instance::killed_publisher", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10, 0x11]).group;
        drop(writer);
        let mut given = vec![1, 2];
        for (step, name) in Step::ALL.into_iter().enumerate() {
            let before = live_id(Subject::Group(group));
            killed("publisher", step);
            let changed = live_id(Subject::Group(group)) != before;
            assert_eq!(changed, name > Step::Swap, "{name}");
            let shards = members(&open(), group);
            assert_eq!(shards.len(), if changed { 3 } else { 2 }, "{name}");
            let published: Vec<u32> = shards.iter().map(|member| member.2).collect();

            let mut writer = load();
            publish(&mut writer, Class::Nat66, &[0x10, 0x11, 0x12]);
            let newest = members(&writer, group)[2].2;
            // No number that packets ever saw comes again for another tenure.
            assert!(published.contains(&newest) || !given.contains(&newest));
            given.push(newest);
            publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
            assert_eq!(stored(), ["g0"], "{name}");
        }
        given.dedup();
        let mut distinct = given.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(given.len(), distinct.len());
    });
}

#[test]
fn a_killed_writer_gives_the_barrier_back_and_its_route_is_seen() {
    isolated("egress_instance::killed_writer", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        for step in 0..2 {
            killed("writer", step);
        }
        let close = writer.plan_close(group).expect("open");
        publish_plan(&mut writer, close);
        let mut guard = writer.retire(PATIENCE).expect("the dead hold nothing");
        assert_eq!(guard.scan().expect("complete").of(group), 1);
        let error = guard.prove_zero(group).expect_err("a route names it");
        assert_eq!(
            error.to_string(),
            "group 0 is named by 1 routes, 0 of them of other writers, the first is ::/0 of table 7"
        );
        let report = guard.move_routes(|_, _| Move::Remove).expect("moved");
        assert_eq!(report.removed, 1);
        let proof = guard.prove_zero(group).expect("none is left");
        guard.disable(proof).expect("disabled");
    });
}

#[test]
fn who_retires_and_is_killed_at_any_step_is_followed_by_one_who_ends_it() {
    isolated("egress_instance::killed_retirer", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        drop(writer);
        for (step, name) in Step::ALL.into_iter().enumerate() {
            let mut writer = load();
            let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
            serve(&writer, inside, 7, &[Class::Nat66]);
            assert_eq!(
                shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1"),
                Some(0x10)
            );
            let close = writer.plan_close(group).expect("open");
            publish_plan(&mut writer, close);
            drop(writer);
            killed("retirer", step);

            let mut writer = load();
            let state = writer.group(group).expect("readable").expect("there").state;
            let expected = match name > Step::Swap {
                true => State::Disabled,
                false => State::Closing,
            };
            assert_eq!(state, expected, "{name}");
            // Its moves are made, whatever became of the group.
            assert_eq!(
                shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1"),
                None
            );
            if state == State::Closing {
                let mut guard = writer.retire(PATIENCE).expect("free");
                let proof = guard.prove_zero(group).expect("none is left");
                guard.disable(proof).expect("disabled");
            }
            let state = writer.group(group).expect("readable").expect("there").state;
            assert_eq!(state, State::Disabled);
        }
    });
}
