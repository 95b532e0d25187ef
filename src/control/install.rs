// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The routes of one tenant, written by whoever sets it up, beside the loop.
//!
//! Any number of processes may do this, none of them the publisher:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use guideway::control::kernel::LiveRoutes;
//! use guideway::control::{install, Install, Mode};
//! use guideway::egress::Egress;
//! use guideway::group::Classes;
//! use guideway::kernel::statedir::StateRoot;
//! use guideway::route::TableId;
//! use guideway::srv6::Argument;
//! use guideway::tenant::Tenant;
//!
//! # fn attach(ifindex: u32) -> Result<(), Box<dyn std::error::Error>> {
//! let egress = Egress::open(&StateRoot::default().egress())?;
//! let classes = Classes::new([], egress.limits().groups())?; // NAT66 alone
//! let tenant = Tenant::new(TableId::new(42), Argument::new(0x2a5)?);
//!
//! // Routes first, so that no packet of the tenant finds none; then its interface.
//! let request = Install::new(&tenant, &classes, Mode::Hashed);
//! let installed = install(&LiveRoutes::new(&egress), &request, Duration::from_secs(5))?;
//! for (class, placed) in &installed.classes {
//!     println!("{class}: {placed}");
//! }
//! egress.write_routes(Duration::from_secs(5))?.add_interface(ifindex, &tenant)?;
//! # Ok(())
//! # }
//! ```
//!
//! Who wants other routes than those takes the same three steps by hand, under one guard: a
//! [ticket](crate::egress::RouteWriteGuard::ticket) for each class, the
//! [writes](crate::egress::RouteWriteGuard::install), and a
//! [look](crate::egress::RouteWriteGuard::check) at what came of them; for a class without a ticket,
//! and for one that closed meanwhile, a route to a shard or a block before the guard is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::desired::Mode;
use super::kernel::{Checked, Failure, KernelError, RouteWriters, Shared, Stage, Ticket};
use crate::egress_spec::RouteTarget;
use crate::error::ErrorKind;
use crate::group::{Class, Classes, GroupId, Snapshot, State};
use crate::route::{Block, Key, Prefix};
use crate::srv6::{BaseSid, NextHop};
use crate::tenant::Tenant;

/// What becomes of a class's route in hashed mode while the class's group has no active member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InstallPolicy {
    /// It leads to the group: its packets are dropped and counted until a member is active.
    #[default]
    AllowEmpty,
    /// It leads to the shard of ordered mode, if there is one; the loop moves it when a member is
    /// active.
    Ordered,
    /// Nothing is written, if the group has members. A group without any is allowed to be empty.
    RequireActive,
}

impl InstallPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllowEmpty, Self::Ordered, Self::RequireActive];

    /// Its name, as flags have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllowEmpty => "allow-empty",
            Self::Ordered => "ordered",
            Self::RequireActive => "require-active",
        }
    }
}

/// Which routes a tenant is to get: one for each configured class.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Install<'a> {
    /// The tenant. What its interfaces have must agree with it.
    pub tenant: &'a Tenant,
    /// The classes that the node is configured for.
    pub classes: &'a Classes,
    /// How packets find their shard.
    pub mode: Mode,
    /// What is done in hashed mode while nobody is active.
    pub policy: InstallPolicy,
    /// The first shard of the ordered list that is reached, and the way to it, found beforehand;
    /// none: what would lead there is blocked.
    pub ordered: Option<(BaseSid, NextHop)>,
}

impl<'a> Install<'a> {
    /// Of this tenant, allowing empty groups, without a shard of ordered mode.
    #[must_use]
    pub const fn new(tenant: &'a Tenant, classes: &'a Classes, mode: Mode) -> Self {
        Self {
            tenant,
            classes,
            mode,
            policy: InstallPolicy::AllowEmpty,
            ordered: None,
        }
    }

