// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;
use std::str::FromStr;

use crate::hex::{self, HexError};

/// The most bytes of a server ID.
pub const MAX_SERVER_ID_LEN: usize = 15;

/// The bytes in a connection ID that name a server: 1 to 15. Printed in hexadecimal.
///
/// IDs of different lengths differ, even if one begins with the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    // Bytes beyond the length are zero, so that the derived comparisons compare the ID.
    bytes: [u8; MAX_SERVER_ID_LEN],
    len: u8,
}

/// A server ID of no usable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server ID has 1 to {MAX_SERVER_ID_LEN} bytes, not {len}")]
pub struct ServerIdLengthError {
    /// The length in question.
    pub len: usize,
}

impl ServerId {
    /// The server ID of these bytes.
    pub fn new(id: &[u8]) -> Result<Self, ServerIdLengthError> {
        let mut bytes = [0; MAX_SERVER_ID_LEN];
        match bytes.get_mut(..id.len()) {
            Some(room) if !id.is_empty() => room.copy_from_slice(id),
            _ => return Err(ServerIdLengthError { len: id.len() }),
        }
        // At most MAX_SERVER_ID_LEN, so it fits a byte.
        Ok(Self {
            bytes,
            len: id.len() as u8,
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl FromStr for ServerId {
    type Err = HexError;

    /// Reads 2 to 30 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, HexError> {
        let (bytes, len) = hex::decode_up_to(text, 1)?;
        Ok(Self {
            bytes,
            len: len as u8,
        })
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(self.as_bytes(), f)
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerId({self})")
    }
}
