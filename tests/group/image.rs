// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The published form: every value at its offset, nothing understood that is not meant.

use guideway::group::{Candidate, Counters, HashMode, ImageError, PinIdle, Snapshot};
use guideway::placement::HashGroup;
use guideway::srv6::{Mtu, NextHop};
use proptest::prelude::*;

use crate::support::*;

const HEADER: usize = 128;
const MEMBER: usize = 64;

/// Bytes with one value after the other put where it belongs.
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_ne_bytes());
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_ne_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_ne_bytes());
    }
}

/// A closing NAT64 group of three slots, two of them in use, with something in every field.
fn example() -> Group {
    let mut group = Group::of(3);
    group.limits = limits(8, 3, 13);
    group.counters = vec![
        Counters::default(),
        Counters::default(),
        Counters {
            packets: 0x0102_0304_0506_0708,
            bytes: 0x1112_1314_1516_1718,
        },
    ];
    group.place.group = id(5);
    group.place.class = nat64("2001:db8:64::/96");
    group.place.hash_group = HashGroup(9);
    let hop = NextHop::new(
        7,
        "02:00:00:00:01:01".parse().expect("an address"),
        "02:00:00:00:02:02".parse().expect("an address"),
        Mtu::new(1500).expect("large enough"),
    );
    let mut wanted = spec(&[
        Candidate {
            weight: 3,
            ..Candidate::new(sid("10"), hop.expect("complete"))
        },
        active("11"),
        Candidate {
            draining: true,
            ..unreachable("12")
        },
    ]);
    wanted.ineligible = 4;
    wanted.settings.hash_mode = HashMode::Flow;
    wanted.settings.pin_idle = PinIdle::from_secs(60).expect("in range");
    wanted.settings.reject = true;
    wanted.settings.ecn_normal = true;
    group.publish(&wanted);
    wanted.candidates.remove(1);
    group.publish(&wanted);
    group.close();
    group
}

/// By the offsets of the ABI's text, without the ABI's types.
fn expected(snapshot: &Snapshot) -> Vec<u8> {
    // 13 words of the table make 26 bytes.
    let mut bytes = Bytes(vec![0; HEADER + 3 * MEMBER + 32]);
    bytes.u32(0, 1);
    bytes.u32(4, 1 | 2 | 4 | 8);
    bytes.u32(8, 1);
    bytes.u32(12, 3);
    bytes.u32(16, 4);
    bytes.u32(20, 13);
    bytes.u16(24, 3);
    bytes.u16(26, 2);
    bytes.u16(28, 1);
    bytes.u16(30, 4);
    // 60 s are 55.9 ticks of 2^30 ns, and a second is one.
    bytes.u32(32, 56);
    bytes.u32(36, 1);
    bytes.put(40, &[9, 2, 96]);
    bytes.u32(44, 4);
    bytes.put(48, &[0x20, 1, 0x0d, 0xb8, 0, 0x64]);
    bytes.u64(64, snapshot.digest.get());
    bytes.u64(72, 7);
    bytes.u32(80, 60);

    bytes.put(HEADER, &[0x20, 1, 0x0d, 0xb8, 0xff, 9, 0, 0x10, 0xe0]);
    bytes.u32(HEADER + 16, 1);
    bytes.u32(HEADER + 20, 1);
    bytes.u32(HEADER + 24, 7);
    bytes.u32(HEADER + 28, 1500);
    bytes.put(HEADER + 32, &[2, 0, 0, 0, 2, 2]);
    bytes.put(HEADER + 38, &[2, 0, 0, 0, 1, 1]);
    bytes.u32(HEADER + 44, 3);

    let third = HEADER + 2 * MEMBER;
    bytes.put(third, &[0x20, 1, 0x0d, 0xb8, 0xff, 9, 0, 0x12, 0xe0]);
    bytes.u32(third + 16, 2);
    bytes.u32(third + 20, 3);
    bytes.u32(third + 44, 1);
    bytes.u64(third + 48, 0x0102_0304_0506_0708);
    bytes.u64(third + 56, 0x1112_1314_1516_1718);
    // Slot 0 has the whole table.
    bytes.0
}

