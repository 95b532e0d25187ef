// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards as a source lists them.

use std::fmt;

use crate::group::{Class, Nat64Prefix};
use crate::srv6::BaseSid;

/// What one object of a source says of a shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Namespace and name of the object, for messages: `default/shard-a`.
    pub name: String,
    /// The SID that the shard uses; none as long as it has none.
    pub sid: Option<BaseSid>,
    /// Its datapath is set up.
    pub programmed: bool,
    /// It is ready.
    pub ready: bool,
    /// Its object is being deleted, and its datapath cleared.
    pub terminating: bool,
    /// It should get no new addresses.
    pub drain: bool,
    /// It has an IPv6 address to translate to.
    pub ipv6: bool,
    /// It has an IPv4 address to translate to.
    pub ipv4: bool,
    /// The prefix that it translates to IPv4, its last 32 bits cleared.
    pub nat64_prefix: Option<Nat64Prefix>,
    /// It translates the well-known prefix, too.
    pub well_known_prefix: bool,
}

impl Shard {
    /// A shard that is set up, ready and can translate nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, sid: BaseSid) -> Self {
        Self {
            name: name.into(),
            sid: Some(sid),
            programmed: true,
            ready: true,
            terminating: false,
            drain: false,
            ipv6: false,
            ipv4: false,
            nat64_prefix: None,
            well_known_prefix: false,
        }
    }

    /// The SID under which it can be a member of groups: one that has a SID, is set up, is ready and
    /// is not being deleted.
    #[must_use]
    pub fn candidate(&self) -> Option<BaseSid> {
        let able = self.programmed && self.ready && !self.terminating;
        self.sid.filter(|_| able)
    }

    /// Whether it can translate for this class.
    #[must_use]
    pub fn translates(&self, class: Class) -> bool {
        match class {
            Class::Nat66 => self.ipv6,
            Class::Nat64(prefix) => {
                let well_known = prefix == Nat64Prefix::WELL_KNOWN && self.well_known_prefix;
                self.ipv4 && (self.nat64_prefix == Some(prefix) || well_known)
            }
        }
    }
}

/// Everything that a source lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardList {
    /// The shards, one for each object that could be read, in no particular order.
    pub shards: Vec<Shard>,
    /// Objects that could not be read. They are no shards, and the others are not worse for it.
    pub faults: Vec<ShardFault>,
}

/// An object that is no shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardFault {
    /// Namespace and name of the object, as far as it has any.
    pub name: String,
    /// The file and, from 1, the line that it stands in, where it comes from a file.
    pub at: Option<(String, usize)>,
    /// What is wrong: the field, its value and what would do.
    pub text: String,
}

impl fmt::Display for ShardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.at {
            write!(f, "{file}:{line}: ")?;
        }
        write!(f, "shard {}: {}", self.name, self.text)
    }
}
