// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How much an instance has room for.

use super::error::InstanceError;
use crate::abi::{self, EgressLimit};
use crate::egress_spec;
use crate::group;
use crate::kernel::egress_object::Sizes;
use crate::maglev::{SizeError, TableSize};

/// Sizes of the maps, fixed when the instance is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub(super) groups: group::Limits,
    tenants: u32,
    routes: u32,
    pins: u32,
    flow_pins: u32,
    ring_bytes: u32,
}

/// A limit out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// None of something, or more than the most.
    #[error("{limit} {value} is not from 1 to {max}")]
    #[non_exhaustive]
    Range {
        /// Which limit.
        limit: &'static str,
        /// What was asked for.
        value: u32,
        /// The most there is.
        max: u32,
    },
    /// The kernel's rings have sizes that are powers of two and whole pages.
    #[error("ring of {bytes} bytes is no power of two from 4096 to {max}")]
    #[non_exhaustive]
    Ring {
        /// What was asked for.
        bytes: u32,
        /// The most there is.
        max: u32,
    },
    /// Groups, members or table size.
    #[error(transparent)]
    Group(#[from] group::LimitError),
    /// The table's size is no prime.
    #[error(transparent)]
    Table(#[from] SizeError),
}

const MAX_RING_BYTES: u32 = 1 << 26;

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $with:ident, $default:ident, $max:ident;)+) => {
        impl Limits { $(
            $(#[$doc])*
            #[must_use]
            pub const fn $name(&self) -> u32 {
                self.$name
            }

            /// The same limits with this one changed.
            ///
            /// # Errors
            /// 0, or more than the most.
            pub fn $with(self, value: u32) -> Result<Self, LimitError> {
                let $name = within(stringify!($name), value, EgressLimit::$max.0)?;
                Ok(Self { $name, ..self })
            }
        )+ }

        impl Default for Limits {
            /// 8 groups of 64 members with tables of 1,021; 16,384 tenant interfaces, 32,768 routes,
            /// 65,536 pins of addresses, none of flows, a ring of 256 KiB.
            fn default() -> Self {
                Self {
                    groups: group::Limits::default(),
                    $($name: EgressLimit::$default.0,)+
                    ring_bytes: EgressLimit::GW_EGRESS_RING_BYTES.0,
                }
            }
        }
    };
}

limits! {
    /// Interfaces of tenants, at most 65,536.
    tenants: with_tenants, GW_EGRESS_TENANTS, GW_EGRESS_MAX_TENANTS;
    /// Routes of all tenants, at most 1,048,576.
    routes: with_routes, GW_EGRESS_ROUTES, GW_EGRESS_MAX_ROUTES;
    /// Pins of addresses, at most 4,194,304; their memory is taken at once.
    pins: with_pins, GW_EGRESS_PINS, GW_EGRESS_MAX_PINS;
    /// Pins of flows, at most 4,194,304; their memory is taken at once. 1, the least, is for
    /// instances without groups that place by flow.
    flow_pins: with_flow_pins, GW_EGRESS_FLOW_PINS, GW_EGRESS_MAX_PINS;
}

fn within(limit: &'static str, value: u32, max: u32) -> Result<u32, LimitError> {
    match value {
        value if (1..=max).contains(&value) => Ok(value),
        value => Err(LimitError::Range { limit, value, max }),
    }
}

impl Limits {
    /// Groups, their members, and the size of their tables.
    #[must_use]
    pub const fn groups(&self) -> group::Limits {
        self.groups
    }

    /// The same limits with other groups.
    #[must_use]
    pub const fn with_groups(self, groups: group::Limits) -> Self {
        Self { groups, ..self }
    }

    /// Bytes of the ring of events.
    #[must_use]
    pub const fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// The same limits with another ring of events.
    ///
    /// # Errors
    /// No power of two, less than 4,096, or more than 64 MiB.
    pub fn with_ring_bytes(self, bytes: u32) -> Result<Self, LimitError> {
        let max = MAX_RING_BYTES;
        if !bytes.is_power_of_two() || !(4096..=max).contains(&bytes) {
            return Err(LimitError::Ring { bytes, max });
        }
        let ring_bytes = bytes;
        Ok(Self { ring_bytes, ..self })
    }