#[test]
fn every_value_is_where_the_abi_has_it() {
    let group = example();
    let bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
    assert_eq!(bytes, expected(group.snapshot()));
    let read = Snapshot::from_bytes(id(5), &bytes, group.limits).expect("its own");
    assert_eq!(&read, group.snapshot());
}

#[test]
fn an_empty_table_is_ones() {
    let mut group = Group::of(3);
    group.limits = limits(8, 3, 13);
    group.publish(&shards(""));
    let bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
    assert_eq!(bytes[HEADER + 3 * MEMBER..][..26], [0xff; 26]);
    assert_eq!(bytes[HEADER + 3 * MEMBER + 26..], [0; 6]);
    group.close();
    group.disable();
    let bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
    assert_eq!(bytes[4..8], [0; 4]);
    let read = Snapshot::from_bytes(id(0), &bytes, group.limits).expect("its own");
    assert_eq!(&read, group.snapshot());
}

/// The sizes that the memory of a configuration is computed from.
#[test]
fn snapshots_have_the_size_of_their_limits() {
    for (members, size, bytes) in [
        (64, 1021, 6_272),
        (256, 1021, 18_872 - 312),
        (256, 4093, 25_016 - 312),
        (3, 13, HEADER + 3 * MEMBER + 32),
    ] {
        assert_eq!(limits(8, members, size).snapshot_bytes(), bytes);
    }
}

#[test]
fn other_limits_do_not_fit() {
    let group = example();
    let snapshot = group.snapshot();
    let refused = snapshot.to_bytes(limits(8, 2, 13)).expect_err("two slots");
    assert_eq!(
        refused.to_string(),
        "group 5, slot 2: slot 2 makes no sense"
    );
    let refused = snapshot.to_bytes(limits(8, 3, 17)).expect_err("17 words");
    assert_eq!(refused.to_string(), "group 5: table_size 13 makes no sense");
    let bytes = snapshot.to_bytes(group.limits).expect("it fits");
    let refused = Snapshot::from_bytes(id(5), &bytes, limits(8, 4, 13));
    assert_eq!(
        refused,
        Err(ImageError::Length {
            group: id(5),
            expected: 416,
            got: 352,
        })
    );
}

