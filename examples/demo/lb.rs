// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer of the network.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use guideway::hash::{FlowHashKey, FlowKey};
use guideway::quiclb::{Loader, Mode, Options, Plan, Spec, StateRoot, Writer};
use serde_json::Value;

use super::net::Network;

/// Any error, to be shown.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What a publication made true.
pub(crate) struct Published {
    pub(crate) generation: u64,
    pub(crate) took: Duration,
    plan: Plan,
}

impl Published {
    /// The share of new flows of `service` that the plan gives to backend `number`.
    pub(crate) fn share(&self, service: &str, number: u32) -> f64 {
        let services = &self.plan.document().services;
        let service = services.iter().find(|found| found.name == service);
        service
            .and_then(|service| service.backends.iter().find(|found| found.id == number))
            .map_or(0.0, |backend| backend.share)
    }

    /// Slots of `service` that changed their backend, and all of them.
    pub(crate) fn moved(&self, service: &str) -> (u32, u32) {
        let services = &self.plan.document().services;
        let service = services.iter().find(|found| found.name == service);
        service.map_or((0, 0), |service| {
            (service.disruption.slots_moved, service.table.size)
        })
    }

    /// The backend that a new flow from `client` to `service` belongs to: the owner of its slot.
    pub(crate) fn owner(&self, service: &str, client: SocketAddr) -> Option<u32> {
        let generation = self.plan.generation();
        let (service, placed) = generation
            .services()
            .find(|(found, _)| found.name == service)?;
        let key = FlowKey::new(service.id, client.port(), service.port, client.ip());
        let h64 = FlowHashKey::new(generation.spec.hash_seed()).h64(&key, false);
        let row = placed.table.by_multiply_shift((h64 >> 32) as u32)?;
        Some(placed.backend(row)?.id.get())
    }
}

/// What the balancer has counted, by name where there is no other order.
#[derive(Default)]
pub(crate) struct Counters {
    /// Packets by number of the backend.
    pub(crate) backends: BTreeMap<u32, u64>,
    /// Forwarded packets by rule.
    pub(crate) rules: BTreeMap<&'static str, u64>,
    /// All packets by reason.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    /// What else the services count.
    pub(crate) others: BTreeMap<&'static str, u64>,
}

/// The program on the edge of the network, and the only writer of its instance.
pub(crate) struct Balancer {
    writer: Writer,
}

impl Balancer {
    /// Makes or opens the instance, publishes `document` and attaches the program.
    pub(crate) fn start(
        network: &Network,
        document: &Value,
    ) -> Result<(Balancer, Published), Failure> {
        let spec = Spec::from_json(document.to_string().as_bytes())?;
        network.balancer.run(|| {
            let dir = StateRoot::default().quiclb(spec.instance_id());
            let writer = Loader::new(&dir, spec.limits()).load()?;
            let mut balancer = Balancer { writer };
            let published = balancer.publish_spec(&spec)?;
            // Nothing would arrive through a redirect that only looks like one: native only.
            balancer.writer.attach(spec.interface(), Mode::Native)?;
            Ok((balancer, published))
        })?
    }

    /// Makes `document` what packets see.
    pub(crate) fn publish(
        &mut self,
        network: &Network,
        document: &Value,
    ) -> Result<Published, Failure> {
        let spec = Spec::from_json(document.to_string().as_bytes())?;
        network.balancer.run(|| self.publish_spec(&spec))?
    }

    fn publish_spec(&mut self, spec: &Spec) -> Result<Published, Failure> {
        let plan = self.writer.plan(spec, Options::default())?;
        let publication = self.writer.publish(&plan)?;
        match publication.untidy {
            Some(error) => Err(error.into()),
            None => Ok(Published {
                generation: publication.generation,
                took: publication.duration,
                plan,
            }),
        }
    }

    /// Reads the counters of all services together.
    pub(crate) fn counters(&self, network: &Network) -> Result<Counters, Failure> {
        let stats = network.balancer.run(|| self.writer.stats())??;
        let mut counters = Counters {
            reasons: stats.reasons,
            ..Counters::default()
        };
        for service in stats.services {
            for backend in service.backends {
                *counters.backends.entry(backend.id).or_default() += backend.packets;
            }
            add(&mut counters.rules, service.rules);
            add(&mut counters.others, service.counters);
        }
        Ok(counters)
    }
}

fn add(sums: &mut BTreeMap<&'static str, u64>, more: BTreeMap<&'static str, u64>) {
    for (name, count) in more {
        *sums.entry(name).or_default() += count;
    }
}
