// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Errors of sizes, builds and comparisons.

use thiserror::Error;

/// A number that is not a table size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A composite number.
    #[error("table size {requested} is not prime; the nearest primes are {below} and {above}")]
    NotPrime {
        /// The number asked for.
        requested: u32,
        /// The largest prime below it.
        below: u32,
        /// The smallest prime above it.
        above: u32,
    },
    /// Zero or one.
    #[error("table size {requested} is too small; the smallest is 2")]
    TooSmall {
        /// The number asked for.
        requested: u32,
    },
    /// Above the largest size.
    #[error("table size {requested} is too large; the largest is {max}")]
    TooLarge {
        /// The number asked for.
        requested: u32,
        /// The largest size.
        max: u32,
    },
}

/// Members of which no table can be built. Member numbers are positions in the caller's slice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// More placed members than slots.
    #[error(
        "{placed} members with a weight need at least as many slots, but the table has {size}"
    )]
    SizeTooSmall {
        /// Slots of the table.
        size: u32,
        /// Members that are eligible and have a weight.
        placed: usize,
    },
    /// Two members have one key, whatever their weights and whether they are eligible.
    #[error("members {first} and {second} have the same key \"{}\"", key.escape_ascii())]
    DuplicateKey {
        /// The key.
        key: Box<[u8]>,
        /// The first member that has it.
        first: usize,
        /// The next member that has it.
        second: usize,
    },
    /// Two members have one index, whatever their weights and whether they are eligible.
    #[error("members {first} and {second} have the same index {index}")]
    DuplicateIndex {
        /// The index.
        index: u32,
        /// The first member that has it.
        first: usize,
        /// The next member that has it.
        second: usize,
    },
    /// A member has the index that marks a slot without an owner.
    #[error("member {member} has index {index}, which is reserved for slots without an owner")]
    ReservedIndex {
        /// The index.
        index: u32,
        /// The member.
        member: usize,
    },
    /// A member has a key of no bytes.
    #[error("member {member} has an empty key")]
    EmptyKey {
        /// The member.
        member: usize,
    },
    /// A member has a key of too many bytes.
    #[error("member {member} has a key of {length} bytes; the longest allowed is {max}")]
    KeyTooLong {
        /// The member.
        member: usize,
        /// Its key's length.
        length: usize,
        /// The greatest length.
        max: usize,
    },
    /// More members than the slot type has indices.
    #[error("{given} members were given; the slot type has indices for {limit}")]
    TooManyMembers {
        /// Members given.
        given: usize,
        /// The greatest number.
        limit: usize,
    },
    /// The output has another length than the table.
    #[error("the table has {expected} slots, but the output has {got}")]
    OutputLength {
        /// Slots of the table.
        expected: usize,
        /// Length of the output.
        got: usize,
    },
}

/// Two tables that cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The tables differ in size, so no slot of one corresponds to a slot of the other.
    #[error("tables of {old} and {new} slots cannot be compared slot by slot")]
    SizeMismatch {
        /// Slots of the old table.
        old: u32,
        /// Slots of the new table.
        new: u32,
    },
}
