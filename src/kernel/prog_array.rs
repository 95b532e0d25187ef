// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A place in somebody else's array of programs, for interfaces whose XDP hook has another owner.
//!
//! The owner's root program runs on the hook and tail-calls the program at an index of a pinned array.
//! Whoever is at that index is not displaced, and only the program that a caller names is exchanged or
//! removed.
//!
//! The kernel has no update of such an array that demands an empty or a certain place. So every
//! change looks, writes, and looks again, and processes of this library exclude each other by a
//! lock on the bpffs, whichever of an array's pins there they opened. A stranger who writes the same
//! index between the look and the write is not seen, and loses it; one who writes after that is, and
//! is left alone.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use super::map::{Map, MapKind, OpenError, Update};
use super::program::{self, Program};
use super::sys::object::{self, PinError};
use super::SysError;
use crate::error::ErrorKind;

/// How long a change waits for another process of this library that changes an array in the same
/// bpffs.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two attempts to take the lock.
const RETRY: Duration = Duration::from_millis(3);

/// A program in an array.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The kernel's number of the program.
    pub program_id: u32,
    /// Its name; `None` without CAP_SYS_ADMIN.
    pub name: Option<String>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.program_id)?;
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// Why a program was not put into an array, exchanged there or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgArrayError {
    /// Nothing is pinned there, or it cannot be opened.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The pinned map is of another kind.
    #[error("{path} is a map of kind {kind}, not an array of programs")]
    #[non_exhaustive]
    OtherKind {
        /// Where.
        path: String,
        /// Its kind.
        kind: MapKind,
    },
    /// The array is shorter.
    #[error("{path} has {size} places: index {index} is none of them")]
    #[non_exhaustive]
    NoIndex {
        /// Where the array is pinned.
        path: String,
        /// The index that was asked for.
        index: u32,
        /// Places of the array.
        size: u32,
    },
    /// Somebody else's program is at the index.
    #[error("index {index} of {path} is held by {}", holder_text(holder))]
    #[non_exhaustive]
    Occupied {
        /// Where the array is pinned.
        path: String,
        /// The index.
        index: u32,
        /// The program; `None` if it was gone again when asked for.
        holder: Option<Entry>,
    },
    /// The program to be exchanged is not at the index any more, and no other is.
    #[error("index {index} of {path} is empty")]
    #[non_exhaustive]
    Empty {
        /// Where the array is pinned.
        path: String,
        /// The index.
        index: u32,
    },
    /// The kernel keeps programs that cannot call each other apart.
    #[error("program {program} does not fit into {path}: {difference}")]
    #[non_exhaustive]
    Unfit {
        /// Where the array is pinned.
        path: String,
        /// Name of the program.
        program: String,
        /// In what it differs from the programs that use the array.
        difference: String,
    },
    /// Another process changes an array in the same bpffs at this moment.
    #[error("{path} is locked by another process")]
    #[non_exhaustive]
    Locked {
        /// The directory.
        path: String,
    },
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

fn holder_text(holder: &Option<Entry>) -> String {
    holder.as_ref().map_or_else(
        || "a program that is gone again".to_owned(),
        Entry::to_string,
    )
}

impl ProgArrayError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Pin(error) => error.kind(),
            Self::OtherKind { .. } | Self::Unfit { .. } => ErrorKind::Incompatible,
            Self::NoIndex { .. } => ErrorKind::Invalid,
            Self::Occupied { .. } => ErrorKind::Occupied,
            Self::Empty { .. } => ErrorKind::NotFound,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// An array of programs that somebody pinned.
///
/// It keeps its programs as long as it is pinned or held open by a process; when the last of these
/// ends the kernel empties it, although root programs may still use it.
#[derive(Debug)]
pub struct ProgArray {
    map: Map,
    path: PathBuf,
}

impl ProgArray {
    /// Opens the array that is pinned at `path`. Takes CAP_BPF.
    ///
    /// # Errors
    /// Nothing is pinned there, or something else than an array of programs.
    pub fn open(path: &Path) -> Result<Self, ProgArrayError> {
        let map = match Map::open_any(path) {
            Ok(map) => map,
            Err(OpenError::Pin(error)) => return Err(error.into()),
            // Any shape is taken; the kind is checked below.
            Err(OpenError::Shape(error)) => {
                return Err(SysError::new("open", error.object, libc::EINVAL).into())
            }
        };
        let kind = map.shape().kind;
        if kind != MapKind::PROG_ARRAY {
            return Err(ProgArrayError::OtherKind {
                path: path.display().to_string(),
                kind,
            });
        }
        Ok(Self {
            map,
            path: path.to_path_buf(),
        })
    }

