// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writers of a card that are killed before and after every step of a publication.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use bytemuck::Pod;
use guideway::abi;
use guideway::kernel::typed::{Array, Hash};
use guideway::quiclb::{HardwareLb, Options, Step};
use nix::sys::signal::{raise, Signal};

use crate::killing::{as_many, objects};
use crate::publishing::{backends, map, on_card};
use crate::scene::{dir, document, opened, publish, spec};

const KILLED_AT: &str = "GW_TEST_KILLED_AT";

/// Not a test by itself: the process that the test below kills. After the last step is a step too.
#[test]
fn the_writer_that_is_killed() {
    let Ok(at) = std::env::var(KILLED_AT) else {
        return;
    };
    let mut left: usize = at.parse().expect("a number");
    let mut card = opened();
    let plan = card
        .plan(&spec(&document(&[3, 4])), Options::default())
        .expect("a plan");
    let published = card.publish_observed(&plan, 2, |_| {
        if left == 0 {
            raise(Signal::SIGKILL).expect("killed");
        }
        left -= 1;
        Ok(())
    });
    assert!(published.expect("published").untidy.is_none());
    assert_eq!(left, 0);
    raise(Signal::SIGKILL).expect("killed");
}

fn killed(at: usize) {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "killed::the_writer_that_is_killed",
            "--nocapture",
        ])
        .env(KILLED_AT, at.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("a child");
    assert_eq!(status.signal(), Some(9), "before step {at}: {status}");
}

/// The generations of which there is anything on the card.
fn generations() -> BTreeSet<u64> {
    fn keys<K: Pod, V: Pod>(name: &str, generation: fn(&K) -> u64) -> Vec<u64> {
        let map = Hash::<K, V>::new(map(name)).expect("its shape");
        let keys = map.keys_one_by_one().expect("keys");
        keys.iter().map(generation).collect()
    }
    type Keys = abi::OffloadKey;
    let all = [
        keys::<u64, abi::OffloadGeneration>("gw_of_gen", |key| *key),
        keys::<abi::OffloadServiceKey, abi::OffloadService>("gw_of_service", |key| key.generation),
        keys::<abi::OffloadIdKey, abi::OffloadId>("gw_of_id", |key| key.generation),
        keys::<Keys, abi::OffloadConfig>("gw_of_config", |key| key.generation),
        keys::<Keys, abi::Backend>("gw_of_row", |key| key.generation),
        keys::<Keys, abi::Slot>("gw_of_slot", |key| key.generation),
    ];
    all.into_iter().flatten().collect()
}

#[test]
fn a_writer_killed_at_any_step_leaves_one_whole_generation() {
    on_card("offload::killed", || {
        let swap = Step::ON_CARD.iter().position(|step| *step == Step::Swap);
        let swap = swap.expect("among them");
        // As many records as are kept.
        let mut card = opened();
        for ids in [&[1, 2], &[5, 6], &[1, 2]] {
            publish(&mut card, ids);
        }
        drop(card);
        // Somebody who had opened it before sees the same.
        let reader = HardwareLb::open(&dir()).expect("a reader");
        for at in 0..=Step::ON_CARD.len() {
            let before = objects(dir().path());
            let old = reader.live_number().expect("read").expect("some");
            killed(at);
            let live = reader.live_number().expect("read").expect("some");
            let became_live = at > swap;
            let expected: BTreeSet<u8> = match became_live {
                true => [3, 4].into(),
                false => [1, 2].into(),
            };
            assert_eq!(live > old, became_live, "{at}");
            assert_eq!(backends(&reader), expected, "{at}: before the next start");

            let mut card = opened();
            assert_eq!(card.live_number().expect("read"), Some(live), "{at}");
            assert_eq!(backends(&card), expected, "{at}");
            let meta: Array<abi::Meta> = Array::new(map("gw_ql_meta")).expect("its shape");
            let given = meta.get(0).expect("read").generation_mark;
            let next = publish(&mut card, &[3, 4]);
            match became_live {
                true => assert_eq!(next, live, "{at}: it was all there"),
                false => assert!(next > given, "{at}: {next} was given out before"),
            }
            assert_eq!(backends(&card), [3, 4].into(), "{at}");
            assert_eq!(generations(), [next].into(), "{at}: no leftovers");
            as_many(dir().path(), &before, &format!("before step {at}"));
            publish(&mut card, &[1, 2]);
            as_many(dir().path(), &before, &format!("after step {at}"));
        }
    });
}
