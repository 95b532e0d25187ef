// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members, and tables as lists of owners.

use guideway::maglev::{Member, SlotIndex, Table, TableSize};

/// Keys and weights, in some order.
pub(crate) type Weighted = Vec<(Vec<u8>, u32)>;

/// A way to build tables: the owner of each slot, for members in the order given.
pub(crate) type Builder = for<'k> fn(u32, &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>>;

pub(crate) fn size(slots: u32) -> TableSize {
    TableSize::new(slots).expect("a prime")
}

pub(crate) fn borrowed(members: &Weighted) -> Vec<(&[u8], u32)> {
    members
        .iter()
        .map(|(key, weight)| (&key[..], *weight))
        .collect()
}

/// Members with indices in the order given, all eligible.
pub(crate) fn members<'k>(weighted: &[(&'k [u8], u32)]) -> Vec<Member<'k, u32>> {
    (0..)
        .zip(weighted)
        .map(|(index, &(key, weight))| Member::new(key, index, weight))
        .collect()
}

pub(crate) fn table(slots: u32, weighted: &[(&[u8], u32)]) -> Table<u32> {
    Table::build(size(slots), &members(weighted)).expect("valid members")
}

pub(crate) fn owners<S: SlotIndex>(table: &Table<S>) -> Vec<Option<&[u8]>> {
    (0..table.size().get())
        .map(|slot| table.owner(slot))
        .collect()
}

/// The crate's builder, by slots rather than by owners.
pub(crate) fn build<'k>(slots: u32, weighted: &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>> {
    let table = table(slots, weighted);
    let key = |&slot: &u32| weighted.get(slot as usize).map(|&(key, _)| key);
    table.slots().iter().map(key).collect()
}

/// `backend-00000`, `backend-00001`, ...
pub(crate) fn backends(count: usize) -> Weighted {
    (0..count)
        .map(|number| (format!("backend-{number:05}").into_bytes(), 1))
        .collect()
}
