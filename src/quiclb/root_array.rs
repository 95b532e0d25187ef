// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The instance's program at a place in the array of programs of the interface's owner.
//!
//! The array is pinned a second time in the state directory, as `links/root-INDEX-ID`, from before the
//! program is put there until after it was taken out: so the place is known whatever became of the
//! owner's pin or of the record of the generation, and the program stays callable.

use super::attachment::{self, index_of, remove_link};
use super::instance::{QuicLb, Writer};
use super::ours::{is_program, pinned_link};
use crate::error::ErrorKind;
use crate::id::InterfaceName;
use crate::kernel::attach::{display_name, occupants, AttachError, Mode};
use crate::kernel::prog_array::{ProgArray, ProgArrayError};
use crate::kernel::program;
use crate::kernel::statedir::{Section, StateDir, StateDirLock};
use crate::plan::{Place, Shared};
use crate::service::{RootArray, Spec};

/// How the names of the array's pins begin.
const PIN: &str = "root-";

/// An instance's program at a place in a root array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachedAt {
    /// The kernel's number of the array.
    pub array_id: u32,
    /// The index.
    pub index: u32,
    /// The kernel's number of the program.
    pub program_id: u32,
}

/// An array that an instance has pinned, and its place there.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) array: ProgArray,
    pub(super) index: u32,
    pin: String,
}

impl Kept {
    /// The instance's program at the place, if one is there.
    pub(super) fn ours(&self, dir: &StateDir) -> Result<Option<u32>, AttachError> {
        match self.array.entry(self.index)? {
            Some(entry) if is_program(dir, entry.program_id)? => Ok(Some(entry.program_id)),
            _ => Ok(None),
        }
    }

    /// Takes the instance's program out, whether there is one, and forgets the array.
    fn leave(&self, lock: &StateDirLock) -> Result<bool, AttachError> {
        let removed = match self.ours(lock.dir())? {
            Some(program) => self.array.remove(self.index, program)?,
            None => false,
        };
        lock.unpin(Section::Links, &self.pin)?;
        Ok(removed)
    }
}

/// The arrays that an instance has pinned: one, unless a process died while it changed from one to
/// another.
pub(super) fn kept(dir: &StateDir) -> Result<Vec<Kept>, AttachError> {
    let mut kept = Vec::new();
    for pin in dir.pins(Section::Links)? {
        let Some(index) = index_in(&pin) else {
            continue;
        };
        kept.push(Kept {
            array: ProgArray::open(&dir.pin(Section::Links, &pin))?,
            index,
            pin,
        });
    }
    Ok(kept)
}

/// The index in the name of an array's pin; none if it is no such name.
fn index_in(pin: &str) -> Option<u32> {
    let (index, _) = pin.strip_prefix(PIN)?.split_once('-')?;
    index.parse().ok()
}

/// Whether this is a name that an instance gives to an array's pin.
pub(super) fn is_pin(name: &str) -> bool {
    index_in(name).is_some()
}

/// What is at a place.
pub(super) enum Found {
    /// Nothing.
    Free(ProgArray),
    /// A program of the instance, with this number.
    Ours(ProgArray, u32),
    /// Somebody else's program, with this number, and the refusal that names it.
    Foreign(u32, ProgArrayError),
    /// There is no such place.
    Missing(ProgArrayError),
}

/// Looks at a place with the eyes of an instance, whether that exists yet or not. Goes by pins alone.
pub(super) fn look(dir: &StateDir, place: &RootArray) -> Result<Found, AttachError> {
    let array = match ProgArray::open(place.path()) {
        Ok(array) => array,
        Err(error) if error.kind() == ErrorKind::Permission => return Err(error.into()),
        Err(error) => return Ok(Found::Missing(error)),
    };
    let entry = match array.entry(place.index()) {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(Found::Free(array)),
        Err(error @ ProgArrayError::NoIndex { .. }) => return Ok(Found::Missing(error)),
        Err(error) => return Err(error.into()),
    };
    let id = entry.program_id;
    Ok(match is_program(dir, id)? {
        true => Found::Ours(array, id),
        false => Found::Foreign(id, array.occupied(place.index(), Some(entry))),
    })
}

/// What a plan wants to know of a place, and of what runs on the interface.
pub(super) fn shared(
    dir: &StateDir,
    place: &RootArray,
    interface: &InterfaceName,
) -> Result<Shared, AttachError> {
    let at = match look(dir, place)? {
        Found::Free(array) if array.is_for_xdp() == Some(false) => Place::Missing(format!(
            "{} is not for XDP programs",
            place.path().display()
        )),
        Found::Free(_) | Found::Ours(..) => Place::Free,
        Found::Foreign(id, _) => Place::Occupied(match program::by_id(id) {
            Some(program) => format!("program {id} ({})", program.name()),
            None => format!("program {id}"),
        }),
        Found::Missing(error) => Place::Missing(error.to_string()),
    };
    let ifindex = index_of(interface)?;
    let root = match ifindex.map(occupants).transpose()? {
        Some(occupants) => occupants.into_iter().next(),
        None => None,
    };
    let root = root.map(|root| (root.to_string(), root.mode.into()));
    Ok(Shared::new(at, root))
}

/// Refuses if somebody else's program is at a place.
pub(super) fn refuse_occupied(dir: &StateDir, place: &RootArray) -> Result<(), AttachError> {
    match look(dir, place)? {
        Found::Foreign(_, refused) => Err(refused.into()),
        _ => Ok(()),
    }
}

