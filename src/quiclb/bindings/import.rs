// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bindings of another instance.

use std::collections::BTreeSet;

use serde::Serialize;

use super::table::{look_up, Judged, Settled, Table};
use super::usage::UseBindingsError;
use super::view::View;
use crate::affinity::level::LevelRules;
use crate::affinity::rules::Level;
use crate::affinity::{
    meet, reconcile, Action, AffinityDocument, Conflict, ImportReport, InstanceView, Meeting,
    Outcome, Reconciliation, ServiceView,
};
use crate::error::ErrorKind;
use crate::id::{InstanceId, ServiceId};
use crate::kernel::{clock, SysError};
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::{QuicLb, Writer};

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Imported {
    /// Names this form.
    pub schema: ImportSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Where the document came from.
    pub file: String,
    /// Whether nothing was written: the numbers are those of an import at that moment.
    pub dry_run: bool,
    /// What became of the bindings.
    #[serde(flatten)]
    pub report: ImportReport,
}

/// Names the form of what was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ImportSchema {
    /// The first form.
    #[serde(rename = "guideway.affinity.import/v1")]
    V1,
}

impl Imported {
    /// That this came of importing `file` into an instance.
    pub fn new(
        instance_id: InstanceId,
        file: impl Into<String>,
        dry_run: bool,
        report: ImportReport,
    ) -> Self {
        Self {
            schema: ImportSchema::V1,
            instance_id,
            file: file.into(),
            dry_run,
            report,
        }
    }
}

/// Why a document was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The instance has no generation: it serves nothing.
    #[error("the instance has published nothing")]
    NothingPublished,
    /// Connection IDs are bound to other backends here, and the policy is to import nothing then.
    #[error("{} connection IDs are bound to other backends here", .report.kept)]
    #[non_exhaustive]
    Conflict {
        /// What the document comes to; those in conflict count as kept, and nothing was accepted.
        report: Box<ImportReport>,
    },
    /// The instance cannot be read, or the program that binds cannot be loaded.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Packets of a service have to look for bindings from now on, and cannot be made to.
    #[error(transparent)]
    Use(#[from] UseBindingsError),
    /// It could not go on in the middle: the kernel refused, or a connection ID was bound to another
    /// backend meanwhile and the policy is to import nothing then. What was written stays.
    #[error("stopped after {} of {} bindings: {why}", .report.total(), .of)]
    #[non_exhaustive]
    Stopped {
        /// What was done until then.
        report: Box<ImportReport>,
        /// Bindings of the document.
        of: u64,
        /// Why.
        why: String,
    },
}

impl From<SysError> for ImportError {
    fn from(error: SysError) -> Self {
        Self::Instance(error.into())
    }
}

impl ImportError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NothingPublished => ErrorKind::NotFound,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Instance(error) => error.kind(),
            Self::Use(error) => error.kind(),
            Self::Stopped { .. } => ErrorKind::Partial,
        }
    }
}

impl QuicLb {
    /// What importing the document would come to now. Changes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`Writer::import`].
    pub fn foresee_import(
        &self,
        document: &AffinityDocument,
        policy: Conflict,
    ) -> Result<ImportReport, ImportError> {
        let view = self.view()?.ok_or(ImportError::NothingPublished)?;
        let (_, result) = self.reconcile(&view, document, policy)?;
        Ok(result.foreseen())
    }

    fn reconcile(
        &self,
        view: &View,
        document: &AffinityDocument,
        policy: Conflict,
    ) -> Result<(InstanceView, Reconciliation), ImportError> {
        let instance = self.instance_view(view)?;
        let seed = self.cid_seed()?;
        let result = reconcile(document, &instance, policy, |key| {
            look_up(&self.maps.cids, seed, key)
        })?;
        if result.refused {
            let report = Box::new(result.report);
            return Err(ImportError::Conflict { report });
        }
        Ok((instance, result))
    }

    fn instance_view(&self, view: &View) -> Result<InstanceView, ImportError> {
        let mut services = Vec::new();
        for (service, stats) in view.services() {
            let level = Level::from_abi(self.maps.levels.get(stats)?.cids);
            services.push(ServiceView {
                admits: level == Level::All,
                ..service.clone()
            });
        }
        Ok(InstanceView {
            services,
            room: self.room_for_imports()?,
            now_ns: clock::monotonic_coarse_ns(),
        })
    }

