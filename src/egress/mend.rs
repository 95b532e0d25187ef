// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maps that lost their pins, had back from the programs that use them still.

use super::attachment::holders;
use super::error::InstanceError;
use super::instance::{limits, shapes, Maps};
use super::ours::{pinned_maps, somebodys, Ours};
use crate::kernel::exchange::{lost_maps, Programs};
use crate::kernel::program::Program;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDir, StateDirLock};
use crate::kernel::SysError;

/// Pins those maps again that a program of the instance uses still, pinned or attached. All or nothing:
/// who may not ask for one changes nothing.
pub(super) fn take_back(lock: &StateDirLock) -> Result<Vec<Repair>, InstanceError> {
    let dir = lock.dir();
    let maps = pinned_maps(dir);
    if maps.len() == Maps::NAMES.len() {
        return Ok(Vec::new());
    }
    let ours = Ours::of(dir)?;
    let attached = attached(dir, ours.programs())?;
    let mut programs: Vec<_> = ours.programs().all().chain(&attached).collect();
    programs.retain(|program| program.works_on(&maps));
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

/// Programs that are attached and pinned no more.
fn attached(dir: &StateDir, pinned: &Programs) -> Result<Vec<Program>, SysError> {
    let mut programs: Vec<Program> = Vec::new();
    // What says nothing of a program has none.
    for (_, holder) in holders(dir).unwrap_or_default() {
        let Some(id) = holder.known_program() else {
            continue;
        };
        if pinned.with_id(id).is_some() || programs.iter().any(|program| program.id() == id) {
            continue;
        }
        // What a record says may be over.
        programs.extend(somebodys(id)?);
    }
    Ok(programs)
}
