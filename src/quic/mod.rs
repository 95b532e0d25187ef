// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a load balancer may read of QUIC: the version-independent properties of RFC 8999, and the
//! packet type of the versions whose types are published.
//!
//! The parser is total: it reads any bytes and never looks beyond the payload it was given, which
//! must end where the UDP length says (padding of the frame is not part of a connection ID).
//!
//! Bit 6 (`0x40`), the *fixed bit*, decides nothing. Peers that negotiated `grease_quic_bit`
//! (RFC 9287) send it at random, so a packet is QUIC whether it is set or clear; it is reported for
//! counting only.
//!
//! Two questions are kept apart, because a router asks them at different times:
//!
//! - [`read_header`] tells header forms and STUN apart, and yields the connection ID to route by.
//! - [`is_dtls`] recognises DTLS. A greased QUIC packet can meet that pattern by chance, so a
//!   router asks only for packets whose connection ID named no backend.
//!
//! [`parse`] answers both at once, for those who do not route.

mod cid;
pub mod lb;

use serde::Serialize;

pub use cid::{Cid, CidLengthError};

/// Version 1, RFC 9000.
pub const VERSION_1: u32 = 0x0000_0001;
/// Version 2, RFC 9369.
pub const VERSION_2: u32 = 0x6b33_43cf;

/// The longest connection ID of versions 1 and 2. Other versions may go up to 255 bytes.
pub const MAX_CID_LEN: usize = 20;

const FORM_BIT: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;

const DTLS_RECORD_HEADER_LEN: usize = 13;
const STUN_HEADER_LEN: usize = 20;
const STUN_MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// What a UDP payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A QUIC packet with a long header: the connection is being set up.
    Long(LongHeader<'a>),
    /// A QUIC packet with a short header, or anything else that does not tell what it is.
    Short(ShortHeader<'a>),
    /// Another protocol.
    NotQuic(NotQuic),
    /// Empty, or a long header that ends before its destination connection ID does.
    Malformed,
}

/// A protocol that shares ports with QUIC (RFC 7983, RFC 9443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotQuic {
    /// STUN: two zero bits, the magic cookie, and a length that fits.
    Stun,
    /// A record of DTLS 1.0 or 1.2.
    Dtls,
}

/// A long header, up to the connection IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    first: u8,
    /// The version; 0 in Version Negotiation.
    pub version: u32,
    /// The destination connection ID: 0 to 255 bytes.
    pub dcid: &'a [u8],
    /// The source connection ID, unless the payload ends before it is complete.
    pub scid: Option<&'a [u8]>,
}

impl LongHeader<'_> {
    /// The packet's type, as far as its version is known.
    pub fn packet_type(&self) -> PacketType {
        use PacketType::{Handshake, Initial, Retry, Unknown, VersionNegotiation, ZeroRtt};
        let types = match self.version {
            0 => return VersionNegotiation,
            VERSION_1 => [Initial, ZeroRtt, Handshake, Retry],
            VERSION_2 => [Retry, Initial, ZeroRtt, Handshake],
            _ => return Unknown,
        };
        types[usize::from(self.first >> 4 & 3)]
    }

    /// The fixed bit; see the [module](self).
    pub fn fixed_bit(&self) -> bool {
        self.first & FIXED_BIT != 0
    }
}

/// The type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PacketType {
    /// A client's first flight, and the server's answer to it.
    Initial,
    /// Early data of a client that was here before.
    #[serde(rename = "0-rtt")]
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server's request to prove the client's address.
    Retry,
    /// A server's list of its versions.
    VersionNegotiation,
    /// A type of a version that is not known here.
    Unknown,
}

impl PacketType {
    /// Whether such a packet can be a connection's first.
    ///
    /// Types of unknown versions do not count: taking a start for a later packet costs a connection
    /// a worse place, taking a later packet for a start can break the connection.
    pub fn starts_flow(self) -> bool {
        matches!(self, Self::Initial | Self::ZeroRtt)
    }
}

/// A short header: only its receiver knows where the connection ID ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader<'a> {
    first: u8,
    dcid: Option<&'a [u8]>,
    /// All bytes behind the first; they begin with the destination connection ID.
    pub rest: &'a [u8],
}

impl<'a> ShortHeader<'a> {
    /// The destination connection ID of the agreed length, or `None` if the payload is shorter.
    pub fn dcid(&self) -> Option<&'a [u8]> {
        self.dcid
    }

    /// The destination connection ID, if it is known to have another length than agreed.
    pub fn dcid_of_len(&self, len: usize) -> Option<&'a [u8]> {
        self.rest.get(..len)
    }

    /// The fixed bit; see the [module](self).
    pub fn fixed_bit(&self) -> bool {
        self.first & FIXED_BIT != 0
    }
}

/// Reads a UDP payload: [`read_header`], and then DTLS told from short headers.
pub fn parse(payload: &[u8], short_dcid_len: u8) -> Packet<'_> {
    match read_header(payload, short_dcid_len) {
        Packet::Short(_) if is_dtls(payload) => Packet::NotQuic(NotQuic::Dtls),
        packet => packet,
    }
}

/// Reads the first QUIC header of a UDP payload, for a server whose connection IDs have
/// `short_dcid_len` bytes where they do not carry their length.
///
/// DTLS is read as a short header here.
pub fn read_header(payload: &[u8], short_dcid_len: u8) -> Packet<'_> {
    let Some((&first, rest)) = payload.split_first() else {
        return Packet::Malformed;
    };
    if first & FORM_BIT != 0 {
        return long_header(first, rest).map_or(Packet::Malformed, Packet::Long);
    }
    if is_stun(payload) {
        return Packet::NotQuic(NotQuic::Stun);
    }
    let dcid = rest.get(..usize::from(short_dcid_len));
    Packet::Short(ShortHeader { first, dcid, rest })
}

fn long_header(first: u8, rest: &[u8]) -> Option<LongHeader<'_>> {
    let (version, rest) = rest.split_first_chunk()?;
    let (dcid, rest) = length_prefixed(rest)?;
    Some(LongHeader {
        first,
        version: u32::from_be_bytes(*version),
        dcid,
        scid: length_prefixed(rest).map(|(scid, _)| scid),
    })
}

fn length_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(len))
}

/// Whether a payload is one STUN message: two zero bits, the magic cookie at byte 4, and a message
/// length that ends with the payload.
pub fn is_stun(payload: &[u8]) -> bool {
    let Some(header) = payload.first_chunk::<STUN_HEADER_LEN>() else {
        return false;
    };
    let message_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    header[0] & 0xc0 == 0
        && header[4..8] == STUN_MAGIC_COOKIE
        && message_len + STUN_HEADER_LEN == payload.len()
}

/// Whether a payload begins with a record of DTLS 1.0 or 1.2: a record type from 20 to 25, the
/// version, and a record length that ends within the payload.
pub fn is_dtls(payload: &[u8]) -> bool {
    let Some(header) = payload.first_chunk::<DTLS_RECORD_HEADER_LEN>() else {
        return false;
    };
    let record_len = usize::from(u16::from_be_bytes([header[11], header[12]]));
    matches!(header[0], 20..=25)
        && header[1] == 0xfe
        && matches!(header[2], 0xfd | 0xff)
        && record_len + DTLS_RECORD_HEADER_LEN <= payload.len()
}

#[cfg(test)]
mod tests;
