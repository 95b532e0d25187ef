// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Numbers of groups, their tenures, slots and the tenures of slots.

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

use super::limits::Limits;
use super::plan::GroupPlan;

/// Index of a group in the kernel's outer map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct GroupId(u8);

impl GroupId {
    /// The group with this index; none if no set of limits has it.
    #[must_use]
    pub const fn new(index: u32) -> Option<Self> {
        if index < Limits::MAX_GROUPS {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// The index.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A member's index in its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Slot(u16);

impl Slot {
    /// The slot with this index; none if no set of limits has it.
    #[must_use]
    pub const fn new(index: u32) -> Option<Self> {
        if index < Limits::MAX_MEMBERS {
            Some(Self(index as u16))
        } else {
            None
        }
    }

    /// The index.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! circular {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
        #[serde(transparent)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The first number.
            pub const FIRST: Self = Self(NonZeroU32::MIN);

            /// This number; none for 0.
            #[must_use]
            pub const fn new(number: u32) -> Option<Self> {
                match NonZeroU32::new(number) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0.get()
            }

            /// The number after it: 1 after the greatest.
            #[must_use]
            pub const fn next(self) -> Self {
                match self.0.checked_add(1) {
                    Some(number) => Self(number),
                    None => Self::FIRST,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

circular! {
    /// One tenure of a group by one class, from open to disable; never 0. A route names it, and
    /// is not followed into another one.
    Incarnation
}

circular! {
    /// One tenure of a slot by one shard; never 0. A pin names it, and is not followed into
    /// another one.
    ///
    /// Numbers go round, so they have no order but [`Generation::is_after`].
    Generation
}

circular! {
    /// Counts the publications of a group; never 0.
    Publication
}

impl Generation {
    /// Whether this number comes after `other` on the shorter way round, as serial numbers do (RFC
    /// 1982).
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        (self.get().wrapping_sub(other.get()) as i32) > 0
    }

    /// The later of two.
    pub(super) const fn later(self, other: Self) -> Self {
        if other.is_after(self) {
            other
        } else {
            self
        }
    }
}

/// What a process remembers of a group beyond what is published: the first slot generation that no
/// plan of this process has used.
///
/// A publication may fail after packets have seen it, or without anybody knowing. Its numbers are
/// burnt: [`claim`](Self::claim) moves the mark before the first step of a publication. The mark
/// dies with the process, and with it every doubt about a publication: what packets see is then
/// read from the kernel.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HighWater(Option<Generation>);

/// Numbers of the plan may have been used for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("group {group}: slot generations of this plan were used since, {next} is the next")]
#[non_exhaustive]
pub struct StalePlan {
    /// The group.
    pub group: GroupId,
    /// The next number that may be used.
    pub next: Generation,
}

impl HighWater {
    /// The first number that no plan has used; none if there was no plan yet.
    #[must_use]
    pub const fn next(self) -> Option<Generation> {
        self.0
    }

    /// Takes the numbers of `plan` for good, whatever comes of it. To be called before anything of
    /// it is published.
    ///
    /// # Errors
    /// Another plan of the group was claimed since this one was made: plan again.
    pub fn claim(&mut self, plan: &GroupPlan) -> Result<(), StalePlan> {
        match (plan.high_water(), self.0) {
            (planned, Some(next)) if planned != *self => Err(StalePlan {
                group: plan.group(),
                next,
            }),
            _ => {
                self.0 = Some(plan.next_generation());
                Ok(())
            }
        }
    }
}
