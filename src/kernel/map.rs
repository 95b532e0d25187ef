// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Owned handles of maps.
//!
//! A [`Map`] deals in bytes of checked length; [`typed`](super::typed) gives them a meaning.

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_sys::{bpf_map_batch_opts, bpf_map_create_opts, bpf_map_info};
use nix::libc;

use super::probe::{lacking, Capability};
use super::sys::object::{self, ObjectType, PinError};
use super::sys::{c_string, check, name_from, owned, size, SysError};
use crate::error::ErrorKind;

pub use super::shape::{Difference, MapKind, MapShape, ShapeError};

/// Why a pinned map cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No pin, no right, or no map.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A map of another shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl From<SysError> for OpenError {
    fn from(error: SysError) -> Self {
        Self::Pin(PinError::Sys(error))
    }
}

impl OpenError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Pin(error) => error.kind(),
            Self::Shape(_) => ErrorKind::Incompatible,
        }
    }

    /// Whether nothing is pinned there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Pin(PinError::Sys(error)) if error.is_not_found())
    }
}

/// What an update demands of the entry before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Nothing.
    Any,
    /// There must be none; otherwise EEXIST.
    Insert,
    /// There must be one; otherwise ENOENT.
    Replace,
}

impl Update {
    fn flags(self) -> u64 {
        u64::from(match self {
            Self::Any => libbpf_sys::BPF_ANY,
            Self::Insert => libbpf_sys::BPF_NOEXIST,
            Self::Replace => libbpf_sys::BPF_EXIST,
        })
    }
}

/// A walk over the entries of a map, which may rest between its steps for any time: no entry that
/// stays from its beginning to its end is missed or seen twice. Of a trie that is so only while
/// nobody removes entries; otherwise the walk may begin anew.
#[derive(Debug)]
pub struct Walk {
    /// The map's number.
    map: u32,
    /// Entries that the buffers have room for.
    room: u32,
    keys: Vec<u8>,
    values: Vec<u8>,
    place: Vec<u8>,
    started: bool,
    ended: bool,
}

/// Whole keys, and the values that go with them.
type Entries<'a> = (&'a [u8], &'a [u8]);

impl Walk {
    /// The next keys and the values that go with them; none at the end.
    ///
    /// # Errors
    /// The kernel refuses, or `map` is not the map that the walk began with (EINVAL).
    pub fn next(&mut self, map: &Map) -> Result<Option<Entries<'_>>, SysError> {
        let op = "read";
        if map.id != self.map {
            return Err(map.error(op, libc::EINVAL));
        }
        let (key_size, value_size) = (map.shape.key_size as usize, map.value_bytes());
        let options = bpf_map_batch_opts {
            sz: size::<bpf_map_batch_opts>(),
            ..Default::default()
        };
        while !self.ended {
            let mut count = self.room;
            let place = self.place.as_mut_ptr().cast::<c_void>();
            let from = if self.started {
                place
            } else {
                std::ptr::null_mut()
            };
            // SAFETY: the kernel writes at most `count` keys and values, for which there is room,
            // and a place of at most max(4, key_size) bytes; it reads the old place before it
            // writes the new one.
            let result = unsafe {
                libbpf_sys::bpf_map_lookup_batch(
                    map.fd.as_raw_fd(),
                    from,
                    place,
                    self.keys.as_mut_ptr().cast(),
                    self.values.as_mut_ptr().cast(),
                    &mut count,
                    &options,
                )
            };
            match -result {
                0 => {}
                libc::ENOENT => self.ended = true,
                // One bucket holds more than there is room for: same place, more room.
                libc::ENOSPC if self.room < map.shape.max_entries => {
                    self.room = self.room.saturating_mul(2).min(map.shape.max_entries);
                    self.keys.resize(key_size * self.room as usize, 0);
                    self.values.resize(value_size * self.room as usize, 0);
                    continue;
                }
                errno => return Err(map.error(op, errno)),
            }
            self.started = true;
            let count = count.min(self.room) as usize;
            if count > 0 {
                return Ok(Some((
                    &self.keys[..count * key_size],
                    &self.values[..count * value_size],
                )));
            }
        }
        Ok(None)
    }
}

/// An owned handle of a map. Values are plain bytes, of a length that every call checks.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    id: u32,
    shape: MapShape,
    cpus: usize,
}

impl Map {
    /// Takes over the descriptor of a map.
    pub(crate) fn from_fd(fd: OwnedFd) -> Result<Self, SysError> {
        let mut info = bpf_map_info::default();
        // SAFETY: callers pass descriptors of maps; the zeroed structure holds no pointer.
        unsafe { object::info(fd.as_fd(), &mut info, "map")? };
        let shape = MapShape {
            name: name_from(&info.name),
            kind: MapKind(info.type_),
            key_size: info.key_size,
            value_size: info.value_size,
            max_entries: info.max_entries,
            flags: info.map_flags,
        };
        let cpus = match shape.kind {
            MapKind::PERCPU_ARRAY | MapKind::PERCPU_HASH | MapKind::LRU_PERCPU_HASH => {
                super::probe::possible_cpus()?
            }
            _ => 1,
        };
        Ok(Self {
            fd,
            id: info.id,
            shape,
            cpus,
        })
    }

