// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A writer that is stopped between its ticket and its write, on the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use guideway::control::kernel::{Live, LiveRoutes, Look, Operation};
use guideway::control::{apply, install, invariants, observe, Deadline, Install, Mode, Why};
use guideway::error::ErrorKind;
use guideway::group::{Class, State};
use guideway::route::Key;

use crate::fixture::*;
use crate::live;
use crate::netns::{isolated, within};
use crate::node::{all, converge, plan, STATIC};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long the loop waits for it, and how long it stays at least: 5 s and 10 s by default.
const SHORT: Duration = Duration::from_millis(300);
const STAYS: Duration = Duration::from_millis(600);

#[test]
fn who_retires_waits_for_a_late_writer_and_changes_nothing_meanwhile() {
    isolated("control_apply::late", || {
        let mut writer = live::load();
        live::put_tenant(101, &tenant(1));
        let before = hashed(list([dual(1), dual(2)]));
        let after = ordered(&[STATIC]);
        converge(&mut Live::new(&mut writer), &before, &all());

        let (stopped, go) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let late = std::thread::spawn({
            let (stopped, go) = (stopped.clone(), go.clone());
            let classes = before.classes.clone();
            move || {
                let egress = live::open();
                let observer = move |operation: &Operation| {
                    if matches!(operation, Operation::Write(_)) && !go.load(Ordering::SeqCst) {
                        stopped.store(true, Ordering::SeqCst);
                        assert!(within(PATIENCE, || go.load(Ordering::SeqCst)));
                    }
                    Ok(())
                };
                let routes = LiveRoutes::observed(&egress, observer);
                let tenant = tenant(2);
                let request = Install::new(&tenant, &classes, Mode::Hashed);
                let request = request.ordered(Some((sid(STATIC), hop(STATIC))));
                install(&routes, &request, PATIENCE).expect("installed")
            }
        });
        assert!(within(PATIENCE, || stopped.load(Ordering::SeqCst)));

        let routes = |live: &Live<'_>| live.routes().expect("readable").by_key;
        let names_group = |live: &Live<'_>, table: u32| {
            let routes = routes(live);
            let route = routes.get(&Key::new(tenant(table).table, Class::Nat66.into()));
            route.is_some_and(|route| route.group().is_some())
        };
        let mut live = Live::new(&mut writer);
        let since = std::time::Instant::now();
        while since.elapsed() < STAYS {
            let there = routes(&live);
            let plan = plan(&live, &after, &all()).expect("readable");
            let deadline = Deadline::at(live.now() + PATIENCE).patient(SHORT);
            let started = std::time::Instant::now();
            let applied = apply(&plan, &mut live, &deadline);
            assert!(started.elapsed() >= SHORT);
            let failure = applied.failures().next().expect("it times out");
            assert_eq!(failure.kind(), ErrorKind::Locked, "{failure}");
            assert!(applied.disabled.is_empty() && applied.timeouts > 0);
            assert_eq!(routes(&live), there, "nothing is changed");
            let groups = live.groups().expect("readable").known;
            assert_eq!(groups.len(), 2);
            assert!(groups.iter().all(|group| group.state == State::Closing));
            let observed = observe(&live, false, |_| all()).expect("readable");
            // Not before it is proven, although nobody may write one any more.
            assert_eq!(
                invariants(&observed, &after.classes).group_routes[&Class::Nat66],
                1
            );
        }

        // It goes on, and is told that its group closes.
        go.store(true, Ordering::SeqCst);
        let installed = late.join().expect("no panic");
        assert!(installed
            .classes
            .values()
            .all(|placed| placed.why == Why::Closed));
        assert!(names_group(&live, 1) && !names_group(&live, 2));
        converge(&mut live, &after, &all());
        let groups = live.groups().expect("readable").known;
        assert!(groups.iter().all(|group| group.state == State::Disabled));
        assert_eq!(routes(&live).len(), 4);
        assert!(routes(&live).values().all(|route| route.group().is_none()));
        let observed = observe(&live, false, |_| all()).expect("readable");
        let found = invariants(&observed, &after.classes);
        assert!(found.hold());
        assert_eq!(found.group_routes[&Class::Nat66], 0);
    });
}
