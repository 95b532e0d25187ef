// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What each member got, next to what it should have.

use super::size::TableSize;

/// One placed member's part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share<'a> {
    /// The member's key.
    pub key: &'a [u8],
    /// Its weight.
    pub weight: u32,
    /// Its slots.
    pub slots: u32,
}

impl Share<'_> {
    /// Its slots in relation to the ideal, `M * weight / weight_sum`, in parts per million,
    /// rounded down.
    #[must_use]
    pub fn ratio_ppm(&self, size: TableSize, weight_sum: u64) -> u64 {
        let ideal = u128::from(size.get()) * u128::from(self.weight);
        let scaled = u128::from(self.slots) * u128::from(weight_sum) * 1_000_000;
        // A placed member has a weight and no share is above the ideal by more than a slot and
        // N / M, so the ratio is below 2^54.
        scaled.checked_div(ideal).map_or(0, |ppm| ppm as u64)
    }
}

/// The least and the greatest ratio of slots to the ideal among the placed members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spread {
    /// The least, in parts per million, rounded down.
    pub min_ppm: u64,
    /// The greatest, in parts per million, rounded down.
    pub max_ppm: u64,
}

/// Shares of a table's placed members, in ascending order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shares<'a> {
    /// The table's size.
    pub size: TableSize,
    /// Sum of the weights.
    pub weight_sum: u64,
    /// The members.
    pub members: Vec<Share<'a>>,
    /// How far shares are from the ideal; `None` in an empty table.
    pub spread: Option<Spread>,
    /// True if there are fewer than 100 slots per member, so that equal weights may differ by more
    /// than one percent.
    pub below_rule: bool,
}

impl<'a> Shares<'a> {
    pub(super) fn new(size: TableSize, weight_sum: u64, members: Vec<Share<'a>>) -> Self {
        let spread = members
            .iter()
            .map(|share| share.ratio_ppm(size, weight_sum))
            .fold(None, |spread: Option<Spread>, ppm| {
                let Spread { min_ppm, max_ppm } = spread.unwrap_or(Spread {
                    min_ppm: ppm,
                    max_ppm: ppm,
                });
                Some(Spread {
                    min_ppm: min_ppm.min(ppm),
                    max_ppm: max_ppm.max(ppm),
                })
            });
        let below_rule = size.below_rule(members.len());
        Self {
            size,
            weight_sum,
            members,
            spread,
            below_rule,
        }
    }
}
