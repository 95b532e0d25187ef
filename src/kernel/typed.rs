// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maps whose keys and values are types.
//!
//! Each kind takes a [`Map`], checks kind and sizes once, and then moves whole values; any bytes
//! the kernel returns are a value of a [`Pod`] type.

use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::ControlFlow;

use bytemuck::{bytes_of, pod_read_unaligned, Pod, Zeroable};
use nix::libc;

use super::map::{Map, MapKind, MapShape, ShapeError, Update};
use super::SysError;

/// Entries read in one call where all are wanted.
const BATCH: u32 = 4096;

/// The shape of `map` with the kind and sizes that a typed handle needs.
fn check(map: &Map, kind: MapKind, key: usize, value: usize) -> Result<(), ShapeError> {
    let expected = MapShape {
        kind,
        key_size: key as u32,
        value_size: value as u32,
        ..map.shape().clone()
    };
    map.shape()
        .check(&expected, format_args!("map {}", map.shape().name))
}

fn missing(map: &Map, op: &'static str) -> SysError {
    SysError::new(op, format_args!("map {}", map.shape().name), libc::ENOENT)
}

/// An array of `V`.
#[derive(Debug)]
pub struct Array<V> {
    map: Map,
    value: PhantomData<fn() -> V>,
}

impl<V: Pod> Array<V> {
    /// Takes an array whose values have the size of `V`.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        check(&map, MapKind::ARRAY, 4, size_of::<V>())?;
        Ok(Self {
            map,
            value: PhantomData,
        })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The value at `index`; beyond the end it is ENOENT.
    pub fn get(&self, index: u32) -> Result<V, SysError> {
        let mut value = V::zeroed();
        if self
            .map
            .lookup(bytes_of(&index), bytemuck::bytes_of_mut(&mut value))?
        {
            Ok(value)
        } else {
            Err(missing(&self.map, "read an entry of"))
        }
    }

    /// Writes the value at `index`; beyond the end it is E2BIG.
    pub fn set(&self, index: u32, value: &V) -> Result<(), SysError> {
        self.map
            .update(bytes_of(&index), bytes_of(value), Update::Any)
    }

