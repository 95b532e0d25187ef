// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop, and who sets up tenants, do with a node's egress: as traits, so that both are
//! tested without a kernel.
//!
//! [`Live`] is the kernel's side of both, [`Fake`](super::fake::Fake) one in memory; one suite of
//! tests says that they are the same.

mod error;
mod live;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub use error::{Failure, KernelError};
pub use live::{Aborted, Live, LiveRoutes, Operation, Part};

pub use super::metrics::Stage;
use super::observed::{Damage, GroupContext, SenselessRoute};
use crate::egress::{Changed, Published};
use crate::egress_spec::RouteTarget;
use crate::encap::Encap;
use crate::group::{
    Class, Generation, GroupId, GroupPlan, Incarnation, Limits, Slot, Snapshot, State,
};
use crate::route::{Key, Prefix, Route, RowError, TableId};
use crate::tenant::Tenant;

/// All groups that were ever opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Groups {
    /// Those of which is known what they are, in order; see [`Observed::groups`].
    ///
    /// [`Observed::groups`]: super::Observed::groups
    pub known: Vec<Snapshot>,
    /// What is wrong with those that are damaged.
    pub damaged: BTreeMap<GroupId, Damage>,
}

/// All routes, as far as their rows make sense.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routes {
    /// Those that do.
    pub by_key: BTreeMap<Key, Route>,
    /// Rows whose key makes sense and whose value does not.
    pub senseless: BTreeMap<Key, SenselessRoute>,
    /// Rows whose key makes no sense.
    pub unreadable: Vec<RowError>,
}

/// The tenants at all interfaces, as far as their rows make sense.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tenants {
    /// By the index of the interface.
    pub by_interface: BTreeMap<u32, Tenant>,
    /// Rows that make no sense.
    pub unreadable: Vec<RowError>,
}

/// Live pins by the tenure that holds them.
pub type PinCounts = HashMap<(GroupId, Slot, Generation), u64>;

/// One change of one route, which is made only if it still is what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteChange {
    /// A route of an enabled tenant, where there is none, or one that makes no sense.
    Insert {
        /// Which.
        key: Key,
        /// Where it leads.
        to: RouteTarget,
    },
    /// Another target, by one update; origin and Argument stay.
    Exchange {
        /// Which.
        key: Key,
        /// As it was.
        before: Route,
        /// Where it leads.
        to: RouteTarget,
    },
    /// It goes away: what a shorter prefix has applies.
    Remove {
        /// Which.
        key: Key,
        /// As it was.
        before: Route,
    },
    /// A row that makes no sense blocks its packets from now on, and names nothing.
    Mend {
        /// Which.
        key: Key,
    },
}

impl RouteChange {
    /// The route.
    #[must_use]
    pub const fn key(&self) -> Key {
        match self {
            Self::Insert { key, .. }
            | Self::Exchange { key, .. }
            | Self::Remove { key, .. }
            | Self::Mend { key } => *key,
        }
    }

    /// Where it shall lead; none where it goes away.
    #[must_use]
    pub const fn to(&self) -> Option<RouteTarget> {
        match self {
            Self::Insert { to, .. } | Self::Exchange { to, .. } => Some(*to),
            Self::Remove { .. } => None,
            Self::Mend { .. } => Some(RouteTarget::Block(crate::route::Block::Drop)),
        }
    }
}

/// What became of several changes: of the first ones, up to where one failed.
#[derive(Debug, Default)]
pub struct ChangeReport {
    /// What became of each change, in their order.
    pub done: Vec<Changed>,
    /// Why the next one failed; those behind it were not tried.
    pub failed: Option<KernelError>,
}

impl ChangeReport {
    /// How many came out like that.
    #[must_use]
    pub fn count(&self, what: Changed) -> u64 {
        self.done.iter().filter(|done| **done == what).count() as u64
    }
}

/// What anybody may look at.
pub trait Look {
    /// The monotonic clock, since any moment.
    fn now(&self) -> Duration;

    /// The real-time clock in nanoseconds, for the record.
    fn wall_ns(&self) -> u64;

    /// What the maps have room for.
    fn limits(&self) -> Limits;

    /// How packets are encapsulated; none before that was published, or if what is in force cannot be
    /// read or makes no sense.
    ///
    /// # Errors
    /// The kernel refuses to read.
    fn encap(&self) -> Result<Option<Encap>, KernelError>;

    /// All groups that were ever opened. One that is damaged keeps nobody from seeing the others.
    ///
    /// # Errors
    /// The kernel refuses to read.
    fn groups(&self) -> Result<Groups, KernelError>;

    /// All routes.
    ///
    /// # Errors
    /// They cannot be read to the end.
    fn routes(&self) -> Result<Routes, KernelError>;

    /// The tenants at all interfaces.
    ///
    /// # Errors
    /// They cannot be read to the end.
    fn tenants(&self) -> Result<Tenants, KernelError>;

