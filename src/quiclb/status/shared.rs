// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The attachment of an instance that the program of the interface's owner calls.

use super::collect::{detached, no_interface};
use super::{Attachment, AttachmentKind, Owner, APPLY};
use crate::kernel::attach::{occupants, Occupant};
use crate::kernel::program;
use crate::kernel::statedir::StateDir;
use crate::plan::Live;
use crate::quiclb::attachment::index_of;
use crate::quiclb::error::InstanceError;
use crate::quiclb::finding::{Finding, FindingCode};
use crate::quiclb::instance::QuicLb;
use crate::quiclb::root_array::{kept, look, Found, Kept};
use crate::service::{Mode, RootArray};

/// What can be said without a record: in which arrays the program is, by their pins.
pub(super) fn in_arrays(dir: &StateDir, attachment: &mut Attachment) -> Result<(), InstanceError> {
    for kept in kept(dir)? {
        attachment.kind = AttachmentKind::RootArray;
        if let Some(program) = kept.ours(dir)? {
            attachment.live_program_id = Some(program);
            attachment.owner = Owner::Ours;
        }
    }
    Ok(())
}

/// Whether the program on an interface may call what is in one of these arrays, as far as can be seen.
fn calls_any(root: Option<&Occupant>, arrays: &[Kept]) -> bool {
    let Some(root) = root else {
        return false;
    };
    match program::by_id(root.program_id) {
        Some(root) => {
            let uses = |kept: &Kept| root.map_ids().contains(&kept.array.id());
            arrays.iter().any(uses)
        }
        None => true,
    }
}

/// What is at the place of a live generation, and whether anything calls it; in which mode, if the
/// instance's program is there.
pub(super) fn shared(
    instance: &QuicLb,
    live: &Live,
    place: &RootArray,
    findings: &mut Vec<Finding>,
) -> Result<(Attachment, Option<Mode>), InstanceError> {
    let ours = instance.program().id();
    let mut attachment = detached(Some(ours));
    in_arrays(instance.dir(), &mut attachment)?;
    attachment.root_array = Some(place.into());
    let kept = kept(instance.dir())?;
    let interface = live.spec().interface();
    let ifindex = index_of(interface)?;
    let root = match ifindex.map(occupants).transpose()? {
        Some(occupants) => occupants.into_iter().next(),
        None => None,
    };
    let mut gone = |message: String| {
        // After a detachment nothing is expected there.
        if !kept.is_empty() {
            findings.push(Finding::new(FindingCode::RootArray, place, message, APPLY));
        }
    };
    let there = look(instance.dir(), place)?;
    match &there {
        &Found::Ours(ref array, id) => {
            attachment.kind = AttachmentKind::RootArray;
            attachment.live_program_id = Some(id);
            attachment.owner = Owner::Ours;
            if kept.iter().all(|kept| kept.array.id() != array.id()) {
                findings.push(Finding::new(
                    FindingCode::LostPin,
                    place,
                    "the array is not pinned in the state directory: it ends with its owner",
                    APPLY,
                ));
            }
            if id != ours {
                findings.push(Finding::new(
                    FindingCode::OtherProgram,
                    place,
                    format!("program {id} is there, the pinned program is {ours}"),
                    APPLY,
                ));
            }
        }
        &Found::Foreign(id, ref refused) => {
            attachment.live_program_id = Some(id);
            attachment.owner = Owner::Foreign;
            findings.push(Finding::new(
                FindingCode::ForeignProgram,
                place,
                refused.to_string(),
                "take it out if it is not needed, or use another index",
            ));
        }
        Found::Free(array) => gone(
            match kept.iter().any(|kept| kept.array.id() == array.id()) {
                true => "somebody took the program out".to_owned(),
                false => "another array is pinned there than the one that the program was put into"
                    .to_owned(),
            },
        ),
        Found::Missing(error) => gone(error.to_string()),
    }
    let is_there = matches!(there, Found::Ours(..) | Found::Foreign(..));
    if !is_there && !calls_any(root.as_ref(), &kept) {
        // What only our own pin keeps meets no packet.
        attachment.live_program_id = None;
        attachment.owner = Owner::None;
    }
    if ifindex.is_none() {
        findings.push(no_interface(interface));
        return Ok((attachment, None));
    }
    let Some(root) = root else {
        if attachment.owner == Owner::Ours {
            findings.push(Finding::new(
                FindingCode::NoRootProgram,
                interface,
                "nothing runs there: no root program calls the program",
                "start the owner of the interface",
            ));
        }
        return Ok((attachment, None));
    };
    let mode = Mode::from(root.mode);
    if attachment.owner == Owner::Ours && mode != live.spec().mode() {
        findings.push(Finding::new(
            FindingCode::ModeDrift,
            interface,
            format!(
                "{root} runs there, the specification says {}",
                live.spec().mode()
            ),
            format!("detach it with --purge, then apply with mode {mode}"),
        ));
    }
    let mode = (attachment.owner == Owner::Ours).then_some(mode);
    Ok((attachment, mode))
}
