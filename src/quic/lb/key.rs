// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;
use std::str::FromStr;

use super::cipher::{Block, Cipher};
use crate::hex::{self, HexError};

/// The AES-128 key that hides server IDs. It is never printed: `Debug` shows its
/// [key check value](Self::kcv).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The secret bytes, for the cipher.
    pub const fn secret_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The key check value: the first three bytes of what AES makes of 16 zero bytes under this
    /// key. Tells keys apart and says nothing about them. None in a build without AES (feature
    /// `aes`).
    pub fn kcv(&self) -> Option<[u8; 3]> {
        let mut block = Block::default();
        Cipher::new(self)?.encrypt(&mut block);
        block.first_chunk().copied()
    }
}

impl FromStr for Key {
    type Err = HexError;

    /// Reads 32 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, HexError> {
        hex::decode_exact(text).map(Self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        match self.kcv() {
            Some(kcv) => hex::write(&kcv, f)?,
            None => f.write_str("..")?,
        }
        f.write_str(")")
    }
}