    /// The same by another policy.
    #[must_use]
    pub const fn policy(self, policy: InstallPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The same with the shard that ordered routes lead to.
    #[must_use]
    pub const fn ordered(self, ordered: Option<(BaseSid, NextHop)>) -> Self {
        Self { ordered, ..self }
    }
}

/// Where a class's route leads, and why there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// Where.
    pub to: RouteTarget,
    /// Why.
    pub why: Why,
}

/// Why a class's route leads where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The class's group takes routes.
    Group,
    /// The mode is the ordered one.
    Ordered,
    /// Nobody in the group is active, and the policy prefers the shard of ordered mode then.
    NobodyActive,
    /// The class has no group.
    Absent,
    /// Its group takes no routes any more.
    Closing,
    /// Its group forwards nothing any more.
    Disabled,
    /// Its group closed while routes were written; they were written again.
    Closed,
    /// Another writer than the loop keeps the route: it was left alone.
    Foreign,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            _ if self.why == Why::Foreign => {
                return f.write_str("left alone: another writer's route")
            }
            RouteTarget::Pass => f.write_str("passes")?,
            RouteTarget::Block(_) => f.write_str("blocked")?,
            RouteTarget::Shard { sid, .. } => write!(f, "to shard {sid}")?,
            RouteTarget::Class(class) => write!(f, "to the group of {class}")?,
        }
        f.write_str(match self.why {
            Why::Group | Why::Foreign => "",
            Why::Ordered => ", in ordered mode",
            Why::NobodyActive => ", as nobody in its group is active",
            Why::Absent => ", as the class has no group",
            Why::Closing => ", as its group is closing",
            Why::Disabled => ", as its group is disabled",
            Why::Closed => ", as its group closed meanwhile",
        })
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Installed {
    /// Where the route of each configured class leads.
    pub classes: BTreeMap<Class, Placed>,
}

/// Why routes of a tenant are not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// Nobody in the group of a class is active, and the policy asks for somebody. Nothing was
    /// written.
    #[error(
        "group {group} of {class} has {members} members, none of them active; nothing is written"
    )]
    #[non_exhaustive]
    NobodyActive {
        /// The class.
        class: Class,
        /// Its group.
        group: GroupId,
        /// Its members.
        members: usize,
    },
    /// A program that keeps no barrier changed a route right after it was written. The others stand.
    #[error("route {key} is not what was written: another program changed it")]
    #[non_exhaustive]
    Changed {
        /// The route.
        key: Key,
    },
    /// The kernel's side failed. Nothing was written, or what was there is there again; but at
    /// [`Stage::Verify`] all routes are written.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl InstallError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NobodyActive { .. } | Self::Changed { .. } => ErrorKind::Conflict,
            Self::Failed(failure) => failure.kind(),
        }
    }
}