    /// Gives the array a further name, which keeps it and its programs alive; an existing name is
    /// refused (EEXIST).
    pub fn pin(&self, path: &Path) -> Result<(), SysError> {
        self.map.pin(path)
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's number of the array: two paths of one array lead to one number.
    pub fn id(&self) -> u32 {
        self.map.id()
    }

    /// Places for programs.
    pub fn size(&self) -> u32 {
        self.map.shape().max_entries
    }

    /// Whether the programs that use the array are XDP programs; none while nothing uses it.
    pub fn is_for_xdp(&self) -> Option<bool> {
        let kind = object::fdinfo(self.map.as_fd(), "owner_prog_type").ok()?;
        Some(kind == u64::from(libbpf_sys::BPF_PROG_TYPE_XDP))
    }

    /// The program at an index, if there is one.
    ///
    /// # Errors
    /// The array has no such index, or the kernel refuses.
    pub fn entry(&self, index: u32) -> Result<Option<Entry>, ProgArrayError> {
        if index >= self.size() {
            return Err(ProgArrayError::NoIndex {
                path: self.path.display().to_string(),
                index,
                size: self.size(),
            });
        }
        let mut id = [0; 4];
        let there = self.map.lookup(&index.to_ne_bytes(), &mut id)?;
        Ok(there.then(|| {
            let program_id = u32::from_ne_bytes(id);
            Entry {
                program_id,
                name: program::name_by_id(program_id),
            }
        }))
    }

    /// Puts `program` at an empty index: the next packet that the root program hands over meets it.
    /// One that is there already stays.
    ///
    /// # Errors
    /// [`ProgArrayError::Occupied`] names the program that is there; [`ProgArrayError::Unfit`] says
    /// why the kernel does not let programs of this array call this one.
    pub fn put(&self, index: u32, program: &Program) -> Result<(), ProgArrayError> {
        let _lock = self.lock()?;
        match self.entry(index)? {
            None => self.write(index, program),
            Some(there) if there.program_id == program.id() => Ok(()),
            Some(there) => Err(self.occupied(index, Some(there))),
        }
    }

    /// Exchanges the program with the number `expected` for `program` in one step: every packet meets
    /// the one or the other.
    ///
    /// # Errors
    /// Another program is at the index, or none; it is left as it is.
    pub fn exchange(
        &self,
        index: u32,
        program: &Program,
        expected: u32,
    ) -> Result<(), ProgArrayError> {
        let _lock = self.lock()?;
        match self.entry(index)? {
            Some(there) if there.program_id == expected => self.write(index, program),
            Some(there) => Err(self.occupied(index, Some(there))),
            None => Err(ProgArrayError::Empty {
                path: self.path.display().to_string(),
                index,
            }),
        }
    }

    /// Removes the program with the number `expected`: packets that the root program hands over
    /// become what that does without it. Whether it was there.
    ///
    /// # Errors
    /// Another program is at the index; it is left as it is.
    pub fn remove(&self, index: u32, expected: u32) -> Result<bool, ProgArrayError> {
        let _lock = self.lock()?;
        match self.entry(index)? {
            None => Ok(false),
            Some(there) if there.program_id == expected => {
                Ok(self.map.delete(&index.to_ne_bytes())?)
            }
            Some(there) => Err(self.occupied(index, Some(there))),
        }
    }

    /// The refusal of an index that somebody else holds.
    pub(crate) fn occupied(&self, index: u32, holder: Option<Entry>) -> ProgArrayError {
        ProgArrayError::Occupied {
            path: self.path.display().to_string(),
            index,
            holder,
        }
    }

    /// Writes an index, and looks who is there afterwards.
    fn write(&self, index: u32, program: &Program) -> Result<(), ProgArrayError> {
        let value = program.as_fd().as_raw_fd().to_ne_bytes();
        // The kernel takes no other demand for this kind of map.
        match self.map.update(&index.to_ne_bytes(), &value, Update::Any) {
            Err(error) if error.errno == libc::EINVAL => return Err(self.unfit(program, error)),
            result => result?,
        }
        match self.entry(index)? {
            Some(there) if there.program_id == program.id() => Ok(()),
            there => Err(self.occupied(index, there)),
        }
    }

    /// The kernel says only that something differs; what it tells about the array and the program
    /// shows what.
    fn unfit(&self, program: &Program, error: SysError) -> ProgArrayError {
        let array = |field| object::fdinfo(self.map.as_fd(), field).ok();
        let own = |field| object::fdinfo(program.as_fd(), field).ok();
        let difference = difference(
            (array("owner_prog_type"), own("prog_type")),
            (array("owner_jited"), own("prog_jited")),
        );
        match difference {
            Some(difference) => ProgArrayError::Unfit {
                path: self.path.display().to_string(),
                program: program.name().to_owned(),
                difference,
            },
            None => error.into(),
        }
    }

    /// Keeps other processes of this library from changing arrays of the same bpffs: an array may
    /// have pins in several of its directories, and nothing at hand but that root is common to them.
    fn lock(&self) -> Result<Flock<File>, ProgArrayError> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let error = |e: &std::io::Error| SysError::from_io("open", directory.display(), e);
        let directory = root_of(directory).map_err(|e| error(&e))?;
        let error = |e: &std::io::Error| SysError::from_io("open", directory.display(), e);
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(&directory)
            .map_err(|e| error(&e))?;
        let end = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((back, Errno::EWOULDBLOCK)) if Instant::now() < end => {
                    file = back;
                    std::thread::sleep(RETRY);
                }
                Err((_, Errno::EWOULDBLOCK)) => {
                    return Err(ProgArrayError::Locked {
                        path: directory.display().to_string(),
                    })
                }
                Err((_, errno)) => {
                    return Err(SysError::from_nix("lock", directory.display(), errno).into())
                }
            }
        }
    }
}

