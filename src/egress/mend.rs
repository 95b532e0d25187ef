// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maps that lost their pins, had back from the programs that use them still.

use super::error::InstanceError;
use super::instance::{limits, shapes, Maps};
use super::ours::users;
use crate::kernel::exchange::lost_maps;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDirLock};
use crate::kernel::SysError;

/// Pins those maps again that a program of the instance uses still, pinned or attached. All or nothing:
/// who may not ask for one changes nothing.
pub(super) fn take_back(lock: &StateDirLock) -> Result<Vec<Repair>, InstanceError> {
    let dir = lock.dir();
    let pinned = dir.pins(Section::Maps)?;
    if Maps::NAMES
        .iter()
        .all(|name| pinned.iter().any(|pin| pin == name))
    {
        return Ok(Vec::new());
    }
    let programs = users(dir)?;
    let programs: Vec<_> = programs.iter().collect();
    let lost = lost_maps(dir, &programs, &shapes(&limits(dir)?)?, Maps::NAMES)?;
    let lost = lost.into_iter().map(|map| Ok((map.name, map.used?)));
    let mut repairs = Vec::new();
    for (name, used) in lost.collect::<Result<Vec<_>, SysError>>()? {
        if let Some((map, program)) = used {
            map.pin(&dir.pin(Section::Maps, name))?;
            repairs.push(Repair::had_back(dir, name, program));
        }
    }
    Ok(repairs)
}