/// Writes a tenant's routes to all configured classes, all or none, whatever was there; but for those
/// that another writer than the loop keeps.
///
/// From the first look at the groups to the last look at the routes one guard is held, so no group is
/// disabled meanwhile. It waits for up to `patience` for who retires a group.
///
/// # Errors
/// [`InstallError`] says what was written, if anything was.
pub fn install(
    kernel: &dyn RouteWriters,
    request: &Install<'_>,
    patience: Duration,
) -> Result<Installed, InstallError> {
    let table = request.tenant.table;
    let failed = |stage| {
        move |cause: KernelError| {
            Failure::new(stage, format_args!("routes of table {table}"), cause)
        }
    };
    let mut guard = kernel.shared(patience).map_err(failed(Stage::Refresh))?;
    let mut placed = BTreeMap::new();
    for entry in request.classes.iter() {
        let class = entry.class;
        placed.insert(class, place(guard.as_ref(), request, class)?);
    }
    let prefixes: Vec<_> = placed.keys().map(|class| Prefix::from(*class)).collect();
    let foreign = guard.foreign(table, &prefixes);
    let foreign: BTreeSet<_> = foreign
        .map_err(failed(Stage::Census))?
        .into_iter()
        .collect();
    for (class, placed) in &mut placed {
        if foreign.contains(&Prefix::from(*class)) {
            placed.why = Why::Foreign;
        }
    }
    let mut stage = Stage::Refresh;
    // A class can close and open while the guard is held, but not be disabled. Who closes and opens
    // one faster than routes are written is told of as a failure.
    let mut attempts = 2 * placed.len() + 1;
    loop {
        let ours = placed.iter().filter(|(_, one)| one.why != Why::Foreign);
        let routes = ours.map(|(class, one)| (Prefix::from(*class), one.to));
        let closed = match guard.install(request.tenant, &routes.collect()) {
            Ok(()) => {
                stage = Stage::Verify;
                match guard.check().map_err(failed(stage))? {
                    Checked::Sound => return Ok(Installed { classes: placed }),
                    Checked::Changed { key } => return Err(InstallError::Changed { key }),
                    Checked::Closed { group, state } => {
                        let text = format!("group {group} is {state} again and again");
                        KernelError::new(ErrorKind::Conflict, text)
                    }
                }
            }
            Err(cause) => cause,
        };
        let is_other = request.without_closed(guard.as_ref(), &mut placed)?;
        attempts -= 1;
        if !is_other || attempts == 0 {
            return Err(failed(stage)(closed).into());
        }
    }
}

impl Install<'_> {
    /// Where a class leads that no group serves: never to what a shorter prefix has.
    fn without_group(&self) -> RouteTarget {
        match self.ordered {
            Some((sid, next_hop)) => RouteTarget::Shard { sid, next_hop },
            None => RouteTarget::Block(Block::Drop),
        }
    }

    /// Lets what leads to a group that takes no routes any more lead elsewhere; whether there is any.
    fn without_closed(
        &self,
        guard: &dyn Shared,
        placed: &mut BTreeMap<Class, Placed>,
    ) -> Result<bool, Failure> {
        let mut is_other = false;
        for (&class, placed) in placed {
            if placed.to != RouteTarget::Class(class) || placed.why == Why::Foreign {
                continue;
            }
            let ticket = guard.ticket(class).map_err(|cause| {
                Failure::new(Stage::Verify, format_args!("group of {class}"), cause)
            })?;
            if !matches!(ticket, Ticket::Open { .. }) {
                placed.to = self.without_group();
                placed.why = Why::Closed;
                is_other = true;
            }
        }
        Ok(is_other)
    }
}

/// Where the route of a class is to lead.
fn place(guard: &dyn Shared, request: &Install<'_>, class: Class) -> Result<Placed, InstallError> {
    let without = |why| Placed {
        to: request.without_group(),
        why,
    };
    if request.mode == Mode::Ordered {
        return Ok(without(Why::Ordered));
    }
    let failed = |cause| Failure::new(Stage::Ownership, format_args!("group of {class}"), cause);
    let group = match guard.ticket(class).map_err(failed)? {
        Ticket::Open { group, .. } => group,
        Ticket::Absent => return Ok(without(Why::Absent)),
        Ticket::Closing => return Ok(without(Why::Closing)),
        Ticket::Disabled => return Ok(without(Why::Disabled)),
    };
    let live = guard.group(group).map_err(failed)?;
    let is_active = |live: &Snapshot| live.members.iter().any(|member| member.is_active());
    let members = live.as_ref().map_or(0, |live| live.members.len());
    // One that closed between the looks is found again when the routes are looked at.
    let idle = live.is_some_and(|live| live.state == State::Open && !is_active(&live));
    match request.policy {
        InstallPolicy::Ordered if idle && request.ordered.is_some() => {
            Ok(without(Why::NobodyActive))
        }
        InstallPolicy::RequireActive if idle && members > 0 => Err(InstallError::NobodyActive {
            class,
            group,
            members,
        }),
        _ => Ok(Placed {
            to: RouteTarget::Class(class),
            why: Why::Group,
        }),
    }
}
