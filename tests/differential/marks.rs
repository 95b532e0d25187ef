// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations in the midst of changes: slots of every kind, graces, bindings.

use std::sync::Arc;

use guideway::affinity::rules::{Slot, SlotKind};
use guideway::plan::{Generation, PlacedService};
use guideway::service::Tracking;

use crate::random::Random;
use crate::state::{LATER_NS, SECOND};

/// Marks slots of services that track exceptions, and lets connection IDs be bound.
pub(crate) fn mark(random: &mut Random, generation: &mut Generation, now_ns: u64) {
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
