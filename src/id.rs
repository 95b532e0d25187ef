// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Names and numbers that identify things: instances, services, backends, interfaces.
//!
//! Each is a type of its own, checked where it is made, so that a number of one kind never
//! stands for another and a text that reaches the kernel has the right form.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The UUID that names one instance.
///
/// Text in any case is accepted, [`Display`](fmt::Display) gives the lower-case form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId([u8; 16]);

/// The text is not a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a UUID (8-4-4-4-12 hexadecimal digits)")]
#[non_exhaustive]
pub struct InvalidInstanceId;

impl InstanceId {
    /// The instance with these sixteen bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes, in the order of the text.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for InstanceId {
    type Err = InvalidInstanceId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.as_bytes();
        if text.len() != 36 || [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
            return Err(InvalidInstanceId);
        }
        let mut bytes = [0; 16];
        let digits = text.iter().filter(|&&byte| byte != b'-');
        let mut count = 0;
        for &digit in digits {
            let value = char::from(digit).to_digit(16).ok_or(InvalidInstanceId)?;
            let byte = bytes.get_mut(count / 2).ok_or(InvalidInstanceId)?;
            // A digit is below 16, so it fits a byte.
            *byte = *byte << 4 | value as u8;
            count += 1;
        }
        // Fewer digits mean hyphens beyond the four places.
        if count == 32 {
            Ok(Self(bytes))
        } else {
            Err(InvalidInstanceId)
        }
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InstanceId({self})")
    }
}

impl Serialize for InstanceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The number that names a service in kernel maps and outputs; never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServiceId(NonZeroU32);

impl ServiceId {
    /// The service with this number; 0, which means "none" in the kernel's maps, becomes 1.
    pub const fn new(number: u32) -> Self {
        match NonZeroU32::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.get())
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceId({self})")
    }
}

/// The operator's number of a backend, unique in its service; never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct BackendId(NonZeroU32);

impl BackendId {
    /// The backend with this number, none for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that can be the name of a network interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct InterfaceName(String);

/// The text cannot be the name of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an interface name (1 to 15 bytes, no '/', no white space)")]
#[non_exhaustive]
pub struct InvalidInterfaceName;

impl InterfaceName {
    /// The longest name in bytes: the kernel's `IFNAMSIZ` without the final zero.
    pub const MAX_LEN: usize = 15;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = InvalidInterfaceName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = (1..=Self::MAX_LEN).contains(&text.len())
            && text != "."
            && text != ".."
            && !text.contains(|c: char| c == '/' || c == '\0' || c.is_whitespace());
        if legal {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidInterfaceName)
        }
    }
}

impl AsRef<str> for InterfaceName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_in_any_case_is_kept_lower() {
        let id: InstanceId = "1D9016F2-8957-42BC-9dd7-32d684d76446".parse().unwrap();
        assert_eq!(id.to_string(), "1d9016f2-8957-42bc-9dd7-32d684d76446");
        assert_eq!(id.as_bytes()[..4], [0x1d, 0x90, 0x16, 0xf2]);
        assert_eq!(InstanceId::from_bytes(*id.as_bytes()), id);
    }

    #[test]
    fn other_text_is_no_uuid() {
        for text in [
            "",
            "1d9016f2895742bc9dd732d684d76446",
            "1d9016f2-8957-42bc-9dd7-32d684d7644",
            "1d9016f2-8957-42bc-9dd7-32d684d764466",
            "{1d9016f2-8957-42bc-9dd7-32d684d7644}",
            "1d9016f2-8957-42bc-9dd7-32d684d7644g",
            "1d9016f2-8957-42bc-9dd7-32d684d7-446",
            "1d9016f2-8957-42bc-9dd7+32d684d76446",
            "1d9016f2-8957-42bc-9dd7-32d684d7644é",
            "+d9016f2-8957-42bc-9dd7-32d684d76446",
        ] {
            assert_eq!(text.parse::<InstanceId>(), Err(InvalidInstanceId), "{text}");
        }
    }

    #[test]
    fn interface_names_are_what_the_kernel_takes() {
        for text in ["edge0", "a", "vm-edge-a", "fifteen-bytes-x", "...", "é"] {
            assert_eq!(text.parse::<InterfaceName>().unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a\tb",
            "a\u{a0}b",
            "a\0",
            "sixteen-bytes-xy",
            "éééééééé",
        ] {
            assert_eq!(
                text.parse::<InterfaceName>(),
                Err(InvalidInterfaceName),
                "{text:?}"
            );
        }
    }

    #[test]
    fn numbers_are_never_zero() {
        assert_eq!(ServiceId::new(0).get(), 1);
        assert_eq!(ServiceId::new(0x8cd5_d28f).to_string(), "0x8cd5d28f");
        assert_eq!(BackendId::new(0), None);
        assert_eq!(BackendId::new(7).map(BackendId::get), Some(7));
    }
}
