// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! State of an older layout, and what makes it one of this layout.
//!
//! A map whose layout changes gets a new name, so an instance of the older layout lacks it. An
//! upgrade makes it from the older map, has packets handled by a program that uses it, and then
//! gives the state its new version. Until then the state is whole for the older build.

use std::time::Duration;

use super::error::InstanceError;
use super::hardware::refuse_card;
use super::instance::{shapes, QuicLb, Writer, PATIENCE, PROGRAM};
use super::loader::draw_seed;
use super::ours::{pinned_link, refuse_foreign_programs};
use super::status::Abi;
use super::upgrade::{UpgradeError, Upgraded};
use crate::kernel::exchange::{self, ask, Aborted, Pins, ProgramPins, Role, Step};
use crate::kernel::map::{Map, Update};
use crate::kernel::statedir::{AbiVersion, Section, StateDir, StateDirLock, StateError, META_MAP};

/// A map that another one has taken the place of. Both are arrays of one element.
struct Replaced {
    /// Name of the older one.
    from: &'static str,
    /// Bytes of its value.
    bytes: usize,
    /// Name of the newer one.
    to: &'static str,
    /// The newer value, of the older one's bytes.
    convert: fn(&[u8]) -> Vec<u8>,
}

/// The maps that were replaced since 2.0.
const REPLACED: [Replaced; 1] = [Replaced {
    from: "gw_ql_collect",
    bytes: 88,
    to: "gw_ql_collect2",
    convert: |value| {
        // The generation that is being closed stands behind three words, and there is none.
        let (before, behind) = value.split_at(24);
        [before, &[0; 8], behind].concat()
    },
}];

/// The version of an instance's state.
///
/// # Errors
/// It is not one that this build works with; [`InstanceError::Older`] where an
/// [`upgrade`](super::upgrade()) makes it one.
pub(super) fn require_current(dir: &StateDir) -> Result<(), InstanceError> {
    match dir.version()? {
        AbiVersion::QUICLB => Ok(()),
        found => Err(InstanceError::Older {
            path: dir.pin(Section::Maps, META_MAP).display().to_string(),
            found,
            current: AbiVersion::QUICLB,
        }),
    }
}

/// Has an instance run this build's program, as [`Writer::upgrade`] does, and makes its state one of
/// this build's layout if an older build made it. Waits up to two seconds for the instance's lock.
///
/// State of an older layout stays as it was, and works, until this build's program handles packets.
/// From then on there is no way back to the older build's program.
///
/// # Errors
/// [`UpgradeError`]: what ran before runs.
pub fn upgrade(dir: &StateDir) -> Result<Upgraded, UpgradeError> {
    upgrade_observed(dir, exchange::PATIENCE, |_| Ok(()))
}

/// As [`upgrade()`], waiting so long for a packet, and asking `observer` before each step.
///
/// # Errors
/// As there, and [`Stopped::Aborted`](crate::kernel::exchange::Stopped::Aborted) when the observer
/// stops it.
pub fn upgrade_observed(
    dir: &StateDir,
    patience: Duration,
    mut observer: impl FnMut(Step) -> Result<(), Aborted>,
) -> Result<Upgraded, UpgradeError> {
    let lock = dir.lock_within(PATIENCE).map_err(InstanceError::from)?;
    refuse_card(dir)?;
    refuse_foreign_programs(dir)?;
    pinned_link(dir).map_err(InstanceError::from)?;
    if dir.version().map_err(InstanceError::from)? == AbiVersion::QUICLB {
        remove_older_maps(&lock)?;
        let balancer = QuicLb::open(dir)?;
        return Writer::new(balancer, lock)?.upgrade_observed(patience, observer);
    }
    ask(&mut observer, Step::Prepare)?;
    add_maps(&lock)?;
    let mut writer = Writer::new(QuicLb::open_prepared(dir)?, lock)?;
    draw_seed(&writer.maps)?;
    let mut upgraded = writer.upgrade_observed(patience, &mut observer)?;
    ask(&mut observer, Step::Adopt)?;
    adopt(&writer)?;
    let AbiVersion { major, minor } = AbiVersion::QUICLB;
    upgraded.abi = Abi { major, minor };
    Ok(upgraded)
}

/// Makes the maps that an instance of an older layout lacks. What is there stays as it is, so it
/// remains an instance of that layout.
pub(super) fn add_maps(lock: &StateDirLock) -> Result<(), InstanceError> {
    let dir = lock.dir();
    let shapes = shapes(dir)?;
    for replaced in &REPLACED {
        let Some(shape) = shapes.get(replaced.to) else {
            continue;
        };
        let older = older_value(dir, replaced)?;
        let (map, is_new) = match dir.map(&shapes, replaced.to) {
            Ok(map) => (map, false),
            Err(error) if error.is_not_found() => (Map::create(shape, None)?, true),
            Err(error) => return Err(error.into()),
        };
        // Written anew, as one that an interrupted upgrade left may be older than what it was made of;
        // where a program uses that already, the two say the same.
        if let Some(older) = older {
            map.update(&FIRST, &(replaced.convert)(&older), Update::Any)?;
        }
        if is_new {
            map.pin(&dir.pin(Section::Maps, replaced.to))?;
        }
    }
    Ok(())
}

/// The key of the only element.
const FIRST: [u8; 4] = 0_u32.to_ne_bytes();

/// None if the map is lost: then what it held begins anew.
fn older_value(dir: &StateDir, replaced: &Replaced) -> Result<Option<Vec<u8>>, InstanceError> {
    let path = dir.pin(Section::Maps, replaced.from);
    let map = match Map::open_any(&path) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened?,
    };
    if map.shape().key_size != 4 || map.value_bytes() != replaced.bytes {
        return Err(InstanceError::State(StateError::Corrupt {
            path: path.display().to_string(),
            reason: format!(
                "it has keys of {} and values of {} bytes, not of 4 and {}",
                map.shape().key_size,
                map.value_bytes(),
                replaced.bytes
            ),
        }));
    }
    let mut value = vec![0; replaced.bytes];
    map.lookup(&FIRST, &mut value)?;
    Ok(Some(value))
}

/// Gives the state this build's version, whose program runs by now, and removes what only older
/// builds would use: maps, and the program before, which uses them.
pub(super) fn adopt(writer: &Writer) -> Result<(), InstanceError> {
    let mut programs = ProgramPins::open(&writer.lock, PROGRAM)?;
    programs.unpin(Role::Previous)?;
    programs.tidy()?;
    let mut told = writer.maps.meta.get(0)?;
    told.abi_minor = AbiVersion::QUICLB.minor;
    writer.maps.meta.set(0, &told)?;
    remove_older_maps(&writer.lock)
}

/// Removes the maps of older layouts from an instance of this one.
pub(super) fn remove_older_maps(lock: &StateDirLock) -> Result<(), InstanceError> {
    for replaced in &REPLACED {
        lock.unpin(Section::Maps, replaced.from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    #[test]
    fn what_was_collected_keeps_its_meaning() {
        let [replaced] = &REPLACED;
        let older: Vec<u8> = (1..=11_u64).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(older.len(), replaced.bytes);
        let newer = (replaced.convert)(&older);
        let newer: abi::Collection = *bytemuck::from_bytes(&newer);
        assert_eq!(
            (newer.cid_seed, newer.returned_generation, newer.returned_ns),
            (1, 2, 3)
        );
        assert_eq!(newer.closing_generation, 0);
        assert_eq!((newer.swept_ns, newer.blast_radius), (4, 11));
    }
}
