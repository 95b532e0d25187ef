// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What maps, programs and links have in common: pins, information by descriptor, their type.

use std::ffi::c_void;
use std::fmt::{self, Display};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::libc;

use super::{c_path, check, owned, SysError};
use crate::error::ErrorKind;

/// What a BPF descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectType {
    /// A map.
    Map,
    /// A program.
    Program,
    /// A link: an attachment that owns its place.
    Link,
    /// Something else.
    Other,
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Map => "a map",
            Self::Program => "a program",
            Self::Link => "a link",
            Self::Other => "something else",
        })
    }
}

/// The type of `fd`.
///
/// The kernel answers an information request about a program with bytes that read like a map's,
/// so the type has to be known first; the name of the descriptor's inode tells it.
pub(in crate::kernel) fn type_of(fd: BorrowedFd<'_>) -> Result<ObjectType, SysError> {
    let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let target = std::fs::read_link(&path).map_err(|e| SysError::from_io("read", &path, &e))?;
    let target = target.to_string_lossy();
    Ok(
        match target
            .trim_start_matches("anon_inode:")
            .trim_matches(['[', ']'])
        {
            "bpf-map" => ObjectType::Map,
            "bpf-prog" => ObjectType::Program,
            // Opened from a pin, and as its maker got it.
            "bpf-link" | "bpf_link" => ObjectType::Link,
            _ => ObjectType::Other,
        },
    )
}

/// A number among what the kernel tells about an open descriptor beside its properties; a `field` that
/// it does not tell is ENODATA.
pub(in crate::kernel) fn fdinfo(fd: BorrowedFd<'_>, field: &str) -> Result<u64, SysError> {
    let path = format!("/proc/thread-self/fdinfo/{}", fd.as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(|e| SysError::from_io("read", &path, &e))?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == field)
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| SysError::new("read", path, libc::ENODATA))
}

/// Gives the object a name on a bpffs; an existing name is EEXIST.
pub(in crate::kernel) fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<(), SysError> {
    let c = c_path("pin", path)?;
    // SAFETY: the path ends in a zero byte and outlives the call.
    let result = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), c.as_ptr()) };
    check(result, "pin", path.display()).map(drop)
}

/// Opens the object that is pinned at `path`.
pub(in crate::kernel) fn open(path: &Path) -> Result<OwnedFd, SysError> {
    let c = c_path("open", path)?;
    // SAFETY: the path ends in a zero byte and outlives the call; the descriptor is new.
    unsafe { owned(libbpf_sys::bpf_obj_get(c.as_ptr()), "open", path.display()) }
}

/// A pinned object that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The kernel refused.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The name holds an object of another type.
    #[error("{path} is {found}, not {expected}")]
    #[non_exhaustive]
    WrongType {
        /// Where.
        path: String,
        /// The type that belongs there.
        expected: ObjectType,
        /// The type that is there.
        found: ObjectType,
    },
    /// The name holds somebody else's program.
    #[error(
        "{path} is program {id} ({name}), which works on other maps than those pinned beside it"
    )]
    #[non_exhaustive]
    OtherProgram {
        /// Where.
        path: String,
        /// The kernel's number of the program.
        id: u32,
        /// Its name.
        name: String,
    },
    /// The name holds a link that runs somebody else's program.
    #[error(
        "{path} is link {id} of program {program} ({name}), which works on other maps than those \
         pinned beside it"
    )]
    #[non_exhaustive]
    OtherLink {
        /// Where.
        path: String,
        /// The kernel's number of the link.
        id: u32,
        /// That of its program.
        program: u32,
        /// Name of the program.
        name: String,
    },
    /// The instance gives nothing this name.
    #[error(
        "{path} is nothing that the instance has pinned, and may hold a program on an interface"
    )]
    #[non_exhaustive]
    Unknown {
        /// Where.
        path: String,
    },
    /// The name holds a map that somebody else's program works on, while none of the instance is left.
    #[error(
        "{path} is map {id}, and program {program} ({name}) uses it, which works on other maps than \
         those pinned beside it"
    )]
    #[non_exhaustive]
    UsedMap {
        /// Where.
        path: String,
        /// The kernel's number of the map.
        id: u32,
        /// That of the program.
        program: u32,
        /// Name of the program.
        name: String,
    },
    /// The name holds somebody else's map, while a program of the instance works on its own.
    #[error(
        "{path} is map {id}, and program {program} of the instance uses map {used}, which has lost its \
         pin, in its place"
    )]
    #[non_exhaustive]
    OtherMap {
        /// Where.
        path: String,
        /// The kernel's number of the map that is there.
        id: u32,
        /// That of the program.
        program: u32,
        /// That of the map which it uses.
        used: u32,
    },
}

impl PinError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Sys(error) => error.kind(),
            Self::WrongType { .. }
            | Self::OtherProgram { .. }
            | Self::OtherLink { .. }
            | Self::Unknown { .. }
            | Self::UsedMap { .. }
            | Self::OtherMap { .. } => ErrorKind::Incompatible,
        }
    }
}

/// Opens the object that is pinned at `path` if it is of the `expected` type.
pub(in crate::kernel) fn open_as(path: &Path, expected: ObjectType) -> Result<OwnedFd, PinError> {
    let fd = open(path)?;
    let found = type_of(fd.as_fd())?;
    if found != expected {
        return Err(PinError::WrongType {
            path: path.display().to_string(),
            expected,
            found,
        });
    }
    Ok(fd)
}

/// Fills `info`, one of the kernel's `bpf_*_info` structures, about `fd`.
///
/// # Safety
/// `T` must be the information structure of the type of `fd`, and every pointer in `info` must
/// be null or point to writable memory of the size that goes with it.
pub(in crate::kernel) unsafe fn info<T>(
    fd: BorrowedFd<'_>,
    info: &mut T,
    object: impl Display,
) -> Result<(), SysError> {
    let mut length = std::mem::size_of::<T>() as u32;
    let place = std::ptr::from_mut(info).cast::<c_void>();
    // SAFETY: the kernel writes at most `length` bytes at `place`, which is a whole `T`; what its
    // pointers say is the caller's promise.
    let result = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), place, &mut length) };
    check(result, "read the properties of", object).map(drop)
}
