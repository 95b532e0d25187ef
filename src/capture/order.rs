// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Numbers in the byte order of the machine that wrote the file.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    /// The number at `at`, unless the bytes end before.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => u16::from_be_bytes(number),
            Self::Little => u16::from_le_bytes(number),
        })
    }

    /// The number at `at`, unless the bytes end before.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => u32::from_be_bytes(number),
            Self::Little => u32::from_le_bytes(number),
        })
    }

    /// The number at `at`, unless the bytes end before.
    pub(super) fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => i64::from_be_bytes(number),
            Self::Little => i64::from_le_bytes(number),
        })
    }
}
