// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations in the midst of changes: slots of every kind, graces, bindings.

use std::sync::Arc;

use guideway::affinity::rules::{Slot, SlotKind};
use guideway::plan::{plan, Decryption, Generation, Options, PlacedService, World};
use guideway::service::{Spec, Tracking};
use serde_json::Value;

use crate::random::Random;
use crate::specs;
use crate::state::{LATER_NS, SECOND};

/// A specification, and its generation in the midst of changes; the coarse clock says `now_ns`.
pub(crate) fn generation(random: &mut Random, world: &World, now_ns: u64) -> (Value, Generation) {
    let keyed = world.decryption == Some(Decryption::Works);
    let document = specs::document(random, keyed);
    let spec = Spec::from_json(document.to_string().as_bytes())
        .unwrap_or_else(|faults| panic!("{faults}\n{document:#}"));
    let plan = plan(None, &spec, world, Options::default())
        .unwrap_or_else(|faults| panic!("{faults}\n{document:#}"));
    let mut generation = plan.generation().clone();
    generation.number = random.next().max(2);
    specs::quarantine(random, &mut generation);
    mark(random, &mut generation, now_ns);
    (document, generation)
}

/// Marks slots of services that track exceptions, and lets connection IDs be bound.
fn mark(random: &mut Random, generation: &mut Generation, now_ns: u64) {
    let spec = generation.spec.clone();
    for (service, placed) in spec.services().iter().zip(&mut generation.services) {
        placed.exact |= service.reads_quic() && random.percent(50);
        placed.grace_until_ns = *random.pick(&[0, now_ns - SECOND, now_ns + LATER_NS]);
        if service.tracking == Tracking::Exceptions && random.percent(80) {
            placed.slots = marked(random, placed);
        }
    }
}

fn marked(random: &mut Random, placed: &PlacedService) -> Arc<[guideway::abi::Slot]> {
    let slots = placed.slots.iter().map(|word| {
        let mut slot = Slot::from_abi(*word);
        if random.percent(3) {
            slot.owner = None;
        }
        // Among them rows of nobody.
        let base = random.below(placed.rows.len() + 2) as u16;
        slot.kind = match random.below(10) {
            0..=1 => SlotKind::Plain,
            2..=3 => SlotKind::Held,
            _ if slot.owner == Some(base) => SlotKind::Held,
            _ => SlotKind::Open { base },
        };
        slot.to_abi()
    });
    slots.collect()
}