/// Refuses to put the program at a place while it is attached to an interface.
pub(super) fn refuse_attached(dir: &StateDir, place: &RootArray) -> Result<(), AttachError> {
    let Some(link) = pinned_link(dir)? else {
        return Ok(());
    };
    match link.state()?.ifindex {
        Some(ifindex) => Err(AttachError::Elsewhere {
            attached: format!(
                "the program is attached to {} (index {ifindex})",
                display_name(ifindex)
            ),
            wanted: place.to_string(),
        }),
        None => Ok(()),
    }
}

/// Refuses to attach the program to an interface while it is in an array.
pub(super) fn refuse_in_array(
    dir: &StateDir,
    interface: &InterfaceName,
    mode: Mode,
) -> Result<(), AttachError> {
    for kept in kept(dir)? {
        if kept.ours(dir)?.is_some() {
            return Err(AttachError::Attached {
                attached: format!("the program is in a root array (index {})", kept.index),
                interface: interface.to_string(),
                mode,
            });
        }
    }
    Ok(())
}

/// What became of a program in root arrays.
#[derive(Debug, Default)]
pub(super) struct TakenOut {
    /// Whether it was in any.
    pub(super) removed: bool,
    /// Names of the pins that are gone.
    pub(super) unpinned: Vec<String>,
}

/// Takes the program out of every array that it is in. `place` is where it should be, if that is known:
/// its pin may be lost.
pub(super) fn take_out(
    lock: &StateDirLock,
    place: Option<&RootArray>,
) -> Result<TakenOut, AttachError> {
    let mut taken = TakenOut::default();
    if let Some(place) = place {
        match look(lock.dir(), place)? {
            Found::Ours(array, id) => taken.removed = array.remove(place.index(), id)?,
            Found::Foreign(_, refused) => return Err(refused.into()),
            Found::Free(_) | Found::Missing(_) => {}
        }
    }
    for kept in kept(lock.dir())? {
        taken.removed |= kept.leave(lock)?;
        taken
            .unpinned
            .push(format!("{}/{}", Section::Links, kept.pin));
    }
    Ok(taken)
}

impl QuicLb {
    /// The instance's program at a place in a root array; none if it is not there.
    ///
    /// # Errors
    /// The array cannot be read.
    pub fn attached_at(&self, place: &RootArray) -> Result<Option<AttachedAt>, AttachError> {
        Ok(match look(&self.dir, place)? {
            Found::Ours(array, program_id) => Some(AttachedAt {
                array_id: array.id(),
                index: place.index(),
                program_id,
            }),
            _ => None,
        })
    }
}

impl Writer {
    /// Puts the program at a place in the array of programs of an interface's owner, unless it is
    /// there already: the owner's root program calls it for each packet from then on. Never displaces
    /// anything that this process can see; [`prog_array`](crate::kernel::prog_array) says what the
    /// kernel leaves open. A program of this instance that is there is exchanged in one step.
    ///
    /// Publish first: a program without a generation passes every packet to the host. The array is
    /// pinned in the state directory, so that the program stays there whatever becomes of this process
    /// and of the owner's pin. Takes CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`AttachError::RootArray`] names who is at the place, or says what is wrong with the array;
    /// [`AttachError::Elsewhere`] where this program runs already.
    pub fn attach_at(&mut self, place: &RootArray) -> Result<AttachedAt, AttachError> {
        refuse_attached(self.dir(), place)?;
        let array = ProgArray::open(place.path())?;
        let index = place.index();
        // An array that has no such place is none to pin.
        array.entry(index)?;
        let pin = format!("{PIN}{index}-{}", array.id());
        let former = kept(self.dir())?;
        let new = former.iter().all(|kept| kept.pin != pin);
        if new {
            array.pin(&self.pin(Section::Links, &pin))?;
        }
        if let Err(error) = self.enter(&array, place) {
            if new {
                self.lock.unpin(Section::Links, &pin)?;
            }
            return Err(error);
        }
        for kept in former.iter().filter(|kept| kept.pin != pin) {
            kept.leave(&self.lock)?;
        }
        // One that lost its interface: another would have been refused.
        remove_link(&self.lock)?;
        Ok(AttachedAt {
            array_id: array.id(),
            index,
            program_id: self.program.id(),
        })
    }

    fn enter(&self, array: &ProgArray, place: &RootArray) -> Result<(), AttachError> {
        let index = place.index();
        match look(self.dir(), place)? {
            Found::Ours(_, id) if id != self.program.id() => {
                Ok(array.exchange(index, &self.program, id)?)
            }
            Found::Foreign(_, refused) => Err(refused.into()),
            _ => Ok(array.put(index, &self.program)?),
        }
    }
}

/// Refuses if the place where a specification wants the program is somebody else's. Goes by pins alone,
/// so that it works before an instance is whole.
pub(super) fn refuse_foreign(dir: &StateDir, spec: &Spec) -> Result<(), AttachError> {
    match spec.root_array() {
        Some(place) => refuse_occupied(dir, place),
        None => attachment::refuse_occupied(dir, spec.interface()),
    }
}

/// Refuses also if the program is elsewhere.
pub(super) fn refuse(dir: &StateDir, spec: &Spec) -> Result<(), AttachError> {
    refuse_foreign(dir, spec)?;
    match spec.root_array() {
        Some(place) => refuse_attached(dir, place),
        None => {
            let (interface, mode) = (spec.interface(), spec.mode().into());
            attachment::refuse_misplaced(dir, interface, mode)?;
            refuse_in_array(dir, interface, mode)
        }
    }
}
