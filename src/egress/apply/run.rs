// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes a specification what packets see.
//!
//! The order is that of safety: a group is open before routes name it, a tenant's routes are there
//! before its packets are looked at, and what goes, goes last.

use std::collections::BTreeMap;
use std::time::Duration;

use super::compare::{Changes, TenantChanges};
use super::error::{ApplyError, Part};
use crate::egress::{Egress, Move, Published, RouteWriteGuard, To, Writer};
use crate::egress_spec::{Resolved, RouteTarget};
use crate::group::{GroupId, State};
use crate::kernel::tc;
use crate::kernel::write_barrier::DEFAULT_PATIENCE;
use crate::route::{Block, Key, Prefix, TableId};
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
        self.refuse_foreign().map_err(|error| ApplyError {
            applied: Box::default(),
            error: Box::new(error.into()),
            further: Vec::new(),
        })?;
        let mut run = Run {
            writer: self,
            how,
            applied: Applied::default(),
            failed: Vec::new(),
        };
        let done = run.all(wanted);
        let Run {
            applied,
            mut failed,
            ..
        } = run;
        failed.extend(done.err());
        let mut failed = failed.into_iter();
        match failed.next() {
            None => {
                self.forget_lost_rows();
                Ok(applied)
            }
            Some(error) => Err(ApplyError {
                applied: Box::new(applied),
                error: Box::new(error),
                further: failed.collect(),
            }),
        }
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
        // The routes of the specification were moved before. What is left must not fall through to
        // a shorter prefix.
        let moved = guard.move_routes(|_, route| match route.group() {
            Some((named, _)) if named == group && !route.origin.is_foreign() => {
                Move::To(To::Block(Block::Drop))
            }
            _ => Move::Keep,
        })?;
        applied.routes_written += usize::try_from(moved.moved).unwrap_or(usize::MAX);
        let proof = guard.prove_zero(group)?;
        guard.disable(proof)?;
        Ok(())
    }
}

/// Routes that are written under one guard: others wait meanwhile.
const ROUTES_AT_ONCE: usize = crate::egress::MOST_REFRESHED;

/// One application of a specification.
struct Run<'w> {
    writer: &'w mut Writer,
    how: &'w How,
    applied: Applied,
    /// What failed without keeping the rest from being done.
    failed: Vec<Part>,
}

