// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! QUIC-LB: server IDs in connection IDs (draft-ietf-quic-load-balancers).
//!
//! A server that encodes its ID in every connection ID it issues is found again by a balancer
//! without state, whatever address the client has moved to.
//!
//! ```text
//! octet 0           1 .. 1+s      1+s .. 1+s+n   1+s+n ..
//! +---------------+-------------+--------------+-------------+
//! | config | len  | server ID   | nonce        | extra       |
//! | 3 bits | or   | 1-15 bytes  | 4-18 bytes   | rest, at    |
//! |        | random             |              | most 20     |
//! +---------------+-------------+--------------+-------------+
//! ```
//!
//! The first three bits name the [`Config`]; the value 7 marks a connection ID that carries no
//! server ID. The other five hold the length of the connection ID less one if the configuration
//! says so, and random bits otherwise. With a [`Key`], server ID and nonce are encrypted together
//! (AES-128, feature `aes`): in one pass where they have 16 bytes, otherwise in four, of which a
//! decoder undoes three or four.
//!
//! Balancer: [`Configs::decode`]. Server: [`CidGenerator`].

mod cipher;
mod config;
mod configs;
mod generator;
mod key;
mod nonces;
mod passes;
mod server_id;

pub use config::{Config, ConfigError, ConfigId};
pub use configs::{Configs, DuplicateConfig};
pub use generator::{unroutable, unroutable_len, CidGenerator, GeneratorError, MIN_UNROUTABLE_LEN};
pub use key::Key;
pub use nonces::NonceExhausted;
pub use server_id::{ServerId, ServerIdLengthError, MAX_SERVER_ID_LEN};

/// The least bytes of a nonce.
const MIN_NONCE_LEN: usize = 4;
/// The most bytes of a nonce.
const MAX_NONCE_LEN: usize = 18;
/// The most bytes of server ID and nonce: all but the first octet.
const MAX_BLOCK_LEN: usize = super::MAX_CID_LEN - 1;
/// The value of the first three bits that stands for "no server ID".
const RESERVED_CONFIG: u8 = 7;

/// How the connection ID at hand is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimited {
    /// The bytes are the whole connection ID, as in a long header.
    Exactly,
    /// The bytes begin with the connection ID, as behind the first byte of a short header.
    Prefix,
}

/// Why a connection ID names no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Unroutable {
    /// It says so itself: its first three bits are all ones.
    #[error("the connection ID is marked as carrying no server ID")]
    Reserved,
    /// Its configuration is not known here, or cannot be decrypted here.
    #[error("the connection ID belongs to no configuration that can be decoded here")]
    Config,
    /// It ends before server ID and nonce do.
    #[error("the connection ID is too short for its configuration")]
    Short,
    /// Its length is not that of its configuration.
    #[error("the connection ID has another length than its configuration")]
    Length,
}

/// Three bits before the rest of an octet.
const fn first_octet(config: u8, low_bits: u8) -> u8 {
    config << 5 | low_bits & 0x1f
}

#[cfg(test)]
mod tests;
