// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Waiting for packets.

use std::os::fd::{AsFd, AsRawFd};

use bytemuck::bytes_of;

use super::map::{Map, MapKind, MapShape, Update};
use super::SysError;

/// Returns when every program run that was under way has ended: 8 to 30 ms, sometimes 250.
///
/// What a packet read before the call it no longer acts upon afterwards.
///
/// # Errors
/// The kernel refuses the maps that it takes.
pub fn wait_for_packets() -> Result<(), SysError> {
    // The kernel waits for its grace period when a map of maps was written.
    let shape = |name: &str, kind| MapShape {
        name: name.to_owned(),
        kind,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: 0,
    };
    let inner = Map::create(&shape("gw_wait_in", MapKind::ARRAY), None)?;
    let outer = Map::create(&shape("gw_wait", MapKind::ARRAY_OF_MAPS), Some(&inner))?;
    let fd = inner.as_fd().as_raw_fd();
    outer.update(bytes_of(&0_u32), bytes_of(&fd), Update::Any)
}
