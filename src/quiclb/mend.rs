// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maps of an instance that lost their pins: what has them still, and how they come back.
//!
//! A map lives as long as a program that uses it. So a lost pin is no lost map while the program is
//! pinned or attached: it gets the name again, with all that is in it, and no packet is missed. Only
//! what nothing has any more is made anew.

use super::error::InstanceError;
use super::finding::{Finding, FindingCode};
use super::instance::{shapes, Maps};
use super::ours::Users;
use super::status::APPLY;
use crate::kernel::exchange::{self, LostMap};
use crate::kernel::keys;
use crate::kernel::map::Map;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDir, StateDirLock};
use crate::kernel::SysError;

/// The maps of an instance that are pinned no more.
pub(super) fn lost_maps(dir: &StateDir) -> Result<Vec<LostMap>, InstanceError> {
    let shapes = shapes(dir)?;
    let users = Users::of(dir)?;
    let mut programs: Vec<_> = users.programs.iter().collect();
    let mut lost = exchange::lost_maps(dir, &programs, &shapes, Maps::NAMES)?;
    for map in &mut lost {
        if !Maps::is_programs(map.name) {
            map.used = Ok(None);
        } else if let (Some(refused), Ok(None)) = (&users.refused, &map.used) {
            map.used = Err(refused.clone());
        }
    }
    // Only a program that decrypts has it, and no other lacks it.
    programs.truncate(1);
    let keys = exchange::lost_maps(dir, &programs, &shapes, [keys::MAP])?;
    lost.extend(
        keys.into_iter()
            .filter(|map| matches!(map.used, Ok(Some(_)))),
    );
    Ok(lost)
}

/// Pins those maps again that a program of the instance uses still, and makes those anew that are user
/// space's alone. What programs use and none has is left to whoever loads one.
///
/// # Errors
/// The process may not open maps by number, which takes CAP_SYS_ADMIN: nothing is made in the place of
/// a map that may be in use.
pub(super) fn take_back(lock: &StateDirLock) -> Result<Vec<Repair>, InstanceError> {
    let dir = lock.dir();
    // All or nothing: who may not ask for one changes nothing.
    let lost = lost_maps(dir)?.into_iter();
    let lost = lost.map(|map| Ok((map.name, map.used?)));
    let lost = lost.collect::<Result<Vec<_>, SysError>>()?;
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let shapes = shapes(dir)?;
    let mut repairs = Vec::new();
    for (name, used) in lost {
        let path = dir.pin(Section::Maps, name);
        match (used, shapes.get(name)) {
            (Some((map, program)), _) => {
                map.pin(&path)?;
                repairs.push(Repair::had_back(dir, name, program));
            }
            (None, Some(shape)) if !Maps::is_programs(name) => {
                Map::create(shape, None)?.pin(&path)?;
                repairs.push(Repair::empty_map(dir, name, Maps::content(name)));
            }
            (None, _) => {}
        }
    }
    Ok(repairs)
}

/// Refuses if the map of contexts has lost its pin. Without it an instance is whole, too, if its program
/// does not decrypt.
pub(super) fn refuse_lost_contexts(dir: &StateDir) -> Result<(), InstanceError> {
    if lost_maps(dir)?.iter().any(|lost| lost.name == keys::MAP) {
        dir.map(&shapes(dir)?, keys::MAP)?;
    }
    Ok(())
}

/// A finding for each map that is pinned no more.
pub(super) fn findings(dir: &StateDir) -> Result<Vec<Finding>, InstanceError> {
    let lost = lost_maps(dir)?.into_iter();
    Ok(lost.map(|lost| finding(dir, &lost)).collect())
}

fn finding(dir: &StateDir, lost: &LostMap) -> Finding {
    let path = dir.pin(Section::Maps, lost.name);
    let what = format!("the map {} has lost its pin", lost.name);
    let (message, remedy) = match &lost.used {
        Ok(Some((_, program))) => (
            format!("{what}; program {program} uses it still"),
            format!("{APPLY}: that pins it again, with all that is in it"),
        ),
        Ok(None) => (
            format!(
                "{what}, and nothing has it any more: {}",
                Maps::content(lost.name)
            ),
            format!("{APPLY}: that makes an empty one"),
        ),
        Err(error) => (
            format!("{what}; whether a program uses it still is not known: {error}"),
            format!("{APPLY}, with CAP_SYS_ADMIN: that pins it again if it is in use"),
        ),
    };
    Finding::new(FindingCode::LostPin, path.display(), message, remedy)
}
