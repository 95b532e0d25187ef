// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! SRv6 micro segments (uSIDs), and what it takes to send a packet to one.
//!
//! The form is that of RFC 9800's NEXT-CSID with a block of 48 bits and identifiers of 16 (uFMT
//! 48+16); the identifier behind the node's holds a function and a tenant's number:
//!
//! | bytes | content |
//! |---|---|
//! | 0-5 | block |
//! | 6-7 | node ID, 0x0001 to 0xdfff |
//! | 8, high half | function, kept and not interpreted |
//! | 8, low half, and 9 | [`Argument`] |
//! | 10-11 | slot, for back ends of direct server return |
//! | 12-15 | padding, zero |
//!
//! ```
//! use guideway::srv6::{Argument, BaseSid};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shard: BaseSid = "2001:db8:ff09:10:e000::".parse()?;
//! let tenant = Argument::new(0x2a5)?;
//! assert_eq!(shard.with_argument(tenant).to_string(), "2001:db8:ff09:10:e2a5::");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::abi::EgressLimit;
use crate::addr::MacAddr;

/// Bits of a locator: block and node ID. A route to a node covers these.
pub const LOCATOR_BITS: u8 = 64;
/// What encapsulation adds to a packet, in bytes: one IPv6 header without extensions.
pub const ENCAPSULATION_BYTES: u32 = EgressLimit::GW_EGRESS_OUTER_BYTES.0;

/// A tenant's number as a uSID carries it: 12 bits, 0x001 to 0xfff.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Argument(NonZeroU16);

/// A number that no uSID carries as a tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Argument {value:#x} is not from 0x1 to 0xfff")]
#[non_exhaustive]
pub struct InvalidArgument {
    /// The number.
    pub value: u32,
}

impl Argument {
    /// The greatest.
    pub const MAX: u16 = 0xfff;