/// One byte after the other that must not be anything else: reserved ones, and values that nobody
/// writes.
#[test]
fn what_makes_no_sense_is_not_understood() {
    let group = example();
    let good = group.snapshot().to_bytes(group.limits).expect("it fits");
    let refusal = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let refused = Snapshot::from_bytes(id(5), &bytes, group.limits);
        refused.expect_err("a refusal").to_string()
    };
    let second = HEADER + MEMBER;
    let third = HEADER + 2 * MEMBER;
    let table = HEADER + 3 * MEMBER;
    let reserved = (84..HEADER).chain([43]).chain(second..third);
    for at in reserved.chain(table + 26..table + 32) {
        refusal(at, &[1]);
    }
    for (at, value, message) in [
        (0, 2, "group 5: layout 2 makes no sense"),
        (4, 2, "group 5: flags 0x2 makes no sense"),
        (4, 4, "group 5: flags 0x4 makes no sense"),
        (4, 0x11, "group 5: flags 0x11 makes no sense"),
        (4, 0, "group 5: slots_used 3 makes no sense"),
        (8, 0, "group 5: incarnation 0 makes no sense"),
        (12, 0, "group 5: publication 0 makes no sense"),
        (16, 0, "group 5: next_slot_generation 0 makes no sense"),
        (20, 17, "group 5: table_size 17 makes no sense"),
        (24, 2, "group 5: slots_used 2 makes no sense"),
        (26, 3, "group 5: candidates 3 makes no sense"),
        (28, 2, "group 5: active 2 makes no sense"),
        (32, 55, "group 5: pin_idle_ticks 55 makes no sense"),
        (36, 2, "group 5: pin_refresh_ticks 2 makes no sense"),
        (
            41,
            1,
            "group 5: class 1 with prefix 2001:db8:64::/96 makes no sense",
        ),
        (
            41,
            3,
            "group 5: class 3 with prefix 2001:db8:64::/96 makes no sense",
        ),
        (
            42,
            64,
            "group 5: class 2 with prefix 2001:db8:64::/64 makes no sense",
        ),
        (
            63,
            1,
            "group 5: class 2 with prefix 2001:db8:64::1/96 makes no sense",
        ),
        (44, 5, "group 5: profile 0x5 makes no sense"),
        (83, 1, "group 5: pin_idle_seconds 16777276 makes no sense"),
        (
            HEADER + 9,
            1,
            "group 5, slot 0: sid 2001:db8:ff09:10:e001:: makes no sense",
        ),
        (HEADER + 16, 5, "group 5, slot 0: flags 0x5 makes no sense"),
        (
            HEADER + 16,
            0,
            "group 5, slot 0: next_hop of what is unreachable makes no sense",
        ),
        (
            HEADER + 20,
            0,
            "group 5, slot 0: generation 0 makes no sense",
        ),
        (
            HEADER + 24,
            0,
            "group 5, slot 0: next_hop (ifindex 0 is no interface) makes no sense",
        ),
        (HEADER + 29, 0, "group 5, slot 0: mtu 220 makes no sense"),
        (
            third + 20,
            1,
            "group 5, slot 2: generation 1 makes no sense",
        ),
        (
            third + 7,
            0x10,
            "group 5, slot 2: sid 2001:db8:ff09:10:e000:: makes no sense",
        ),
        (
            table + 2,
            1,
            "group 5: word 1 of the table names slot 1, which nobody has",
        ),
    ] {
        assert_eq!(refusal(at, &[value]), message, "{at}");
    }
}

/// A table that leads elsewhere, which only a fault can make, is read, and put right by the next
/// publication.
#[test]
fn a_wrong_table_is_put_right() {
    let mut group = example();
    let mut bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
    bytes[HEADER + 3 * MEMBER] = 2;
    let read = Snapshot::from_bytes(id(5), &bytes, group.limits).expect("members alone");
    let right = group.snapshot().clone();
    group.published = Some(read);
    let wanted: Vec<_> = right.members.iter().map(|one| one.candidate()).collect();
    let mut wanted = spec(&wanted);
    wanted.settings = right.settings;
    wanted.ineligible = 4;
    let plan = group.publish(&wanted);
    assert!(plan.is_changed());
    assert_eq!(plan.snapshot().table, right.table);
}

/// Rows and words that make no sense cost those alone that they are about; the rest is published anew
/// under the numbers that it had, also where nothing else is to change.
#[test]
fn what_is_left_of_a_damaged_snapshot_keeps_its_numbers() {
    let mut group = example();
    let right = group.snapshot().clone();
    let good = right.to_bytes(group.limits).expect("it fits");
    let third = HEADER + 2 * MEMBER;
    let damages: [(usize, &[u8], &[usize]); 5] = [
        // A flag of a member, the SID of the other one, a word of the table, a count.
        (HEADER + 17, &[0xff], &[1]),
        (third + 15, &[1], &[0]),
        (HEADER + 3 * MEMBER, &[1], &[0, 1]),
        (26, &[7], &[0, 1]),
        // Two with the same number.
        (third + 20, &[1], &[]),
    ];
    for (at, value, left) in damages {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Snapshot::from_bytes(id(5), &bytes, group.limits).expect_err("damage");
        let rest = Snapshot::salvage(id(5), &bytes, group.limits).expect("a sound header");
        let kept: Vec<_> = left.iter().map(|place| right.members[*place]).collect();
        assert_eq!(rest.members, kept, "at {at}");
        let expected = Snapshot {
            members: kept.clone(),
            table: rest.table.clone(),
            ..right.clone()
        };
        assert_eq!(rest, expected, "at {at}");
        group.published = Some(rest.clone());
        let context = guideway::group::Context {
            limits: group.limits,
            rewrite: true,
            ..Default::default()
        };
        let same = |sid| right.member_by_sid(sid).and_then(|member| member.next_hop);
        let plan = guideway::group::track(&rest, same, &context).expect("a plan");
        assert!(plan.is_changed() && plan.repairs(), "at {at}");
        let mended = plan.snapshot();
        let tenures = |of: &Snapshot| -> Vec<_> {
            let members = of.members.iter();
            members
                .map(|one| (one.slot, one.generation, one.sid))
                .collect()
        };
        assert_eq!(tenures(mended), tenures(&rest), "at {at}");
        assert_eq!(mended.incarnation, right.incarnation);
        assert_eq!(plan.base(), Some(right.publication));
        let bytes = mended.to_bytes(group.limits).expect("it fits");
        assert!(Snapshot::from_bytes(id(5), &bytes, group.limits).is_ok());
    }
}

