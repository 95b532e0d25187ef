// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every error of a build, and that it leaves the output alone.

use guideway::maglev::{build_into, BuildError, Member, Scratch, SlotIndex, Table};

use crate::support::size;

const LONGEST: usize = 1024;

/// The error of a build into a buffer that must stay as it was, with a scratch that must still be
/// good for the next build.
fn refused<S: SlotIndex>(
    slots: u32,
    length: usize,
    fill: S,
    members: &[Member<'_, S>],
) -> BuildError {
    let mut scratch = Scratch::new();
    let valid = [Member::new(
        b"x",
        members.first().map_or(fill, |m| m.index),
        1,
    )];
    let valid = if valid[0].index == S::NONE {
        &valid[..0]
    } else {
        &valid[..]
    };
    let mut before = vec![fill; slots as usize];
    build_into(&mut before, &mut scratch, size(slots), valid).expect("valid members");

    let mut out = vec![fill; length];
    let error = build_into(&mut out, &mut scratch, size(slots), members).expect_err("bad members");
    assert!(
        out.iter().all(|&slot| slot == fill),
        "{error}: the output was written to"
    );

    let mut after = vec![fill; slots as usize];
    build_into(&mut after, &mut scratch, size(slots), valid).expect("valid members");
    assert_eq!(before, after, "{error}");
    error
}

fn error(slots: u32, members: &[Member<'_, u16>]) -> BuildError {
    refused(slots, slots as usize, 0x5555, members)
}

#[test]
fn fewer_slots_than_members() {
    let members = [
        Member::new(&b"a"[..], 0, 1),
        Member::new(b"b", 1, 1),
        Member::new(b"c", 2, 1u32),
    ];
    assert_eq!(
        error(2, &members),
        BuildError::SizeTooSmall { size: 2, placed: 3 }
    );
    let mut two = members;
    two[1].weight = 0;
    assert!(Table::build(size(2), &two).is_ok());
    two[1] = Member {
        eligible: false,
        ..members[1]
    };
    assert!(Table::build(size(2), &two).is_ok());
}

#[test]
fn one_key_twice() {
    let duplicate = |first, second| BuildError::DuplicateKey {
        key: b"a".to_vec().into(),
        first,
        second,
    };
    let members = [
        Member::new(&b"a"[..], 0, 1),
        Member::new(b"b", 1, 1),
        Member::new(b"a", 2, 0),
        Member {
            eligible: false,
            ..Member::new(b"c", 3, 1)
        },
        Member {
            eligible: false,
            ..Member::new(b"c", 4, 0)
        },
    ];
    assert_eq!(error(13, &members), duplicate(0, 2));
    let mut turned = members;
    turned.reverse();
    assert_eq!(error(13, &turned), duplicate(2, 4));
    turned[2] = Member::new(b"d", 2, 1);
    let both_out = BuildError::DuplicateKey {
        key: b"c".to_vec().into(),
        first: 0,
        second: 1,
    };
    assert_eq!(error(13, &turned), both_out);
}

/// Keys are compared as a whole: neither a prefix nor trailing zeros nor eight common bytes make
/// them the same.
#[test]
fn similar_keys_are_different_keys() {
    let keys: [&[u8]; 9] = [
        b"a",
        b"a\0",
        b"a\0\0\0\0\0\0\0\0\0",
        b"aa",
        b"aaaaaaaaaaaaaaaa",
        b"aaaaaaaaaaaaaaab",
        b"aaaaaaaaaaaaaaab\0",
        b"\0",
        b"\0\0",
    ];
    let members: Vec<_> = (0u16..)
        .zip(keys)
        .map(|(n, key)| Member::new(key, n, 1))
        .collect();
    assert!(Table::build(size(1021), &members).is_ok());
}

#[test]
fn one_index_twice() {
    let members = [
        Member::new(&b"a"[..], 9, 1),
        Member {
            eligible: false,
            ..Member::new(b"b", 4, 1)
        },
        Member::new(b"c", 8, 1),
        Member::new(b"d", 4, 0),
        Member::new(b"e", 4, 0),
    ];
    let expected = BuildError::DuplicateIndex {
        index: 4,
        first: 1,
        second: 3,
    };
    assert_eq!(error(13, &members), expected);
}

#[test]
fn the_reserved_index() {
    let reserved = |index, member| BuildError::ReservedIndex { index, member };
    let members = [Member::new(&b"a"[..], 0, 1), Member::new(b"b", u16::MAX, 1)];
    assert_eq!(error(13, &members), reserved(0xffff, 1));
    let members = [Member {
        eligible: false,
        ..Member::new(b"a", u32::MAX, 0)
    }];
    assert_eq!(refused(13, 13, 1, &members), reserved(0xffff_ffff, 0));
    assert_eq!(
        refused(13, 13, 1, &[Member::new(b"a", 0xffu8, 0)]),
        reserved(0xff, 0)
    );
    assert!(Table::build(size(13), &[Member::new(b"a", 0xffu16, 0)]).is_ok());
}

#[test]
fn key_lengths() {
    let members = [Member::new(&b"a"[..], 0, 1), Member::new(b"", 1, 0)];
    assert_eq!(error(13, &members), BuildError::EmptyKey { member: 1 });
    let long = [b'k'; LONGEST + 1];
    let members = [Member::new(&long[..], 0, 0)];
    let expected = BuildError::KeyTooLong {
        member: 0,
        length: 1025,
        max: 1024,
    };
    assert_eq!(error(13, &members), expected);
    assert!(Table::build(size(13), &[Member::new(&long[1..], 0u16, 1)]).is_ok());
}

#[test]
fn more_members_than_indices() {
    let keys: Vec<_> = (0u32..65_536).map(u32::to_be_bytes).collect();
    let wide: Vec<_> = keys
        .iter()
        .map(|key| Member::new(&key[..], 0u16, 0))
        .collect();
    let expected = BuildError::TooManyMembers {
        given: 65_536,
        limit: 65_535,
    };
    assert_eq!(error(13, &wide), expected);

    let mut full: Vec<_> = keys
        .iter()
        .zip(0u16..u16::MAX)
        .map(|(key, index)| Member::new(&key[..], index, 1))
        .collect();
    let table = Table::build(size(65_537), &full).expect("all indices");
    assert_eq!(table.shares().members.len(), 65_535);
    full.truncate(256);
    let narrow: Vec<_> = full.iter().map(|m| Member::new(m.key, 0u8, 1)).collect();
    let expected = BuildError::TooManyMembers {
        given: 256,
        limit: 255,
    };
    assert_eq!(refused(257, 257, 1, &narrow), expected);
}

#[test]
fn output_lengths() {
    let members = [Member::new(&b"a"[..], 0u16, 1)];
    for got in [0, 12, 14] {
        let expected = BuildError::OutputLength { expected: 13, got };
        assert_eq!(refused(13, got, 7, &members), expected);
    }
}

#[test]
fn messages_name_the_values() {
    let key = b"10.0.0.1\xff".to_vec().into();
    let error = BuildError::DuplicateKey {
        key,
        first: 1,
        second: 4,
    };
    assert_eq!(
        error.to_string(),
        r#"members 1 and 4 have the same key "10.0.0.1\xff""#
    );
    let error = BuildError::SizeTooSmall {
        size: 13,
        placed: 14,
    };
    let expected = "14 members with a weight need at least as many slots, but the table has 13";
    assert_eq!(error.to_string(), expected);
}
