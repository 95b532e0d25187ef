// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How long to wait before a server is asked again.

use std::time::Duration;

/// The shortest wait.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest, whatever a server asks for.
const LONGEST: Duration = Duration::from_secs(30);

/// Doubles the wait with each failure. The upper half of each is random, so that the nodes that lost
/// one server do not come back at one moment.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure: 1 to 2 seconds the first time, 15 to 30 in the end, and no
    /// less than the server asked for if that is not more than 30.
    pub(super) fn next(&mut self, random: u64, asked: Option<Duration>) -> Duration {
        let upper = SHORTEST * 2u32.saturating_pow(self.failures.saturating_add(1).min(5));
        let upper = upper.min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // 32 random bits of a fraction.
        let fraction = (random >> 32) as f64 / f64::from(u32::MAX);
        let wait = upper / 2 + (upper / 2).mul_f64(fraction);
        wait.max(asked.unwrap_or_default()).min(LONGEST)
    }

    /// The server is well again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_from_one_second_to_thirty() {
        for (random, expected) in [(0, [1, 2, 4, 8, 15, 15]), (u64::MAX, [2, 4, 8, 16, 30, 30])] {
            let mut backoff = Backoff::default();
            let waits = expected.map(|_| backoff.next(random, None));
            assert_eq!(waits, expected.map(|seconds| SECOND * seconds));
        }
    }

    #[test]
    fn no_number_of_failures_leaves_the_bounds() {
        let mut backoff = Backoff {
            failures: u32::MAX - 1,
        };
        for _ in 0..4 {
            assert_eq!(backoff.next(0, None), SECOND * 15);
        }
    }

    #[test]
    fn waits_are_spread() {
        let waits: Vec<_> = (0..4u64)
            .map(|part| Backoff::default().next(part << 62, None).as_millis())
            .collect();
        assert_eq!(waits, [1000, 1250, 1500, 1750]);
    }

    #[test]
    fn a_server_may_ask_for_more_up_to_the_longest() {
        let first = |asked| Backoff::default().next(0, Some(SECOND * asked));
        assert_eq!(
            [first(0), first(7), first(3600)],
            [SECOND, SECOND * 7, SECOND * 30]
        );
    }

    #[test]
    fn a_server_that_is_well_again_starts_anew() {
        let mut backoff = Backoff::default();
        let last = (0..9).map(|_| backoff.next(0, None)).last();
        assert_eq!(last, Some(SECOND * 15));
        backoff.reset();
        assert_eq!(backoff.next(0, None), SECOND);
    }
}
