// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes a specification what packets see.
//!
//! The order is that of safety: a group is open before routes name it, a tenant's routes are there
//! before its packets are looked at, and what goes, goes last.

use std::collections::BTreeMap;
use std::time::Duration;

use super::compare::{Changes, TenantChanges};
use super::error::{ApplyError, Part};
use crate::egress::{Move, Published, RouteWriteGuard, To, Writer};
use crate::egress_spec::{Resolved, RouteTarget};
use crate::group::{GroupId, State};
use crate::kernel::tc;
use crate::kernel::write_barrier::DEFAULT_PATIENCE;
use crate::route::{Origin, Prefix, TableId};
use crate::tenant::Tenant;

/// How a specification is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct How {
    /// How the program is attached where it is not yet.
    pub attach: tc::Options,
    /// How long to wait for those who write routes.
    pub patience: Duration,
}

impl Default for How {
    /// By TCX where the kernel has it, before all others; five seconds.
    fn default() -> Self {
        Self {
            attach: tc::Options::default(),
            patience: DEFAULT_PATIENCE,
        }
    }
}

/// What was changed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Applied {
    /// Whether another configuration was published.
    pub encap: bool,
    /// Groups that were published; also those that were closed, to be disabled.
    pub published: Vec<Published>,
    /// Groups that were disabled.
    pub retired: Vec<GroupId>,
    /// Routes that were written.
    pub routes_written: usize,
    /// Routes that were removed.
    pub routes_removed: usize,
    /// Interfaces whose row was written, by their index.
    pub interfaces_written: Vec<u32>,
    /// Interfaces whose row was removed.
    pub interfaces_removed: Vec<u32>,
    /// Tenants that are gone.
    pub tenants_removed: Vec<TableId>,
    /// Interfaces that the program was attached to.
    pub attached: Vec<u32>,
    /// Interfaces that it was taken off.
    pub detached: Vec<u32>,
}

impl Applied {
    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.encap
            && self.published.is_empty()
            && self.retired.is_empty()
            && self.routes_written == 0
            && self.routes_removed == 0
            && self.interfaces_written.is_empty()
            && self.interfaces_removed.is_empty()
            && self.tenants_removed.is_empty()
            && self.attached.is_empty()
            && self.detached.is_empty()
    }
}

impl Writer {
    /// Makes `wanted` what packets see, whatever is there. Each group and each route changes by one
    /// update, no packet to a configured class goes where another one's route leads, and where a
    /// step fails packets go on.
    ///
    /// Blocks as long as publications do. Interfaces are those of the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// The first step that failed, and what was done before it.
    pub fn apply(&mut self, wanted: &Resolved, how: &How) -> Result<Applied, ApplyError> {
        let mut applied = Applied::default();
        let done = self.apply_all(wanted, how, &mut applied);
        match done {
            Ok(()) => Ok(applied),
            Err(error) => Err(ApplyError {
                applied: Box::new(applied),
                error: Box::new(error),
            }),
        }
    }

    fn apply_all(
        &mut self,
        wanted: &Resolved,
        how: &How,
        applied: &mut Applied,
    ) -> Result<(), Part> {
        let this = &*self;
        let changes = this.compare_with(wanted, |place, spec| this.plan_group(place, spec))?;
        if let Some(encap) = &changes.encap {
            applied.encap = self.set_encap(encap)?;
        }
        self.publish_changed(&changes, applied)?;
        for tenant in &changes.tenants {
            self.apply_tenant(tenant, how, applied)?;
        }
        for &ifindex in &changes.attached {
            self.attach(ifindex, &how.attach)?;
            applied.attached.push(ifindex);
        }
        for &ifindex in &changes.detached {
            self.detach(ifindex)?;
            applied.detached.push(ifindex);
        }
        self.remove_interfaces(&changes, how, applied)?;
        for &table in &changes.tenants_removed {
            let removed = self.remove_tenant(table, how.patience)?;
            applied.routes_removed += removed.routes;
            applied.tenants_removed.push(table);
        }
        for &group in &changes.retired {
            self.retire_group(group, how, applied)?;
            applied.retired.push(group);
        }
        Ok(())
    }

