// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Snapshots: frozen maps of one value behind the entries of an array of maps.
//!
//! A packet reads an entry once and sees that value to its end. Each step is a call of its own, and
//! nothing is visible before [`Slots::swap`].

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use bytemuck::bytes_of;
use nix::libc;

use super::map::{Map, MapKind, MapShape, OpenError, ShapeError, Update};
use super::SysError;

/// The map of one value.
#[derive(Debug)]
pub struct Snapshot {
    map: Map,
}

impl Snapshot {
    /// An empty one of this shape, which must be the template's that the program was loaded with.
    /// Minimum kernel: 5.2.
    pub fn create(shape: &MapShape) -> Result<Self, SysError> {
        let map = Map::create(shape, None)?;
        Ok(Self { map })
    }

    /// Opens a pinned one.
    ///
    /// # Errors
    /// [`OpenError`], also if it has another shape than this.
    pub fn open(path: &Path, shape: &MapShape) -> Result<Self, OpenError> {
        let map = Map::open_any(path)?;
        // Whatever its name: the kernel does not compare it either.
        let expected = MapShape {
            name: map.shape().name.clone(),
            ..shape.clone()
        };
        map.shape().check(&expected, path.display())?;
        Ok(Self { map })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Writes the value.
    ///
    /// # Errors
    /// EINVAL if it is not as long as the map's.
    pub fn fill(&self, value: &[u8]) -> Result<(), SysError> {
        if value.len() != self.map.value_bytes() {
            return Err(SysError::new("fill", &self.map.shape().name, libc::EINVAL));
        }
        self.map.update(bytes_of(&0_u32), value, Update::Any)
    }

    /// From now on neither programs nor user space can write it.
    pub fn freeze(&self) -> Result<(), SysError> {
        self.map.freeze()
    }

    /// The value.
    pub fn read(&self) -> Result<Vec<u8>, SysError> {
        let mut value = vec![0; self.map.value_bytes()];
        if !self.map.lookup(bytes_of(&0_u32), &mut value)? {
            let name = &self.map.shape().name;
            return Err(SysError::new("read", name, libc::ENOENT));
        }
        Ok(value)
    }
}

/// The entries through which programs reach live snapshots: an array of maps.
#[derive(Debug)]
pub struct Slots {
    outer: Map,
}

impl Slots {
    /// Takes the array of maps.
    pub fn new(outer: Map) -> Result<Self, ShapeError> {
        let expected = MapShape {
            kind: MapKind::ARRAY_OF_MAPS,
            key_size: 4,
            value_size: 4,
            ..outer.shape().clone()
        };
        outer
            .shape()
            .check(&expected, format_args!("map {}", outer.shape().name))?;
        Ok(Self { outer })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.outer
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.outer.shape().max_entries
    }

    /// Whether there are none, which no kernel makes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes `snapshot` the live one of an entry. The call takes 8 to 30 ms, sometimes 250: when it
    /// returns no program uses the snapshot before.
    pub fn swap(&self, index: u32, snapshot: &Snapshot) -> Result<(), SysError> {
        self.put(index, &snapshot.map)
    }

    /// Makes several live by one call, which on Linux 6.12 and later takes as long as one
    /// [`swap`](Self::swap). Not one step: packets see one entry changed after the other.
    ///
    /// # Errors
    /// The kernel refused an entry. Those before it are changed, [`live_id`](Self::live_id) tells
    /// which.
    pub fn swap_all(&self, snapshots: &[(u32, &Snapshot)]) -> Result<(), SysError> {
        let indices: Vec<u32> = snapshots.iter().map(|(index, _)| *index).collect();
        let maps = snapshots.iter().map(|(_, snapshot)| &snapshot.map);
        let fds: Vec<i32> = maps.map(|map| map.as_fd().as_raw_fd()).collect();
        let (indices, fds) = (bytemuck::cast_slice(&indices), bytemuck::cast_slice(&fds));
        self.outer.update_batch(indices, fds)
    }

    /// As [`swap`](Self::swap), with a map of the template's shape.
    pub(super) fn put(&self, index: u32, map: &Map) -> Result<(), SysError> {
        let fd = map.as_fd().as_raw_fd();
        self.outer
            .update(bytes_of(&index), bytes_of(&fd), Update::Any)
    }

    /// The id of the live snapshot's map, to compare with those of pinned ones.
    pub fn live_id(&self, index: u32) -> Result<Option<u32>, SysError> {
        let mut id = 0_u32;
        let found = self
            .outer
            .lookup(bytes_of(&index), bytemuck::bytes_of_mut(&mut id))?;
        Ok(found.then_some(id))
    }

    /// Leaves programs without a snapshot there; it waits like [`swap`](Self::swap). Whether there
    /// was one.
    pub fn clear(&self, index: u32) -> Result<bool, SysError> {
        self.outer.delete(bytes_of(&index))
    }
}
