// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The names of documents.

use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::scalar::hex_text;

/// SHA-256 of a canonical document; its text is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpecDigest([u8; 32]);

impl SpecDigest {
    /// That of this canonical document.
    pub(crate) fn of(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }

    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for SpecDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex_text(&self.0))
    }
}

impl fmt::Debug for SpecDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpecDigest({self})")
    }
}

impl std::str::FromStr for SpecDigest {
    type Err = crate::hex::HexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::hex::decode_exact(text).map(Self)
    }
}

impl Serialize for SpecDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
