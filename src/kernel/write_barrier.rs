// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The barrier between those who write routes to groups and who retires a group.
//!
//! A writer holds it shared from reading that a group is open until its routes are written; who
//! retires the group holds it exclusively from looking for routes until the group is disabled. So
//! nobody writes a route after the last look, however long a writer was stopped in between. The
//! kernel drops the locks of a process that dies.
//!
//! The locks are `flock(2)` on two directories, the *gate* and the *routes*, on bpffs or any other
//! file system. A lock belongs to an opened directory, not to a process: each guard opens both anew,
//! and processes and threads are the same to each other. A child that is forked without a new
//! program being started keeps the locks of its parent's guards; do not fork while there is one.

mod protocol;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use self::protocol::{Locks, Place, Step, Taking};
use super::SysError;
use crate::error::ErrorKind;

/// Name of the directory that everybody locks first.
pub const GATE: &str = "barrier-gate";
/// Name of the directory whose lock lasts as long as a guard.
pub const ROUTES: &str = "barrier-routes";
/// How long to wait where nothing else is asked for.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);

/// Time between two attempts: a route is written in less, and a group is retired in more.
const RETRY: Duration = Duration::from_millis(1);

/// How the barrier is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Beside others who hold it shared.
    Shared,
    /// Alone.
    Exclusive,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

/// Why the barrier is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// Others held it all the time. Nothing was changed.
    #[error("{path} was not free for {mode} use within {} ms", patience.as_millis())]
    #[non_exhaustive]
    Timeout {
        /// The directory that somebody else had locked.
        path: String,
        /// What was asked for.
        mode: Mode,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A directory is missing, is none, or cannot be locked.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl BarrierError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Timeout { .. } => ErrorKind::Locked,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// A barrier by its two directories, which exist as long as what it protects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteBarrier {
    gate: PathBuf,
    routes: PathBuf,
}

impl WriteBarrier {
    /// The barrier of these two directories.
    pub fn new(gate: impl Into<PathBuf>, routes: impl Into<PathBuf>) -> Self {
        Self {
            gate: gate.into(),
            routes: routes.into(),
        }
    }

    /// The barrier in a directory, with the names that all processes know.
    pub fn below(directory: &Path) -> Self {
        Self::new(directory.join(GATE), directory.join(ROUTES))
    }

    /// Makes those of the two directories that are missing.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn create(&self) -> Result<(), SysError> {
        for path in [&self.gate, &self.routes] {
            match fs::DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map_err(|e| SysError::from_io("create", path.display(), &e))?,
            }
        }
        Ok(())
    }

    /// Takes the barrier beside others who take it shared, waiting so long for one who has it alone.
    /// At least one attempt is made.
    ///
    /// # Errors
    /// [`BarrierError::Timeout`], or a directory cannot be used.
    pub fn shared(&self, patience: Duration) -> Result<SharedGuard, BarrierError> {
        let (_, routes) = self.take(Mode::Shared, patience)?;
        Ok(SharedGuard { _routes: routes })
    }

    /// Takes the barrier alone, waiting so long for everybody who has it. While it waits for the
    /// last of them, nobody else gets it. At least one attempt is made.
    ///
    /// # Errors
    /// [`BarrierError::Timeout`], or a directory cannot be used.
    pub fn exclusive(&self, patience: Duration) -> Result<ExclusiveGuard, BarrierError> {
        let (gate, routes) = self.take(Mode::Exclusive, patience)?;
        Ok(ExclusiveGuard {
            _routes: routes,
            _gate: gate,
        })
    }

    fn take(&self, mode: Mode, patience: Duration) -> Result<(Lock, Lock), BarrierError> {
        // A time beyond what the clock can tell never comes.
        let end = Instant::now().checked_add(patience);
        let mut directories = self.open()?;
        let mut taking = Taking::new(mode);
        loop {
            let blocked = match taking.step(&mut directories)? {
                Step::Advanced => continue,
                // Removed, and maybe made anew, since they were opened.
                _ if !directories.are_in_place() => {
                    directories = self.open()?;
                    taking = Taking::new(mode);
                    Place::Gate
                }
                Step::Taken => return Ok((directories.gate.lock, directories.routes.lock)),
                Step::Blocked(at) => at,
            };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(BarrierError::Timeout {
                    path: directories.at(blocked).path.display().to_string(),
                    mode,
                    patience,
                });
            }
            std::thread::sleep(left.map_or(RETRY, |left| left.min(RETRY)));
        }
    }

    fn open(&self) -> Result<Directories<'_>, SysError> {
        Ok(Directories {
            gate: Directory::open(&self.gate)?,
            routes: Directory::open(&self.routes)?,
        })
    }
}

