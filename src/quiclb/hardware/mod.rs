// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer on a network card: the same plans and the same calls, other maps.
//!
//! A card's maps are plain hash tables, so a generation is not one map that is swapped in: its
//! elements carry its number in their keys, and packets follow the number in one word that is
//! written last. What other numbers have left is swept only after a grace interval, because nothing
//! tells when the last packet of the old generation has left the card.
//!
//! What a process without such a card can prove is told in [the guide](crate::guide::offload).

mod age;
mod loader;
mod maps;
mod publish;
mod status;

use std::ops::Deref;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc;

use super::attachment::{refuse_misplaced, remove_link, Attached, Holder, LINK};
use super::error::{InstanceError, PlanError};
use super::instance::{PATIENCE, PROGRAM};
use super::layout::require_current;
use super::live::{record_pin, RECORD};
use super::observe::observe_for;
use super::ours::pinned_link;
use crate::id::{InstanceId, InterfaceName};
use crate::kernel::attach::{interface_index, AttachError, Attachment, Mode, XdpLink};
use crate::kernel::program::Program;
use crate::kernel::record;
use crate::kernel::statedir::{Section, StateDir, StateDirLock};
use crate::kernel::PinError;
use crate::plan::{plan, Live, Options, Plan};
use crate::service::Spec;

pub use age::{Aged, AgedSchema, EPOCH};
pub use loader::{HardwareAcknowledged, HardwareLoader};
use maps::Maps;
pub use status::{CardAttachment, CardFlows, CardSchema, CardServiceStatus, CardStatus};

/// After a process begins with an instance, and after it has published, so long nothing is swept
/// that packets might still see.
pub const GRACE: Duration = Duration::from_secs(1);

/// An instance on a network card to look at. Reading takes no lock and never changes anything.
#[derive(Debug)]
pub struct HardwareLb {
    dir: StateDir,
    program: Program,
    maps: Maps,
}

/// An instance on a network card to change: the only one, as long as it lives.
///
/// Holds the exclusive lock on the state directory. Everything that [`HardwareLb`] offers is there
/// too. Dropping it changes nothing: what was published and attached stays.
#[derive(Debug)]
pub struct HardwareWriter {
    card: HardwareLb,
    lock: StateDirLock,
    grace: Duration,
    /// Since when no other generation has become the live one.
    settled: Instant,
}

impl Deref for HardwareWriter {
    type Target = HardwareLb;

    fn deref(&self) -> &HardwareLb {
        &self.card
    }
}

impl HardwareLb {
    /// Opens an instance to look at it. Minimum kernel: 6.1; takes CAP_BPF.
    ///
    /// # Errors
    /// No such instance, one that runs on CPUs, state of another version, a card that has gone, or
    /// pins that are missing or do not fit.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        if dir.exists()? && !maps::is_on_card(dir) {
            return Err(InstanceError::Profile {
                path: dir.path().display().to_string(),
                found: "CPUs",
            });
        }
        require_current(dir)?;
        let program = dir.pin(Section::Programs, PROGRAM);
        Ok(Self {
            dir: dir.clone(),
            program: Program::open(&program).map_err(|error| refused(&program, error))?,
            maps: Maps::pinned(dir)?,
        })
    }

    /// The instance's name.
    pub fn instance_id(&self) -> InstanceId {
        self.dir.instance()
    }

    /// Where its objects are pinned.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Number of the generation that packets follow, read from the card; none before the first.
    ///
    /// # Errors
    /// The card cannot be asked.
    pub fn live_number(&self) -> Result<Option<u64>, InstanceError> {
        let number = self.maps.active.get(0)?.generation;
        Ok((number != 0).then_some(number))
    }

    /// The live generation with what was stored with it, for the next plan.
    ///
    /// # Errors
    /// As [`live_number`](Self::live_number), or the record is unreadable.
    pub fn live_record(&self) -> Result<Option<Live>, InstanceError> {
        let Some(number) = self.live_number()? else {
            return Ok(None);
        };
        let path = self.dir.pin(Section::Generations, &record_pin(number));
        let bytes = record::read(&path, RECORD)?;
        Ok(Some(Live::from_record(&bytes, &self.maps.meta.get(0)?)?))
    }

    /// Plans the change from what is live to `spec`, on this machine as it is now. Changes nothing.
    ///
    /// # Errors
    /// Everything that stands against the plan, or what kept it from being made.
    pub fn plan(&self, spec: &Spec, options: Options) -> Result<Plan, PlanError> {
        let world = observe_for(&self.dir, spec)?;
        Ok(plan(self.live_record()?.as_ref(), spec, &world, options)?)
    }
}

