// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program on tenants' interfaces.
//!
//! A link on TCX is pinned under the index of its interface, and there is nothing else to know. A
//! filter has no handle of its own, so a record beside the links says which one it is and which
//! program it runs: what is not that is somebody else's.

use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::InstanceError;
use super::instance::{Egress, Writer, PROGRAM};
use super::ours::Ours;
use crate::error::{ErrorKind, NOT_OURS};
use crate::kernel::program::Program;
use crate::kernel::record::{self, RecordError};
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDir};
use crate::kernel::tc::{self, AttachError, Attachment, ClsactFilter, FilterId, TcxLink};
use crate::kernel::{PinError, SysError};

/// Name of a filter's record, in the kernel's listings.
const RECORD: &str = "gw_eg_filter";
const LINK: &str = "tcx";
const FILTER: &str = "clsact";
/// A filter's record before it has its name.
const DRAFT: &str = "clsact-draft";

/// How the program is on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attached {
    /// Through a link on TCX.
    Tcx {
        /// The link.
        link_id: u32,
    },
    /// As a filter of clsact.
    Clsact {
        /// Its name.
        filter: FilterId,
    },
}

/// An attachment as the state directory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachmentView {
    /// Index of the interface.
    pub ifindex: u32,
    /// How.
    pub how: Attached,
    /// The program that runs there; none if the interface is gone, or it was detached by somebody.
    pub program_id: Option<u32>,
}

