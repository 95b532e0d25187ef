// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connection IDs that a server issues.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use super::MAX_CID_LEN;
use crate::hex::{self, HexError};

/// A connection ID that a server can issue and a balancer can bind: 1 to 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid {
    // Bytes beyond the length are zero, so that the derived comparisons compare the ID.
    bytes: [u8; MAX_CID_LEN],
    len: u8,
}

/// A connection ID of no usable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a connection ID of this kind has {min} to {MAX_CID_LEN} bytes, not {len}")]
pub struct CidLengthError {
    /// The least length that is allowed.
    pub min: usize,
    /// The length in question.
    pub len: usize,
}

impl Cid {
    /// The connection ID of these bytes.
    pub fn new(cid: &[u8]) -> Result<Self, CidLengthError> {
        Self::with_len(cid.len(), 1, |bytes| bytes.copy_from_slice(cid))
    }

    /// A connection ID whose `len` bytes, at least `min` and 1, are written by `fill`.
    pub(super) fn with_len(
        len: usize,
        min: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Self, CidLengthError> {
        let mut bytes = [0; MAX_CID_LEN];
        match bytes.get_mut(..len) {
            Some(cid) if len >= min.max(1) => fill(cid),
            _ => return Err(CidLengthError { min, len }),
        }
        // At most MAX_CID_LEN, so it fits a byte.
        Ok(Self {
            bytes,
            len: len as u8,
        })
    }
}

impl Deref for Cid {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AsRef<[u8]> for Cid {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl FromStr for Cid {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        let (bytes, len) = hex::decode_up_to(text, 1)?;
        Ok(Self {
            bytes,
            len: len as u8,
        })
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(self, f)
    }
}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cid({self})")
    }
}