/// The topmost directory of the file system that a directory is in.
fn root_of(directory: &Path) -> io::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    let device = directory.metadata()?.dev();
    let mut root = directory.as_path();
    for above in directory.ancestors().skip(1) {
        // What cannot be seen is not ours to lock.
        match above.metadata() {
            Ok(seen) if seen.dev() == device => root = above,
            _ => break,
        }
    }
    Ok(root.to_path_buf())
}

/// In what a program differs from those that use an array, each given as the array has it and as the
/// program has it. None if nothing uses the array, so that something else was refused.
fn difference(
    (array_type, own_type): (Option<u64>, Option<u64>),
    (array_jited, own_jited): (Option<u64>, Option<u64>),
) -> Option<String> {
    let array_type = array_type?;
    let compiled = |jited: u64| {
        if jited == 0 {
            "interpreted"
        } else {
            "compiled"
        }
    };
    if let Some(own_type) = own_type.filter(|own| *own != array_type) {
        return Some(format!(
            "it is {}, the array is for {}",
            type_text(own_type),
            type_text(array_type)
        ));
    }
    match (array_jited, own_jited) {
        (Some(array), Some(own)) if array != own => Some(format!(
            "it is {}, the programs of the array are {}",
            compiled(own),
            compiled(array)
        )),
        // The kernel tells no more than these two.
        _ => Some(
            "of it and the programs of the array, one takes frames in several buffers and the other \
             does not, or their expected attach types differ: load both as \"xdp.frags\", for BPF_XDP"
                .to_owned(),
        ),
    }
}

/// A type of program as it is called.
fn type_text(number: u64) -> String {
    let is = |number: u64, known: u32| number == u64::from(known);
    if is(number, libbpf_sys::BPF_PROG_TYPE_XDP) {
        "an XDP program".to_owned()
    } else if is(number, libbpf_sys::BPF_PROG_TYPE_SCHED_CLS) {
        "a TC classifier".to_owned()
    } else {
        format!("a program of type {number}")
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_difference_that_the_kernel_shows_is_named() {
        let (xdp, classifier) = (Some(6), Some(3));
        let named = |kinds, jited| difference(kinds, jited).expect("a difference");
        assert_eq!(
            named((classifier, xdp), (Some(1), Some(1))),
            "it is an XDP program, the array is for a TC classifier"
        );
        assert_eq!(
            named((xdp, xdp), (Some(1), Some(0))),
            "it is interpreted, the programs of the array are compiled"
        );
        let untold = named((xdp, xdp), (Some(1), Some(1)));
        assert!(untold.contains("xdp.frags") && untold.contains("expected attach types"));
        // Nobody uses it: the kernel refused for another reason.
        assert_eq!(difference((None, xdp), (None, Some(1))), None);
    }
}
