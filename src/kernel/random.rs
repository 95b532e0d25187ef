// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Randomness from the kernel, for secrets.

use std::fs::File;
use std::io::Read;

use super::SysError;

/// 64 random bits.
pub fn word() -> Result<u64, SysError> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    File::open(SOURCE)
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| SysError::from_io("read", SOURCE, &error))?;
    Ok(u64::from_ne_bytes(bytes))
}
