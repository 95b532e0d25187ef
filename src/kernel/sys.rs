// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The few system calls this crate makes itself, each with its own errno.
//!
//! libbpf's calls return a negative errno; the wrappers here turn it into a [`SysError`] that
//! names the operation and the object, and a new file descriptor into an [`OwnedFd`].

pub(super) mod link;
pub(super) mod object;
pub(super) mod tcx;
pub(super) mod xdp;

use std::ffi::{c_int, CString};
use std::fmt::Display;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use nix::libc;

use crate::error::ErrorKind;

/// A system call that failed: what was tried, on which object, and the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {op} {object}: {}{}", io::Error::from_raw_os_error(*errno), after_colon(detail))]
#[non_exhaustive]
pub struct SysError {
    /// What was tried, in words that follow "cannot".
    pub op: &'static str,
    /// Name, path or number of the object.
    pub object: String,
    /// The positive error number.
    pub errno: i32,
    /// What the kernel said beside the number, mostly nothing.
    pub detail: String,
}

fn after_colon(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(": {detail}")
    }
}

impl SysError {
    pub(crate) fn new(op: &'static str, object: impl Display, errno: i32) -> Self {
        Self {
            op,
            object: object.to_string(),
            errno,
            detail: String::new(),
        }
    }

    pub(crate) fn from_nix(op: &'static str, object: impl Display, errno: nix::Error) -> Self {
        Self::new(op, object, errno as i32)
    }

    pub(crate) fn from_io(op: &'static str, object: impl Display, error: &io::Error) -> Self {
        Self::new(op, object, error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of_errno(self.errno)
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno == libc::ENOENT
    }
}

/// The non-negative result of a libbpf call, or the error it stands for.
pub(super) fn check(
    result: c_int,
    op: &'static str,
    object: impl Display,
) -> Result<c_int, SysError> {
    if result < 0 {
        return Err(SysError::new(op, object, -result));
    }
    Ok(result)
}

/// The descriptor that a libbpf call returned.
///
/// # Safety
/// A non-negative `result` must be an open descriptor that nothing else owns.
pub(super) unsafe fn owned(
    result: c_int,
    op: &'static str,
    object: impl Display,
) -> Result<OwnedFd, SysError> {
    let fd = check(result, op, object)?;
    // SAFETY: open and owned by nobody else, as the caller promises.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A name for the kernel; names with a zero byte are refused as it would refuse them.
pub(super) fn c_string(op: &'static str, name: &str) -> Result<CString, SysError> {
    CString::new(name).map_err(|_| SysError::new(op, name.escape_debug(), libc::EINVAL))
}

/// A path for the kernel.
pub(super) fn c_path(op: &'static str, path: &Path) -> Result<CString, SysError> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| SysError::new(op, path.display(), libc::EINVAL))
}

/// A name out of a kernel structure: the bytes up to the first zero.
pub(super) fn name_from(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `size_of::<T>()` as the `sz` member of libbpf's option structures.
pub(super) const fn size<T>() -> libbpf_sys::size_t {
    std::mem::size_of::<T>() as libbpf_sys::size_t
}