    /// All values in order.
    pub fn values(&self) -> Result<Vec<V>, SysError> {
        let mut all = Vec::new();
        self.map.batches(BATCH, |_, values| {
            all.extend(
                values
                    .chunks_exact(size_of::<V>())
                    .map(pod_read_unaligned::<V>),
            );
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }
}

impl<V: Pod> Array<V> {
    /// The first `count` values, or all if there are fewer.
    pub fn first(&self, count: u32) -> Result<Vec<V>, SysError> {
        let wanted = count.min(self.map.shape().max_entries) as usize;
        let mut values: Vec<V> = Vec::with_capacity(wanted);
        let batch = count.clamp(1, BATCH);
        self.map.batches(batch, |_, read| {
            values.extend(
                read.chunks_exact(size_of::<V>())
                    .map(pod_read_unaligned::<V>),
            );
            if values.len() < wanted {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        values.truncate(wanted);
        Ok(values)
    }

    /// Sets the first `count` values to zero.
    pub fn clear(&self, count: u32) -> Result<(), SysError> {
        let end = count.min(self.map.shape().max_entries);
        self.set_first(&vec![V::zeroed(); end as usize])
    }

    /// Sets the first values; more than there is room for are an error.
    pub fn set_first(&self, values: &[V]) -> Result<(), SysError> {
        for (first, values) in (0..)
            .step_by(BATCH as usize)
            .zip(values.chunks(BATCH as usize))
        {
            let keys: Vec<u32> = (first..).take(values.len()).collect();
            let values = bytemuck::cast_slice(values);
            self.map.update_batch(bytemuck::cast_slice(&keys), values)?;
        }
        Ok(())
    }
}

/// An array with a value of each possible CPU in every entry.
#[derive(Debug)]
pub struct PerCpuArray<V> {
    map: Map,
    value: PhantomData<fn() -> V>,
}

impl<V: Pod> PerCpuArray<V> {
    /// Takes a per-CPU array whose values have the size of `V`.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        check(&map, MapKind::PERCPU_ARRAY, 4, size_of::<V>())?;
        Ok(Self {
            map,
            value: PhantomData,
        })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The values at `index` of all possible CPUs.
    pub fn get(&self, index: u32) -> Result<Vec<V>, SysError> {
        let mut bytes = vec![0; self.map.value_bytes()];
        if self.map.lookup(bytes_of(&index), &mut bytes)? {
            Ok(each_cpu(&bytes).collect())
        } else {
            Err(missing(&self.map, "read an entry of"))
        }
    }

    /// Folds the values at `index` over the CPUs.
    pub fn fold<A>(
        &self,
        index: u32,
        start: A,
        add: impl FnMut(A, &V) -> A,
    ) -> Result<A, SysError> {
        Ok(self.get(index)?.iter().fold(start, add))
    }

    /// Calls `each` with every index in order and the values of its CPUs.
    pub fn for_each(&self, mut each: impl FnMut(u32, &[V])) -> Result<(), SysError> {
        let entry = self.map.value_bytes();
        let mut cpus: Vec<V> = Vec::with_capacity(self.map.values_per_entry());
        self.map.batches(BATCH, |keys, values| {
            for (key, bytes) in keys.chunks_exact(4).zip(values.chunks_exact(entry)) {
                cpus.clear();
                cpus.extend(each_cpu::<V>(bytes));
                each(pod_read_unaligned(key), &cpus);
            }
            ControlFlow::Continue(())
        })
    }

    /// Sets the values at `index` of all CPUs to `value`. What programs count at that moment may
    /// be lost.
    pub fn set(&self, index: u32, value: &V) -> Result<(), SysError> {
        let mut bytes = vec![0; self.map.value_bytes()];
        for cpu in bytes.chunks_exact_mut(size_of::<V>().next_multiple_of(8)) {
            cpu[..size_of::<V>()].copy_from_slice(bytes_of(value));
        }
        self.map.update(bytes_of(&index), &bytes, Update::Any)
    }
}

fn each_cpu<V: Pod>(bytes: &[u8]) -> impl Iterator<Item = V> + '_ {
    bytes
        .chunks_exact(size_of::<V>().next_multiple_of(8).max(8))
        .map(|cpu| pod_read_unaligned(&cpu[..size_of::<V>()]))
}

/// A hash table from `K` to `V`.
#[derive(Debug)]
pub struct Hash<K, V> {
    map: Map,
    entry: PhantomData<fn() -> (K, V)>,
}

impl<K: Pod, V: Pod> Hash<K, V> {
    /// Takes a hash table whose keys and values have the sizes of `K` and `V`.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        check(&map, MapKind::HASH, size_of::<K>(), size_of::<V>())?;
        Ok(Self {
            map,
            entry: PhantomData,
        })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Result<Option<V>, SysError> {
        let mut value = V::zeroed();
        let found = self
            .map
            .lookup(bytes_of(key), bytemuck::bytes_of_mut(&mut value))?;
        Ok(found.then_some(value))
    }

    /// Writes an entry; a full table refuses a new one with E2BIG.
    pub fn update(&self, key: &K, value: &V, demand: Update) -> Result<(), SysError> {
        self.map.update(bytes_of(key), bytes_of(value), demand)
    }

    /// Removes an entry; whether there was one.
    pub fn remove(&self, key: &K) -> Result<bool, SysError> {
        self.map.delete(bytes_of(key))
    }

    /// Removes an entry and gives what it was.
    pub fn take(&self, key: &K) -> Result<Option<V>, SysError> {
        let mut value = V::zeroed();
        let found = self
            .map
            .take(bytes_of(key), bytemuck::bytes_of_mut(&mut value))?;
        Ok(found.then_some(value))
    }

    /// All keys, asked for one after the other: the maps of network cards know no batches. Entries
    /// that others add meanwhile may be missing; nobody else may remove any.
    pub fn keys_one_by_one(&self) -> Result<Vec<K>, SysError> {
        let mut keys: Vec<K> = Vec::new();
        let most = self.map.shape().max_entries as usize;
        let mut next = K::zeroed();
        loop {
            let from = keys.last().map(bytes_of::<K>);
            if !self.map.next_key(from, bytemuck::bytes_of_mut(&mut next))? {
                return Ok(keys);
            }
            if keys.len() >= most {
                // The walk has begun anew: somebody has removed the last key after all.
                return Err(SysError::new("list", &self.map.shape().name, libc::EAGAIN));
            }
            keys.push(next);
        }
    }

    /// Calls `each` with every entry until it breaks off; entries that stay are seen once.
    pub fn for_each(
        &self,
        mut each: impl FnMut(&K, &V) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        self.map.batches(BATCH, |keys, values| {
            let keys = keys
                .chunks_exact(size_of::<K>())
                .map(pod_read_unaligned::<K>);
            let values = values
                .chunks_exact(size_of::<V>())
                .map(pod_read_unaligned::<V>);
            for (key, value) in keys.zip(values) {
                each(&key, &value)?;
            }
            ControlFlow::Continue(())
        })
    }
}

/// A trie from prefixes `K`, which begin with their length in bits, to `V`. An update replaces a
/// value as a whole: programs see the old one or the new one.
#[derive(Debug)]
pub struct Trie<K, V> {
    entries: Hash<K, V>,
}

impl<K: Pod, V: Pod> Trie<K, V> {
    /// Takes a trie whose keys and values have the sizes of `K` and `V`.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        check(&map, MapKind::LPM_TRIE, size_of::<K>(), size_of::<V>())?;
        let entry = PhantomData;
        let entries = Hash { map, entry };
        Ok(Self { entries })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        self.entries.map()
    }

    /// The value of the longest prefix that `key` begins with, `key` itself included.
    pub fn longest(&self, key: &K) -> Result<Option<V>, SysError> {
        self.entries.get(key)
    }

    /// Writes an entry; a full trie refuses a new one with ENOSPC.
    pub fn update(&self, key: &K, value: &V, demand: Update) -> Result<(), SysError> {
        self.entries.update(key, value, demand)
    }

    /// Removes an entry; whether there was one.
    pub fn remove(&self, key: &K) -> Result<bool, SysError> {
        self.entries.remove(key)
    }

    /// Calls `each` with every entry until it breaks off.
    pub fn for_each(&self, each: impl FnMut(&K, &V) -> ControlFlow<()>) -> Result<(), SysError> {
        self.entries.for_each(each)
    }
}

/// Redirect targets: a set of interface indices of one network namespace.
///
/// The kernel accepts only interfaces that exist in the calling thread's namespace, and removes
/// an interface that goes away by itself.
#[derive(Debug)]
pub struct DevMap {
    map: Map,
}

impl DevMap {
    /// Takes a device map keyed by interface index.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        check(&map, MapKind::DEVMAP_HASH, 4, 4)?;
        Ok(Self { map })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Adds an interface; an unknown one is EINVAL, a full map E2BIG.
    pub fn insert(&self, ifindex: u32) -> Result<(), SysError> {
        self.map
            .update(bytes_of(&ifindex), bytes_of(&ifindex), Update::Any)
    }

    /// Adds an index that no interface needs to have: loopback takes its place. For test runs, whose
    /// frames go nowhere.
    pub fn stand_in(&self, ifindex: u32) -> Result<(), SysError> {
        const LOOPBACK: u32 = 1;
        self.map
            .update(bytes_of(&ifindex), bytes_of(&LOOPBACK), Update::Any)
    }

    /// Whether an interface is there.
    pub fn contains(&self, ifindex: u32) -> Result<bool, SysError> {
        self.map.lookup(bytes_of(&ifindex), &mut [0; 4])
    }

    /// Removes an interface; whether it was there.
    pub fn remove(&self, ifindex: u32) -> Result<bool, SysError> {
        self.map.delete(bytes_of(&ifindex))
    }

    /// All interfaces, ascending.
    pub fn targets(&self) -> Result<Vec<u32>, SysError> {
        let mut targets = std::collections::BTreeSet::new();
        let mut at = None;
        loop {
            let mut next = u32::zeroed();
            let from = at.as_ref().map(bytes_of::<u32>);
            if !self.map.next_key(from, bytemuck::bytes_of_mut(&mut next))? {
                return Ok(targets.into_iter().collect());
            }
            // Where an interface vanished meanwhile the kernel starts over, hence a set. Each new
            // start costs an entry, so the walk ends.
            targets.insert(next);
            at = Some(next);
        }
    }
}
