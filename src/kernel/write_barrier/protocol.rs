// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The order in which the two locks are taken, apart from what the locks are.
//!
//! Shared: the gate shared, the routes shared, the gate given back. Exclusive: the gate, then the
//! routes, both exclusively and both kept. Who has the gate exclusively lets nobody else begin, so
//! those who hold the routes become fewer and no stream of others can keep them.

use super::Mode;

/// One of the two locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Locked first.
    Gate,
    /// Locked second.
    Routes,
}

/// The two locks as one taker has them.
pub(super) trait Locks {
    /// Why a lock cannot be taken at all.
    type Error;

    /// Takes a lock unless others hold it in a way that excludes this; whether it was taken.
    fn try_lock(&mut self, place: Place, mode: Mode) -> Result<bool, Self::Error>;

    /// Gives a lock back.
    fn unlock(&mut self, place: Place) -> Result<(), Self::Error>;
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Others hold this lock.
    Blocked(Place),
    /// There is a next step.
    Advanced,
    /// The barrier is held.
    Taken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Outside,
    AtGate,
    Inside,
}

/// Somebody who takes the barrier. Each step is one operation on one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Taking {
    mode: Mode,
    stage: Stage,
}

impl Taking {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            stage: Stage::Outside,
        }
    }

    pub(super) fn step<L: Locks>(&mut self, locks: &mut L) -> Result<Step, L::Error> {
        let (place, next) = match (self.stage, self.mode) {
            (Stage::Outside, _) => (Place::Gate, Stage::AtGate),
            (Stage::AtGate, _) => (Place::Routes, Stage::Inside),
            (Stage::Inside, Mode::Shared) => {
                locks.unlock(Place::Gate)?;
                return Ok(Step::Taken);
            }
            (Stage::Inside, Mode::Exclusive) => return Ok(Step::Taken),
        };
        if !locks.try_lock(place, self.mode)? {
            return Ok(Step::Blocked(place));
        }
        self.stage = next;
        Ok(Step::Advanced)
    }
}

#[cfg(test)]
mod tests;
