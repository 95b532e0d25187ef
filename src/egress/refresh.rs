// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Single routes, while nobody else writes any: each is changed only if it is what it was.

use super::error::PublishError;
use super::instance::Egress;
use super::ledger::{exchange, RouteError};
use super::publish::{Published, Step};
use super::retire::{RetireError, RetireGuard, ZeroRoutes};
use super::ticket::To;
use super::Subject;
use crate::kernel::exchange::Aborted;
use crate::kernel::SysError;
use crate::route::{Key, Route};

/// What became of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Changed {
    /// It is as it was asked for.
    Done,
    /// It was not what was expected: left alone.
    Other,
    /// Nothing is known of its tenant, or the tenant is not enabled: left alone.
    Orphaned,
}

impl RetireGuard<'_> {
    /// Makes a route lead elsewhere by one update, if it is `before` still. It keeps its origin and
    /// its Argument. A route that is gone is not brought back.
    ///
    /// # Errors
    /// The tenants cannot be read, the ticket is of another instance, or the kernel refuses.
    pub fn exchange(&self, key: &Key, before: &Route, to: To<'_>) -> Result<Changed, RouteError> {
        let Some(led) = self.led(key, before, to)? else {
            return Ok(Changed::Orphaned);
        };
        let done = exchange(self.writer, key, &before.to_row(), &led.to_row())?;
        Ok(if done { Changed::Done } else { Changed::Other })
    }

    /// Writes a route of an enabled tenant where there is none, or one that makes no sense.
    ///
    /// # Errors
    /// The tenants cannot be read, there is no room, the ticket is of another instance, or the kernel
    /// refuses.
    pub fn insert(&self, key: &Key, to: To<'_>) -> Result<Changed, RouteError> {
        let tenant = self.ledger.enabled(self.writer, key.table)?;
        let Some(tenant) = tenant else {
            return Ok(Changed::Orphaned);
        };
        let inserted = self.ledger.insert(self.writer, &tenant, key.prefix, to)?;
        Ok(if inserted {
            Changed::Done
        } else {
            Changed::Other
        })
    }

    /// Takes a route away, if it is `before` still: what a shorter prefix has applies.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take_away(&self, key: &Key, before: &Route) -> Result<Changed, SysError> {
        let removed = self.ledger.remove_same(self.writer, *key, before)?;
        Ok(if removed {
            Changed::Done
        } else {
            Changed::Other
        })
    }

    /// Makes a row that makes no sense a route of the control loop that drops.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn mend(&self, key: &Key) -> Result<Changed, SysError> {
        let mended = self.ledger.mend(self.writer, *key)?;
        Ok(if mended {
            Changed::Done
        } else {
            Changed::Other
        })
    }

    /// The instance.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        self.writer
    }

    /// As [`disable_observed`](Self::disable_observed) for several groups in one batch: one result
    /// for each proof, in their order.
    ///
    /// # Errors
    /// A proof is of another instance, or a group cannot be planned; nothing was tried then.
    pub fn disable_all_observed(
        &mut self,
        proofs: Vec<ZeroRoutes<'_>>,
        observer: impl FnMut(Subject, Step) -> Result<(), Aborted>,
    ) -> Result<Vec<Result<Published, PublishError>>, RetireError> {
        let mut plans = Vec::with_capacity(proofs.len());
        for proof in &proofs {
            plans.push(self.plan_disable(proof)?);
        }
        Ok(self.writer.publish_any(&plans, observer)?)
    }
}
