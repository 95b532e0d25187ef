// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;

use super::cipher::Cipher;
use super::{passes, Delimited, Key, ServerId, Unroutable, MAX_BLOCK_LEN};
use super::{MAX_NONCE_LEN, MAX_SERVER_ID_LEN, MIN_NONCE_LEN};

/// The number of a configuration, 0 to 6: the first three bits of its connection IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigId(u8);

impl ConfigId {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self(0),
        Self(1),
        Self(2),
        Self(3),
        Self(4),
        Self(5),
        Self(6),
    ];

    /// The configuration of this number, if there can be one.
    pub const fn new(id: u8) -> Option<Self> {
        if id < super::RESERVED_CONFIG {
            Some(Self(id))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// What the first octet of a connection ID names; `None` is the reserved value.
    pub(super) const fn of_first_octet(octet: u8) -> Option<Self> {
        Self::new(octet >> 5)
    }
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a set of servers encodes server IDs: lengths, key, and whether the connection ID tells its
/// own length. Balancer and servers must agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    id: ConfigId,
    server_id_len: u8,
    nonce_len: u8,
    extra_len: u8,
    encodes_length: bool,
    key: Option<Key>,
}

/// A configuration that no connection ID can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server ID has no legal length.
    #[error("server_id_len must be 1 to {MAX_SERVER_ID_LEN}, got {0}")]
    ServerIdLength(usize),
    /// The nonce has no legal length.
    #[error("nonce_len must be {MIN_NONCE_LEN} to {MAX_NONCE_LEN}, got {0}")]
    NonceLength(usize),
    /// The connection ID would be too long.
    #[error("server_id_len + nonce_len + extra_len must be at most {MAX_BLOCK_LEN}, got {0}")]
    CidLength(usize),
}

impl Config {
    /// A configuration without key, extra bytes and length bits.
    pub fn new(id: ConfigId, server_id_len: usize, nonce_len: usize) -> Result<Self, ConfigError> {
        if !(1..=MAX_SERVER_ID_LEN).contains(&server_id_len) {
            return Err(ConfigError::ServerIdLength(server_id_len));
        }
        if !(MIN_NONCE_LEN..=MAX_NONCE_LEN).contains(&nonce_len) {
            return Err(ConfigError::NonceLength(nonce_len));
        }
        // Both fit a byte, as just checked.
        let config = Self {
            id,
            server_id_len: server_id_len as u8,
            nonce_len: nonce_len as u8,
            extra_len: 0,
            encodes_length: false,
            key: None,
        };
        config.with_extra_len(0)
    }

    /// The same with random bytes behind the nonce.
    pub fn with_extra_len(self, extra_len: usize) -> Result<Self, ConfigError> {
        let block_len = self.server_id_len() + self.nonce_len();
        let room = MAX_BLOCK_LEN.checked_sub(block_len);
        if room.is_none_or(|room| extra_len > room) {
            return Err(ConfigError::CidLength(block_len.saturating_add(extra_len)));
        }
        // At most MAX_CID_LEN, so it fits a byte.
        Ok(Self {
            extra_len: extra_len as u8,
            ..self
        })
    }

    /// The same with the length of the connection ID in its first octet, or without.
    #[must_use]
    pub fn with_encoded_length(self, encodes_length: bool) -> Self {
        Self {
            encodes_length,
            ..self
        }
    }

    /// The same with server ID and nonce encrypted, or in the clear.
    #[must_use]
    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }

    /// The number in the first three bits.
    pub fn id(&self) -> ConfigId {
        self.id
    }

    /// Bytes of the server ID.
    pub fn server_id_len(&self) -> usize {
        usize::from(self.server_id_len)
    }

    /// Bytes of the nonce.
    pub fn nonce_len(&self) -> usize {
        usize::from(self.nonce_len)
    }

    /// Random bytes behind the nonce.
    pub fn extra_len(&self) -> usize {
        usize::from(self.extra_len)
    }

    /// Whether the first octet tells the length.
    pub fn encodes_length(&self) -> bool {
        self.encodes_length
    }

    /// The key, if server ID and nonce are encrypted.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// How many passes over server ID and nonce a decoder makes: none without a key, one where both
    /// fill a block of AES exactly, otherwise three, and four if the server ID is longer than the
    /// nonce.
    pub fn decoder_passes(&self) -> u8 {
        match self.key {
            None => 0,
            Some(_) => passes::decoder_passes(self.server_id_len(), self.nonce_len()),
        }
    }

    /// Bytes of a connection ID of this configuration.
    pub fn cid_len(&self) -> usize {
        1 + self.server_id_len() + self.nonce_len() + self.extra_len()
    }

    /// The server ID in a connection ID whose end is known.
    pub fn decode(&self, cid: &[u8]) -> Result<ServerId, Unroutable> {
        self.decode_delimited(cid, Delimited::Exactly)
    }

    /// The server ID in a connection ID.
    ///
    /// The first of these that holds is the error: no bytes at all ([`Unroutable::Short`]), the
    /// reserved configuration, another configuration, an end before that of the nonce, another
    /// length than that of the configuration (the given one, where the end is known, then the one
    /// in the length bits), a key in a build without AES (feature
    /// `aes`; [`Unroutable::Config`]).
    pub fn decode_delimited(
        &self,
        cid: &[u8],
        delimited: Delimited,
    ) -> Result<ServerId, Unroutable> {
        let (&first, rest) = cid.split_first().ok_or(Unroutable::Short)?;
        match ConfigId::of_first_octet(first) {
            None => return Err(Unroutable::Reserved),
            Some(id) if id != self.id => return Err(Unroutable::Config),
            Some(_) => {}
        }
        let block_len = self.server_id_len() + self.nonce_len();
        let block = rest.get(..block_len).ok_or(Unroutable::Short)?;
        if delimited == Delimited::Exactly && cid.len() != self.cid_len() {
            return Err(Unroutable::Length);
        }
        if self.encodes_length && usize::from(first & 0x1f) + 1 != self.cid_len() {
            return Err(Unroutable::Length);
        }
        // An encrypted block is never read as if it were plaintext: that would route to a server at
        // random.
        let mut plaintext = [0; MAX_BLOCK_LEN];
        let plaintext = &mut plaintext[..block_len];
        plaintext.copy_from_slice(block);
        if let Some(key) = &self.key {
            let cipher = Cipher::new(key).ok_or(Unroutable::Config)?;
            passes::decrypt(&cipher, plaintext, self.decoder_passes());
        }
        // The constructor admits only lengths of server IDs, so this does not fail.
        ServerId::new(&plaintext[..self.server_id_len()]).map_err(|_| Unroutable::Config)
    }
}
