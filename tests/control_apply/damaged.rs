// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Snapshots in force that are damaged or cannot be read, on the kernel.

use std::time::Duration;

use guideway::control::kernel::{Live, LiveRoutes, Look, RouteWriters, Ticket};
use guideway::control::{Plan, Problem};
use guideway::egress::document::{status, FindingCode};
use guideway::error::ErrorKind;
use guideway::group::{Class, GroupId, State};

use crate::fixture::*;
use crate::live;
use crate::netns::isolated;
use crate::node::{all, converge, round, STATIC};

/// Bytes of a snapshot's header, and where a member has its flags.
const HEADER: usize = 128;
const FLAGS: usize = 16;

fn group_of(live: &Live<'_>, class: Class) -> GroupId {
    let groups = live.groups().expect("readable").known;
    let found = groups.iter().find(|group| group.class == class);
    found.expect("a group").group
}

/// What the status says of damaged groups: which, and what to do.
fn found() -> Vec<(String, Option<&'static str>)> {
    let status = status(&live::dir()).expect("readable");
    let findings = status.findings.into_iter();
    let damaged = findings.filter(|finding| finding.code == FindingCode::DamagedGroup);
    damaged
        .map(|finding| (finding.object, finding.remedy))
        .collect()
}

fn damaged(plan: &Plan) -> Vec<String> {
    let problems = plan.problems.iter();
    let problems = problems.filter(|problem| matches!(problem, Problem::Damaged { .. }));
    problems.map(ToString::to_string).collect()
}

#[test]
fn a_damaged_row_costs_its_member_and_the_group_is_published_anew() {
    isolated("control_apply::damaged_row", || {
        let mut writer = live::load();
        live::put_tenant(101, &tenant(1));
        let mut live = Live::new(&mut writer);
        let desired = hashed(list([dual(1), dual(2)]));
        converge(&mut live, &desired, &all());
        let group = group_of(&live, nat64(NAT64));
        let before = live.groups().expect("readable").known;
        let before = before.iter().find(|live| live.group == group);
        let before = before.expect("the group").clone();
        let routes = live.routes().expect("readable");
        live::damage(group, |bytes| bytes[HEADER + FLAGS + 1] = 0xff);
        let seen = live.groups().expect("one group is no reason to fail");
        assert_eq!(seen.known.len(), 2);
        let told = found();
        assert_eq!(told[0].0, format!("group {group}"));
        assert!(
            told[0].1.is_some_and(|remedy| remedy.contains("anew")),
            "{told:?}"
        );
        assert!(seen.damaged[&group].why.contains("flags"), "{seen:?}");

        let (plan, applied) = round(&mut live, &desired, &all()).expect("readable");
        assert!(applied.is_complete(), "{applied:#?}");
        assert_eq!((plan.steps.len(), damaged(&plan)), (1, vec![]));
        let seen = live.groups().expect("readable");
        assert!(seen.damaged.is_empty());
        let after = seen.known.iter().find(|live| live.group == group);
        let after = after.expect("the group");
        assert_eq!(after.incarnation, before.incarnation);
        assert_eq!(after.members.len(), 2);
        let second = before.members[1];
        assert_eq!(after.member_by_sid(second.sid), Some(&second));
        assert_eq!(live.routes().expect("readable"), routes);
        assert_eq!(found(), []);
        converge(&mut live, &desired, &all());
    });
}

#[test]
fn a_group_that_cannot_be_read_stops_no_other_class() {
    isolated("control_apply::lost_group", || {
        let mut writer = live::load();
        live::put_tenant(101, &tenant(1));
        let mut live = Live::new(&mut writer);
        converge(&mut live, &hashed(list([dual(1), dual(2)])), &all());
        let lost = group_of(&live, Class::Nat66);
        let other = group_of(&live, nat64(NAT64));
        let routes = live.routes().expect("readable");
        live::lose(&format!("g{lost}"));

        let desired = hashed(list([dual(1), dual(4)]));
        let (plan, applied) = round(&mut live, &desired, &all()).expect("readable");
        assert!(applied.is_complete(), "{applied:#?}");
        assert_eq!(applied.published.len(), 1);
        assert_eq!(applied.published[0].group, other);
        let told = damaged(&plan);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("with its 1 routes") && told[0].contains("--purge"),
            "{told:?}"
        );
        assert_eq!(live.routes().expect("readable"), routes);
        let (plan, _) = round(&mut live, &desired, &all()).expect("readable");
        assert!(plan.is_empty() && damaged(&plan) == told);

        let found = found();
        assert_eq!(found[0].0, format!("group {lost}"));
        assert!(
            found[0].1.is_some_and(|remedy| remedy.contains("--purge")),
            "{found:?}"
        );

        // Nobody gets a ticket for what cannot be read.
        let egress = live::open();
        let writers = LiveRoutes::new(&egress);
        let guard = writers.shared(Duration::from_secs(5)).expect("free");
        let ticket = guard.ticket(nat64(NAT64)).expect("readable");
        assert!(matches!(ticket, Ticket::Open { .. }));
        let error = guard.ticket(Class::Nat66).expect_err("a lost group");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        drop(guard);
        let census = egress.census().expect("readable");
        assert_eq!((census.dead, census.stale), (0, 0));

        // In ordered mode its routes leave it as well.
        let desired = ordered(&[STATIC]);
        converge(&mut live, &desired, &all());
        let routes = live.routes().expect("readable").by_key;
        assert!(routes.values().all(|route| route.group().is_none()));
        let groups = live.groups().expect("readable");
        assert_eq!(groups.known[0].state, State::Disabled);
        assert_eq!(groups.damaged.keys().collect::<Vec<_>>(), [&lost]);
    });
}

#[test]
fn a_configuration_that_cannot_be_read_is_published_again() {
    isolated("control_apply::lost_config", || {
        let mut writer = live::load();
        let mut live = Live::new(&mut writer);
        let desired = hashed(list([dual(1)]));
        converge(&mut live, &desired, &all());
        live::lose("conf");
        assert_eq!(live.encap().expect("no reason to fail"), None);
        let (plan, applied) = round(&mut live, &desired, &all()).expect("readable");
        assert!(
            applied.is_complete() && plan.steps.len() == 1,
            "{applied:#?}"
        );
        assert_eq!(live.encap().expect("readable"), Some(desired.encap));
    });
}
