// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a publication did to slots, read back from the cells of the generations before and after
//! it: nothing here knows what was planned.

use std::collections::{BTreeMap, HashMap};

use super::disruption::Disruption;
use crate::abi;
use crate::affinity::count_marks;

const CELL_BYTES: usize = abi::Limit::GW_CELL_BYTES.0 as usize;

/// The slots of one service as packets see them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slots {
    /// The backend that owns each; none: nobody.
    owners: Vec<Option<u32>>,
    open: u32,
    held: u32,
}

/// The services in these cells, by their numbers. What the cells do not hold is left out.
fn read(cells: &[u8]) -> BTreeMap<u32, Slots> {
    let mut services = BTreeMap::new();
    let Some(header) = record::<abi::Generation>(cells, 0, 0) else {
        return services;
    };
    for index in 0..=header.directory_mask as usize {
        let at = header.directory_at as usize + index;
        let Some(service) = record::<abi::Service>(cells, at, 0) else {
            break;
        };
        // Neither empty nor an entry for fragments.
        if service.key.family == 0 || service.key.port == 0 {
            continue;
        }
        let row = |row: u16| {
            let backend = (row < service.backends)
                .then(|| record(cells, service.backends_at as usize, row.into()))?;
            backend.map(|backend: abi::Backend| backend.id)
        };
        let words = (0..service.slots as usize)
            .map_while(|slot| record::<abi::Slot>(cells, service.slots_at as usize, slot));
        let words: Vec<_> = words.collect();
        let marks = count_marks(&words);
        let slots = Slots {
            owners: words.iter().map(|word| row(word.owner)).collect(),
            open: marks.open,
            held: marks.held,
        };
        services.insert(service.id, slots);
    }
    services
}

/// Record number `index` of an array of such records that begins with cell `cell`.
fn record<R: bytemuck::Pod>(cells: &[u8], cell: usize, index: usize) -> Option<R> {
    let start = cell * CELL_BYTES + index * size_of::<R>();
    let bytes = cells.get(start..start.checked_add(size_of::<R>())?)?;
    Some(bytemuck::pod_read_unaligned(bytes))
}

/// What the change from one generation's cells to another's did to slots, by the number of the
/// service. From nothing to something nothing that exists moves. Of flows it says nothing.
pub(crate) fn measure(before: Option<&[u8]>, after: &[u8]) -> BTreeMap<u32, Disruption> {
    let (before, after) = (before.map(read).unwrap_or_default(), read(after));
    let gone = before.keys().filter(|id| !after.contains_key(id));
    let gone = gone.map(|id| (*id, moved(before.get(id), None)));
    let kept = after.iter().map(|(id, new)| {
        let mut disruption = moved(before.get(id), Some(new));
        disruption.slots_open = new.open;
        disruption.slots_held = new.held;
        (*id, disruption)
    });
    gone.chain(kept).collect()
}

fn moved(before: Option<&Slots>, after: Option<&Slots>) -> Disruption {
    let Some(before) = before else {
        return Disruption::none();
    };
    let slots = before.owners.len() as u32;
    let Some(after) = after.filter(|after| after.owners.len() == before.owners.len()) else {
        return Disruption::all(slots);
    };
    let mut balance: HashMap<Option<u32>, (u32, u32)> = HashMap::new();
    let changed = before.owners.iter().zip(&after.owners);
    let mut count = 0;
    for (old, new) in changed.filter(|(old, new)| old != new) {
        count += 1;
        balance.entry(*old).or_default().0 += 1;
        balance.entry(*new).or_default().1 += 1;
    }
    let forced = balance
        .values()
        .map(|(lost, gained)| lost.saturating_sub(*gained));
    Disruption::of(count, forced.sum(), slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{plan, Device, Image, Options, Plan, World};
    use crate::service::Spec;
    use serde_json::json;

    fn planned(live: Option<&Plan>, first: u32, last: u32, size: u32) -> Plan {
        let backend = |id: u32| json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"});
        let backends: Vec<_> = (first..=last).map(backend).collect();
        let service = |name: &str, port: u16| {
            json!({"name": name, "vip": "203.0.113.80", "port": port, "protocol": "tcp",
                   "maglev_table_size": size, "backends": backends})
        };
        let mut services = vec![service("stays", 1)];
        if live.is_none() {
            services.push(service("goes", 2));
        }
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "services": services,
        });
        let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
        let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1);
        let world = World::new(vec![device("edge0", 2), device("lo", 1)], Vec::new(), 1);
        let disruptive = Options {
            disruptive: true,
            ..Options::default()
        };
        let live = live.map(|plan| plan.as_live(1));
        plan(live.as_ref(), &spec, &world, disruptive).expect("a plan")
    }

    fn cells(plan: &Plan) -> Vec<u8> {
        let image = Image::build(plan.generation()).expect("an image");
        image.bytes().to_vec()
    }

    #[test]
    fn what_is_read_back_is_what_was_foretold() {
        let first = planned(None, 1, 3, 1021);
        let created = measure(None, &cells(&first));
        assert_eq!(created.len(), 2);
        assert!(created
            .values()
            .all(|service| *service == Disruption::none()));
        for (next, size) in [((1, 4), 1021), ((2, 3), 1021), ((1, 3), 2039)] {
            let next = planned(Some(&first), next.0, next.1, size);
            let measured = measure(Some(&cells(&first)), &cells(&next));
            let foretold = next.document().disruption();
            assert_eq!(foretold.len(), 2);
            for service in foretold {
                let (told, found) = (service.disruption, measured[&service.service_id]);
                assert!(told.slots_moved > 0, "{told:?}");
                assert_eq!(
                    (
                        told.slots_moved,
                        told.slots_forced,
                        told.slots_open,
                        told.slots_held
                    ),
                    (
                        found.slots_moved,
                        found.slots_forced,
                        found.slots_open,
                        found.slots_held
                    )
                );
            }
        }
    }

    #[test]
    fn it_is_what_stands_in_the_cells_that_counts() {
        let first = planned(None, 1, 3, 1021);
        let id = first.spec().services()[1].id.get();
        let before = cells(&first);
        let mut after = before.clone();
        // The slots come last: another owner for one, and a mark for another.
        let size = 1021_usize.div_ceil(64) * CELL_BYTES;
        let slots = after.len() - size;
        after[slots + 2..slots + 4].copy_from_slice(&0xfffe_u16.to_ne_bytes());
        let owner = u16::from_ne_bytes([after[slots + 4], after[slots + 5]]);
        after[slots + 4..slots + 6].copy_from_slice(&((owner + 1) % 3).to_ne_bytes());
        let found = measure(Some(&before), &after)[&id];
        assert_eq!((found.slots_moved, found.slots_forced), (1, 1));
        assert_eq!((found.slots_open, found.slots_held), (0, 1));
        for cut in (0..before.len()).step_by(97) {
            measure(Some(&before), &before[..cut]);
        }
    }
}