    /// The live pins, counted one by one.
    ///
    /// # Errors
    /// They cannot be read to the end.
    fn pins(&self) -> Result<PinCounts, KernelError>;
}

/// What the loop needs: one process has it, the publisher.
///
/// Calls block: a publication until no packet uses what was before, a guard as long as it may.
pub trait Kernel: Look {
    /// What plans of a group depend on beside its snapshot.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn context(&self, group: GroupId) -> Result<GroupContext, KernelError>;

    /// Publishes how packets are encapsulated; whether it was otherwise before.
    ///
    /// # Errors
    /// What was in force is so still, unless the error came behind the swap.
    fn set_encap(&mut self, encap: &Encap) -> Result<bool, KernelError>;

    /// Publishes groups in one batch: one result for each plan, in their order.
    ///
    /// # Errors
    /// The plans contradict each other or the maps; nothing was tried then.
    fn publish(
        &mut self,
        plans: &[GroupPlan],
    ) -> Result<Vec<Result<Published, KernelError>>, KernelError>;

    /// The right to write routes while nobody else does.
    ///
    /// # Errors
    /// Others held it for as long as `patience` ([`ErrorKind::Locked`](crate::error::ErrorKind)), or
    /// it cannot be locked. Nothing was changed.
    fn exclusive(&mut self, patience: Duration) -> Result<Box<dyn Exclusive + '_>, KernelError>;
}

/// The right to write routes while nobody else does; given back when it is dropped.
pub trait Exclusive {
    /// How long it was waited for.
    fn waited(&self) -> Duration;

    /// All groups, as [`Look::groups`].
    ///
    /// # Errors
    /// As there.
    fn groups(&self) -> Result<Groups, KernelError>;

    /// All routes: nobody writes any meanwhile.
    ///
    /// # Errors
    /// They cannot be read to the end.
    fn routes(&self) -> Result<Routes, KernelError>;

    /// Changes routes one by one, in this order, until one fails. Which groups take routes is read
    /// once.
    fn change(&mut self, changes: &[RouteChange]) -> ChangeReport;

    /// Proves for each of these closing groups that no route names it, whoever wrote it, and disables
    /// those in one batch. One result for each group, in their order: what has no proof failed at
    /// [`Stage::Retire`], what could not be published at [`Stage::Disable`].
    fn disable(&mut self, groups: &[GroupId]) -> Vec<Result<Published, Failure>>;
}

/// What who sets up a tenant needs: any number of processes have it.
pub trait RouteWriters: Look {
    /// The right to write routes beside others. As long as it is held no group is retired: find next
    /// hops before.
    ///
    /// # Errors
    /// As [`Kernel::exclusive`].
    fn shared(&self, patience: Duration) -> Result<Box<dyn Shared + '_>, KernelError>;
}

/// The right to write routes of tenants beside others; given back when it is dropped.
pub trait Shared {
    /// Whether routes may be written to a class's group, as long as this guard is held. It may close
    /// meanwhile, but is not disabled.
    ///
    /// # Errors
    /// What is published cannot be read.
    fn ticket(&self, class: Class) -> Result<Ticket, KernelError>;

    /// A group as packets see it; none if it was never opened.
    ///
    /// # Errors
    /// What is published cannot be read.
    fn group(&self, group: GroupId) -> Result<Option<Snapshot>, KernelError>;

    /// Those of the routes to these prefixes that another writer than the loop keeps.
    ///
    /// # Errors
    /// The table cannot be read.
    fn foreign(&self, table: TableId, prefixes: &[Prefix]) -> Result<Vec<Prefix>, KernelError>;

    /// Writes routes of a tenant, all or none, long prefixes before short ones. What leads to a class
    /// takes its ticket anew.
    ///
    /// # Errors
    /// A class has no group that takes routes, interfaces of the tenant disagree, or the kernel
    /// refuses. What was there is there again, unless the error's kind is
    /// [`Partial`](crate::error::ErrorKind::Partial) because that failed, too.
    fn install(
        &mut self,
        tenant: &Tenant,
        routes: &BTreeMap<Prefix, RouteTarget>,
    ) -> Result<(), KernelError>;

    /// Whether what was written is there, and leads to open groups.
    ///
    /// # Errors
    /// It cannot be read.
    fn check(&self) -> Result<Checked, KernelError>;
}

/// Whether a class's group takes routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ticket {
    /// It does.
    Open {
        /// The group.
        group: GroupId,
        /// The tenure that routes will name.
        incarnation: Incarnation,
    },
    /// The class has no group.
    Absent,
    /// It takes no routes any more.
    Closing,
    /// It forwards nothing any more.
    Disabled,
}

/// What became of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Checked {
    /// It is there, and leads to open groups.
    Sound,
    /// A group closed since.
    Closed {
        /// The group.
        group: GroupId,
        /// What it is.
        state: State,
    },
    /// A program that keeps no barrier changed a route.
    Changed {
        /// The route.
        key: Key,
    },
}