    fn publish_changed(&mut self, changes: &Changes, applied: &mut Applied) -> Result<(), Part> {
        let changed = changes.groups.iter().filter(|plan| plan.is_changed());
        let changed: Vec<_> = changed.cloned().collect();
        let mut failed = None;
        for result in self.publish(&changed)? {
            match result {
                Ok(published) => applied.published.push(published),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn apply_tenant(
        &self,
        changes: &TenantChanges,
        how: &How,
        applied: &mut Applied,
    ) -> Result<(), Part> {
        let guard = self.write_routes(how.patience)?;
        let (present, new): (BTreeMap<_, _>, BTreeMap<_, _>) = changes
            .interfaces
            .iter()
            .map(|(&ifindex, tenant)| (ifindex, *tenant))
            .partition(|(ifindex, _)| changes.present.contains(ifindex));
        // What the tenant's rows and routes must agree in is in the rows first.
        guard.add_interfaces(&present)?;
        applied.interfaces_written.extend(present.keys());
        let routes = changes.routes.iter();
        let routes: Vec<_> = routes
            .map(|(prefix, change)| (*prefix, change.to))
            .collect();
        install(&guard, &changes.tenant, &routes)?;
        applied.routes_written += routes.len();
        // Short prefixes first, as what is installed comes the other way round.
        let mut removed: Vec<_> = changes.removed.iter().collect();
        removed.sort_by_key(|prefix| prefix.bits());
        for prefix in removed {
            let removed = guard.remove(changes.tenant.table, *prefix);
            removed.map_err(crate::egress::InstanceError::from)?;
            applied.routes_removed += 1;
        }
        guard.take_interfaces(&new)?;
        applied.interfaces_written.extend(new.keys());
        guard.verify()?;
        Ok(())
    }

    fn remove_interfaces(
        &self,
        changes: &Changes,
        how: &How,
        applied: &mut Applied,
    ) -> Result<(), Part> {
        if changes.interfaces_removed.is_empty() {
            return Ok(());
        }
        let guard = self.write_routes(how.patience)?;
        for &ifindex in &changes.interfaces_removed {
            guard.remove_interface(ifindex)?;
            applied.interfaces_removed.push(ifindex);
        }
        Ok(())
    }

    /// Ends a group that no configured class has.
    fn retire_group(
        &mut self,
        group: GroupId,
        how: &How,
        applied: &mut Applied,
    ) -> Result<(), Part> {
        let live = self.group(group)?;
        if live.is_some_and(|live| live.state == State::Open) {
            let plan = self.plan_close(group)?;
            for result in self.publish(&[plan])? {
                applied.published.push(result?);
            }
        }
        let mut guard = self.retire(how.patience)?;
        // Routes of the tenants here were moved before; these are of others that the loop keeps.
        let moved = guard.move_routes(|_, route| match route.group() {
            Some((named, _)) if named == group && route.origin == Origin::default() => Move::Remove,
            _ => Move::Keep,
        })?;
        applied.routes_removed += usize::try_from(moved.removed).unwrap_or(usize::MAX);
        let proof = guard.prove_zero(group)?;
        guard.disable(proof)?;
        Ok(())
    }
}

fn install(
    guard: &RouteWriteGuard<'_>,
    tenant: &Tenant,
    routes: &[(Prefix, RouteTarget)],
) -> Result<(), Part> {
    let mut tickets = BTreeMap::new();
    for (_, to) in routes {
        if let RouteTarget::Class(class) = to {
            if !tickets.contains_key(class) {
                tickets.insert(*class, guard.ticket(*class)?);
            }
        }
    }
    let to = |to: &RouteTarget| match to {
        RouteTarget::Pass => Some(To::Pass),
        RouteTarget::Block(block) => Some(To::Block(*block)),
        RouteTarget::Shard { sid, next_hop } => Some(To::Shard {
            sid: *sid,
            next_hop: *next_hop,
        }),
        RouteTarget::Class(class) => tickets.get(class).map(To::Group),
    };
    let routes = routes
        .iter()
        .filter_map(|(prefix, target)| Some((*prefix, to(target)?)));
    guard.install(tenant, &routes.collect::<Vec<_>>())?;
    Ok(())
}
