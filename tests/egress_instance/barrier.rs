// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writers of routes beside those who retire groups.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use guideway::egress::{Move, StillReferenced, TicketError, To, VerifyError};
use guideway::error::ErrorKind;
use guideway::group::{Class, State};
use guideway::route::{Block, Origin, Target};

use crate::netns::{isolated, veth};
use crate::support::*;

fn close(writer: &mut guideway::egress::Writer, class: Class) -> guideway::group::GroupId {
    let group = place(writer, class).group;
    let plan = writer.plan_close(group).expect("open");
    publish_plan(writer, plan).group
}

/// A writer that read "open" and was stopped then cannot write after the group was retired.
#[test]
fn a_paused_writer_blocks_who_retires() {
    isolated("egress_instance::paused_writer", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10]);
        let egress = open();
        let guard = egress.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        let group = close(&mut writer, Class::Nat66);
        let error = writer.retire(SHORT).expect_err("the writer holds it");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        let state = |egress: &guideway::egress::Egress| {
            egress.group(group).expect("readable").expect("there").state
        };
        assert_eq!(state(&egress), State::Closing);

        // It goes on, and is told.
        let to = To::Group(&ticket);
        guard.put(&tenant(7), prefix("::/0"), to).expect("room");
        let error = guard.verify().expect_err("closed meanwhile");
        assert!(
            matches!(
                error,
                VerifyError::Closed {
                    state: State::Closing,
                    ..
                }
            ),
            "{error}"
        );
        // What it wrote is found.
        let mut guard = writer.retire(PATIENCE).expect("free now");
        let error = guard.prove_zero(group).expect_err("a route names it");
        assert!(
            matches!(error, StillReferenced::Routes { routes: 1, .. }),
            "{error}"
        );
        guard
            .move_routes(|_, _| Move::To(To::Block(Block::Unreachable)))
            .expect("moved");
        let proof = guard.prove_zero(group).expect("none is left");
        assert_eq!(proof.census().of(group), 0);
        guard.disable(proof).expect("disabled");
        assert_eq!(state(&egress), State::Disabled);
    });
}

#[test]
fn there_is_no_ticket_for_a_group_that_takes_no_routes() {
    isolated("egress_instance::tickets", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10]);
        let egress = open();
        let ticket = |class| {
            let guard = egress.write_routes(PATIENCE).expect("free");
            let ticket = guard.ticket(class);
            ticket.map(|ticket| ticket.incarnation().get())
        };
        assert_eq!(ticket(Class::Nat66).expect("open"), 1);
        let error = ticket(nat64()).expect_err("never opened");
        assert!(matches!(error, TicketError::NotPublished { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::NotFound);

        let group = close(&mut writer, Class::Nat66);
        let error = ticket(Class::Nat66).expect_err("closing");
        assert!(matches!(error, TicketError::Closing { .. }), "{error}");
        // Who retires has no more right than others.
        let mut guard = writer.retire(PATIENCE).expect("free");
        assert!(matches!(
            guard.ticket(Class::Nat66),
            Err(TicketError::Closing { .. })
        ));
        let proof = guard.prove_zero(group).expect("none");
        guard.disable(proof).expect("disabled");
        drop(guard);
        let error = ticket(Class::Nat66).expect_err("disabled");
        assert!(matches!(error, TicketError::Disabled { .. }), "{error}");
        publish(&mut writer, Class::Nat66, &[0x10]);
        assert_eq!(ticket(Class::Nat66).expect("open again"), 2);
    });
}

#[test]
fn an_open_group_is_not_disabled() {
    isolated("egress_instance::open_group", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        let guard = writer.retire(PATIENCE).expect("free");
        let error = guard.prove_zero(group).expect_err("open");
        assert_eq!(
            error.to_string(),
            "group 0 is open, only a closing one can be disabled"
        );
    });
}

