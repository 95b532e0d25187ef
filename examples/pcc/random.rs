// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random numbers from a seed, the same on every machine, and the distributions of the simulation.

use guideway::hash::{fmix64, splitmix64};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// One of the independent streams of a seed.
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        Self(fmix64(fmix64(seed) ^ stream as u64))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }

    /// The time to the next of events that come independently of each other.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// A value of a distribution.
    pub(crate) fn draw(&mut self, distribution: &[Class]) -> f64 {
        let mut rest = self.unit();
        for class in distribution {
            if rest < class.share {
                return class.from + (class.to - class.from) * rest / class.share;
            }
            rest -= class.share;
        }
        distribution.last().map_or(0.0, |class| class.to)
    }
}

/// What a stream is for. Each has its own, so that one does not depend on how often another was
/// asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Traffic = 1,
    Updates = 2,
    Paths = 3,
    Hash = 4,
}

/// A part of a distribution within which all values are equally frequent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class {
    share: f64,
    from: f64,
    to: f64,
}

const fn class(share: f64, from: f64, to: f64) -> Class {
    Class { share, from, to }
}

/// How long connections last, in seconds: half of them a moment, most of the time is that of a
/// twentieth that lasts nearly four minutes. A stand-in for what was published of Hadoop clusters,
/// with the same mean.
pub(crate) const DURATIONS: [Class; 7] = [
    class(0.500, 0.0, 0.5),
    class(0.260, 9.0, 12.0),
    class(0.140, 20.0, 26.0),
    class(0.030, 30.0, 42.0),
    class(0.020, 80.0, 120.0),
    class(0.048, 222.0, 238.0),
    class(0.002, 520.0, 615.0),
];

/// The mean of [`DURATIONS`] in seconds.
pub(crate) const MEAN_DURATION: f64 = 21.33;

/// For how long a server is away to be upgraded, in seconds. A stand-in, too: most take two to
/// three minutes, one in fifty does not come back.
pub(crate) const DOWNTIMES: [Class; 4] = [
    class(0.04, 60.0, 120.0),
    class(0.86, 120.0, 180.0),
    class(0.08, 180.0, 400.0),
    class(0.02, 20_000.0, 20_000.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distributions_are_whole_and_have_their_means() {
        for distribution in [&DURATIONS[..], &DOWNTIMES[..]] {
            let sum: f64 = distribution.iter().map(|class| class.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
        let mean: f64 = DURATIONS
            .iter()
            .map(|class| class.share * (class.from + class.to) / 2.0)
            .sum();
        assert!((mean - MEAN_DURATION).abs() < 0.005, "{mean}");
        let mut random = Random::new(1, Stream::Traffic);
        let draws = 1_000_000;
        let sum: f64 = (0..draws).map(|_| random.draw(&DURATIONS)).sum();
        let drawn = sum / f64::from(draws);
        assert!((drawn - MEAN_DURATION).abs() < 0.3, "{drawn}");
    }
}
