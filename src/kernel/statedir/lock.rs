// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Changing a state directory: the lock, the making of a new one, the removal.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{renameat2, Flock, FlockArg, RenameFlags};
use nix::libc;

use super::{names_in, Owner, Section, StateDir, StateError};
use crate::kernel::SysError;

/// Time between two attempts to take a lock.
const RETRY: Duration = Duration::from_millis(3);

/// What a directory is called before it is complete, and after it was given up.
const DRAFT_PREFIX: &str = "new-";
const REMOVED_PREFIX: &str = "old-";

/// Name of the directory that the publisher locks.
const PUBLISHER: &str = "publisher";

impl StateDir {
    /// Takes the exclusive right to change the instance, or fails at once.
    pub fn lock(&self) -> Result<StateDirLock, StateError> {
        self.root.check()?;
        loop {
            match lock_directory(&self.path) {
                Ok(Some(lock)) => {
                    return Ok(StateDirLock {
                        dir: self.clone(),
                        _lock: lock,
                    })
                }
                // It was removed, and maybe made anew, between opening and locking.
                Ok(None) => {}
                Err(StateError::Sys(error)) if error.is_not_found() => {
                    return Err(self.no_instance())
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`lock`](Self::lock), but waits so long for another process that holds it.
    pub fn lock_within(&self, patience: Duration) -> Result<StateDirLock, StateError> {
        // A time beyond what the clock can tell never comes.
        let end = Instant::now().checked_add(patience);
        loop {
            match self.lock() {
                // Whoever holds it for long is no collector, which takes it step by step.
                Err(StateError::Locked { .. }) if end.is_none_or(|end| Instant::now() < end) => {
                    std::thread::sleep(RETRY);
                }
                result => return result,
            }
        }
    }

    /// Starts a new instance, and removes what interrupted starts and removals left behind.
    pub fn draft(&self) -> Result<Draft, StateError> {
        if self.exists()? {
            return Err(StateError::Exists {
                instance: self.owner.to_string(),
            });
        }
        make_directory(&self.parent)?;
        self.draft_of()
    }

    /// An empty draft that will have this directory's name, beside what may have it now.
    pub(super) fn draft_of(&self) -> Result<Draft, StateError> {
        sweep_leftovers(&self.parent)?;
        for number in 0_u32.. {
            let name = format!("{DRAFT_PREFIX}{}-{number}", self.owner);
            let path = self.parent.join(name);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(SysError::from_io("create", path.display(), &e).into()),
            }
            let lock = match lock_directory(&path) {
                Ok(Some(lock)) => lock,
                // Another process that sweeps leftovers was faster than the lock.
                Ok(None) | Err(StateError::Locked { .. }) => continue,
                Err(StateError::Sys(error)) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            for section in Section::ALL {
                make_directory(&path.join(section.name()))?;
            }
            if self.owner == Owner::Egress {
                make_directory(&path.join(PUBLISHER))?;
            }
            let draft = StateDir {
                path,
                ..self.clone()
            };
            return Ok(Draft {
                inner: Some((draft, lock)),
                dir: self.clone(),
            });
        }
        // Four thousand million other drafts.
        Err(StateError::Locked {
            path: self.parent.display().to_string(),
        })
    }
}

impl StateDir {
    /// Takes the right to be the only process that brings the instance in line, for as long as it
    /// is held: the control loop's, or that of who applies a document. Locks of single changes are
    /// taken beside it. The instance must exist.
    ///
    /// # Errors
    /// [`StateError::Publisher`] at once, if another process has it.
    pub fn publisher(&self) -> Result<PublisherLock, StateError> {
        if !self.exists()? {
            return Err(self.no_instance());
        }
        let path = self.path.join(PUBLISHER);
        loop {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(SysError::from_io("create", path.display(), &e).into())
                }
                _ => {}
            }
            match lock_directory(&path) {
                Ok(Some(lock)) => return Ok(PublisherLock { _lock: lock }),
                // The instance was removed, and maybe made anew, meanwhile.
                Ok(None) => {}
                Err(StateError::Locked { .. }) => {
                    return Err(StateError::Publisher {
                        holder: holder(&path).unwrap_or_else(|| "another process".to_owned()),
                        path: self.path.display().to_string(),
                    })
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes sure that directories of the root's file system can be locked.
    ///
    /// # Errors
    /// They cannot, or the root cannot be opened.
    pub fn can_lock(&self) -> Result<(), StateError> {
        let path = self.root.path();
        let file = File::open(path).map_err(|e| SysError::from_io("open", path.display(), &e))?;
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) | Err((_, Errno::EWOULDBLOCK)) => Ok(()),
            Err((_, errno)) => Err(SysError::from_nix("lock", path.display(), errno).into()),
        }
    }

    /// What processes that died while they made or removed this instance have left behind.
    ///
    /// # Errors
    /// The root is no bpffs, or cannot be looked at.
    pub fn leftovers(&self) -> Result<Vec<PathBuf>, StateError> {
        self.root.check()?;
        let mut paths = Vec::new();
        for path in self.unfinished()? {
            if let Ok(Some(_lock)) = lock_directory(&path) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Removes [`leftovers`](Self::leftovers); gives the names of what it removed.
    ///
    /// # Errors
    /// Something could not be removed.
    pub fn remove_leftovers(&self) -> Result<Vec<String>, StateError> {
        self.root.check()?;
        let mut removed = Vec::new();
        for path in self.unfinished()? {
            if let Ok(Some(_lock)) = lock_directory(&path) {
                let name = file_name(&path);
                remove_tree(&path, &name, &mut removed)?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Directories under which this instance was made or removed, whether a process still does.
    fn unfinished(&self) -> Result<Vec<PathBuf>, StateError> {
        let of = [DRAFT_PREFIX, REMOVED_PREFIX].map(|prefix| format!("{prefix}{}-", self.owner));
        let names = names_in(&self.parent)?.into_iter();
        let names = names.filter(|name| of.iter().any(|prefix| name.starts_with(prefix)));
        Ok(names.map(|name| self.parent.join(name)).collect())
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Locks a directory; `None` if the path is another directory by now.
fn lock_directory(path: &Path) -> Result<Option<Flock<File>>, StateError> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(|e| SysError::from_io("open", path.display(), &e))?;
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, Errno::EWOULDBLOCK)) => {
            return Err(StateError::Locked {
                path: path.display().to_string(),
            })
        }
        Err((_, errno)) => return Err(SysError::from_nix("lock", path.display(), errno).into()),
    };
    let ours = lock
        .metadata()
        .map_err(|e| SysError::from_io("look at", path.display(), &e))?;
    let same = |there: fs::Metadata| there.ino() == ours.ino() && there.dev() == ours.dev();
    Ok(path.symlink_metadata().is_ok_and(same).then_some(lock))
}

/// Which process has locked a directory, as far as this one may see it.
fn holder(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let holder = locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 4711 00:1f:53 0 EOF`; a waiting one has an arrow behind the number.
        let mut words = line.split_whitespace().skip(1);
        let flock = words.next() == Some("FLOCK");
        let mut words = words.skip(2);
        let process: u32 = words.next()?.parse().ok()?;
        (flock && words.next() == Some(&file)).then_some(process)
    })?;
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap_or_default();
    Some(match name.trim() {
        "" => format!("process {holder}"),
        name => format!("process {holder} ({name})"),
    })
}

fn make_directory(path: &Path) -> Result<(), SysError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| SysError::from_io("create", path.display(), &e))
}

pub(super) fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), SysError> {
    let here = nix::fcntl::AT_FDCWD;
    renameat2(here, from, here, to, flags)
        .map_err(|errno| SysError::from_nix("rename to", to.display(), errno))
}

/// Removes drafts and removed directories whose process is gone: nobody holds their lock.
fn sweep_leftovers(parent: &Path) -> Result<(), StateError> {
    for name in names_in(parent)? {
        if !name.starts_with(DRAFT_PREFIX) && !name.starts_with(REMOVED_PREFIX) {
            continue;
        }
        let path = parent.join(name);
        if let Ok(Some(_lock)) = lock_directory(&path) {
            remove_tree(&path, "", &mut Vec::new())?;
        }
    }
    Ok(())
}

/// Removes a directory with all in it, and notes the names.
fn remove_tree(path: &Path, name: &str, removed: &mut Vec<String>) -> Result<(), SysError> {
    let error = |path: &Path, e: &io::Error| SysError::from_io("remove", path.display(), e);
    for entry in names_in(path)? {
        let child = path.join(&entry);
        let name = if name.is_empty() {
            entry
        } else {
            format!("{name}/{entry}")
        };
        let metadata = child.symlink_metadata().map_err(|e| error(&child, &e))?;
        if metadata.is_dir() {
            remove_tree(&child, &name, removed)?;
        } else {
            fs::remove_file(&child).map_err(|e| error(&child, &e))?;
            removed.push(name);
        }
    }
    fs::remove_dir(path).map_err(|e| error(path, &e))
}

/// A new instance that nobody sees yet. Dropped before [`Self::publish`] it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    dir: StateDir,
    inner: Option<(StateDir, Flock<File>)>,
}

impl Draft {
    /// The directory as it is called for now.
    pub fn path(&self) -> &Path {
        match &self.inner {
            Some((draft, _)) => &draft.path,
            None => &self.dir.path,
        }
    }

    /// Where an object of this name is pinned for now.
    pub fn pin(&self, section: Section, name: &str) -> PathBuf {
        match &self.inner {
            Some((draft, _)) => draft.pin(section, name),
            None => self.dir.pin(section, name),
        }
    }

    /// Gives the instance its name, whole and locked. If it exists by now, nothing is changed.
    pub fn publish(mut self) -> Result<StateDirLock, StateError> {
        if let Some((draft, _)) = &self.inner {
            match rename(&draft.path, &self.dir.path, RenameFlags::RENAME_NOREPLACE) {
                Err(error) if error.errno == libc::EEXIST => {
                    return Err(StateError::Exists {
                        instance: self.dir.owner.to_string(),
                    })
                }
                result => result?,
            }
        }
        match self.inner.take() {
            Some((_, lock)) => Ok(StateDirLock {
                dir: self.dir.clone(),
                _lock: lock,
            }),
            // Taken here only, and this consumes the draft.
            None => self.dir.lock(),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some((draft, _lock)) = self.inner.take() {
            // What cannot be removed now is removed by whoever makes the next draft.
            let _ = remove_tree(&draft.path, "", &mut Vec::new());
        }
    }
}

/// The exclusive right to change an instance's state; it ends when dropped.
#[derive(Debug)]
pub struct StateDirLock {
    pub(super) dir: StateDir,
    pub(super) _lock: Flock<File>,
}

impl StateDirLock {
    /// The state directory.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// Removes a name; whether it was there.
    pub fn unpin(&self, section: Section, name: &str) -> Result<bool, SysError> {
        let path = self.dir.pin(section, name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(SysError::from_io("remove", path.display(), &e)),
        }
    }

    /// Gives a pinned object another name, in place of what has that name now.
    pub fn rename(&self, section: Section, from: &str, to: &str) -> Result<(), SysError> {
        rename(
            &self.dir.pin(section, from),
            &self.dir.pin(section, to),
            RenameFlags::empty(),
        )
    }

    /// Lets two pinned objects change names, in one step.
    pub fn swap(&self, section: Section, one: &str, other: &str) -> Result<(), SysError> {
        rename(
            &self.dir.pin(section, one),
            &self.dir.pin(section, other),
            RenameFlags::RENAME_EXCHANGE,
        )
    }

    /// Creates sections that are missing; whether any was.
    pub fn repair_sections(&self) -> Result<bool, SysError> {
        let mut missing = false;
        for section in Section::ALL {
            let path = self.dir.path.join(section.name());
            if path.symlink_metadata().is_err() {
                make_directory(&path)?;
                missing = true;
            }
        }
        Ok(missing)
    }

    /// Removes the state of an instance that is not attached, and says what it removed. The
    /// directory is renamed first, so that nobody ever opens half of it.
    pub fn remove(self) -> Result<Vec<String>, StateError> {
        if !self.dir.pins(Section::Links)?.is_empty() {
            let path = self
                .dir
                .path
                .join(Section::Links.name())
                .display()
                .to_string();
            return Err(StateError::Attached { path });
        }
        Ok(self.remove_all()?)
    }

    /// Removes the directory with all in it, which is given another name first; says what it removed.
    pub(super) fn remove_all(self) -> Result<Vec<String>, SysError> {
        let mut removed = Vec::new();
        for number in 0_u32.. {
            let name = format!("{REMOVED_PREFIX}{}-{number}", self.dir.owner);
            let path = self.dir.parent.join(name);
            match rename(&self.dir.path, &path, RenameFlags::RENAME_NOREPLACE) {
                Err(error) if error.errno == libc::EEXIST => continue,
                result => result?,
            }
            remove_tree(&path, "", &mut removed)?;
            break;
        }
        Ok(removed)
    }
}

/// The right to be the only publisher of an instance; it ends when dropped, or with the process.
#[derive(Debug)]
#[must_use = "the right is held as long as this exists"]
pub struct PublisherLock {
    _lock: Flock<File>,
}
