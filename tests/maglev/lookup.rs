// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Lookups by hash and by slot, and digests as text.

use guideway::maglev::{Digest, Member, SlotIndex, Table, TableSize};
use proptest::prelude::*;

use crate::support::size;

fn abc() -> Table<u16> {
    let members = [b"a", b"b", b"c"].into_iter().zip([10, 20, 30]);
    let members: Vec<_> = members
        .map(|(key, index)| Member::new(key, index, 1))
        .collect();
    Table::build(size(13), &members).expect("valid members")
}

/// Owners of the table of `a`, `b` and `c` at 13 slots.
const ABC: [u16; 13] = [10, 30, 20, 20, 10, 10, 20, 30, 30, 10, 30, 10, 20];

#[test]
fn by_remainder() {
    let table = abc();
    for (hash, slot) in [(0, 0), (12, 12), (13, 0), (14, 1), (u32::MAX, 8)] {
        assert_eq!(table.by_modulo(hash), Some(ABC[slot]), "hash {hash}");
    }
}

#[test]
fn by_multiplication() {
    let table = abc();
    // 2^32 / 13 is 330,382,099.69...
    let hashes = [
        (0, 0),
        (330_382_099, 0),
        (330_382_100, 1),
        (0x8000_0000, 6),
        (3_964_585_196, 11),
        (3_964_585_197, 12),
        (u32::MAX, 12),
    ];
    for (hash, slot) in hashes {
        assert_eq!(
            table.by_multiply_shift(hash),
            Some(ABC[slot]),
            "hash {hash}"
        );
    }
}

#[test]
fn by_slot() {
    let table = abc();
    assert_eq!(table.slots(), ABC);
    let owner = |slot| table.owner(slot);
    assert_eq!(
        [owner(0), owner(1), owner(2)],
        [&b"a"[..], b"c", b"b"].map(Some)
    );
    assert_eq!(owner(13), None);
    assert_eq!(owner(u32::MAX), None);
}

#[test]
fn an_empty_table_answers_nothing() {
    let out = Member {
        eligible: false,
        ..Member::new(b"a", 0, 1)
    };
    for members in [vec![], vec![out], vec![Member::new(b"b", 1, 0), out]] {
        let table = Table::<u16>::build(size(1021), &members).expect("valid members");
        assert!(table.is_empty());
        assert!(table.slots().iter().all(|&slot| slot == u16::NONE));
        assert_eq!(table.by_modulo(77), None);
        assert_eq!(table.by_multiply_shift(77), None);
        assert_eq!(table.owner(77), None);
        assert_eq!(table.digest().to_string(), "8b2bafb95b9d7322");
    }
}

#[test]
fn digests_as_text() {
    let digest = Digest::from(0x0123_4567_89ab_cdef);
    assert_eq!(digest.to_string(), "0123456789abcdef");
    assert_eq!("0123456789abcdef".parse(), Ok(digest));
    assert_eq!(Digest::from(5).to_string(), "0000000000000005");
    for text in [
        "",
        "0",
        "0123456789ABCDEF",
        "+123456789abcdef",
        "0123456789abcdef0",
        "012345678 abcdef",
    ] {
        assert!(text.parse::<Digest>().is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn slots_of_hashes_are_in_the_table(hash in any::<u32>(), listed in 0..8usize) {
        let size = TableSize::LISTED[listed];
        let m = size.get();
        prop_assert_eq!(size.slot_by_modulo(hash), hash % m);
        let scaled = u128::from(hash) * u128::from(m) / (1 << 32);
        prop_assert_eq!(u128::from(size.slot_by_multiply_shift(hash)), scaled);
        prop_assert!(size.slot_by_multiply_shift(hash) < m);
    }
}
