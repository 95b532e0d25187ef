// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The kernel's clocks in nanoseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{clock_gettime, ClockId};

/// Time since boot, suspended time included: for ages that last.
pub fn boot_ns() -> u64 {
    now(ClockId::CLOCK_BOOTTIME)
}

/// Time since boot without suspended time: what `bpf_ktime_get_ns` returns.
pub fn monotonic_ns() -> u64 {
    now(ClockId::CLOCK_MONOTONIC)
}

/// [`monotonic_ns`] as a duration: what loops and their machines keep time by.
pub fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

/// The monotonic clock as of the last tick: what programs read as the coarse clock.
pub fn monotonic_coarse_ns() -> u64 {
    now(ClockId::CLOCK_MONOTONIC_COARSE)
}

/// Time since 1970; for people and files, never for comparing with the clocks above.
pub fn wall_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn now(clock: ClockId) -> u64 {
    // These clocks exist on every Linux, and the call fails for unknown clocks only.
    let time = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
