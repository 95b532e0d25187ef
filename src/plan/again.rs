// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is live, planned once more.

use std::collections::BTreeMap;

use super::live::Live;
use super::world::{Device, World};
use super::{plan, Options, Plan};
use crate::addr::MacAddr;
use crate::id::InterfaceName;
use crate::service::Faults;

/// Plans the live specification once more. One of its interfaces that is gone takes nothing from
/// the others: its backends keep the index and source address that they have, but for an index that
/// is somebody else's by now, for which they get 0, the index of nobody. The publication does not
/// redirect to it.
///
/// # Errors
/// As [`plan`], without [`NoInterface`](crate::service::FaultCode::NoInterface).
pub(crate) fn plan_again(live: &Live, mut world: World) -> Result<Plan, Faults> {
    let absent = stand_ins(live, &world);
    let indices = absent.iter().map(|device| device.index).collect();
    if let Some(devices) = &mut world.devices {
        devices.extend(absent);
    }
    let mut plan = plan(Some(live), &live.spec, &world, Options::default())?;
    plan.absent = indices;
    Ok(plan)
}

/// What is known of the live interfaces that the world does not have.
fn stand_ins(live: &Live, world: &World) -> Vec<Device> {
    let Some(devices) = &world.devices else {
        return Vec::new();
    };
    let targets = live.placed().flat_map(|(service, record)| {
        let backends = service.backends.iter();
        backends.filter_map(|backend| {
            let placed = record.backend(backend.id.get())?;
            Some((&backend.interface, placed.ifindex, placed.source_mac))
        })
    });
    // Last: of itself it has no source address.
    let ingress = (live.spec.interface(), live.record.ifindex, None);
    let mut absent: BTreeMap<&InterfaceName, Device> = BTreeMap::new();
    for (name, index, mac) in targets.chain([ingress]) {
        if world.device(name).is_none() {
            let is_taken = devices.iter().any(|device| device.index == index);
            let index = if is_taken { 0 } else { index };
            absent
                .entry(name)
                .or_insert_with(|| Device::new(name.clone(), index, mac.map(MacAddr::new), 0));
        }
    }
    absent.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanResult;
    use crate::service::Spec;
    use serde_json::json;

    const MACS: [&str; 3] = [
        "02:ff:00:00:00:02",
        "02:ff:00:00:00:07",
        "02:ff:00:00:00:09",
    ];

    fn world(devices: &[(&str, u32, usize)]) -> World {
        let devices = devices.iter().map(|&(name, index, mac)| {
            let mac = MACS[mac].parse().expect("an address");
            Device::new(name.parse().expect("a name"), index, Some(mac), 1500)
        });
        World::new(devices.collect(), Vec::new(), 1)
    }

    fn live() -> Live {
        let backend = |id: u32, interface: &str| json!({"id": id, "interface": interface, "mac": "02:00:00:00:00:01"});
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "source_mac": "interface",
            "services": [{"name": "a", "vip": "203.0.113.80", "port": 1, "maglev_table_size": 251,
                          "backends": [backend(1, "vm1"), backend(2, "vm2"), backend(3, "edge0")]}],
        });
        let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
        let world = world(&[("edge0", 2, 0), ("vm1", 7, 1), ("vm2", 9, 2)]);
        let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
        plan.as_live(1)
    }

    /// Indices and source addresses of the backends.
    fn placed(plan: &Plan) -> Vec<(u32, String)> {
        let rows = plan.generation().services[0].rows.iter().flatten();
        rows.map(|row| (row.ifindex, row.source_mac.expect("its own").to_string()))
            .collect()
    }

    fn expected(indices: [u32; 3]) -> Vec<(u32, String)> {
        let macs = [MACS[1], MACS[2], MACS[0]].map(String::from);
        indices.into_iter().zip(macs).collect()
    }

    #[test]
    fn backends_keep_what_they_have_of_interfaces_that_are_gone() {
        let live = live();
        let gone = plan_again(&live, world(&[])).expect("a plan");
        assert_eq!(gone.document().result, PlanResult::Unchanged);
        assert_eq!(placed(&gone), expected([7, 9, 2]));
        assert_eq!(Vec::from_iter(gone.absent()), [&2, &7, &9]);
        // One is made again, and the others are gone.
        let moved = plan_again(&live, world(&[("vm2", 12, 2)])).expect("a plan");
        assert_eq!(moved.document().result, PlanResult::Change);
        assert_eq!(placed(&moved), expected([7, 12, 2]));
        assert_eq!(Vec::from_iter(moved.absent()), [&2, &7]);
        // Who wants it anew is told.
        let wanted = plan(
            Some(&live),
            &live.spec,
            &world(&[("vm2", 12, 2)]),
            Options::default(),
        );
        assert_eq!(wanted.expect_err("gone").iter().count(), 3);
    }

    #[test]
    fn an_index_that_is_somebody_elses_is_not_kept() {
        let devices = world(&[("edge0", 2, 0), ("vm2", 7, 2)]);
        let taken = plan_again(&live(), devices).expect("a plan");
        assert_eq!(placed(&taken), expected([0, 7, 2]));
        assert_eq!(Vec::from_iter(taken.absent()), [&0]);
        let again = plan_again(&taken.as_live(2), world(&[("edge0", 2, 0), ("vm2", 7, 2)]));
        assert_eq!(
            again.expect("a plan").document().result,
            PlanResult::Unchanged
        );
    }
}