    /// Creates a map; `inner` is the template of a map of maps. Takes CAP_BPF.
    ///
    /// # Errors
    /// What the kernel answers; a right that it takes and the process lacks is named.
    pub fn create(shape: &MapShape, inner: Option<&Map>) -> Result<Self, SysError> {
        let op = "create map";
        let name = c_string(op, &shape.name)?;
        let options = bpf_map_create_opts {
            sz: size::<bpf_map_create_opts>(),
            map_flags: shape.flags,
            inner_map_fd: inner.map_or(0, |map| map.fd.as_raw_fd() as u32),
            ..Default::default()
        };
        // SAFETY: name and options outlive the call, the pointers in the options are null; the
        // descriptor is new.
        let fd = unsafe {
            let result = libbpf_sys::bpf_map_create(
                shape.kind.0,
                name.as_ptr(),
                shape.key_size,
                shape.value_size,
                shape.max_entries,
                &options,
            );
            owned(result, op, &shape.name)
        };
        Self::from_fd(fd.map_err(|error| lacking(error, &[Capability::Bpf]))?)
    }

    /// Opens the map pinned at `path`, whatever its shape.
    pub fn open_any(path: &Path) -> Result<Self, OpenError> {
        let fd = object::open_as(path, ObjectType::Map)?;
        Ok(Self::from_fd(fd)?)
    }

    /// Opens the map pinned at `path` if it has the expected shape.
    pub fn open(path: &Path, expected: &MapShape) -> Result<Self, OpenError> {
        let map = Self::open_any(path)?;
        map.shape.check(expected, path.display())?;
        Ok(map)
    }

    /// Another handle of the same map.
    pub fn try_clone(&self) -> Result<Self, SysError> {
        let fd = self
            .fd
            .try_clone()
            .map_err(|e| SysError::from_io("duplicate the descriptor of", &self.shape.name, &e))?;
        Ok(Self {
            fd,
            id: self.id,
            shape: self.shape.clone(),
            cpus: self.cpus,
        })
    }

    /// Pins the map; an existing name is refused (EEXIST).
    pub fn pin(&self, path: &Path) -> Result<(), SysError> {
        object::pin(self.as_fd(), path)
    }

    /// The kernel's number of the map: two handles of one map have one id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Name, kind, sizes and flags.
    pub fn shape(&self) -> &MapShape {
        &self.shape
    }

    /// Bytes that a look-up returns: a value, or one value for each possible CPU at a stride of
    /// eight bytes.
    pub fn value_bytes(&self) -> usize {
        let value = self.shape.value_size as usize;
        if self.per_cpu() {
            value.next_multiple_of(8) * self.cpus
        } else {
            value
        }
    }

    /// Values in one entry: the number of possible CPUs, or one.
    pub fn values_per_entry(&self) -> usize {
        self.cpus
    }

    fn per_cpu(&self) -> bool {
        matches!(
            self.shape.kind,
            MapKind::PERCPU_ARRAY | MapKind::PERCPU_HASH | MapKind::LRU_PERCPU_HASH
        )
    }

    fn error(&self, op: &'static str, errno: i32) -> SysError {
        SysError::new(op, format_args!("map {}", self.shape.name), errno)
    }

    fn sized(&self, op: &'static str, key: usize, value: usize) -> Result<(), SysError> {
        if key != self.shape.key_size as usize || value != self.value_bytes() {
            return Err(self.error(op, libc::EINVAL));
        }
        Ok(())
    }

