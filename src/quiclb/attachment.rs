// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The instance's program on its interface.

use super::detach::take_off;
use super::error::{DetachError, InstanceError};
use super::instance::{QuicLb, Writer};
use super::ours::{pinned_link, pinned_programs};
use super::root_array::refuse_in_array;
use crate::id::InterfaceName;
use crate::kernel::attach::{
    display_name, interface_index, mode_of, occupant_text, occupants, AttachError, Attachment,
    LinkState, Mode, Occupant, XdpLink,
};
use crate::kernel::repair::Repair;
use crate::kernel::statedir::{Section, StateDir, StateDirLock, StateError};
use crate::plan::Hook;
use crate::service;

/// Name under which the link is pinned.
pub(super) const LINK: &str = "xdp";

/// What holds an instance's program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A link, pinned: the kernel refuses everybody else until it is detached.
    Link {
        /// The kernel's number of the link.
        link_id: u32,
    },
    /// Netlink, on kernels without links for XDP.
    Netlink,
}

/// An instance's program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attached {
    /// Index of the interface.
    pub ifindex: u32,
    /// Where in the receive path it runs.
    pub mode: Mode,
    /// What holds it there.
    pub holder: Holder,
    /// The kernel's number of the program that runs.
    pub program_id: u32,
}

impl QuicLb {
    /// The instance's program on this interface of the calling thread's network namespace; none if
    /// the interface does not run it, whatever another one runs.
    ///
    /// # Errors
    /// The pinned link cannot be read.
    pub fn attached(&self, interface: &InterfaceName) -> Result<Option<Attached>, AttachError> {
        let Some(ifindex) = index_of(interface)? else {
            return Ok(None);
        };
        if let Some(link) = self.pinned_link()? {
            let state = link.state()?;
            if let Some(mode) = mode_here(&state)?.filter(|_| state.ifindex == Some(ifindex)) {
                return Ok(Some(Attached {
                    ifindex,
                    mode,
                    holder: Holder::Link { link_id: state.id },
                    program_id: state.program_id,
                }));
            }
        }
        let program_id = self.program.id();
        Ok(mode_of(program_id, ifindex)?.map(|mode| Attached {
            ifindex,
            mode,
            holder: Holder::Netlink,
            program_id,
        }))
    }

    /// The programs on an interface that are not this instance's.
    ///
    /// # Errors
    /// The interface does not exist or cannot be asked.
    pub fn others_on(&self, interface: &InterfaceName) -> Result<Vec<Occupant>, AttachError> {
        let ifindex = interface_index(interface.as_str())?;
        let ours = self.attached(interface)?;
        let mut occupants = occupants(ifindex)?;
        occupants.retain(|other| ours.is_none_or(|ours| ours.program_id != other.program_id));
        Ok(occupants)
    }

    pub(super) fn pinned_link(&self) -> Result<Option<XdpLink>, AttachError> {
        pinned_link(&self.dir)
    }
}

/// Detaches and unpins the link if there is one; whether it held an interface.
pub(super) fn remove_link(lock: &StateDirLock) -> Result<Option<bool>, AttachError> {
    let Some(link) = pinned_link(lock.dir())? else {
        return Ok(None);
    };
    let held = link.state()?.ifindex.is_some();
    link.detach()?;
    lock.unpin(Section::Links, LINK)?;
    Ok(Some(held))
}

/// The mode in which the interface of a link runs its program; none if that interface is gone, or
/// in another network namespace, where indices mean other interfaces.
pub(super) fn mode_here(link: &LinkState) -> Result<Option<Mode>, AttachError> {
    let Some(ifindex) = link.ifindex else {
        return Ok(None);
    };
    match mode_of(link.program_id, ifindex) {
        Err(AttachError::NoInterface { .. }) => Ok(None),
        result => result,
    }
}

