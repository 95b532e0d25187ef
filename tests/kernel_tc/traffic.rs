// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets while the program is exchanged: each is seen by exactly one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use guideway::kernel::tc::{Attachment, Options, Way};

use crate::netns::{isolated, within};
use crate::{has_tcx, World};

const UPDATES: u32 = 200;
/// Packets on their way at a time: fewer than the queue of a veth takes.
const BURST: u32 = 32;
/// Packets around each update, however long it takes: those before it has an effect are seen by
/// one program, those of the next update by the other. All of them fit the table of what was seen.
const SHARE: u32 = 10 * BURST;

fn updates_lose_nothing(name: &str, way: Way) {
    isolated(name, move || {
        if way == Way::Tcx && !has_tcx() {
            return;
        }
        let world = World::new();
        let options = Options {
            way,
            ..Options::default()
        };
        let programs = [world.program(1), world.program(2)];
        let attached = Attachment::new(&programs[0], world.near, &options).expect("attach");
        let (begun, sent) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // At the end a burst that nothing disturbs.
                for number in (0..=UPDATES * SHARE).step_by(BURST as usize) {
                    let may = || begun.load(Ordering::Relaxed) * SHARE > number;
                    assert!(within(Duration::from_secs(30), may), "{number} sent");
                    (number..number + BURST).for_each(|number| world.send(number));
                    let number = number + BURST;
                    let all = || world.totals().iter().sum::<u64>() == u64::from(number);
                    assert!(
                        within(Duration::from_secs(5), all),
                        "{number} sent, seen {:?}",
                        world.totals()
                    );
                    sent.store(number, Ordering::Relaxed);
                }
            });
            for update in 0..UPDATES {
                let (old, new) = (update as usize % 2, (update as usize + 1) % 2);
                begun.store(update + 1, Ordering::Relaxed);
                attached
                    .update(&programs[new], &programs[old])
                    .expect("update");
                let all = || sent.load(Ordering::Relaxed) >= (update + 1) * SHARE;
                assert!(within(Duration::from_secs(30), all), "update {update}");
            }
            begun.store(UPDATES + 1, Ordering::Relaxed);
        });
        let sent = sent.into_inner();
        let [nobody, one, two, three] = world.totals();
        assert_eq!((nobody, one + two, three), (0, sent.into(), 0));
        assert!(one > 0 && two > 0, "both saw some: {one}, {two}");
        for number in 0..sent {
            assert_eq!(world.times(number), 1, "packet {number}");
        }
        assert_eq!(sent, UPDATES * SHARE + BURST);
        let last = &programs[UPDATES as usize % 2];
        assert!(attached.detach(last).expect("detach"));
        world.order_is(&[]);
    });
}

#[test]
fn updates_of_a_link_lose_nothing() {
    updates_lose_nothing("kernel_tc::link_updates", Way::Tcx);
}

#[test]
fn updates_of_a_filter_lose_nothing() {
    updates_lose_nothing("kernel_tc::filter_updates", Way::Clsact);
}

/// As a control: a detachment before the new attachment lets packets by.
#[test]
fn what_would_be_lost_is_seen() {
    isolated("kernel_tc::control", || {
        let world = World::new();
        let options = Options {
            way: Way::Clsact,
            ..Options::default()
        };
        let programs = [world.program(1), world.program(2)];
        for (number, program) in (0..).step_by(2).zip(&programs) {
            let before: u64 = world.totals().iter().sum();
            let attached = Attachment::new(program, world.near, &options).expect("attach");
            world.send(number);
            let seen = || world.totals().iter().sum::<u64>() > before;
            assert!(within(Duration::from_secs(5), seen));
            assert!(attached.detach(program).expect("detach"));
            world.send(number + 1);
            // It may be on its way for a moment.
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(world.totals(), [0, 1, 1, 0]);
        assert_eq!([0, 1, 2, 3].map(|number| world.times(number)), [1, 0, 1, 0]);
    });
}
