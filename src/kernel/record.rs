// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Byte strings kept in the kernel: a frozen array of chunks, pinned beside what it describes.
//!
//! A record shares the life of the pins around it, which a file could not: it is gone when they
//! are, and no crash leaves it half-written. The first eight bytes are a magic number and the
//! length, native order; the bytes follow, the rest is zero.

use std::ops::ControlFlow;
use std::path::Path;

use nix::libc;

use super::map::{Map, MapKind, MapShape, OpenError};
use super::SysError;

const CHUNK_BYTES: usize = 4096;
const HEADER_BYTES: usize = 8;
/// "GWRC"
const MAGIC: u32 = 0x4757_5243;
/// More than any document has, and an end to what a forged map can make us read.
const MAX_BYTES: usize = 256 << 20;

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It cannot be opened, or is no record by its shape.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel refused to read it.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The map has the shape of a record but not its contents.
    #[error("{path} holds no record: {reason}")]
    #[non_exhaustive]
    Corrupt {
        /// Where.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

fn shape(name: &str, chunks: u32) -> MapShape {
    MapShape {
        name: name.to_owned(),
        kind: MapKind::ARRAY,
        key_size: 4,
        value_size: CHUNK_BYTES as u32,
        max_entries: chunks,
        flags: 0,
    }
}

/// Creates a frozen record; the caller pins it.
pub fn write(name: &str, bytes: &[u8]) -> Result<Map, SysError> {
    if bytes.len() > MAX_BYTES {
        return Err(SysError::new("keep the record", name, libc::E2BIG));
    }
    let chunks = (HEADER_BYTES + bytes.len()).div_ceil(CHUNK_BYTES);
    let mut content = Vec::with_capacity(chunks * CHUNK_BYTES);
    content.extend_from_slice(&MAGIC.to_ne_bytes());
    content.extend_from_slice(&(bytes.len() as u32).to_ne_bytes());
    content.extend_from_slice(bytes);
    content.resize(chunks * CHUNK_BYTES, 0);

    let map = Map::create(&shape(name, chunks as u32), None)?;
    let keys: Vec<u32> = (0..chunks as u32).collect();
    map.update_batch(bytemuck::cast_slice(&keys), &content)?;
    map.freeze()?;
    Ok(map)
}

/// Reads the record pinned at `path`.
pub fn read(path: &Path, name: &str) -> Result<Vec<u8>, RecordError> {
    let corrupt = |reason: String| RecordError::Corrupt {
        path: path.display().to_string(),
        reason,
    };
    let map = Map::open_any(path)?;
    let chunks = map.shape().max_entries;
    map.shape()
        .check(&shape(name, chunks), path.display())
        .map_err(OpenError::from)?;
    if !map.is_frozen()? {
        return Err(corrupt("it was never finished".into()));
    }
    let capacity = chunks as usize * CHUNK_BYTES;
    if capacity > MAX_BYTES + CHUNK_BYTES {
        return Err(corrupt(format!(
            "{capacity} bytes are more than a record has"
        )));
    }
    let mut content = Vec::with_capacity(capacity);
    map.batches(256, |_, values| {
        content.extend_from_slice(values);
        ControlFlow::Continue(())
    })?;
    let word = |at: usize| {
        content
            .get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u32::from_ne_bytes)
    };
    let (magic, length) = (word(0), word(4) as usize);
    if magic != MAGIC {
        return Err(corrupt(format!("it begins with {magic:#010x}")));
    }
    content
        .get(HEADER_BYTES..HEADER_BYTES + length)
        .map(<[u8]>::to_vec)
        .ok_or_else(|| corrupt(format!("length {length} in a map of {capacity} bytes")))
}
