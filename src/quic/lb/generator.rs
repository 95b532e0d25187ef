// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;

use super::cipher::Cipher;
use super::nonces::{NonceExhausted, Nonces};
use super::{first_octet, passes, Config, ConfigId, ServerId, RESERVED_CONFIG};
use crate::quic::{Cid, CidLengthError, MAX_CID_LEN};

/// The least length of a connection ID without server ID: short ones of two servers could meet.
pub const MIN_UNROUTABLE_LEN: usize = 8;

/// Makes a server's connection IDs.
///
/// Without a key nonces are random, so that nobody can tell from two connection IDs of one server
/// whether they belong to one connection. With a key they count from a random start: no two
/// connection IDs of one generator are equal. Two generators of one server ID and key, as before and
/// after a restart, can meet: with `n` connection IDs of each by a chance of about
/// `2n / 256^nonce_len`.
pub struct CidGenerator<R> {
    config: Config,
    server_id: ServerId,
    encryption: Option<(Cipher, Nonces)>,
    random: R,
}

/// A generator that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// The server ID does not fit the configuration.
    #[error("config {config} has server IDs of {expected} bytes, {server_id} is none")]
    ServerIdLength {
        /// The configuration.
        config: ConfigId,
        /// Its length of server IDs.
        expected: usize,
        /// The server ID.
        server_id: ServerId,
    },
    /// The configuration has a key, and the crate was built without AES.
    #[error(
        "config {config} has a key, and this build of guideway no AES: it needs feature `aes`"
    )]
    Keyed {
        /// The configuration.
        config: ConfigId,
    },
}

impl<R: FnMut(&mut [u8])> CidGenerator<R> {
    /// A generator for one server of a configuration; `random` fills a slice with random bytes,
    /// which nobody can predict.
    ///
    /// # Errors
    /// The server ID does not fit, or the configuration has a key and the crate no AES (feature
    /// `aes`).
    pub fn new(config: Config, server_id: ServerId, mut random: R) -> Result<Self, GeneratorError> {
        if server_id.as_bytes().len() != config.server_id_len() {
            return Err(GeneratorError::ServerIdLength {
                config: config.id(),
                expected: config.server_id_len(),
                server_id,
            });
        }
        let keyed = GeneratorError::Keyed {
            config: config.id(),
        };
        let encryption = match config.key() {
            None => None,
            Some(key) => Some((
                Cipher::new(key).ok_or(keyed)?,
                Nonces::new(config.nonce_len(), &mut random),
            )),
        };
        Ok(Self {
            config,
            server_id,
            encryption,
            random,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The server ID.
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// A new connection ID.
    ///
    /// # Errors
    /// With a key: all nonces are used. Nothing else fails.
    pub fn generate(&mut self) -> Result<Cid, NonceExhausted> {
        let (config, random) = (&self.config, &mut self.random);
        let nonce_at = 1 + config.server_id_len();
        let block_end = nonce_at + config.nonce_len();
        let mut bytes = [0; MAX_CID_LEN];
        let bytes = &mut bytes[..config.cid_len()];
        random(bytes);
        let low_bits = if config.encodes_length() {
            // At most 19.
            (config.cid_len() - 1) as u8
        } else {
            bytes[0]
        };
        bytes[0] = first_octet(config.id().get(), low_bits);
        bytes[1..nonce_at].copy_from_slice(self.server_id.as_bytes());
        if let Some((cipher, nonces)) = &mut self.encryption {
            nonces.take(&mut bytes[nonce_at..block_end])?;
            passes::encrypt(cipher, &mut bytes[1..block_end]);
        }
        Ok(Cid::new(bytes)
            .expect("a configuration's connection IDs have 6 to 20 bytes by construction"))
    }
}

impl<R> fmt::Debug for CidGenerator<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CidGenerator")
            .field("config", &self.config)
            .field("server_id", &self.server_id)
            .finish_non_exhaustive()
    }
}

/// A connection ID of `len` bytes that carries no server ID but tells its length, for a server that
/// has no configuration (yet). A balancer needs an exact binding to find its server again.
pub fn unroutable(len: usize, random: impl FnOnce(&mut [u8])) -> Result<Cid, CidLengthError> {
    Cid::with_len(len, MIN_UNROUTABLE_LEN, |cid| {
        random(cid);
        // At most 19.
        cid[0] = first_octet(RESERVED_CONFIG, (cid.len() - 1) as u8);
    })
}

/// The length that a connection ID without server ID tells in its first octet, or `None` for the
/// first octet of any other.
pub const fn unroutable_len(first_octet: u8) -> Option<usize> {
    if first_octet >> 5 == RESERVED_CONFIG {
        Some((first_octet & 0x1f) as usize + 1)
    } else {
        None
    }
}