/// A route that a program without the barrier writes into an id that another class has by now.
#[test]
fn a_late_route_reaches_no_other_class() {
    isolated("egress_instance::late_route", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        serve(&writer, inside, 7, &[Class::Nat66]);
        let late = writer
            .routes(guideway::route::TableId::new(7))
            .expect("readable");
        close(&mut writer, Class::Nat66);
        let mut guard = writer.retire(PATIENCE).expect("free");
        guard.move_routes(|_, _| Move::Remove).expect("removed");
        let proof = guard.prove_zero(group).expect("none is left");
        guard.disable(proof).expect("disabled");
        drop(guard);
        // The id goes to another class only when no other is left, so it is given by hand.
        let mut other = place(&writer, nat64());
        other.group = group;
        let plan = writer.plan_group(&other, &shards(&[0x20])).expect("a plan");
        publish_plan(&mut writer, plan);

        for (key, route) in &late {
            put_row(key, route);
        }
        let stale = guideway::abi::EgressCounter::GW_EGRESS_DROP_STALE_ROUTE;
        let before = counter(stale);
        assert_eq!(
            shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1"),
            None
        );
        assert_eq!(counter(stale), before + 1);
        let guard = writer.retire(PATIENCE).expect("free");
        let census = guard.scan().expect("complete");
        assert_eq!((census.of(group), census.stale), (1, 1));
    });
}

#[test]
fn routes_of_other_writers_count_and_are_kept_in_line_by_nobody() {
    isolated("egress_instance::foreign_routes", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        let guard = writer.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        let to = To::Group(&ticket);
        guard.put(&tenant(7), prefix("::/0"), to).expect("room");
        guard.set_origin(Origin(9));
        guard.put(&tenant(8), prefix("::/0"), to).expect("room");
        guard
            .put(&tenant(8), prefix("10.0.0.0/8"), To::Pass)
            .expect("room");
        guard.verify().expect("written");

        close(&mut writer, Class::Nat66);
        let guard = writer.retire(PATIENCE).expect("free");
        let census = guard.scan().expect("complete");
        assert_eq!((census.routes, census.of(group), census.stale), (3, 2, 0));
        let origins: Vec<_> = census
            .origins
            .iter()
            .map(|(origin, n)| (origin.0, *n))
            .collect();
        assert_eq!(origins, [(0, 1), (9, 2)]);
        let ours = guard.move_routes(|_, route| match route.origin {
            Origin(0) => Move::To(To::Block(Block::Drop)),
            _ => Move::Keep,
        });
        assert_eq!(ours.expect("moved").moved, 1);
        let error = guard
            .prove_zero(group)
            .expect_err("the foreign one is left");
        assert!(
            matches!(
                error,
                StillReferenced::Routes {
                    routes: 1,
                    foreign: 1,
                    ..
                }
            ),
            "{error}"
        );
    });
}

/// Four writers in a loop, and who retires gets in between.
#[test]
fn who_retires_is_not_starved_and_nothing_is_written_behind_its_proof() {
    isolated("egress_instance::starved", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10]);
        let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (stop, written) = (&stop, &written);
                scope.spawn(move || {
                    let egress = open();
                    while !stop.load(Ordering::Relaxed) {
                        let guard = egress.write_routes(PATIENCE).expect("in time");
                        match guard.ticket(Class::Nat66) {
                            Ok(ticket) => {
                                let to = To::Group(&ticket);
                                let put = guard.put(&tenant(number), prefix("::/0"), to);
                                put.expect("room");
                                written.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(_) => {
                                let to = To::Block(Block::Drop);
                                let put = guard.put(&tenant(number), prefix("::/0"), to);
                                put.expect("room");
                            }
                        }
                    }
                });
            }
            let mut rounds = 0;
            while rounds < 20 {
                let group = close(&mut writer, Class::Nat66);
                let mut guard = writer.retire(PATIENCE).expect("in time");
                guard
                    .move_routes(|_, route| match route.group() {
                        Some(_) => Move::To(To::Block(Block::Drop)),
                        None => Move::Keep,
                    })
                    .expect("moved");
                let proof = guard.prove_zero(group).expect("nobody writes");
                guard.disable(proof).expect("disabled");
                assert_eq!(guard.scan().expect("complete").of(group), 0);
                drop(guard);
                let guard = writer.retire(PATIENCE).expect("in time");
                assert_eq!(
                    guard.scan().expect("complete").of(group),
                    0,
                    "round {rounds}"
                );
                drop(guard);
                publish(&mut writer, Class::Nat66, &[0x10]);
                let before = written.load(Ordering::Relaxed);
                let more = || written.load(Ordering::Relaxed) > before + 4;
                assert!(crate::netns::within(PATIENCE, more), "writers go on");
                rounds += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        let routes = open()
            .routes(guideway::route::TableId::new(1))
            .expect("readable");
        assert!(matches!(
            routes.values().next().map(|route| route.target),
            Some(Target::Group { .. } | Target::Block(_))
        ));
    });
}