impl HardwareWriter {
    /// Opens an existing instance to change it, and takes its lock, for which it waits up to two
    /// seconds. Making one takes a [`HardwareLoader`].
    ///
    /// # Errors
    /// As [`HardwareLb::open`], and the lock is held by another process.
    pub fn open(dir: &StateDir) -> Result<Self, InstanceError> {
        let lock = dir.lock_within(PATIENCE)?;
        Ok(Self {
            card: HardwareLb::open(dir)?,
            lock,
            grace: GRACE,
            settled: Instant::now(),
        })
    }

    /// Attaches the program to an interface of the calling thread's network namespace, on its card
    /// and nowhere else: there is no fallback to a CPU. Never displaces anything.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] names who holds the interface, [`AttachError::Attached`] where this
    /// program runs already; the others say what the driver said.
    pub fn attach(&mut self, interface: &InterfaceName) -> Result<Attached, AttachError> {
        let mode = Mode::Hardware;
        let ifindex = interface_index(interface.as_str())?;
        refuse_misplaced(&self.dir, interface, mode)?;
        let program_id = self.program.id();
        if let Some(link) = pinned_link(&self.dir)? {
            let state = link.state()?;
            if state.ifindex == Some(ifindex) && state.program_id == program_id {
                return held(&link, ifindex, program_id);
            }
        }
        // A link that lost its interface is ours by its pin, and in the way.
        remove_link(&self.lock)?;
        match Attachment::new(&self.program, ifindex, mode)? {
            Attachment::Link(link) => {
                link.pin(&self.dir.pin(Section::Links, LINK))?;
                held(&link, ifindex, program_id)
            }
            Attachment::Netlink(_) => Ok(Attached {
                ifindex,
                mode,
                holder: Holder::Netlink,
                program_id,
            }),
        }
    }

    /// Removes the whole state of a detached instance; gives the names of what it removed.
    ///
    /// # Errors
    /// The instance is still attached, or something could not be removed.
    pub fn purge(self) -> Result<Vec<String>, InstanceError> {
        Ok(self.lock.remove()?)
    }
}

/// Why a pinned program cannot be opened. The kernel keeps one whose card has gone, and tells
/// nothing of it any more.
fn refused(path: &Path, error: PinError) -> InstanceError {
    match error {
        PinError::Sys(error) if error.errno == libc::ENODEV => InstanceError::Gone {
            path: path.display().to_string(),
        },
        error => error.into(),
    }
}

fn held(link: &XdpLink, ifindex: u32, program_id: u32) -> Result<Attached, AttachError> {
    Ok(Attached {
        ifindex,
        mode: Mode::Hardware,
        holder: Holder::Link {
            link_id: link.state()?.id,
        },
        program_id,
    })
}

pub(super) use maps::is_on_card;

/// Refuses if the instance runs on a network card, whose maps are others.
pub(super) fn refuse_card(dir: &StateDir) -> Result<(), InstanceError> {
    if !maps::is_on_card(dir) {
        return Ok(());
    }
    Err(InstanceError::Profile {
        path: dir.path().display().to_string(),
        found: "a network card",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::SysError;

    #[test]
    fn a_program_whose_card_has_gone_is_not_one_to_apply_again() {
        let refused = |errno| {
            let error = SysError::new("read about", "program", errno);
            refused(Path::new("/some/pin"), error.into())
        };
        let gone = refused(libc::ENODEV);
        assert!(matches!(gone, InstanceError::Gone { .. }), "{gone}");
        assert!(gone
            .remedy()
            .is_some_and(|remedy| remedy.contains("--purge")));
        assert!(!gone.may_pass());
        let missing = refused(libc::ENOENT);
        assert!(matches!(missing, InstanceError::Pin(_)), "{missing}");
    }
}