    /// Checks that `value` is in range.
    ///
    /// # Errors
    /// 0 and what does not fit 12 bits.
    pub const fn new(value: u32) -> Result<Self, InvalidArgument> {
        if value <= Self::MAX as u32 {
            if let Some(value) = NonZeroU16::new(value as u16) {
                return Ok(Self(value));
            }
        }
        Err(InvalidArgument { value })
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl TryFrom<u32> for Argument {
    type Error = InvalidArgument;

    fn try_from(value: u32) -> Result<Self, InvalidArgument> {
        Self::new(value)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#05x}", self.get())
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Argument({self})")
    }
}

/// An address that is no uSID of this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SidError {
    /// The text is no IPv6 address.
    #[error("SID is not an IPv6 address")]
    Text,
    /// `::`.
    #[error("SID {sid} is the unspecified address")]
    Unspecified {
        /// The address.
        sid: Ipv6Addr,
    },
    /// `::ffff:0:0/96`.
    #[error("SID {sid} is an IPv4-mapped address")]
    Ipv4Mapped {
        /// The address.
        sid: Ipv6Addr,
    },
    /// `ff00::/8`.
    #[error("SID {sid} is a multicast address")]
    Multicast {
        /// The address.
        sid: Ipv6Addr,
    },
    /// `fe80::/10`.
    #[error("SID {sid} is a link-local address")]
    LinkLocal {
        /// The address.
        sid: Ipv6Addr,
    },
    /// The node ID is one that no node has.
    #[error("SID {sid} has node ID {node_id:#06x}, not one from 0x0001 to 0xdfff")]
    NodeId {
        /// The address.
        sid: Ipv6Addr,
        /// Its bytes 6 and 7.
        node_id: u16,
    },
    /// Something stands behind the last identifier.
    #[error("SID {sid} has padding (bytes 12 to 15) {padding:#010x}, not 0")]
    Padding {
        /// The address.
        sid: Ipv6Addr,
        /// Its bytes 12 to 15.
        padding: u32,
    },
}

/// Checks a SID and clears Argument and slot.
fn base(sid: Ipv6Addr) -> Result<Ipv6Addr, SidError> {
    let [a, b, c, node_id, function, _, high, low] = sid.segments();
    let padding = u32::from(high) << 16 | u32::from(low);
    if sid.is_unspecified() {
        Err(SidError::Unspecified { sid })
    } else if sid.to_ipv4_mapped().is_some() {
        Err(SidError::Ipv4Mapped { sid })
    } else if sid.is_multicast() {
        Err(SidError::Multicast { sid })
    } else if sid.is_unicast_link_local() {
        Err(SidError::LinkLocal { sid })
    } else if !(0x0001..=0xdfff).contains(&node_id) {
        Err(SidError::NodeId { sid, node_id })
    } else if padding != 0 {
        Err(SidError::Padding { sid, padding })
    } else {
        Ok(Ipv6Addr::new(a, b, c, node_id, function & 0xf000, 0, 0, 0))
    }
}

macro_rules! sid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ipv6Addr);

        impl $name {
            /// Takes a SID as a node announces it; Argument and slot are cleared, the function is
            /// kept.
            ///
            /// # Errors
            /// Addresses that are no unicast address beyond a link, node IDs out of range, and
            /// padding that is not zero; the error names the part and its value.
            pub fn new(sid: Ipv6Addr) -> Result<Self, SidError> {
                base(sid).map(Self)
            }

            /// The address, with Argument and slot zero. Its text is that of RFC 5952.
            #[must_use]
            pub const fn address(self) -> Ipv6Addr {
                self.0
            }

            /// The sixteen bytes in the order of the wire.
            #[must_use]
            pub const fn octets(self) -> [u8; 16] {
                self.0.octets()
            }

            /// The first 48 bits, which the nodes of a domain share.
            #[must_use]
            pub const fn block(self) -> [u8; 6] {
                let [a, b, c, d, e, f, ..] = self.0.octets();
                [a, b, c, d, e, f]
            }

            /// The node's number in its block.
            #[must_use]
            pub const fn node_id(self) -> u16 {
                self.0.segments()[3]
            }

            /// The function's four bits.
            #[must_use]
            pub const fn function(self) -> u8 {
                self.0.octets()[8] >> 4
            }

            /// Block and node ID, the rest zero: the address of a prefix of [`LOCATOR_BITS`].
            #[must_use]
            pub const fn locator(self) -> Ipv6Addr {
                let [a, b, c, d, ..] = self.0.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)
            }

            /// The SID that a packet of this tenant carries.
            #[must_use]
            pub const fn with_argument(self, argument: Argument) -> Ipv6Addr {
                let [a, b, c, d, function, ..] = self.0.segments();
                Ipv6Addr::new(a, b, c, d, function | argument.get(), 0, 0, 0)
            }
        }

        impl FromStr for $name {
            type Err = SidError;

            fn from_str(text: &str) -> Result<Self, SidError> {
                Self::new(text.parse().map_err(|_| SidError::Text)?)
            }
        }

        impl TryFrom<Ipv6Addr> for $name {
            type Error = SidError;

            fn try_from(sid: Ipv6Addr) -> Result<Self, SidError> {
                Self::new(sid)
            }
        }

        impl From<$name> for Ipv6Addr {
            fn from(sid: $name) -> Self {
                sid.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

sid! {
    /// A shard's SID without Argument and slot: what identifies the shard on every node, and,
    /// completed with a tenant's Argument, the destination of that tenant's packets.
    BaseSid
}

sid! {
    /// The node's own SID without Argument and slot: completed with a tenant's Argument, the source
    /// of that tenant's packets, to which replies go.
    NodeSid
}

/// The greatest size of a packet that a link takes, in bytes, encapsulation included; or unchecked.
///
/// IPv6 asks for 1,280 bytes of every link, and the link inside the tunnel is one.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Mtu(u32);

/// An MTU that leaves too little for the packets inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MTU {mtu} is neither 0 (unchecked) nor at least 1320 (1280 and 40 of encapsulation)")]
#[non_exhaustive]
pub struct InvalidMtu {
    /// The number of bytes.
    pub mtu: u32,
}

impl Mtu {
    /// Packets are sent whatever their size.
    pub const UNCHECKED: Self = Self(0);
    /// The least that is checked, in bytes.
    pub const MIN: u32 = EgressLimit::GW_EGRESS_MIN_MTU.0;

    /// Checks a number of bytes; 0 is unchecked.
    ///
    /// # Errors
    /// Numbers from 1 to 1,319.
    pub const fn new(mtu: u32) -> Result<Self, InvalidMtu> {
        if mtu == 0 || mtu >= Self::MIN {
            Ok(Self(mtu))
        } else {
            Err(InvalidMtu { mtu })
        }
    }

    /// The number of bytes, 0 for unchecked.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// What is left for the packet inside, at least 1,280 bytes; none for unchecked.
    #[must_use]
    pub const fn inner(self) -> Option<u32> {
        self.0.checked_sub(ENCAPSULATION_BYTES)
    }
}

/// How an encapsulated packet leaves the node: the link and the two addresses on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct NextHop {
    ifindex: u32,
    source: MacAddr,
    destination: MacAddr,
    mtu: Mtu,
}

/// Parts that make no next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NextHopError {
    /// No interface.
    #[error("ifindex 0 is no interface")]
    Ifindex,
    /// The source address is missing.
    #[error("source MAC {} is no address", MacAddr::new([0; 6]))]
    Source,
    /// The destination address is missing.
    #[error("destination MAC {} is no address", MacAddr::new([0; 6]))]
    Destination,
}

impl NextHop {
    /// Frames leave through interface `ifindex`, from the address `source` to the address
    /// `destination`, if they fit `mtu`.
    ///
    /// # Errors
    /// An index of 0 and addresses of zeros.
    pub fn new(
        ifindex: u32,
        source: MacAddr,
        destination: MacAddr,
        mtu: Mtu,
    ) -> Result<Self, NextHopError> {
        if ifindex == 0 {
            return Err(NextHopError::Ifindex);
        }
        if source.is_zero() {
            return Err(NextHopError::Source);
        }
        if destination.is_zero() {
            return Err(NextHopError::Destination);
        }
        Ok(Self {
            ifindex,
            source,
            destination,
            mtu,
        })
    }

    /// Index of the interface; never 0.
    #[must_use]
    pub const fn ifindex(self) -> u32 {
        self.ifindex
    }

    /// Source address of the frames.
    #[must_use]
    pub const fn source(self) -> MacAddr {
        self.source
    }

    /// Destination address of the frames.
    #[must_use]
    pub const fn destination(self) -> MacAddr {
        self.destination
    }

    /// The greatest packet.
    #[must_use]
    pub const fn mtu(self) -> Mtu {
        self.mtu
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ifindex,
            source,
            destination,
            mtu,
        } = self;
        write!(
            f,
            "ifindex {ifindex}, {source} to {destination}, MTU {}",
            mtu.get()
        )
    }
}