impl Run<'_> {
    fn all(&mut self, wanted: &Resolved) -> Result<(), Part> {
        let waiting = self.once(wanted)?;
        if waiting && self.failed.is_empty() {
            // Groups are free now that others waited for.
            self.once(wanted)?;
        }
        Ok(())
    }

    /// Whether classes wait for the groups that were retired.
    fn once(&mut self, wanted: &Resolved) -> Result<bool, Part> {
        let writer = &*self.writer;
        let changes = writer.compare_with(wanted, |place, spec| writer.plan_group(place, spec))?;
        if let Some(encap) = &changes.encap {
            self.applied.encap |= self.writer.set_encap(encap)?;
        }
        // What goes is gone before others get its numbers.
        for &ifindex in &changes.detached {
            match self.writer.detach(ifindex) {
                Ok(_) => self.applied.detached.push(ifindex),
                Err(error) => self.failed.push(error.into()),
            }
        }
        self.remove_interfaces(&changes)?;
        self.publish_changed(&changes)?;
        let mut tenants = changes.tenants.as_slice();
        while !tenants.is_empty() {
            tenants = self.write_tenants(tenants)?;
        }
        for &ifindex in &changes.attached {
            match self.writer.attach(ifindex, &self.how.attach) {
                Ok(_) => self.applied.attached.push(ifindex),
                Err(error) => self.failed.push(error.into()),
            }
        }
        for &table in &changes.tenants_removed {
            match self.writer.remove_tenant(table, self.how.patience) {
                Ok(removed) => {
                    self.applied.routes_removed += removed.routes;
                    self.applied.tenants_removed.push(table);
                }
                Err(error) => self.failed.push(error.into()),
            }
        }
        for &group in &changes.retired {
            match self.writer.retire_group(group, self.how, &mut self.applied) {
                Ok(()) => self.applied.retired.push(group),
                Err(error) => self.failed.push(error),
            }
        }
        Ok(!changes.waiting.is_empty())
    }

    fn publish_changed(&mut self, changes: &Changes) -> Result<(), Part> {
        let changed = changes.groups.iter().filter(|plan| plan.is_changed());
        let changed: Vec<_> = changed.cloned().collect();
        let mut failed = None;
        for result in self.writer.publish(&changed)? {
            match result {
                Ok(published) => self.applied.published.push(published),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        // Routes name what is published.
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn remove_interfaces(&mut self, changes: &Changes) -> Result<(), Part> {
        if changes.interfaces_removed.is_empty() {
            return Ok(());
        }
        let guard = self.writer.write_routes(self.how.patience)?;
        for &ifindex in &changes.interfaces_removed {
            guard.remove_interface(ifindex)?;
            self.applied.interfaces_removed.push(ifindex);
        }
        Ok(())
    }

    /// Writes the first of these tenants under one guard; the others are left.
    fn write_tenants<'c>(
        &mut self,
        tenants: &'c [TenantChanges],
    ) -> Result<&'c [TenantChanges], Part> {
        let guard = self.writer.write_routes_alone(self.how.patience)?;
        let moving = tenants.iter().flat_map(|changes| {
            let interfaces = changes.interfaces.keys();
            interfaces.filter(|ifindex| !changes.present.contains(ifindex))
        });
        guard.set_leaving(moving.copied().collect());
        let (mut written, mut rest) = (0, tenants);
        while let Some((changes, others)) = rest.split_first() {
            if written > 0 && written + changes.routes.len() > ROUTES_AT_ONCE {
                break;
            }
            write_tenant(self.writer, &guard, changes, &mut self.applied)?;
            written += changes.routes.len() + changes.removed.len() + 1;
            rest = others;
        }
        guard.verify()?;
        Ok(rest)
    }
}

/// Writes one tenant: rows that are its own already, so that routes agree with them; routes; and the
/// interfaces that it gets.
fn write_tenant(
    egress: &Egress,
    guard: &RouteWriteGuard<'_>,
    changes: &TenantChanges,
    applied: &mut Applied,
) -> Result<(), Part> {
    let (present, new): (BTreeMap<_, _>, BTreeMap<_, _>) = changes
        .interfaces
        .iter()
        .map(|(&ifindex, tenant)| (ifindex, *tenant))
        .partition(|(ifindex, _)| changes.present.contains(ifindex));
    guard.add_interfaces(&present)?;
    applied.interfaces_written.extend(present.keys());

    // Other writers' routes are theirs, also those that came since the comparison.
    let routes = if changes.routes.is_empty() && changes.removed.is_empty() {
        BTreeMap::new()
    } else {
        egress.routes(changes.tenant.table)?
    };
    let is_foreign = |prefix: &Prefix| {
        let there = routes.get(&Key::new(changes.tenant.table, *prefix));
        there.is_some_and(|route| route.origin.is_foreign())
    };
    let put = changes.routes.iter();
    let put: Vec<_> = put
        .filter(|(prefix, _)| !is_foreign(prefix))
        .map(|(prefix, change)| (*prefix, change.to))
        .collect();
    install(guard, &changes.tenant, &put)?;
    applied.routes_written += put.len();
    // Short prefixes first, as what is installed comes the other way round.
    let removed = changes.removed.iter();
    let mut removed: Vec<_> = removed.filter(|prefix| !is_foreign(prefix)).collect();
    removed.sort_by_key(|prefix| prefix.bits());
    for prefix in removed {
        guard.remove(changes.tenant.table, *prefix)?;
        applied.routes_removed += 1;
    }
    guard.take_interfaces(&new)?;
    applied.interfaces_written.extend(new.keys());
    Ok(())
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
