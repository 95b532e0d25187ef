// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bindings of connection IDs that frames meet, from another instance's export.

use std::convert::Infallible;

use crate::abi;
use crate::affinity::{
    cid_tag, reconcile, Action, AffinityDocument, BackendView, Binding, Conflict, ImportReport,
    InstanceView, ServiceView,
};
use crate::plan::{Generation, PlacedService};
use crate::service::Service;

/// What frames meet of a document.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    actions: Vec<Action>,
    pub(super) report: ImportReport,
}

impl Imported {
    /// What a first generation with nothing bound takes of `document`. There is room for all.
    pub(super) fn of(generation: &Generation, document: &AffinityDocument) -> Self {
        let mut services: Vec<_> = generation.services().map(view).collect();
        services.sort_by_key(|service| service.id);
        let instance = InstanceView {
            services,
            room: u64::MAX,
            now_ns: 0,
        };
        let nothing_bound = |_: &_| Ok::<_, Infallible>(None);
        let Ok(reconciliation) = reconcile(document, &instance, Conflict::Keep, nothing_bound);
        Self {
            actions: reconciliation.actions.clone(),
            report: reconciliation.foreseen(),
        }
    }

    /// Has packets of the services that have bindings look for them.
    pub(super) fn prepare(&self, generation: &mut Generation) {
        let spec = generation.spec.clone();
        for (service, placed) in spec.services().iter().zip(&mut generation.services) {
            let mut keys = self.actions.iter().map(|action| action.key.service);
            placed.exact |= keys.any(|id| id == service.id.get());
        }
    }

    /// The entries as they stand in a map whose tags have this secret.
    pub(super) fn entries(
        &self,
        cid_seed: u64,
        now_ns: u64,
    ) -> impl Iterator<Item = (abi::CidKey, abi::Binding)> + '_ {
        self.actions.iter().map(move |action| {
            let key = action.key.to_abi();
            let binding = Binding {
                tag: cid_tag(&key, cid_seed),
                ..action.binding(now_ns)
            };
            (key, binding.to_abi())
        })
    }

    /// What of the document was taken, for people.
    pub(super) fn note(&self) -> String {
        let rejected = &self.report.rejected;
        let reasons = [
            ("unknown_service", rejected.unknown_service),
            ("service_differs", rejected.service_differs),
            ("unknown_backend", rejected.unknown_backend),
            ("not_usable", rejected.not_usable),
            ("duplicate_in_document", rejected.duplicate_in_document),
            ("cid_length", rejected.cid_length),
        ];
        let reasons: Vec<_> = reasons
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        let taken = format!(
            "{} of {} bindings were imported first",
            self.report.accepted,
            self.report.total()
        );
        match reasons.is_empty() {
            true => taken,
            false => format!("{taken}; rejected: {}", reasons.join(", ")),
        }
    }
}

fn view((service, placed): (&Service, &PlacedService)) -> ServiceView {
    let mut backends: Vec<_> = placed
        .rows
        .iter()
        .flatten()
        .map(|backend| BackendView {
            id: backend.id,
            row: backend.row,
            incarnation: backend.incarnation,
            usable: backend.standing().is_usable(),
        })
        .collect();
    backends.sort_by_key(|backend| backend.id);
    ServiceView {
        id: service.id,
        vip: service.vip,
        protocol: service.protocol,
        port: service.port,
        contract: service.cid_contract(),
        admits: true,
        backends,
    }
}