/// Why the program is not on an interface, or not off it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// The hook refuses.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// What is known of a filter cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What is known of a filter makes no sense.
    #[error("record of the filter at ifindex {ifindex}: {error}")]
    #[non_exhaustive]
    Corrupt {
        /// The interface.
        ifindex: u32,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl From<PinError> for AttachmentError {
    fn from(error: PinError) -> Self {
        AttachError::from(error).into()
    }
}

impl AttachmentError {
    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        (self.kind() == ErrorKind::Incompatible).then_some(NOT_OURS)
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Attach(error) => error.kind(),
            Self::Record(_) | Self::Corrupt { .. } => ErrorKind::Incompatible,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// What a record says.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct FilterRecord {
    priority: NonZeroU16,
    handle: NonZeroU32,
    program_id: u32,
}

impl FilterRecord {
    fn filter(&self, ifindex: u32) -> ClsactFilter {
        ClsactFilter::at(ifindex, self.id())
    }

    const fn id(&self) -> FilterId {
        FilterId {
            priority: self.priority,
            handle: self.handle,
        }
    }
}

/// Stores that a filter runs a program.
fn write_record(
    filter: &ClsactFilter,
    program_id: u32,
) -> Result<crate::kernel::map::Map, AttachmentError> {
    let ifindex = filter.ifindex();
    let known = FilterRecord {
        priority: filter.id().priority,
        handle: filter.id().handle,
        program_id,
    };
    let corrupt = |error| AttachmentError::Corrupt { ifindex, error };
    let bytes = serde_json::to_vec(&known).map_err(corrupt)?;
    Ok(record::write(RECORD, &bytes)?)
}

/// What keeps a program of an instance on an interface.
#[derive(Debug)]
pub(super) enum Holder {
    /// A link.
    Tcx(TcxLink),
    /// A filter, and the program that it runs as far as is known.
    Clsact(ClsactFilter, u32),
}

impl Holder {
    /// The number of the program that it runs, as far as is known; none if that cannot be read.
    pub(super) fn known_program(&self) -> Option<u32> {
        match self {
            Self::Tcx(link) => Some(link.state().ok()?.program_id),
            Self::Clsact(_, known) => Some(*known),
        }
    }

    /// The program, of those of the instance, that the interface with this index runs through it; none
    /// if it runs no such, or is gone.
    pub(super) fn runs<'p>(
        &self,
        ifindex: u32,
        programs: impl IntoIterator<Item = &'p Program>,
    ) -> Result<Option<u32>, AttachmentError> {
        let (filter, known) = match self {
            Self::Tcx(link) => {
                let state = link.state()?;
                return Ok(state.ifindex.map(|_| state.program_id));
            }
            Self::Clsact(filter, known) => (filter, *known),
        };
        // Its record may be older than what it runs.
        let ids = programs.into_iter().map(Program::id);
        for id in std::iter::once(known).chain(ids) {
            match ClsactFilter::find(id, ifindex) {
                Ok(Some(found)) if found.id() == filter.id() => return Ok(Some(id)),
                Ok(_) => {}
                Err(AttachError::NoInterface { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Keeps it in another state directory, too: `pin` tells where by its name. Whatever it runs now,
    /// it is about to run the program with this number.
    pub(super) fn keep(
        &self,
        ifindex: u32,
        program_id: u32,
        to: impl Fn(&str) -> PathBuf,
    ) -> Result<(), AttachmentError> {
        match self {
            Self::Tcx(link) => link.pin(&to(&pin(ifindex, LINK)))?,
            Self::Clsact(filter, _) => {
                let record = write_record(filter, program_id)?;
                record.pin(&to(&pin(ifindex, FILTER)))?;
            }
        }
        Ok(())
    }

    /// Puts `to` in the place of a program of this instance, in one step; whether it runs `to` now:
    /// not if the interface is gone, or the place was given up or is another's.
    pub(super) fn exchange(&self, from: &Program, to: &Program) -> Result<bool, AttachmentError> {
        match self {
            Self::Tcx(link) => {
                let state = link.state()?;
                let exchanged = match (state.ifindex, state.program_id) {
                    (None, _) => return Ok(false),
                    (_, id) if id == to.id() => return Ok(true),
                    (_, id) if id == from.id() => link.update(to, from),
                    // The link is ours, whatever became of its program.
                    _ => link.replace(to),
                };
                match exchanged {
                    Err(AttachError::Gone { .. }) => Ok(false),
                    result => Ok(result.map(|()| true)?),
                }
            }
            Self::Clsact(filter, known) => {
                for program_id in [from.id(), *known, to.id()] {
                    let found = match ClsactFilter::find(program_id, filter.ifindex()) {
                        Err(AttachError::NoInterface { .. }) => return Ok(false),
                        found => found?,
                    };
                    if found.is_none_or(|found| found.id() != filter.id()) {
                        continue;
                    }
                    if program_id != to.id() {
                        filter.replace(to, program_id)?;
                    }
                    return Ok(true);
                }
                Ok(false)
            }
        }
    }
}

/// A link that holds a program of an instance on an interface and has lost its pin: it ends with whatever
/// else keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnpinnedLink {
    /// Index of the interface.
    pub(super) ifindex: u32,
    /// The link.
    pub(super) link_id: u32,
    /// What runs there.
    pub(super) program_id: u32,
}

/// The interface and the kind in the name of what is pinned among the links; none if it is no such name.
fn parse_pin(name: &str) -> Option<(u32, &str)> {
    let (ifindex, kind) = name.split_once('-')?;
    Some((ifindex.parse().ok()?, kind))
}

/// Whether this is a name that an instance gives to what is pinned in its directory of links.
pub(super) fn is_pin(name: &str) -> bool {
    parse_pin(name).is_some_and(|(_, kind)| [LINK, FILTER, DRAFT].contains(&kind))
}

/// Where the link is pinned that holds the program on an interface.
pub(super) fn link_pin(dir: &StateDir, ifindex: u32) -> PathBuf {
    dir.pin(Section::Links, &pin(ifindex, LINK))
}

fn pin(ifindex: u32, kind: &str) -> String {
    format!("{ifindex}-{kind}")
}

/// Indices of the interfaces that the instance of a directory has been attached to and not detached
/// from, whether they are still there or not. Takes no lock, and opens nothing.
///
/// # Errors
/// The state directory cannot be read.
pub fn interfaces_of(dir: &StateDir) -> Result<BTreeSet<u32>, SysError> {
    let names = dir.pins(Section::Links)?.into_iter();
    let of = |name: String| {
        let (ifindex, kind) = parse_pin(&name)?;
        [LINK, FILTER].contains(&kind).then_some(ifindex)
    };
    Ok(names.filter_map(of).collect())
}

impl Egress {
    /// Where the program is attached, by the index of the interface.
    ///
    /// # Errors
    /// The state directory cannot be read, or a record in it.
    pub fn attachments(&self) -> Result<Vec<AttachmentView>, AttachmentError> {
        let ours = Ours::of(&self.dir)?;
        let view = |(ifindex, holder): (u32, Holder)| {
            Ok(AttachmentView {
                ifindex,
                how: match &holder {
                    Holder::Tcx(link) => Attached::Tcx {
                        link_id: link.state()?.id,
                    },
                    Holder::Clsact(filter, _) => Attached::Clsact {
                        filter: filter.id(),
                    },
                },
                program_id: holder.runs(ifindex, ours.all())?,
            })
        };
        self.holders()?.into_iter().map(view).collect()
    }

    /// The program that interfaces go over to in a migration that has not ended, if there is one:
    /// packets that meet it are handled as by the one before.
    pub(super) fn successor(&self) -> Result<Option<Program>, AttachmentError> {
        successor(&self.dir)
    }

    /// The links that hold a program of the instance on these interfaces and have lost their pins.
    ///
    /// # Errors
    /// Another object has the name of a program, or an interface cannot be asked.
    pub(super) fn unpinned_links(
        &self,
        interfaces: impl IntoIterator<Item = u32>,
    ) -> Result<Vec<UnpinnedLink>, AttachmentError> {
        let ours = Ours::of(&self.dir)?;
        let pinned = interfaces_of(&self.dir)?;
        let mut unpinned = Vec::new();
        for ifindex in interfaces
            .into_iter()
            .filter(|ifindex| !pinned.contains(ifindex))
        {
            let hook = match tc::hook(ifindex) {
                Err(AttachError::NoInterface { .. }) => continue,
                hook => hook?,
            };
            let links = hook.occupants.into_iter().filter_map(|occupant| {
                let program_id = occupant.program_id?;
                let tc::Place::Tcx { link_id } = occupant.place else {
                    return None;
                };
                ours.programs().with_id(program_id)?;
                Some(UnpinnedLink {
                    ifindex,
                    link_id: link_id?,
                    program_id,
                })
            });
            unpinned.extend(links);
        }
        Ok(unpinned)
    }

    /// What holds the program on interfaces, in the order of their indices.
    pub(super) fn holders(&self) -> Result<Vec<(u32, Holder)>, AttachmentError> {
        holders(&self.dir)
    }
}

/// The program that interfaces go over to in a migration that has not ended.
pub(super) fn successor(dir: &StateDir) -> Result<Option<Program>, AttachmentError> {
    if !dir.is_taken_over()? {
        return Ok(None);
    }
    match Program::open(&dir.next().pin(Section::Programs, PROGRAM)) {
        Ok(program) => Ok(Some(program)),
        // It has come to its end between two looks.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What holds the program of the instance of a directory on interfaces, in the order of their indices.
pub(super) fn holders(dir: &StateDir) -> Result<Vec<(u32, Holder)>, AttachmentError> {
    let mut holders = Vec::new();
    for name in dir.pins(Section::Links)? {
        let Some((ifindex, kind)) = parse_pin(&name) else {
            continue;
        };
        let holder = match kind {
            LINK => link(dir, ifindex)?.map(Holder::Tcx),
            FILTER => filter(dir, ifindex)?.map(|known| {
                let filter = known.filter(ifindex);
                Holder::Clsact(filter, known.program_id)
            }),
            _ => None,
        };
        holders.extend(holder.map(|holder| (ifindex, holder)));
    }
    holders.sort_by_key(|(ifindex, _)| *ifindex);
    Ok(holders)
}

fn link(dir: &StateDir, ifindex: u32) -> Result<Option<TcxLink>, AttachmentError> {
    match TcxLink::open(&link_pin(dir, ifindex)) {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn filter(dir: &StateDir, ifindex: u32) -> Result<Option<FilterRecord>, AttachmentError> {
    let path = dir.pin(Section::Links, &pin(ifindex, FILTER));
    let bytes = match record::read(&path, RECORD) {
        Ok(bytes) => bytes,
        Err(RecordError::Open(error)) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let known = serde_json::from_slice(&bytes);
    let corrupt = |error| AttachmentError::Corrupt { ifindex, error };
    known.map(Some).map_err(corrupt)
}

impl Writer {
    /// Attaches the program to the ingress of a tenant's interface, in the calling thread's network
    /// namespace. Packets from it are looked at if it has a row. Where the program, or one of this
    /// instance that it has replaced, is already it stays where it is among the others; a link that holds
    /// it there and has lost its pin is pinned again, which takes CAP_SYS_ADMIN. One that an
    /// open exchange has put there, or has not come to yet, is left as well: an upgrade or a rollback
    /// ends that.
    ///
    /// Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The place is somebody else's, or the kernel refuses; nothing is attached then.
    pub fn attach(
        &mut self,
        ifindex: u32,
        options: &tc::Options,
    ) -> Result<Attached, AttachmentError> {
        let ours = Ours::of(&self.dir)?;
        let programs = ours.programs();
        if let Some(link) = self.link(&ours, ifindex)? {
            let state = link.state()?;
            if state.ifindex == Some(ifindex) {
                if programs.with_id(state.program_id).is_none() {
                    link.replace(&self.program)?;
                }
                return Ok(Attached::Tcx { link_id: state.id });
            }
            // The interface that had this index is gone.
            self.lock.unpin(Section::Links, &pin(ifindex, LINK))?;
        }
        if let Some(known) = filter(&self.dir, ifindex)? {
            let filter = known.filter(ifindex);
            let holder = Holder::Clsact(known.filter(ifindex), known.program_id);
            let there = holder.runs(ifindex, programs.all())?;
            if let Some(there) = there.filter(|&id| programs.with_id(id).is_some()) {
                return self.record_of(&filter, there);
            }
            if known.program_id != self.program.id() {
                match filter.replace(&self.program, known.program_id) {
                    Ok(()) => return self.record(&filter),
                    Err(AttachError::Gone { .. }) => {}
                    // Replaced by a process which died before it wrote that down.
                    Err(_) if self.runs_ours(&filter)? => return self.record(&filter),
                    Err(error) => return Err(error.into()),
                }
            }
            self.lock.unpin(Section::Links, &pin(ifindex, FILTER))?;
        }
        // One that was attached by a process which died before it wrote the record.
        if let Some(filter) = ClsactFilter::find(self.program.id(), ifindex)? {
            return self.record(&filter);
        }
        for program in programs.all() {
            if let Some(link) = TcxLink::find(program, ifindex)? {
                let (name, link_id) = (pin(ifindex, LINK), link.state()?.id);
                link.pin(&self.dir.pin(Section::Links, &name))?;
                let repair = Repair::link(&self.dir, &name, link_id);
                self.repaired(repair);
                return Ok(Attached::Tcx { link_id });
            }
        }
        match Attachment::new(&self.program, ifindex, options)? {
            Attachment::Tcx(link) => {
                link.pin(&link_pin(&self.dir, ifindex))?;
                let link_id = link.state()?.id;
                Ok(Attached::Tcx { link_id })
            }
            Attachment::Clsact(filter) => match self.record(&filter) {
                Ok(attached) => Ok(attached),
                Err(error) => {
                    filter.detach(self.program.id())?;
                    Err(error)
                }
            },
        }
    }

    /// The link that holds the program on an interface.
    ///
    /// # Errors
    /// It is not the instance's.
    fn link(&self, ours: &Ours, ifindex: u32) -> Result<Option<TcxLink>, AttachmentError> {
        let link = link(&self.dir, ifindex)?;
        if let Some(link) = &link {
            ours.require_link(ifindex, link)?;
        }
        Ok(link)
    }

    fn runs_ours(&self, filter: &ClsactFilter) -> Result<bool, AttachError> {
        let found = ClsactFilter::find(self.program.id(), filter.ifindex())?;
        Ok(found.is_some_and(|found| found.id() == filter.id()))
    }

    fn record(&self, filter: &ClsactFilter) -> Result<Attached, AttachmentError> {
        self.record_of(filter, self.program.id())
    }

    /// Writes down that a filter runs this program.
    pub(super) fn record_of(
        &self,
        filter: &ClsactFilter,
        program_id: u32,
    ) -> Result<Attached, AttachmentError> {
        let map = write_record(filter, program_id)?;
        let [draft, name] = [DRAFT, FILTER].map(|kind| pin(filter.ifindex(), kind));
        self.lock.unpin(Section::Links, &draft)?;
        map.pin(&self.dir.pin(Section::Links, &draft))?;
        self.lock.rename(Section::Links, &draft, &name)?;
        let filter = filter.id();
        Ok(Attached::Clsact { filter })
    }

    /// Removes records that were never finished.
    pub(super) fn remove_drafts(&self) -> Result<(), SysError> {
        let names = self.dir.pins(Section::Links)?.into_iter();
        for name in names.filter(|name| name.ends_with(DRAFT)) {
            self.lock.unpin(Section::Links, &name)?;
        }
        Ok(())
    }

    /// Takes the program off an interface and makes sure that it is gone; whether it was there.
    /// Packets pass it untouched from then on.
    ///
    /// # Errors
    /// The filter runs another program by now, which is left alone, or the kernel refuses.
    pub fn detach(&mut self, ifindex: u32) -> Result<bool, AttachmentError> {
        let mut was_there = false;
        let ours = Ours::of(&self.dir)?;
        if let Some(link) = self.link(&ours, ifindex)? {
            was_there |= link.detach()?;
            self.lock.unpin(Section::Links, &pin(ifindex, LINK))?;
        }
        if let Some(known) = filter(&self.dir, ifindex)? {
            let filter = known.filter(ifindex);
            let program_id = match self.runs_ours(&filter) {
                Ok(true) => self.program.id(),
                _ => known.program_id,
            };
            was_there |= filter.detach(program_id)?;
            self.lock.unpin(Section::Links, &pin(ifindex, FILTER))?;
        }
        // A link that has lost its pin holds it all the same.
        for program in ours.programs().all() {
            match TcxLink::find(program, ifindex) {
                Ok(Some(link)) => was_there |= link.detach()?,
                Ok(None) | Err(AttachError::NoInterface { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(was_there)
    }

    /// Removes the state of an instance that is attached nowhere, and says what it removed.
    ///
    /// # Errors
    /// It is attached, something of somebody else's is pinned among its programs and links, or something
    /// cannot be removed.
    pub fn remove(self) -> Result<Vec<String>, InstanceError> {
        self.refuse_purge()?;
        Ok(self.lock.remove()?)
    }
}
