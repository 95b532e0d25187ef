// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants that go, and their pins.

use std::time::Duration;

use super::error::{GuardError, InstanceError};
use super::instance::{Egress, Writer};
use super::known::Known;
use super::pins::{Report, SweepError, Tick};
use super::routes::remove_routes;
use crate::error::ErrorKind;
use crate::kernel::barrier::wait_for_packets;
use crate::kernel::SysError;
use crate::route::TableId;

/// Why a tenant is not removed, or not wholly: what is left is removed by the next call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TenantError {
    /// Packets of the tenant may still come in.
    #[error("table {table} has interfaces: ifindex {ifindex}")]
    #[non_exhaustive]
    InUse {
        /// The tenant.
        table: TableId,
        /// One of its interfaces.
        ifindex: u32,
    },
    /// The barrier is not held.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// What is there cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Its pins could not be removed.
    #[error(transparent)]
    Pins(#[from] SweepError),
    /// Pins are left.
    #[error("pins of table {table} are left: {report:?}")]
    #[non_exhaustive]
    PinsLeft {
        /// The tenant.
        table: TableId,
        /// What the last pass found.
        report: Box<Report>,
    },
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl TenantError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse { .. } => ErrorKind::Conflict,
            Self::Guard(error) => error.kind(),
            Self::Instance(error) => error.kind(),
            Self::Pins(error) => error.kind(),
            Self::PinsLeft { .. } => ErrorKind::Partial,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// What was removed with a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedTenant {
    /// Routes.
    pub routes: usize,
    /// Pins.
    pub pins: u64,
}

impl Egress {
    /// Tenants that have rows but no interface: those of which an interface was removed by who could
    /// not remove the rest.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn abandoned(&self) -> Result<Vec<TableId>, InstanceError> {
        let known = Known::read(self)?;
        let usage = self.pins()?.usage()?;
        let is_left = |table: &TableId| known.of(*table).next().is_none();
        Ok(usage.into_keys().filter(is_left).collect())
    }
}

impl Writer {
    /// Removes the routes and pins of a tenant without interfaces. When it returns, another tenant
    /// may have the number, and inherits nothing.
    ///
    /// # Errors
    /// The tenant has an interface still, or [`TenantError`] says what is left.
    pub fn remove_tenant(
        &mut self,
        table: TableId,
        patience: Duration,
    ) -> Result<RemovedTenant, TenantError> {
        // Alone: who adds an interface has either done it or not begun.
        let guard = self.barrier.exclusive(patience).map_err(GuardError::from)?;
        self.check_unused(table)?;
        let routes = remove_routes(self, table)?;
        // Not held while packets are waited for.
        drop(guard);
        wait_for_packets()?;
        let report = self.sweeper()?.remove_tenant(table, Tick::now())?;
        if !report.is_complete() {
            let report = Box::new(report);
            return Err(TenantError::PinsLeft { table, report });
        }
        let _guard = self.barrier.exclusive(patience).map_err(GuardError::from)?;
        self.check_unused(table)?;
        self.maps.pin_use.remove(&table.get())?;
        Ok(RemovedTenant {
            routes,
            pins: report.removed.tenant,
        })
    }

    fn check_unused(&self, table: TableId) -> Result<(), TenantError> {
        let known = Known::read(self)?;
        let mut interfaces = known.of(table);
        match interfaces.next() {
            Some((ifindex, _)) => Err(TenantError::InUse { table, ifindex }),
            None => Ok(()),
        }
    }
}
