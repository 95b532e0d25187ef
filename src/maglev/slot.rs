// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Types of a slot's value.

use std::fmt::Debug;
use std::hash::Hash;

pub(super) mod sealed {
    /// Closes [`super::SlotIndex`] and converts back from a number that came from `to_u32`.
    pub trait Sealed {
        fn from_u32(value: u32) -> Self;
    }
}

/// A slot's value: the index of the member that owns it, or [`SlotIndex::NONE`].
///
/// `u16` fits up to 65,535 members and `u32` more; `u8`, for up to 255, is there for layouts of one
/// byte per slot, so that nothing needs to be narrowed afterwards. The type has no influence on
/// who owns a slot.
pub trait SlotIndex: Copy + Ord + Hash + Debug + Send + Sync + sealed::Sealed + 'static {
    /// The value of a slot without an owner: all bits set. No member may have it as its index.
    const NONE: Self;
    /// How many members have distinct indices.
    const MAX_MEMBERS: usize;

    /// The value as a number.
    fn to_u32(self) -> u32;
}

macro_rules! slot_index {
    ($($int:ty),*) => {$(
        impl sealed::Sealed for $int {
            #[inline]
            fn from_u32(value: u32) -> Self {
                value as Self
            }
        }

        impl SlotIndex for $int {
            const NONE: Self = Self::MAX;
            const MAX_MEMBERS: usize = Self::MAX as usize;

            #[inline]
            fn to_u32(self) -> u32 {
                self.into()
            }
        }
    )*};
}

slot_index!(u8, u16, u32);
