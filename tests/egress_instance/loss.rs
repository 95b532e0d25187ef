// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a lost shard takes with it, and what not.

use std::collections::BTreeMap;

use guideway::egress::Writer;
use guideway::group::{Candidate, Class, GroupSpec, PinIdle, Settings};

use crate::netns::{isolated, veth};
use crate::support::*;

const ADDRESSES: u32 = 300;

fn publish_spec(writer: &mut Writer, pin_idle: PinIdle, lost: Option<u16>) {
    let candidates = [0x10, 0x11, 0x12].map(|number| Candidate {
        next_hop: (lost != Some(number)).then(|| hop(1)),
        ..Candidate::new(sid(number), hop(1))
    });
    let spec = GroupSpec {
        settings: Settings {
            pin_idle,
            ..Settings::default()
        },
        candidates: candidates.to_vec(),
        ..GroupSpec::default()
    };
    let plan = writer
        .plan_group(&place(writer, Class::Nat66), &spec)
        .expect("a plan");
    publish_plan(writer, plan);
}

fn shards_of(writer: &Writer, inside: u32) -> BTreeMap<u32, u16> {
    let addresses = 0..ADDRESSES;
    let shards = addresses.map(|number| {
        let source = format!("2001:db8:aaaa::{number:x}");
        let shard = shard_of(writer, inside, &source, "2001:db8:1::1");
        (number, shard.expect("sent"))
    });
    shards.collect()
}

fn lose_one(pin_idle: PinIdle) -> (usize, usize) {
    let (inside, _) = veth("gw-tenant", "gw-inside");
    let mut writer = load();
    configure(&mut writer);
    publish_spec(&mut writer, pin_idle, None);
    serve(&writer, inside, 7, &[Class::Nat66]);
    let before = shards_of(&writer, inside);
    publish_spec(&mut writer, pin_idle, Some(0x12));
    let after = shards_of(&writer, inside);
    assert!(
        after.values().all(|&shard| shard != 0x12),
        "the lost one gets nothing"
    );
    let lost = before.values().filter(|&&shard| shard == 0x12).count();
    assert!((70..130).contains(&lost), "a third of them: {lost}");
    let survivors = before.iter().filter(|(_, &shard)| shard != 0x12);
    let moved = survivors
        .filter(|(address, shard)| after[address] != **shard)
        .count();
    // It comes back with the slots that it had.
    publish_spec(&mut writer, pin_idle, None);
    let back = shards_of(&writer, inside);
    let returned = before
        .iter()
        .filter(|(address, shard)| back[address] == **shard)
        .count();
    if pin_idle.is_off() {
        assert_eq!(returned, before.len());
    }
    (lost, moved)
}

/// The table alone moves a few of the others, as each shard's share grows.
#[test]
fn a_lost_shard_moves_few_addresses_that_are_not_its_own() {
    isolated("egress_instance::loss", || {
        let (_, moved) = lose_one(PinIdle::OFF);
        assert!(moved <= 10, "{moved} of about 200");
    });
}

#[test]
fn a_lost_shard_moves_nobody_who_is_pinned_elsewhere() {
    isolated("egress_instance::loss_pinned", || {
        let (lost, moved) = lose_one(PinIdle::default());
        assert_eq!(moved, 0);
        let stale = guideway::abi::EgressCounter::GW_EGRESS_PIN_STALE;
        assert_eq!(counter(stale), lost as u64, "each of them once");
    });
}