    /// Entries up to the mark from which on they are kept in reserve.
    fn room_for_imports(&self) -> Result<u64, ImportError> {
        let high_water = u64::from(LevelRules::default().high_water);
        let capacity = u64::from(self.maps.cids.map().shape().max_entries);
        let mut used = 0;
        self.for_each_binding(|_, _| used += 1)?;
        Ok((capacity * high_water / 100).saturating_sub(used))
    }
}

impl Writer {
    /// Takes over the bindings of another instance, as far as this one has the same services and
    /// backends. They count as seen now, and age as learned ones do.
    ///
    /// Where packets of a service do not look for bindings yet, a generation is published that makes
    /// them; see [`use_bindings`](Self::use_bindings).
    ///
    /// # Errors
    /// [`ImportError`]; nothing was written, unless it is [`ImportError::Stopped`]. Packets and
    /// registrations go on while it writes, so that a conflict may come about then.
    pub fn import(
        &mut self,
        document: &AffinityDocument,
        policy: Conflict,
    ) -> Result<ImportReport, ImportError> {
        let mut view = self.view()?.ok_or(ImportError::NothingPublished)?;
        let (mut instance, mut result) = self.reconcile(&view, document, policy)?;
        let services: BTreeSet<_> = result.actions.iter().map(|of| of.key.service).collect();
        let services: Vec<_> = services.into_iter().map(ServiceId::new).collect();
        if self.use_bindings(&services)?.is_some() {
            view = self.view()?.ok_or(ImportError::NothingPublished)?;
            (instance, result) = self.reconcile(&view, document, policy)?;
        }
        self.write(document, &view, &instance, result, policy)
    }

    fn write(
        &self,
        document: &AffinityDocument,
        view: &View,
        instance: &InstanceView,
        result: Reconciliation,
        policy: Conflict,
    ) -> Result<ImportReport, ImportError> {
        let mut report = result.report;
        let binder = self.binder()?;
        for action in &result.actions {
            let table = Table {
                cids: &self.maps.cids,
                binder: &binder,
                stats: view.stats(ServiceId::new(action.key.service)),
            };
            let outcome = bind(table, instance, action, policy);
            let why = match outcome {
                Ok(outcome) => {
                    report.count(action, outcome);
                    if policy != Conflict::Fail || outcome != Outcome::Kept {
                        continue;
                    }
                    format!("{} was bound to another backend meanwhile", action.key.cid)
                }
                Err(why) => why,
            };
            return Err(ImportError::Stopped {
                report: Box::new(report),
                of: document.bindings() as u64,
                why,
            });
        }
        Ok(report)
    }
}

/// Writes one entry, unless somebody else was faster.
fn bind(
    table: Table<'_>,
    instance: &InstanceView,
    action: &Action,
    policy: Conflict,
) -> Result<Outcome, String> {
    let id = ServiceId::new(action.key.service);
    let services = &instance.services;
    let service = services
        .binary_search_by_key(&id, |service| service.id)
        .ok()
        .and_then(|index| services.get(index));
    let Some(service) = service else {
        // Actions are for services of the instance.
        return Err(format!("service {id} is not there"));
    };
    let wanted = action.binding(clock::monotonic_coarse_ns());
    let settled = table.write(&action.key, |entry| {
        match meet(service, entry, action.backend, instance.now_ns, |of| {
            policy.replaces(of)
        }) {
            Meeting::Write(_) => Judged::Write(wanted),
            Meeting::Same => Judged::Leave(Outcome::Unchanged),
            Meeting::Other(_) => Judged::Leave(Outcome::Kept),
        }
    });
    match settled.map_err(|error| error.to_string())? {
        Settled::Written { .. } => Ok(Outcome::Written),
        Settled::Left(outcome) => Ok(outcome),
        Settled::Full => Ok(Outcome::Full),
        Settled::Busy => Err(format!(
            "the entry of {} is in use by others",
            action.key.cid
        )),
    }
}

#[cfg(test)]
mod tests;
