// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The clock of pins.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use crate::abi;
use crate::kernel::clock;

/// Bits of nanoseconds below a tick.
const SHIFT: u32 = abi::Tick::GW_TICK_SHIFT.0;

/// A time of the coarse monotonic clock in units of 2^30 ns, 1.0737 s. The numbers go round, so two
/// times have no order but [`since`](Self::since).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct Tick(u32);

impl Tick {
    /// The tick of this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The tick at a time of the monotonic clock.
    #[must_use]
    pub const fn at_ns(monotonic_ns: u64) -> Self {
        Self((monotonic_ns >> SHIFT) as u32)
    }

    /// Now, by the clock that packets have.
    #[must_use]
    pub fn now() -> Self {
        Self::at_ns(clock::monotonic_coarse_ns())
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Ticks since an earlier time; negative if it is a later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// How long ago an earlier time was, a tick more or less; nothing for a later one.
    #[must_use]
    pub const fn elapsed_since(self, earlier: Self) -> Duration {
        let ticks = self.since(earlier);
        let ticks = if ticks < 0 { 0 } else { ticks as u64 };
        Duration::from_nanos(ticks << SHIFT)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