    /// How much memory maps of these sizes take when they are full, on a machine of so many possible
    /// CPUs.
    #[must_use]
    pub fn memory(&self, cpus: u32) -> egress_spec::Memory {
        let limits = egress_spec::Limits {
            tenants: self.tenants,
            routes: self.routes,
            groups: self.groups,
            pins: self.pins,
            flow_pins: self.flow_pins,
            ring_bytes: self.ring_bytes,
        };
        limits.memory(cpus)
    }

    /// What the program is loaded with.
    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            groups: self.groups.groups().into(),
            members: self.groups.members().into(),
            table: self.groups.table_size().get(),
        }
    }

    /// Sizes of the maps whose definitions have others.
    pub(super) const fn entries(&self) -> [(&'static str, u32); 6] {
        [
            ("gw_tenants", self.tenants),
            ("gw_pin_use", self.tenants),
            ("gw_routes", self.routes),
            ("gw_pins", self.pins),
            ("gw_flow_pins", self.flow_pins),
            ("gw_eg_events", self.ring_bytes),
        ]
    }

    /// Each limit by name.
    pub(super) fn named(&self) -> [(&'static str, u32); 8] {
        [
            ("groups", self.groups.groups().into()),
            ("members", self.groups.members().into()),
            ("table size", self.groups.table_size().get()),
            ("tenants", self.tenants),
            ("routes", self.routes),
            ("pins", self.pins),
            ("flow pins", self.flow_pins),
            ("ring bytes", self.ring_bytes),
        ]
    }

    /// Insists that an instance made with these limits is what `wanted` asks for.
    ///
    /// # Errors
    /// [`InstanceError::Limits`] with the first limit that differs, and both numbers.
    pub fn require(&self, wanted: &Self) -> Result<(), InstanceError> {
        let mut pairs = self.named().into_iter().zip(wanted.named());
        match pairs.find(|((_, made), (_, wanted))| made != wanted) {
            Some(((limit, found), (_, wanted))) => Err(InstanceError::Limits {
                limit,
                found,
                wanted,
            }),
            None => Ok(()),
        }
    }

    /// What the meta map says of an instance made with these limits.
    pub(super) fn to_meta(self, meta: abi::EgressMeta) -> abi::EgressMeta {
        abi::EgressMeta {
            tenants: self.tenants,
            routes: self.routes,
            groups: self.groups.groups().into(),
            members: self.groups.members().into(),
            table_size: self.groups.table_size().get(),
            pins: self.pins,
            flow_pins: self.flow_pins,
            ring_bytes: self.ring_bytes,
            ..meta
        }
    }

    /// Reads them back.
    pub(super) fn from_meta(meta: &abi::EgressMeta) -> Result<Self, LimitError> {
        let table = TableSize::new(meta.table_size)?;
        let groups = group::Limits::new(meta.groups, meta.members, table)?;
        let limits = Self {
            groups,
            ..Self::default()
        };
        limits
            .with_tenants(meta.tenants)?
            .with_routes(meta.routes)?
            .with_pins(meta.pins)?
            .with_flow_pins(meta.flow_pins)?
            .with_ring_bytes(meta.ring_bytes)
    }
}

/// What a specification asks for.
impl TryFrom<&egress_spec::Limits> for Limits {
    type Error = LimitError;

    /// # Errors
    /// None: a specification is held to the same bounds.
    fn try_from(spec: &egress_spec::Limits) -> Result<Self, LimitError> {
        let limits = Self {
            groups: spec.groups,
            ..Self::default()
        };
        limits
            .with_tenants(spec.tenants)?
            .with_routes(spec.routes)?
            .with_pins(spec.pins)?
            .with_flow_pins(spec.flow_pins)?
            .with_ring_bytes(spec.ring_bytes)
    }
}