/// Nothing is taken from a header that makes no sense, nor one whose numbers are behind the members'.
#[test]
fn a_damaged_header_is_not_relied_on() {
    let group = example();
    let good = group.snapshot().to_bytes(group.limits).expect("it fits");
    // The layout, flags, tenure, publication, next generation (twice), size of the table, class.
    for (at, value) in [
        (0, 9),
        (4, 64),
        (8, 0),
        (12, 0),
        (16, 0),
        (16, 2),
        (20, 12),
        (41, 9),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert_eq!(Snapshot::salvage(id(5), &bytes, group.limits), None, "{at}");
    }
    assert_eq!(Snapshot::salvage(id(5), &good[1..], group.limits), None);
}

proptest! {
    /// Whatever is published is read back as what it was.
    #[test]
    fn what_is_written_is_read(
        nodes in prop::collection::btree_set(1_u16..0x40, 0..9),
        flow in any::<bool>(),
        idle in prop_oneof![Just(0_u64), 1_u64..=2_592_000],
    ) {
        let candidates: Vec<_> = nodes
            .iter()
            .map(|node| match node % 4 {
                0 => draining(&format!("{node:x}")),
                1 => unreachable(&format!("{node:x}")),
                weight => weighing(&format!("{node:x}"), weight.into()),
            })
            .collect();
        let mut group = Group::of(8);
        let mut wanted = spec(&candidates);
        wanted.settings.hash_mode = if flow { HashMode::Flow } else { HashMode::Source };
        wanted.settings.pin_idle = PinIdle::from_secs(idle).expect("in range");
        if candidates.len() > 8 {
            wanted.candidates.pop();
        }
        group.publish(&wanted);
        let bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
        let read = Snapshot::from_bytes(id(0), &bytes, group.limits);
        prop_assert_eq!(read.as_ref(), Ok(group.snapshot()));
    }

    /// Whatever bytes there are, they are read or refused, and a plan can be made from them.
    #[test]
    fn any_bytes_are_read_or_refused(
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
    ) {
        let mut group = example();
        let mut bytes = group.snapshot().to_bytes(group.limits).expect("it fits");
        let length = bytes.len();
        for (at, value) in changes {
            bytes[at % length] = value;
        }
        if let Some(rest) = Snapshot::salvage(id(5), &bytes, group.limits) {
            let again = rest.to_bytes(group.limits).expect("it fits");
            prop_assert_eq!(Snapshot::from_bytes(id(5), &again, group.limits), Ok(rest));
        }
        if let Ok(read) = Snapshot::from_bytes(id(5), &bytes, group.limits) {
            prop_assert_eq!(read.to_bytes(group.limits), Ok(bytes));
            group.place.class = read.class;
            group.published = Some(read);
            group.restart();
            let plan = group.plan(&shards("11 12"));
            prop_assert!(plan.is_ok(), "{:?}", plan.err());
        }
    }
}
