// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Numbers that only rise: counts by label, and how long things took.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use super::label::Label;

/// A count for each value of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts<L: Label>(BTreeMap<L, u64>);

impl<L: Label> Default for Counts<L> {
    fn default() -> Self {
        Self(L::ALL.iter().map(|label| (*label, 0)).collect())
    }
}

impl<L: Label> Counts<L> {
    /// Counts one more.
    pub fn count(&mut self, label: L) {
        self.add(label, 1);
    }

    /// Counts so many more.
    pub fn add(&mut self, label: L, more: u64) {
        let count = self.0.entry(label).or_default();
        *count = count.wrapping_add(more);
    }

    /// Takes over a count that somebody else keeps, and that only rises there.
    pub fn set(&mut self, label: L, count: u64) {
        self.0.insert(label, count);
    }

    /// The count.
    #[must_use]
    pub fn of(&self, label: L) -> u64 {
        self.0.get(&label).copied().unwrap_or(0)
    }

    /// Each value with its count, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (L, u64)> + '_ {
        self.0.iter().map(|(label, count)| (*label, *count))
    }
}

/// A count that somebody else keeps, who may be replaced by one that begins at nothing: their sum
/// goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried<T> {
    /// Of those who were replaced.
    before: T,
    /// Of the present one, as far as it was told.
    last: T,
}

impl<T: Copy + Default + Add<Output = T>> Carried<T> {
    /// Takes in what the present one has counted, and gives the count of all.
    pub fn told(&mut self, count: T) -> T {
        self.last = count;
        self.before + self.last
    }

    /// Another one begins.
    pub fn replaced(&mut self) {
        self.before = self.before + self.last;
        self.last = T::default();
    }
}

/// How long things took, by upper bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [Duration],
    /// By bound, and one more for what is above all of them.
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// Nothing yet, to be sorted by these bounds, which rise.
    #[must_use]
    pub fn new(bounds: &'static [Duration]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: Duration::ZERO,
        }
    }

    /// Counts what took so long.
    pub fn observe(&mut self, took: Duration) {
        let place = self.bounds.partition_point(|bound| *bound < took);
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.wrapping_add(1);
        }
        self.sum = self.sum.saturating_add(took);
    }

    /// Each bound with the number of those that took at most so long.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.bounds
            .iter()
            .zip(&self.counts)
            .scan(0_u64, |sum, (bound, count)| {
                *sum = sum.wrapping_add(*count);
                Some((*bound, *sum))
            })
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// How long all of them took together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::label::Side;
    use super::*;

    #[test]
    fn counts_begin_at_nothing_and_rise() {
        let mut counts = Counts::default();
        assert_eq!(
            counts.iter().collect::<Vec<_>>(),
            [(Side::Shared, 0), (Side::Exclusive, 0)]
        );
        counts.count(Side::Exclusive);
        counts.add(Side::Exclusive, 4);
        assert_eq!(
            (counts.of(Side::Shared), counts.of(Side::Exclusive)),
            (0, 5)
        );
        counts.set(Side::Shared, 9);
        assert_eq!(counts.of(Side::Shared), 9);
    }

    #[test]
    fn a_count_goes_on_when_its_keeper_is_replaced() {
        let mut carried = Carried::<u64>::default();
        assert_eq!((carried.told(3), carried.told(5)), (3, 5));
        carried.replaced();
        // One that has counted more at once is not taken for the one before.
        assert_eq!((carried.told(0), carried.told(9)), (5, 14));
        carried.replaced();
        carried.replaced();
        assert_eq!(carried.told(1), 15);
    }

    #[test]
    fn a_bound_belongs_to_what_it_bounds() {
        const BOUNDS: &[Duration] = &[Duration::from_millis(1), Duration::from_millis(10)];
        let mut histogram = Histogram::new(BOUNDS);
        for microseconds in [0, 1000, 1001, 10_000, 10_001] {
            histogram.observe(Duration::from_micros(microseconds));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(BOUNDS[0], 2), (BOUNDS[1], 4)]);
        assert_eq!(histogram.count(), 5);
        assert_eq!(histogram.sum(), Duration::from_micros(22_002));
    }
}
