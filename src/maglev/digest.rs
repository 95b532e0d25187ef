// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A number to compare tables by.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::fnv::Fnv;
use super::size::TableSize;

/// Names what is hashed and how; another construction needs another tag.
const TAG: &[u8; 12] = b"gw-maglev-1\0";
/// The position that stands for no owner.
pub(super) const UNOWNED: u32 = u32::MAX;

/// A digest of which key owns which slot.
///
/// Two tables of one digest have the same owners, but for collisions of a 64-bit hash, whatever
/// their slot types, indices and weights. It finds drift and faults in a fleet. It is no
/// commitment: whoever chooses keys can make digests collide.
///
/// Printed and parsed as 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The digest as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for Digest {
    fn from(digest: u64) -> Self {
        Self(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Text that is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a table digest is 16 lower-case hexadecimal digits")]
pub struct ParseDigestError(());

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(digit) {
            return Err(ParseDigestError(()));
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| ParseDigestError(()))
    }
}

/// A digest being computed: the owners' keys in ascending order, then the slots.
pub(super) struct Hasher {
    state: Fnv,
    owners: u32,
}

impl Hasher {
    /// `keys` are those of the `owners` members that have a slot.
    pub(super) fn new<'k>(
        size: TableSize,
        owners: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Self {
        // No table has more owners than slots.
        let owners = owners as u32;
        let tag = Fnv::new().write(TAG);
        let state = tag
            .write(&size.get().to_be_bytes())
            .write(&owners.to_be_bytes());
        let state = keys.fold(state, |state, key| {
            state.write(&(key.len() as u32).to_be_bytes()).write(key)
        });
        Self { state, owners }
    }

    /// Hashes the positions of slots' owners in the list of owners, or [`UNOWNED`].
    ///
    /// Each is four bytes, the highest first. A run of zero bytes costs a single multiplication,
    /// and the number of owners says how many of the four are zero throughout.
    pub(super) fn slots(&mut self, positions: &[u32]) {
        let state = self.state;
        self.state = match self.owners {
            // No owner, so no position either.
            0 => positions.iter().fold(state, |state, position| {
                state.write(&position.to_be_bytes())
            }),
            1..=0x100 => positions
                .iter()
                .fold(state, |state, &p| state.zeros::<3>().byte(p as u8)),
            0x101..=0x1_0000 => positions.iter().fold(state, |state, &p| {
                state.zeros::<2>().write(&(p as u16).to_be_bytes())
            }),
            _ => positions
                .iter()
                .fold(state, |state, p| state.write(&p.to_be_bytes())),
        };
    }

    pub(super) fn finish(self) -> Digest {
        Digest(self.state.finish())
    }
}
