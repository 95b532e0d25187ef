// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Primes near a table size.

/// Whether `n` is prime, by trial division: at most 32,768 steps.
pub(super) fn is_prime(n: u32) -> bool {
    n == 2
        || (n > 2
            && n % 2 == 1
            && (3..)
                .step_by(2)
                .take_while(|d| d * d <= u64::from(n))
                .all(|d| u64::from(n) % d != 0))
}

/// The primes from `min` to `max` next below and next above `n`.
pub(super) fn neighbours(n: u64, min: u32, max: u32) -> impl Iterator<Item = u32> {
    let below = (min..=max).rev().find(|&p| u64::from(p) < n && is_prime(p));
    let above = (min..=max).find(|&p| u64::from(p) > n && is_prime(p));
    below.into_iter().chain(above)
}
