// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Link-layer addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A 48-bit Ethernet address; its text is six two-digit hexadecimal bytes separated by ':'.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr([u8; 6]);

/// The text is not an Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be six two-digit hexadecimal bytes separated by ':'")]
#[non_exhaustive]
pub struct InvalidMacAddr;

impl MacAddr {
    /// The address with these bytes, in the order they have on the wire.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The bytes in the order they have on the wire.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether every byte is 0: the placeholder that no interface may have.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }

    /// Whether this is the address of all stations.
    pub fn is_broadcast(self) -> bool {
        self.0 == [0xff; 6]
    }

    /// Whether this is a group address; the broadcast address is one.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for MacAddr {
    type Err = InvalidMacAddr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let mut parts = text.as_bytes().split(|&byte| byte == b':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(InvalidMacAddr)?;
            if part.len() != 2 {
                return Err(InvalidMacAddr);
            }
            for &digit in part {
                let value = char::from(digit).to_digit(16).ok_or(InvalidMacAddr)?;
                // A digit is below 16, so it fits a byte.
                *byte = *byte << 4 | value as u8;
            }
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(InvalidMacAddr),
        }
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacAddr({self})")
    }
}

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_any_case_is_kept_lower() {
        let mac: MacAddr = "02:00:5E:aB:01:ff".parse().unwrap();
        assert_eq!(mac.octets(), [0x02, 0x00, 0x5e, 0xab, 0x01, 0xff]);
        assert_eq!(mac.to_string(), "02:00:5e:ab:01:ff");
    }

    #[test]
    fn other_text_is_no_address() {
        for text in [
            "",
            "02:00:00:00:01",
            "02:00:00:00:01:01:01",
            "02:00:00:00:01:01:",
            "2:00:00:00:01:01",
            "02-00-00-00-01-01",
            "0200.0000.0101",
            "02:00:00:00:01:+f",
            "02:00:00:00:01:0x",
            "02:00:00:00:01:é",
            "02:00:00:00:01: 1",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(InvalidMacAddr), "{text}");
        }
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::new([0; 6]).is_zero());
        assert!(MacAddr::new([0xff; 6]).is_broadcast() && MacAddr::new([0xff; 6]).is_multicast());
        assert!(MacAddr::new([1, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(!MacAddr::new([2, 0, 0, 0, 1, 1]).is_multicast());
    }
}
