// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets go over from one state to another, or back, and what an interrupted migration left is ended.

use super::copy::{CopiedRows, Copy};
use super::error::MigrateError;
use super::run::Observer;
use super::Step;
use crate::egress::adjust::Adjuster;
use crate::egress::attachment::Holder;
use crate::egress::ours::refuse_foreign;
use crate::egress::{Egress, InstanceError};
use crate::kernel::barrier::wait_for_packets;
use crate::kernel::statedir::StateDirLock;

/// What became of a migration that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Settled {
    /// There was none.
    Sound,
    /// It had not begun to change what packets meet, or had ended: what it left was removed.
    Cleared,
    /// Packets met the new program on some interface, and do on all now.
    Finished,
    /// It could not be finished: packets meet the old program on all interfaces.
    Undone,
}

/// Old and new state, and the interfaces that go over.
pub(super) struct Takeover<'a> {
    old: &'a Egress,
    new: &'a Egress,
    holders: Vec<(u32, Holder)>,
    /// Loaded before packets meet anything else: what fails has changed nothing then.
    adjusters: Adjusters,
}

struct Adjusters {
    old: Adjuster,
    new: Adjuster,
}

impl<'a> Takeover<'a> {
    pub(super) fn new(old: &'a Egress, new: &'a Egress) -> Result<Self, MigrateError> {
        let holders = old.holders()?;
        let adjusters = Adjusters {
            old: Adjuster::load(old)?,
            new: Adjuster::load(new)?,
        };
        Ok(Self {
            old,
            new,
            holders,
            adjusters,
        })
    }

    pub(super) fn holders(&self) -> &[(u32, Holder)] {
        &self.holders
    }

    /// Has every interface run the new program, and the new maps hold all that packets did in the old
    /// ones; the interfaces that do.
    pub(super) fn forwards(
        &self,
        copied: &mut CopiedRows,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<u32>, MigrateError> {
        let mut interfaces = Vec::new();
        for (ifindex, holder) in &self.holders {
            let exchange = || holder.exchange(&self.old.program, &self.new.program);
            if observer.step(Step::Exchange, || Ok(exchange()?))? {
                interfaces.push(*ifindex);
            }
        }
        observer.step(Step::CopyAgain, || {
            let (from, to) = (self.old, self.new);
            Copy { from, to }.take_over(&self.adjusters.new, copied)
        })?;
        Ok(interfaces)
    }

    /// Has every interface run the old program again, with all that packets did in the new maps.
    pub(super) fn back(&self) -> Result<(), MigrateError> {
        for (_, holder) in &self.holders {
            holder.exchange(&self.new.program, &self.old.program)?;
        }
        let (from, to) = (self.new, self.old);
        Copy { from, to }.take_over(&self.adjusters.old, &mut CopiedRows::default())
    }
}

impl Copy<'_> {
    /// What packets did until now, which none does any more.
    fn take_over(&self, adjuster: &Adjuster, copied: &mut CopiedRows) -> Result<(), MigrateError> {
        wait_for_packets().map_err(InstanceError::from)?;
        let late = self.pins()?;
        copied.pins += late.copied;
        copied.late_pins += late.copied;
        copied.refused_pins += late.refused;
        let recounted = self.recount(adjuster);
        copied.uncertain_tenants = recounted.map_err(InstanceError::from)?;
        self.counters(adjuster).map_err(InstanceError::from)?;
        Ok(())
    }
}

/// Ends what a migration left that was interrupted.
///
/// # Errors
/// Neither can packets be brought to the one state nor to the other.
pub(in crate::egress) fn settle(lock: &mut StateDirLock) -> Result<Settled, InstanceError> {
    let dir = lock.dir().clone();
    dir.remove_leftovers()?;
    let next = dir.next();
    let taken_over = dir.is_taken_over()?;
    if !next.exists()? {
        // A successor is removed after packets are back.
        lock.end_takeover()?;
        return Ok(Settled::Sound);
    }
    let mut next_lock = next.lock()?;
    let settled = match taken_over {
        false => Settled::Cleared,
        true => {
            refuse_foreign(&dir)?;
            let (old, new) = (Egress::open(&dir)?, Egress::open(&next)?);
            finish(&old, &new, lock, &mut next_lock).map_err(|error| match error {
                MigrateError::Instance(error) => error,
                error => InstanceError::Unfinished {
                    path: dir.path().display().to_string(),
                    reason: error.to_string(),
                },
            })?
        }
    };
    next_lock.discard()?;
    Ok(settled)
}

fn finish(
    old: &Egress,
    new: &Egress,
    lock: &mut StateDirLock,
    next: &mut StateDirLock,
) -> Result<Settled, MigrateError> {
    let takeover = Takeover::new(old, new)?;
    let mut go_on = |_| Ok(());
    let mut observer = Observer(&mut go_on);
    let forwards = takeover.forwards(&mut CopiedRows::default(), &mut observer);
    let exchanged = forwards.and_then(|_| {
        observer.step(Step::Commit, || {
            Ok(lock.exchange(next).map_err(instance)?)
        })
    });
    let Err(error) = exchanged else {
        return Ok(Settled::Finished);
    };
    match takeover.undo(lock, error) {
        error @ MigrateError::Stuck { .. } => Err(error),
        _ => Ok(Settled::Undone),
    }
}

pub(super) fn instance(error: crate::kernel::SysError) -> InstanceError {
    error.into()
}

impl Takeover<'_> {
    /// Undoes what was done before a failure: gives back why it failed, or that it is stuck.
    pub(super) fn undo(&self, lock: &StateDirLock, error: MigrateError) -> MigrateError {
        let end = || Ok(lock.end_takeover().map_err(instance)?);
        match self.back().and_then(|()| end()) {
            Ok(()) => error,
            Err(undo) => MigrateError::Stuck {
                error: Box::new(error),
                undo: Box::new(undo),
            },
        }
    }
}
