// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Taking an instance off its interface, and removing its state.

use serde::Serialize;

use super::attachment::{index_of, refuse_occupied, remove_link, LINK};
use super::error::{DetachError, InstanceError};
use super::instance::{QuicLb, PATIENCE};
use super::ours::{is_program, refuse_purge, Users};
use super::root_array::take_out;
use crate::error::ErrorKind;
use crate::id::InstanceId;
use crate::kernel::attach::{AttachError, NetlinkAttachment, XdpLink};
use crate::kernel::statedir::{Section, StateDir, StateDirLock, StateError};
use crate::service::Spec;

/// What was taken off and removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Detached {
    /// Names this form.
    pub schema: DetachSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Whether the program was on the interface before.
    pub detached: bool,
    /// Names of the pins that were removed.
    pub removed: Vec<String>,
    /// What should have been removed and was not.
    pub left: Vec<LeftBehind>,
}

/// Names the form of what was detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DetachSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.detach/v1")]
    V1,
}

/// Something that should have been removed and was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeftBehind {
    /// Its name.
    pub name: String,
    /// Why it is still there.
    pub reason: String,
}

/// Takes an instance's program off its interface; with `purge` also removes everything that the
/// instance keeps in the kernel. Without, its generations and counters stay for the next
/// [`apply`](super::apply()).
///
/// # Errors
/// Nothing was changed: no such instance, state of another version, another writer, or somebody
/// else's program on the interface.
pub fn detach(dir: &StateDir, purge: bool) -> Result<Detached, DetachError> {
    let mut report = Detached {
        schema: DetachSchema::V1,
        instance_id: dir.instance(),
        detached: false,
        removed: Vec::new(),
        left: Vec::new(),
    };
    let lock = match dir.lock_within(PATIENCE) {
        // A process that died while it made the instance may have left parts of it all the same.
        Err(error @ StateError::NoInstance { .. }) if purge => {
            sweep(dir, &mut report);
            if report.removed.is_empty() && report.left.is_empty() {
                return Err(InstanceError::from(error).into());
            }
            return Ok(report);
        }
        lock => lock.map_err(InstanceError::from)?,
    };
    dir.version().map_err(InstanceError::from)?;
    if purge {
        refuse_purge(dir)?;
    }
    match take_off(&lock) {
        Ok(taken) => {
            report.detached = taken.detached;
            report.removed.extend(taken.unpinned);
        }
        // The kernel accepted it, and the program is there all the same.
        Err(error) if error.kind() == ErrorKind::Partial => report.left.push(LeftBehind {
            name: format!("{}/{LINK}", Section::Links),
            reason: error.to_string(),
        }),
        Err(error) => return Err(error.into()),
    }
    if purge && report.left.is_empty() {
        match lock.remove() {
            Ok(names) => report.removed.extend(names),
            Err(error) => report.left.push(LeftBehind {
                name: dir.path().display().to_string(),
                reason: error.to_string(),
            }),
        }
    }
    if purge && report.left.is_empty() {
        sweep(dir, &mut report);
    }
    Ok(report)
}

/// Removes what processes that died have left of the instance.
fn sweep(dir: &StateDir, report: &mut Detached) {
    match dir.remove_leftovers() {
        Ok(names) => report.removed.extend(names),
        Err(error) => report.left.push(LeftBehind {
            name: dir.path().display().to_string(),
            reason: error.to_string(),
        }),
    }
}

/// What became of an attachment.
#[derive(Debug, Default)]
pub(super) struct TakenOff {
    /// Whether the program was on the interface before.
    pub(super) detached: bool,
    /// Names of the pins that are gone.
    unpinned: Vec<String>,
}

/// Takes the program off, whether the instance is whole or not: its pins are the proof that it is
/// ours.
pub(super) fn take_off(lock: &StateDirLock) -> Result<TakenOff, AttachError> {
    let dir = lock.dir();
    let spec = live_spec(dir);
    let place = spec.as_ref().and_then(Spec::root_array);
    let out = take_out(lock, place)?;
    if place.is_some() || !out.unpinned.is_empty() {
        return Ok(TakenOff {
            detached: out.removed,
            unpinned: out.unpinned,
        });
    }
    let interface = spec.as_ref().map(Spec::interface);
    if let Some(interface) = interface {
        match refuse_occupied(dir, interface) {
            Err(AttachError::Occupied {
                occupant: Some(occupant),
                ..
            // One of ours that has lost its pin and its link's.
            }) if is_program(dir, occupant.program_id)? => {}
            free => free?,
        }
    }
    if let Some(detached) = remove_link(lock)? {
        return Ok(TakenOff {
            detached,
            unpinned: vec![format!("{}/{LINK}", Section::Links)],
        });
    }
    let programs = Users::of(dir)?.known()?;
    let ifindex = match interface {
        Some(interface) => index_of(interface)?,
        None => None,
    };
    let mut taken = TakenOff::default();
    let Some(ifindex) = ifindex else {
        return Ok(taken);
    };
    for program in &programs {
        if let Some(link) = XdpLink::find(program, ifindex) {
            // Its pin was lost.
            link.detach()?;
            taken.detached = true;
        } else if let Some(attachment) = NetlinkAttachment::find(program, ifindex)? {
            taken.detached |= attachment.detach(program)?;
        }
    }
    Ok(taken)
}

/// The specification of the live generation; none if there is no such generation, or not readable.
fn live_spec(dir: &StateDir) -> Option<Spec> {
    let instance = QuicLb::open(dir).ok().or_else(|| {
        // One that runs, and has lost its pin.
        let unpinned = Users::of(dir).ok()?.programs.pop()?;
        QuicLb::around(dir, unpinned).ok()
    });
    let live = instance?.live_record().ok()??;
    Some(live.spec().clone())
}
