// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How much memory the machine has to give.

use std::fs;

/// Bytes that new objects can have without anything else being pushed out, as the kernel estimates
/// them (`MemAvailable`); none where it does not say.
pub fn available_bytes() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_estimate_is_read_in_bytes() {
        let meminfo = "MemTotal:        8123456 kB\nMemFree:          123456 kB\n\
                       MemAvailable:    2000000 kB\nBuffers:            1000 kB\n";
        assert_eq!(available(meminfo), Some(2_048_000_000));
        assert_eq!(available("MemTotal: 8123456 kB\n"), None);
        assert_eq!(available("MemAvailable: many kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
