// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Published rows that were lost for good: their map had to be made anew, and nobody has published
//! since.
//!
//! An empty map does not say whether it should be. So one that was made anew is pinned a second time,
//! beside what is published; that means something as long as it is in use and empty.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use super::instance::{Egress, Writer};
use crate::kernel::map::Map;
use crate::kernel::statedir::{Section, StateDirLock};
use crate::kernel::SysError;

/// Rows that come from who publishes, and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rows {
    /// Interfaces of tenants.
    Tenants,
    /// Their routes.
    Routes,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tenants => "tenants",
            Self::Routes => "routes",
        })
    }
}

impl Rows {
    const ALL: [Self; 2] = [Self::Tenants, Self::Routes];

    /// The rows that are in the map of this name.
    fn of(map: &str) -> Option<Self> {
        match map {
            "gw_tenants" => Some(Self::Tenants),
            "gw_routes" => Some(Self::Routes),
            _ => None,
        }
    }

    /// Name of the second pin of their map.
    fn pin(self) -> String {
        format!("lost-{self}")
    }
}

impl Egress {
    /// Published rows that were lost with their map, and that nobody has published since: tenants'
    /// packets pass, or find no route, until somebody does.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn lost_rows(&self) -> Result<Vec<Rows>, SysError> {
        let mut lost = Vec::new();
        for rows in Rows::ALL {
            let pin = self.dir.pin(Section::Generations, &rows.pin());
            let made_anew = Map::open_any(&pin).ok();
            let is_it = made_anew.is_some_and(|map| map.id() == self.map_of(rows).id());
            if is_it && self.is_empty(rows)? {
                lost.push(rows);
            }
        }
        Ok(lost)
    }

    fn map_of(&self, rows: Rows) -> &Map {
        match rows {
            Rows::Tenants => self.maps.tenants.map(),
            Rows::Routes => self.maps.routes.map(),
        }
    }

    fn is_empty(&self, rows: Rows) -> Result<bool, SysError> {
        let mut empty = true;
        let mut found = || {
            empty = false;
            ControlFlow::Break(())
        };
        match rows {
            Rows::Tenants => self.maps.tenants.for_each(|_, _| found())?,
            Rows::Routes => self.maps.routes.for_each(|_, _| found())?,
        }
        Ok(empty)
    }

    /// Keeps in mind for an instance that takes this one's place what is lost: `pin` tells where, by
    /// its name.
    pub(super) fn keep_lost_rows(
        &self,
        successor: &Self,
        pin: impl Fn(&str) -> PathBuf,
    ) -> Result<(), SysError> {
        for rows in self.lost_rows()? {
            successor.map_of(rows).pin(&pin(&rows.pin()))?;
        }
        Ok(())
    }
}

/// Keeps in mind that the map of this name is made anew, before it takes its place.
pub(super) fn note(lock: &StateDirLock, name: &str, map: &Map) -> Result<(), SysError> {
    let Some(rows) = Rows::of(name) else {
        return Ok(());
    };
    lock.unpin(Section::Generations, &rows.pin())?;
    map.pin(&lock.dir().pin(Section::Generations, &rows.pin()))
}

impl Writer {
    /// Forgets what was lost where somebody has published since.
    pub(super) fn forget_found_rows(&self) -> Result<(), SysError> {
        let lost = self.lost_rows()?;
        for rows in Rows::ALL.into_iter().filter(|rows| !lost.contains(rows)) {
            self.lock.unpin(Section::Generations, &rows.pin())?;
        }
        Ok(())
    }

    /// Forgets what was lost: what there is now is what there should be. What cannot be removed is by
    /// the next who publishes.
    pub(super) fn forget_lost_rows(&self) {
        for rows in Rows::ALL {
            let _ = self.lock.unpin(Section::Generations, &rows.pin());
        }
    }
}
