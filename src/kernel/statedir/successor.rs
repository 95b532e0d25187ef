// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Another state directory in the place of one, in one step.
//!
//! The successor is made beside it, as every directory is, and gets the name `next-NAME` when it is
//! whole. From then on it survives its maker. The two change names in one step, and the one that was
//! there before is removed. While packets go over from the one to the other, a directory in the old
//! one says so: whoever finds it knows that the successor must be taken up or given up.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use nix::fcntl::RenameFlags;

use super::lock::{rename, Draft, StateDirLock};
use super::{StateDir, StateError};
use crate::kernel::SysError;

/// Name of the directory that is there while packets go over to the successor.
const TAKEOVER: &str = "takeover";
const NEXT_PREFIX: &str = "next-";

impl StateDir {
    /// The directory that is to take the place of this one, whether it exists or not.
    #[must_use]
    pub(crate) fn next(&self) -> Self {
        let name = self.path.file_name().unwrap_or_default();
        let path = self
            .parent
            .join(format!("{NEXT_PREFIX}{}", name.to_string_lossy()));
        Self {
            path,
            ..self.clone()
        }
    }

    /// Whether packets were going over to the successor, of this one.
    ///
    /// # Errors
    /// The process may not look.
    pub(crate) fn is_taken_over(&self) -> Result<bool, SysError> {
        let path = self.takeover();
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(SysError::from_io("look at", path.display(), &e)),
        }
    }

    fn takeover(&self) -> PathBuf {
        self.path.join(TAKEOVER)
    }

    /// What tells the directory at this path from another one that has the path later; none if there
    /// is no directory.
    #[must_use]
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let metadata = self.path.symlink_metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

impl StateDirLock {
    /// An empty directory that becomes the [successor](StateDir::next) when it is published.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn draft_next(&self) -> Result<Draft, StateError> {
        self.dir.next().draft_of()
    }

    /// Says that packets go over to the successor from now on.
    ///
    /// # Errors
    /// That cannot be written down.
    pub(crate) fn begin_takeover(&self) -> Result<(), SysError> {
        let path = self.dir.takeover();
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(|e| SysError::from_io("create", path.display(), &e)),
        }
    }

    /// Says that no packet meets the successor any more.
    ///
    /// # Errors
    /// That cannot be written down.
    pub(crate) fn end_takeover(&self) -> Result<(), SysError> {
        let path = self.dir.takeover();
        match fs::remove_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|e| SysError::from_io("remove", path.display(), &e)),
        }
    }

    /// Lets this directory and its successor change names, in one step: afterwards each lock is that
    /// of the directory which has the name now.
    ///
    /// # Errors
    /// The kernel refuses; nothing has changed.
    pub(crate) fn exchange(&mut self, next: &mut Self) -> Result<(), SysError> {
        rename(&next.dir.path, &self.dir.path, RenameFlags::RENAME_EXCHANGE)?;
        std::mem::swap(&mut self._lock, &mut next._lock);
        Ok(())
    }

    /// Removes a directory that is nobody's state: a successor that was given up, or what a successor
    /// has replaced. Programs and links that are pinned elsewhere, too, stay.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub(crate) fn discard(self) -> Result<(), SysError> {
        self.remove_all().map(drop)
    }
}
