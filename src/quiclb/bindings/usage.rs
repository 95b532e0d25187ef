// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Making packets look for bindings.
//!
//! A look-up costs every packet of a QUIC service, so those whose routing needs none are published
//! without, until somebody binds connection IDs of theirs.

use super::view::View;
use crate::error::ErrorKind;
use crate::id::ServiceId;
use crate::plan::plan_again;
use crate::quiclb::error::{InstanceError, PlanError, PublishError};
use crate::quiclb::instance::Writer;
use crate::quiclb::observe::observe_for;
use crate::quiclb::publish::Publication;
use crate::service::{Routing, Service};

/// Why packets are not made to look for bindings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UseBindingsError {
    /// The instance has no generation: it serves nothing.
    #[error("the instance has published nothing")]
    NothingPublished,
    /// The live generation has no service with this number.
    #[error("the live generation has no service {service}")]
    #[non_exhaustive]
    UnknownService {
        /// Number of the service.
        service: ServiceId,
    },
    /// Packets of the service have no connection IDs.
    #[error("service {service} reads no connection IDs")]
    #[non_exhaustive]
    NotQuic {
        /// Name of the service.
        service: String,
    },
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The live specification cannot be planned again.
    #[error("packets cannot be made to look for bindings: {0}")]
    Plan(#[source] PlanError),
    /// The generation that says so was not published.
    #[error("packets cannot be made to look for bindings: {0}")]
    Publish(#[source] PublishError),
}

impl UseBindingsError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NothingPublished | Self::UnknownService { .. } => ErrorKind::NotFound,
            Self::NotQuic { .. } => ErrorKind::Invalid,
            Self::Instance(error) => error.kind(),
            Self::Plan(error) => error.kind(),
            Self::Publish(error) => error.kind(),
        }
    }
}

impl View {
    /// Whether packets of a service look for bindings.
    pub(super) fn looks_up(&self, service: &Service) -> bool {
        service.reads_quic()
            && (service.quic.routing == Routing::Learned || self.live.is_exact(service.id))
    }
}

impl Writer {
    /// Makes packets of these services look for bindings of their connection IDs, from this
    /// generation on and in all that follow. Services with learned routing do so anyway.
    ///
    /// If there is anything to change, the live specification is published once more; blocks as
    /// [`publish`](Self::publish). The interfaces are those of the calling thread's network
    /// namespace; backends whose interface is gone stay as they are.
    ///
    /// # Errors
    /// [`UseBindingsError`]; nothing was changed.
    pub fn use_bindings(
        &mut self,
        services: &[ServiceId],
    ) -> Result<Option<Publication>, UseBindingsError> {
        let view = self.view()?.ok_or(UseBindingsError::NothingPublished)?;
        let live = self.live_record()?;
        let mut live = live.ok_or(UseBindingsError::NothingPublished)?;
        let mut changed = false;
        for &service in services {
            let (of, _) = view
                .service(service)
                .ok_or(UseBindingsError::UnknownService { service })?;
            if !of.reads_quic() {
                let service = of.name.clone();
                return Err(UseBindingsError::NotQuic { service });
            }
            if !view.looks_up(of) {
                live = live.with_exact(service);
                changed = true;
            }
        }
        if !changed {
            return Ok(None);
        }
        let planned = || -> Result<_, PlanError> {
            let world = observe_for(&self.dir, live.spec())?;
            Ok(plan_again(&live, world)?)
        };
        let plan = planned().map_err(UseBindingsError::Plan)?;
        let published = self
            .publish_again(&plan)
            .map_err(UseBindingsError::Publish)?;
        Ok(Some(published))
    }
}
