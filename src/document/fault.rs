// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is wrong with a specification: faults, which refuse it, and warnings, which do not.

use std::fmt;

use serde::Serialize;

use super::choice::choice;

choice! {
    /// Machine name of a fault.
    #[non_exhaustive]
    pub enum FaultCode {
        /// The text is not JSON.
        Json = "json",
        /// One object has two members of one name.
        DuplicateMember = "duplicate-member",
        /// No member of this name exists.
        Unknown = "unknown",
        /// A required member is absent.
        Missing = "missing",
        /// A value of another JSON type is needed.
        Type = "type",
        /// Not one of the allowed texts.
        Enum = "enum",
        /// A number outside its bounds.
        Range = "range",
        /// A list with too few or too many entries.
        Count = "count",
        /// Not a UUID.
        Uuid = "uuid",
        /// Not an interface name.
        Ifname = "ifname",
        /// Not an absolute path in its plain form.
        Path = "path",
        /// Not hexadecimal text of the right length.
        Hex = "hex",
        /// Not a service name.
        Name = "name",
        /// Not an IP address.
        Address = "address",
        /// An address that no host can own.
        Vip = "vip",
        /// Not the address of one station.
        Mac = "mac",
        /// Not a prime, or a prime out of bounds.
        Prime = "prime",
        /// Not a duration, or one out of bounds.
        Duration = "duration",
        /// Connection IDs of an impossible or contradictory length.
        CidLength = "cid-length",
        /// A server ID that fits no config.
        ServerId = "server-id",
        /// Something that must be unique is not.
        Duplicate = "duplicate",
        /// Two members contradict each other.
        Conflict = "conflict",
        /// Two services get the same number.
        ServiceId = "service-id",
        /// A live instance cannot change this.
        Fixed = "fixed",
        /// No interface of this name exists here.
        NoInterface = "no-interface",
        /// Something does not fit its limit.
        Capacity = "capacity",
        /// This kernel, or this build, cannot do it.
        Kernel = "kernel",
        /// A server ID still belongs to its previous backend.
        Quarantine = "quarantine",
        /// Nearly all live flows would move.
        Disruptive = "disruptive",
        /// Not the SID of a node or shard.
        Sid = "sid",
        /// Not a prefix, or not one of the right length.
        Prefix = "prefix",
        /// No such class is configured.
        Class = "class",
    }
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Fault {
    /// JSON pointer (RFC 6901) to the member.
    pub pointer: String,
    /// Machine name.
    pub code: FaultCode,
    /// What is wrong with it, to be read behind the pointer.
    pub message: String,
}

impl Fault {
    /// A fault of the member that `pointer` names.
    pub fn new(pointer: impl Into<String>, code: FaultCode, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            code,
            message: message.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_at(f, &self.pointer, &self.message)
    }
}

/// Everything that is wrong with a document, in the order of the document; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// An error if there is any fault.
    ///
    /// # Errors
    /// All of `faults`, in their order.
    pub fn check(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Self(faults))
        }
    }

    /// The faults, at least one.
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }

    /// The faults, at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One fault per line.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Something that works but may not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Warning")
)]
#[non_exhaustive]
pub struct Warning<C> {
    /// JSON pointer (RFC 6901) to the member.
    pub pointer: String,
    /// Machine name.
    pub code: C,
    /// What to know about it.
    pub message: String,
}

impl<C> Warning<C> {
    /// A warning about the member that `pointer` names.
    pub fn new(pointer: impl Into<String>, code: C, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            code,
            message: message.into(),
        }
    }
}

impl<C> fmt::Display for Warning<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_at(f, &self.pointer, &self.message)
    }
}

fn write_at(f: &mut fmt::Formatter<'_>, pointer: &str, message: &str) -> fmt::Result {
    if pointer.is_empty() {
        f.write_str(message)
    } else {
        write!(f, "{pointer}: {message}")
    }
}