/// The barrier held beside others. It ends when dropped.
#[derive(Debug)]
#[must_use = "the barrier is held as long as the guard exists"]
pub struct SharedGuard {
    _routes: Lock,
}

/// The barrier held alone. It ends when dropped.
#[derive(Debug)]
#[must_use = "the barrier is held as long as the guard exists"]
pub struct ExclusiveGuard {
    // In the order in which they are given back: who has passed the gate finds the routes free.
    _routes: Lock,
    _gate: Lock,
}

/// The lock of an opened directory, or the directory without.
#[derive(Debug)]
enum Lock {
    Locked(Flock<File>),
    Open(File),
    /// Nothing: what an error leaves, whose taker gives up.
    Closed,
}

#[derive(Debug)]
struct Directory<'a> {
    path: &'a Path,
    lock: Lock,
}

impl<'a> Directory<'a> {
    /// The standard library opens everything so that no program that is started inherits it.
    fn open(path: &'a Path) -> Result<Self, SysError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
            .map_err(|e| SysError::from_io("open", path.display(), &e))?;
        Ok(Self {
            path,
            lock: Lock::Open(file),
        })
    }

    /// Whether the path still leads to what was opened.
    fn is_in_place(&self) -> bool {
        let file: &File = match &self.lock {
            Lock::Locked(lock) => lock,
            Lock::Open(file) => file,
            Lock::Closed => return false,
        };
        match (file.metadata(), self.path.symlink_metadata()) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }
}

/// Both directories, opened by one taker.
#[derive(Debug)]
struct Directories<'a> {
    gate: Directory<'a>,
    routes: Directory<'a>,
}

impl<'a> Directories<'a> {
    fn at(&mut self, place: Place) -> &mut Directory<'a> {
        match place {
            Place::Gate => &mut self.gate,
            Place::Routes => &mut self.routes,
        }
    }

    fn are_in_place(&self) -> bool {
        self.gate.is_in_place() && self.routes.is_in_place()
    }
}

impl Locks for Directories<'_> {
    type Error = SysError;

    fn try_lock(&mut self, place: Place, mode: Mode) -> Result<bool, SysError> {
        let how = match mode {
            Mode::Shared => FlockArg::LockSharedNonblock,
            Mode::Exclusive => FlockArg::LockExclusiveNonblock,
        };
        let directory = self.at(place);
        let file = match std::mem::replace(&mut directory.lock, Lock::Closed) {
            Lock::Open(file) => file,
            other => {
                directory.lock = other;
                return Ok(true);
            }
        };
        match Flock::lock(file, how) {
            Ok(lock) => {
                directory.lock = Lock::Locked(lock);
                Ok(true)
            }
            Err((file, Errno::EWOULDBLOCK)) => {
                directory.lock = Lock::Open(file);
                Ok(false)
            }
            Err((_, errno)) => Err(SysError::from_nix("lock", directory.path.display(), errno)),
        }
    }

    fn unlock(&mut self, place: Place) -> Result<(), SysError> {
        let directory = self.at(place);
        if let Lock::Locked(lock) = std::mem::replace(&mut directory.lock, Lock::Closed) {
            let file = lock.unlock().map_err(|(_, errno)| {
                SysError::from_nix("unlock", directory.path.display(), errno)
            })?;
            directory.lock = Lock::Open(file);
        }
        Ok(())
    }
}