    /// Reads an entry into `value`, of [`value_bytes`](Self::value_bytes); whether there is one.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<bool, SysError> {
        let op = "read an entry of";
        self.sized(op, key.len(), value.len())?;
        // SAFETY: the kernel reads key_size bytes at the key and writes value_bytes at the value;
        // both lengths were just checked.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                self.fd.as_raw_fd(),
                key.as_ptr().cast(),
                value.as_mut_ptr().cast(),
            )
        };
        match result {
            0 => Ok(true),
            error if error == -libc::ENOENT => Ok(false),
            error => Err(self.error(op, -error)),
        }
    }

    /// Writes an entry.
    pub fn update(&self, key: &[u8], value: &[u8], demand: Update) -> Result<(), SysError> {
        let op = "write an entry of";
        self.sized(op, key.len(), value.len())?;
        // SAFETY: the kernel reads key_size and value_bytes bytes; both lengths were just checked.
        let result = unsafe {
            libbpf_sys::bpf_map_update_elem(
                self.fd.as_raw_fd(),
                key.as_ptr().cast(),
                value.as_ptr().cast(),
                demand.flags(),
            )
        };
        check(result, op, format_args!("map {}", self.shape.name)).map(drop)
    }

    /// Removes an entry; whether there was one.
    pub fn delete(&self, key: &[u8]) -> Result<bool, SysError> {
        let op = "remove an entry of";
        self.sized(op, key.len(), self.value_bytes())?;
        // SAFETY: the kernel reads key_size bytes, the length just checked.
        let result =
            unsafe { libbpf_sys::bpf_map_delete_elem(self.fd.as_raw_fd(), key.as_ptr().cast()) };
        match result {
            0 => Ok(true),
            error if error == -libc::ENOENT => Ok(false),
            error => Err(self.error(op, -error)),
        }
    }

    /// The key after `key`, or the first; `None` after the last. When `key` was removed meanwhile
    /// the kernel starts over: only for maps that nobody else writes.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<bool, SysError> {
        let op = "list the keys of";
        self.sized(op, key.map_or(next.len(), <[u8]>::len), self.value_bytes())?;
        self.sized(op, next.len(), self.value_bytes())?;
        let from = key.map_or(std::ptr::null(), |key| key.as_ptr().cast::<c_void>());
        // SAFETY: both places have key_size bytes, as just checked, or the first is null.
        let result = unsafe {
            libbpf_sys::bpf_map_get_next_key(self.fd.as_raw_fd(), from, next.as_mut_ptr().cast())
        };
        match result {
            0 => Ok(true),
            error if error == -libc::ENOENT => Ok(false),
            error => Err(self.error(op, -error)),
        }
    }

    /// Writes many entries in few calls: `keys` and `values` hold whole keys and whole values.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> Result<(), SysError> {
        let op = "fill";
        let (key_size, value_size) = (self.shape.key_size as usize, self.value_bytes());
        let entries = keys.len().checked_div(key_size).unwrap_or(0);
        if keys.len() != entries * key_size || values.len() != entries * value_size {
            return Err(self.error(op, libc::EINVAL));
        }
        let mut count = u32::try_from(entries).map_err(|_| self.error(op, libc::E2BIG))?;
        if count == 0 {
            return Ok(());
        }
        let options = bpf_map_batch_opts {
            sz: size::<bpf_map_batch_opts>(),
            ..Default::default()
        };
        // SAFETY: `count` keys and values lie at the pointers, as just checked.
        let result = unsafe {
            libbpf_sys::bpf_map_update_batch(
                self.fd.as_raw_fd(),
                keys.as_ptr().cast(),
                values.as_ptr().cast(),
                &mut count,
                &options,
            )
        };
        check(result, op, format_args!("map {}", self.shape.name))?;
        if count as usize != entries {
            return Err(self.error(op, libc::EIO));
        }
        Ok(())
    }

    /// Removes an entry and reads what it was into `value`; whether there was one. Minimum kernel
    /// for hash tables: 5.14.
    pub fn take(&self, key: &[u8], value: &mut [u8]) -> Result<bool, SysError> {
        let op = "take an entry of";
        self.sized(op, key.len(), value.len())?;
        // SAFETY: the kernel reads key_size bytes at the key and writes value_bytes at the value;
        // both lengths were just checked.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_and_delete_elem(
                self.fd.as_raw_fd(),
                key.as_ptr().cast(),
                value.as_mut_ptr().cast(),
            )
        };
        match result {
            0 => Ok(true),
            error if error == -libc::ENOENT => Ok(false),
            error => Err(self.error(op, -error)),
        }
    }

    /// Reads all entries in batches of about `batch`; `each` gets whole keys and the values that
    /// go with them, and may break off. No entry that stays is missed or seen twice.
    pub fn batches(
        &self,
        batch: u32,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        let mut walk = self.walk(batch);
        while let Some((keys, values)) = walk.next(self)? {
            if each(keys, values).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A walk over all entries in batches of about `batch`, to be gone step by step.
    pub fn walk(&self, batch: u32) -> Walk {
        let (key_size, value_size) = (self.shape.key_size as usize, self.value_bytes());
        let room = batch.clamp(1, self.shape.max_entries.max(1));
        Walk {
            map: self.id,
            room,
            keys: vec![0; key_size * room as usize],
            values: vec![0; value_size * room as usize],
            // A hash table's place is a bucket number of four bytes, an array's is its key.
            place: vec![0; key_size.max(4)],
            started: false,
            ended: false,
        }
    }

    /// Makes the map read-only to user space for ever: later writes fail with EPERM.
    pub fn freeze(&self) -> Result<(), SysError> {
        // SAFETY: no memory is passed.
        let result = unsafe { libbpf_sys::bpf_map_freeze(self.fd.as_raw_fd()) };
        check(result, "freeze", format_args!("map {}", self.shape.name)).map(drop)
    }

    /// Bytes of memory the kernel accounts to the map.
    pub fn memory_bytes(&self) -> Result<u64, SysError> {
        self.fdinfo("memlock")
    }

    /// Whether the map is read-only to user space.
    pub fn is_frozen(&self) -> Result<bool, SysError> {
        Ok(self.fdinfo("frozen")? != 0)
    }

    fn fdinfo(&self, field: &str) -> Result<u64, SysError> {
        object::fdinfo(self.as_fd(), field)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
