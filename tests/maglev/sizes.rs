// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Table sizes.

use guideway::maglev::{SizeError, TableSize};

const AT_COMPILE_TIME: Result<TableSize, SizeError> = TableSize::new(65_537);

/// Which numbers up to the largest size are prime, by the sieve of Eratosthenes.
fn sieve() -> Vec<bool> {
    let mut prime = vec![true; TableSize::MAX as usize + 1];
    prime[..2].fill(false);
    for n in 2..1449 {
        if prime[n] {
            (n * n..prime.len())
                .step_by(n)
                .for_each(|multiple| prime[multiple] = false);
        }
    }
    prime
}

#[test]
fn primes_are_accepted_and_others_are_not() {
    let prime = sieve();
    // Every number up to 20,000, and from there one of 97 (every tenth prime or so is met).
    let numbers = (2..20_000).chain((20_000..=TableSize::MAX).step_by(97));
    for n in numbers.chain([TableSize::MAX - 1, TableSize::MAX]) {
        let expected = if prime[n as usize] {
            Ok(n)
        } else {
            let below = (2..n)
                .rev()
                .find(|&below| prime[below as usize])
                .expect("2 is prime");
            let above = (n..=TableSize::MAX).find(|&above| prime[above as usize]);
            Err(SizeError::NotPrime {
                requested: n,
                below,
                above: above.expect("MAX is prime"),
            })
        };
        assert_eq!(TableSize::new(n).map(TableSize::get), expected);
    }
}

#[test]
fn out_of_range() {
    for requested in [0, 1] {
        assert_eq!(
            TableSize::new(requested),
            Err(SizeError::TooSmall { requested })
        );
    }
    for requested in [TableSize::MAX + 1, 2_097_169, u32::MAX] {
        let expected = SizeError::TooLarge {
            requested,
            max: 2_097_143,
        };
        assert_eq!(TableSize::new(requested), Err(expected));
    }
    assert_eq!(
        SizeError::NotPrime {
            requested: 1024,
            below: 1021,
            above: 1031
        }
        .to_string(),
        "table size 1024 is not prime; the nearest primes are 1021 and 1031"
    );
}

#[test]
fn named_sizes_are_primes() {
    let prime = sieve();
    let listed = TableSize::LISTED.map(TableSize::get);
    assert_eq!(
        listed,
        [1021, 4093, 16_381, 65_537, 131_071, 655_373, 1_048_573, 2_097_143]
    );
    for size in TableSize::LISTED
        .into_iter()
        .chain([TableSize::SHARD, TableSize::SERVICE])
    {
        assert!(prime[size.slots()], "{size}");
    }
    assert_eq!(
        (TableSize::SHARD.get(), TableSize::SERVICE.get()),
        (1021, 65_537)
    );
    assert_eq!(AT_COMPILE_TIME, Ok(TableSize::SERVICE));
    assert_eq!(TableSize::try_from(1021), Ok(TableSize::SHARD));
}

#[test]
fn recommended_sizes_have_a_hundred_slots_per_member() {
    let up_to = [
        (10, 1021),
        (40, 4093),
        (163, 16_381),
        (655, 65_537),
        (1310, 131_071),
        (6553, 655_373),
        (10_485, 1_048_573),
        (20_971, 2_097_143),
    ];
    let mut first = 0;
    for (last, slots) in up_to {
        for members in [first, last] {
            assert_eq!(
                TableSize::recommended(members).map(TableSize::get),
                Some(slots)
            );
        }
        first = last + 1;
    }
    assert_eq!(TableSize::recommended(first), None);
    assert_eq!(TableSize::recommended(usize::MAX), None);
}
