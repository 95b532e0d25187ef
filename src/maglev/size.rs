// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Table sizes.

use std::fmt;

use super::error::SizeError;

/// Slots per member that keep the imbalance of equal weights within one percent.
const SLOTS_PER_MEMBER: usize = 100;

/// Number of slots of a table: a prime from 2 to [`TableSize::MAX`].
///
/// The size is part of what a consumer shares with the kernel, so it is always the caller's choice
/// and never adjusted to the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableSize(u32);

impl TableSize {
    /// The largest size, the largest prime below 2^21.
    pub const MAX: u32 = 2_097_143;
    /// Size of a shard group's table.
    pub const SHARD: Self = Self(1021);
    /// Size of a service's table.
    pub const SERVICE: Self = Self(65_537);
    /// Sizes to choose from, ascending; the sizes that [`TableSize::recommended`] knows.
    pub const LISTED: [Self; 8] = [
        Self(1021),
        Self(4093),
        Self(16_381),
        Self(65_537),
        Self(131_071),
        Self(655_373),
        Self(1_048_573),
        Self(2_097_143),
    ];

    /// Checks that `slots` is a prime in range.
    ///
    /// # Errors
    /// Every other number is refused; a composite one with the nearest primes.
    pub const fn new(slots: u32) -> Result<Self, SizeError> {
        if slots < 2 {
            return Err(SizeError::TooSmall { requested: slots });
        }
        if slots > Self::MAX {
            return Err(SizeError::TooLarge {
                requested: slots,
                max: Self::MAX,
            });
        }
        if is_prime(slots) {
            return Ok(Self(slots));
        }
        // Both loops end: 2 lies below every composite number and MAX, a prime, above.
        let mut below = slots - 1;
        while !is_prime(below) {
            below -= 1;
        }
        let mut above = slots + 1;
        while !is_prime(above) {
            above += 1;
        }
        Err(SizeError::NotPrime {
            requested: slots,
            below,
            above,
        })
    }

    /// The smallest of [`TableSize::LISTED`] with at least 100 slots for each of `members`, or
    /// `None` if there is no such size.
    #[must_use]
    pub fn recommended(members: usize) -> Option<Self> {
        Self::LISTED
            .into_iter()
            .find(|size| !size.below_rule(members))
    }

    /// True if `members` have fewer than 100 slots each, so that equal weights may get shares that
    /// differ by more than one percent.
    #[must_use]
    pub const fn below_rule(self, members: usize) -> bool {
        (self.0 as usize) < members.saturating_mul(SLOTS_PER_MEMBER)
    }

    /// The number of slots.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number of slots, as a length.
    #[must_use]
    pub const fn slots(self) -> usize {
        self.0 as usize
    }

    /// The slot of a hash by remainder.
    #[must_use]
    pub const fn slot_by_modulo(self, hash: u32) -> u32 {
        hash % self.0
    }

    /// The slot of a hash by multiplication: `hash * M / 2^32`.
    #[must_use]
    pub const fn slot_by_multiply_shift(self, hash: u32) -> u32 {
        ((hash as u64 * self.0 as u64) >> 32) as u32
    }
}

impl TryFrom<u32> for TableSize {
    type Error = SizeError;

    fn try_from(slots: u32) -> Result<Self, SizeError> {
        Self::new(slots)
    }
}

impl From<TableSize> for u32 {
    fn from(size: TableSize) -> Self {
        size.get()
    }
}

impl fmt::Display for TableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Trial division; a size has at most 1,448 divisors to try.
const fn is_prime(n: u32) -> bool {
    if n < 4 {
        return n >= 2;
    }
    if n % 2 == 0 {
        return false;
    }
    let mut divisor = 3;
    while divisor * divisor <= n {
        if n % divisor == 0 {
            return false;
        }
        divisor += 2;
    }
    true
}
