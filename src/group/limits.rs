// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How much the kernel's maps have room for.

use crate::abi::EgressLimit;
use crate::maglev::TableSize;

const _: () = assert!(TableSize::SHARD.get() == EgressLimit::GW_EGRESS_SLOTS.0);

/// Groups, members and table size, fixed when the program is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    groups: u8,
    members: u16,
    table_size: TableSize,
}

/// A limit out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} is not from 1 to {max}")]
#[non_exhaustive]
pub struct LimitError {
    /// Which limit.
    pub field: &'static str,
    /// What was asked for.
    pub value: u32,
    /// The most there is.
    pub max: u32,
}

impl Limits {
    /// The most groups.
    pub const MAX_GROUPS: u32 = EgressLimit::GW_EGRESS_MAX_GROUPS.0;
    /// The most members of a group.
    pub const MAX_MEMBERS: u32 = EgressLimit::GW_EGRESS_MAX_MEMBERS.0;
    /// The largest table.
    pub const MAX_TABLE_SIZE: u32 = EgressLimit::GW_EGRESS_MAX_SLOTS.0;

    /// Room for that many groups, each of that many members, with tables of that size.
    ///
    /// # Errors
    /// None of something, or more than the most.
    pub fn new(groups: u32, members: u32, table_size: TableSize) -> Result<Self, LimitError> {
        let check = |field, value, max| match value {
            value if (1..=max).contains(&value) => Ok(value),
            value => Err(LimitError { field, value, max }),
        };
        check("table size", table_size.get(), Self::MAX_TABLE_SIZE)?;
        Ok(Self {
            // Both are within their types after the check.
            groups: check("number of groups", groups, Self::MAX_GROUPS)? as u8,
            members: check("number of members", members, Self::MAX_MEMBERS)? as u16,
            table_size,
        })
    }

    /// Groups.
    #[must_use]
    pub const fn groups(self) -> u8 {
        self.groups
    }

    /// Members of each group, draining and unreachable ones included.
    #[must_use]
    pub const fn members(self) -> u16 {
        self.members
    }

    /// The size of each group's table.
    #[must_use]
    pub const fn table_size(self) -> TableSize {
        self.table_size
    }
}

impl Default for Limits {
    /// 8 groups of 64 members with tables of 1,021.
    fn default() -> Self {
        Self {
            groups: EgressLimit::GW_EGRESS_GROUPS.0 as u8,
            members: EgressLimit::GW_EGRESS_MEMBERS.0 as u16,
            table_size: TableSize::SHARD,
        }
    }
}
