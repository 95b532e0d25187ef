// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations: frozen arrays of cells behind one slot of an array of maps.
//!
//! A packet reads the slot once and sees that generation to its end. Each step is a call of its
//! own, and nothing is visible before [`Slot::swap`]:
//!
//! ```no_run
//! # fn steps(slot: &guideway::kernel::publish::Slot, cells: &[u8], pin: &std::path::Path)
//! #     -> Result<(), guideway::kernel::SysError> {
//! use guideway::kernel::publish::Generation;
//! let generation = Generation::create("gw_ql_cells", cells.len())?;
//! generation.fill(cells)?;
//! generation.freeze()?;
//! generation.map().pin(pin)?;
//! slot.swap(&generation)?;
//! # Ok(())
//! # }
//! ```

use std::ops::ControlFlow;
use std::path::Path;

use bytemuck::bytes_of;
use nix::libc;

use super::map::{Map, MapKind, MapShape, OpenError, ShapeError};
use super::snapshot::Slots;
use super::SysError;
use crate::abi;

/// Bytes of a cell.
pub const CELL_BYTES: usize = abi::Limit::GW_CELL_BYTES.0 as usize;

/// Cells written by one call, to bound the memory for their keys.
const FILL_CELLS: usize = 65_536;

/// Cells that every generation has room for unless the program was loaded for another number:
/// programs look cells up fastest when all generations have the same.
pub const ROOM_CELLS: u32 = abi::Limit::GW_GENERATION_CELLS.0;

/// Kind, sizes and flags of a generation with room for `room` cells. They must equal the
/// template's that the program was loaded with.
pub(super) fn shape(name: &str, room: u32) -> MapShape {
    MapShape {
        name: name.to_owned(),
        kind: MapKind::ARRAY,
        key_size: 4,
        value_size: CELL_BYTES as u32,
        max_entries: room,
        flags: libbpf_sys::BPF_F_RDONLY_PROG,
    }
}

/// The map of one generation.
#[derive(Debug)]
pub struct Generation {
    map: Map,
    /// Those in use.
    cells: u32,
}

impl Generation {
    /// An empty generation for `bytes`, which are whole cells and at most as many as every
    /// generation has room for.
    ///
    /// It has no type information on purpose: Linux 6.1 refuses a map with it where the template
    /// has none, and the reverse.
    pub fn create(name: &str, bytes: usize) -> Result<Self, SysError> {
        Self::with_room(name, ROOM_CELLS, bytes)
    }

    /// As [`create`](Self::create), for a program that was loaded for generations with room for
    /// `room` cells.
    pub fn with_room(name: &str, room: u32, bytes: usize) -> Result<Self, SysError> {
        let cells = cells_in(name, room, bytes)?;
        Ok(Self {
            map: Map::create(&shape(name, room), None)?,
            cells,
        })
    }

    /// Opens a pinned generation.
    pub fn open(path: &Path, name: &str) -> Result<Self, OpenError> {
        let map = Map::open_any(path)?;
        let room = map.shape().max_entries;
        map.shape().check(&shape(name, room), path.display())?;
        let mut cell = [0; CELL_BYTES];
        map.lookup(bytes_of(&0_u32), &mut cell)?;
        let header: abi::Generation =
            bytemuck::pod_read_unaligned(&cell[..size_of::<abi::Generation>()]);
        Ok(Self {
            map,
            cells: header.cells.min(room),
        })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Writes all cells in use.
    pub fn fill(&self, bytes: &[u8]) -> Result<(), SysError> {
        let shape = self.map.shape();
        let cells = cells_in(&shape.name, shape.max_entries, bytes.len())?;
        if cells != self.cells {
            return Err(SysError::new("fill", &self.map.shape().name, libc::EINVAL));
        }
        let mut first = 0;
        for part in bytes.chunks(FILL_CELLS * CELL_BYTES) {
            let count = (part.len() / CELL_BYTES) as u32;
            let keys: Vec<u32> = (first..first + count).collect();
            self.map.update_batch(bytemuck::cast_slice(&keys), part)?;
            first += count;
        }
        Ok(())
    }

    /// From now on neither programs nor user space can write it.
    pub fn freeze(&self) -> Result<(), SysError> {
        self.map.freeze()
    }

    /// Number of cells in use.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// The bytes of one cell.
    pub fn cell(&self, index: u32) -> Result<[u8; CELL_BYTES], SysError> {
        let mut cell = [0; CELL_BYTES];
        if !self.map.lookup(bytes_of(&index), &mut cell)? {
            let name = &self.map.shape().name;
            return Err(SysError::new("read a cell of", name, libc::ENOENT));
        }
        Ok(cell)
    }

    /// The bytes of all cells in use; of an opened generation, those that its header counts.
    pub fn read(&self) -> Result<Vec<u8>, SysError> {
        let wanted = self.cells as usize * CELL_BYTES;
        let mut bytes = Vec::with_capacity(wanted);
        let batch = self.cells.clamp(1, FILL_CELLS as u32);
        self.map.batches(batch, |_, values| {
            bytes.extend_from_slice(values);
            if bytes.len() < wanted {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        bytes.truncate(wanted);
        Ok(bytes)
    }
}

fn cells_in(name: &str, room: u32, bytes: usize) -> Result<u32, SysError> {
    if bytes == 0 || bytes % CELL_BYTES != 0 {
        return Err(SysError::new(
            "make a generation of whole cells in",
            name,
            libc::EINVAL,
        ));
    }
    u32::try_from(bytes / CELL_BYTES)
        .ok()
        .filter(|&cells| cells <= room)
        .ok_or_else(|| SysError::new("make a generation in", name, libc::E2BIG))
}

/// The slot through which programs reach the live generation: an array of maps with one entry.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
}

impl Slot {
    /// Takes the array of maps.
    pub fn new(outer: Map) -> Result<Self, ShapeError> {
        let expected = MapShape {
            max_entries: 1,
            ..outer.shape().clone()
        };
        outer
            .shape()
            .check(&expected, format_args!("map {}", outer.shape().name))?;
        let slots = Slots::new(outer)?;
        Ok(Self { slots })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        self.slots.map()
    }

    /// Makes `generation` the live one. The call takes 8 to 30 ms, sometimes 250: it waits until
    /// no program uses the generation before.
    pub fn swap(&self, generation: &Generation) -> Result<(), SysError> {
        self.slots.put(0, &generation.map)
    }

    /// The id of the live generation's map, to compare with those of pinned ones.
    pub fn live_id(&self) -> Result<Option<u32>, SysError> {
        self.slots.live_id(0)
    }

    /// Leaves programs without a generation. It waits like [`swap`](Self::swap). Whether there
    /// was one.
    pub fn clear(&self) -> Result<bool, SysError> {
        self.slots.clear(0)
    }
}
