// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What frames are run against.

use std::collections::HashSet;

use super::bindings::Imported;
use crate::addr::MacAddr;
use crate::affinity::{AffinityDocument, ImportReport};
use crate::id::InterfaceName;
use crate::plan::{plan, Device, Live, Options, Plan, World};
use crate::service::{Faults, SourceMac, Spec};

/// MTU of interfaces that are made up.
const MTU: u32 = 1500;

/// A plan, and the interfaces that were made up for it.
#[derive(Debug, Clone)]
pub struct Scenario {
    plan: Plan,
    stand_ins: Vec<InterfaceName>,
    imported: Option<Imported>,
}

impl Scenario {
    /// Plans `spec` on a machine like `world`, where stand-ins take the place of interfaces that
    /// are not there: for a [`World::offline`] of all of them.
    ///
    /// # Errors
    /// What stands against the plan, as for [`plan`](crate::plan::plan).
    pub fn new(
        live: Option<&Live>,
        spec: &Spec,
        world: &World,
        options: Options,
    ) -> Result<Self, Faults> {
        let (world, stand_ins) = complete(spec, world);
        Ok(Self {
            plan: plan(live, spec, &world, options)?,
            stand_ins,
            imported: None,
        })
    }

    /// Has frames meet the bindings of an export, in place of those of an earlier call: all that an
    /// instance of this plan would take if it had none of its own and room for all.
    ///
    /// Gives what was taken and what was not, and why.
    pub fn import(&mut self, document: &AffinityDocument) -> ImportReport {
        let imported = Imported::of(self.plan.generation(), document);
        self.imported.insert(imported).report.clone()
    }

    pub(super) fn imported(&self) -> Option<&Imported> {
        self.imported.as_ref()
    }

    /// What the frames meet.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The interfaces that were made up, in the order in which the specification names them.
    pub fn stand_ins(&self) -> &[InterfaceName] {
        &self.stand_ins
    }

    /// What is different from the machine that the specification is for.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.stand_ins.is_empty() {
            let names: Vec<_> = self.stand_ins.iter().map(InterfaceName::as_str).collect();
            notes.push(format!(
                "stand-ins took the place of interfaces that do not exist here: {}",
                names.join(", ")
            ));
            if self.writes_made_up_addresses() {
                notes.push("source addresses of those interfaces are made up".to_owned());
            }
        }
        if self.plan.is_offline() {
            notes.push("the plan was made offline: no source addresses are written".to_owned());
        }
        notes.extend(self.imported.as_ref().map(Imported::note));
        notes
    }

    /// Whether a stand-in's own address may be in an output.
    fn writes_made_up_addresses(&self) -> bool {
        let spec = self.plan.spec();
        spec.services()
            .iter()
            .flat_map(|service| &service.backends)
            .any(|backend| {
                self.stand_ins.contains(&backend.interface)
                    && (spec.source_mac() == SourceMac::Interface
                        || backend.interface == *spec.interface())
            })
    }
}

impl From<Plan> for Scenario {
    /// A plan as it is.
    fn from(plan: Plan) -> Self {
        Self {
            plan,
            stand_ins: Vec::new(),
            imported: None,
        }
    }
}

/// Adds what the specification names and the world lacks.
fn complete(spec: &Spec, world: &World) -> (World, Vec<InterfaceName>) {
    let mut world = world.clone();
    let mut devices = world.devices.take().unwrap_or_default();
    let mut stand_ins = Vec::new();
    let backends = spec.services().iter().flat_map(|service| &service.backends);
    let named = std::iter::once(spec.interface()).chain(backends.map(|b| &b.interface));
    let taken: HashSet<_> = devices.iter().map(|device| device.index).collect();
    // 1 is loopback, which every machine has.
    let mut free = (2_u32..).filter(|index| !taken.contains(index));
    let mut known: HashSet<_> = devices.iter().map(|device| device.name.clone()).collect();
    for name in named {
        if !known.insert(name.clone()) {
            continue;
        }
        // There are far fewer interfaces than indices.
        let index = free.next().unwrap_or(0);
        let [a, b, c, d] = index.to_be_bytes();
        let mac = MacAddr::new([0x02, 0xff, a, b, c, d]);
        devices.push(Device::new(name.clone(), index, Some(mac), MTU));
        stand_ins.push(name.clone());
    }
    world.devices = Some(devices);
    (world, stand_ins)
}
