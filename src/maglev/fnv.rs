// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! FNV-1a, 64 bits, and the preference list derived from it.

use super::size::TableSize;

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

const OFFSET_SEED: u64 = 0xda7a_5eed_0ffc_e7e5;
const SKIP_SEED: u64 = 0x5eed_da7a_1ceb_00c5;

/// FNV-1a state.
#[derive(Clone, Copy)]
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) const fn new() -> Self {
        Self(BASIS)
    }

    #[inline]
    pub(super) fn write(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |state, &byte| state.byte(byte))
    }

    #[inline]
    pub(super) fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(PRIME))
    }

    /// `N` zero bytes in one multiplication.
    #[inline]
    pub(super) fn zeros<const N: u32>(self) -> Self {
        Self(self.0.wrapping_mul(const { PRIME.wrapping_pow(N) }))
    }

    pub(super) const fn finish(self) -> u64 {
        self.0
    }
}

/// A member's first slot and the distance from each slot of its preference list to the next.
#[inline]
pub(super) fn preference(key: &[u8], size: TableSize) -> (u32, u32) {
    let m = u64::from(size.get());
    let key = Fnv::new().write(key);
    let offset = key.write(&OFFSET_SEED.to_be_bytes()).finish() % m;
    let skip = key.write(&SKIP_SEED.to_be_bytes()).finish() % (m - 1) + 1;
    (offset as u32, skip as u32)
}