/// The index of an interface; none if it does not exist here.
pub(super) fn index_of(interface: &InterfaceName) -> Result<Option<u32>, AttachError> {
    match interface_index(interface.as_str()) {
        Ok(ifindex) => Ok(Some(ifindex)),
        Err(AttachError::NoInterface { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses if an interface runs a program that is not this instance's. Goes by pins alone, so that
/// it works before an instance is whole.
pub(super) fn refuse_occupied(
    dir: &StateDir,
    interface: &InterfaceName,
) -> Result<(), AttachError> {
    let Some(ifindex) = index_of(interface)? else {
        return Ok(());
    };
    let link = pinned_link(dir)?.map(|link| link.state()).transpose()?;
    let linked = link.filter(|link| link.ifindex == Some(ifindex));
    let pinned = pinned_programs(dir)?;
    let foreign = occupants(ifindex)?.into_iter().find(|occupant| {
        let id = occupant.program_id;
        linked.is_none_or(|link| link.program_id != id) && pinned.with_id(id).is_none()
    });
    match foreign {
        Some(occupant) => Err(AttachError::Occupied {
            interface: interface.to_string(),
            ifindex,
            occupant: Some(occupant),
        }),
        None => Ok(()),
    }
}

/// What is on the hook of an interface as an instance sees it, whether it exists yet or not.
pub(super) fn hook(dir: &StateDir, interface: &InterfaceName) -> Result<Hook, AttachError> {
    match refuse_occupied(dir, interface) {
        Ok(()) => Ok(Hook::Free),
        Err(AttachError::Occupied { occupant, .. }) => Ok(Hook::Occupied(occupant_text(&occupant))),
        Err(error) => Err(error),
    }
}

/// Refuses if the instance's program is attached to another interface, or in another mode. Goes by
/// pins alone, so that it works before an instance is whole.
pub(super) fn refuse_misplaced(
    dir: &StateDir,
    interface: &InterfaceName,
    mode: Mode,
) -> Result<(), AttachError> {
    let wanted = index_of(interface)?;
    let refused = |attached| {
        Err(AttachError::Attached {
            attached,
            interface: interface.to_string(),
            mode,
        })
    };
    if let Some(link) = pinned_link(dir)? {
        let state = link.state()?;
        let Some(ifindex) = state.ifindex else {
            return Ok(());
        };
        return match mode_here(&state)? {
            Some(found) if Some(ifindex) == wanted && found == mode => Ok(()),
            Some(found) => refused(sentence(ifindex, found)),
            None => refused(format!(
                "the program is attached to interface {ifindex} of another network namespace"
            )),
        };
    }
    let Some(ifindex) = wanted else {
        return Ok(());
    };
    for program in pinned_programs(dir)?.all() {
        match mode_of(program.id(), ifindex)? {
            Some(found) if found != mode => return refused(sentence(ifindex, found)),
            _ => {}
        }
    }
    Ok(())
}

fn sentence(ifindex: u32, mode: Mode) -> String {
    let interface = display_name(ifindex);
    format!("the program is attached to {interface} (index {ifindex}) in {mode} mode")
}

impl From<service::Mode> for Mode {
    fn from(mode: service::Mode) -> Self {
        match mode {
            service::Mode::Native => Self::Native,
            service::Mode::Generic => Self::Generic,
            service::Mode::Offload => Self::Hardware,
        }
    }
}

impl From<Mode> for service::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Native => Self::Native,
            Mode::Generic => Self::Generic,
            Mode::Hardware => Self::Offload,
        }
    }
}

impl Writer {
    /// Attaches the program to an interface of the calling thread's network namespace, unless it
    /// is there already in this mode. Never displaces anything.
    ///
    /// Publish first: an attached program without a generation passes every packet to the host.
    /// The attachment is pinned and outlives the process.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] names who holds the interface, [`AttachError::Attached`] where this
    /// program runs already, which is another interface or mode; the others say what the kernel or
    /// driver lacks.
    pub fn attach(
        &mut self,
        interface: &InterfaceName,
        mode: Mode,
    ) -> Result<Attached, AttachError> {
        let ifindex = interface_index(interface.as_str())?;
        refuse_misplaced(self.dir(), interface, mode)?;
        refuse_in_array(self.dir(), interface, mode)?;
        self.refuse_unlinked_elsewhere(interface, mode)?;
        if let Some(attached) = self.attached(interface)? {
            if attached.program_id == self.program.id() {
                return self.keep(attached);
            }
        }
        if let Some(attached) = self.exchange(ifindex, mode)? {
            return Ok(attached);
        }
        // A link that lost its interface is ours by its pin, and in the way.
        remove_link(&self.lock)?;
        let program_id = self.program.id();
        let holder = match Attachment::new(&self.program, ifindex, mode)? {
            Attachment::Link(link) => {
                link.pin(&self.pin(Section::Links, LINK))?;
                Holder::Link {
                    link_id: link.state()?.id,
                }
            }
            Attachment::Netlink(_) => Holder::Netlink,
        };
        Ok(Attached {
            ifindex,
            mode,
            holder,
            program_id,
        })
    }

    /// Gives the pinned link this program, if it holds another of this instance where this one is
    /// to be: one whose pin was lost. No packet is missed.
    fn exchange(&self, ifindex: u32, mode: Mode) -> Result<Option<Attached>, AttachError> {
        let Some(link) = self.pinned_link()? else {
            return Ok(None);
        };
        let state = link.state()?;
        let mut there = occupants(ifindex)?.into_iter();
        let holds = there.any(|other| other.mode == mode && other.program_id == state.program_id);
        if state.ifindex != Some(ifindex) || !holds {
            return Ok(None);
        }
        link.replace(&self.program)?;
        Ok(Some(Attached {
            ifindex,
            mode,
            holder: Holder::Link { link_id: state.id },
            program_id: self.program.id(),
        }))
    }

    /// Refuses if no pinned link tells where the program is, and the interface of the live
    /// generation, another one, runs it.
    fn refuse_unlinked_elsewhere(
        &self,
        interface: &InterfaceName,
        mode: Mode,
    ) -> Result<(), AttachError> {
        // A generation that cannot be read names no interface.
        let Ok(Some(live)) = self.live_record() else {
            return Ok(());
        };
        let published = live.spec().interface();
        if published == interface {
            return Ok(());
        }
        match self.attached(published)? {
            Some(attached) => Err(AttachError::Attached {
                attached: sentence(attached.ifindex, attached.mode),
                interface: interface.to_string(),
                mode,
            }),
            None => Ok(()),
        }
    }

    /// Pins the link that holds the program where its pin was lost.
    fn keep(&mut self, attached: Attached) -> Result<Attached, AttachError> {
        let link = match attached.holder {
            Holder::Link { .. } => None,
            Holder::Netlink => XdpLink::find(&self.program, attached.ifindex),
        };
        let Some(link) = link else {
            return Ok(attached);
        };
        link.pin(&self.pin(Section::Links, LINK))?;
        let link_id = link.state()?.id;
        let repair = Repair::link(self.dir(), LINK, link_id);
        self.repairs.push(repair);
        Ok(Attached {
            holder: Holder::Link { link_id },
            ..attached
        })
    }

    /// Takes the program off its interface. Generations, counters and maps stay for a later
    /// attachment. Whether it was attached.
    ///
    /// # Errors
    /// Somebody else's program is left alone and named.
    pub fn detach(&mut self) -> Result<bool, DetachError> {
        Ok(take_off(&self.lock)?.detached)
    }

    /// Removes the whole state of a detached instance; gives the names of what it removed.
    ///
    /// # Errors
    /// The instance is still attached, or something could not be removed.
    pub fn purge(self) -> Result<Vec<String>, InstanceError> {
        let Self { balancer, lock, .. } = self;
        drop(balancer);
        lock.remove().map_err(|error: StateError| error.into())
    }
}
