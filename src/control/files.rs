// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! EgressShard manifests from a file, or from the files of a directory.
//!
//! Writers replace a file by renaming another one over it. The kernel tells of changes (inotify), and
//! every [refresh](Source::refresh) reads everything anew, so that nothing depends on having been
//! told.

mod watch;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;

use self::watch::Watch;
use super::manifest;
use super::source::{Source, SourceErrorReason, SourceErrors};
use super::{Known, ShardList};
use crate::kernel::SysError;

/// More bytes than any manifest has. A file with more is not read.
pub const MAX_BYTES: u64 = 16 << 20;

/// Broken files that are named in one text; of more it says how many.
const MOST_NAMED: usize = 4;

/// Where manifests are. The text is `file:` or `dir:` and the path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// This file.
    File(PathBuf),
    /// The files of this directory whose names end in `.json` and do not begin with a dot, not
    /// those of directories in it. Others are [passed over](Source::passed_over).
    Directory(PathBuf),
}

impl Place {
    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Directory(path) => path,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::File(_) => "file",
            Self::Directory(_) => "dir",
        };
        write!(f, "{kind}:{}", self.path().display())
    }
}

/// Shards from files.
///
/// | what is found | the list is |
/// |---|---|
/// | all files are JSON, or the directory is empty | known |
/// | a file is no JSON or cannot be read | stale, with the last good objects of that file |
/// | file or directory missing | stale, with the last list |
/// | the same before there was a complete list | unknown |
///
/// Files that disappear from a directory take their objects with them. A directory that is missing
/// is never taken for an empty one.
#[derive(Debug)]
pub struct FileSource {
    place: Place,
    watch: Watch,
    /// What each file held when it was last read well; nothing if it never was.
    files: BTreeMap<OsString, Option<ShardList>>,
    /// Names of other files in the directory, as of the last time it was listed.
    others: Vec<OsString>,
    /// Whether everything was read once.
    complete: bool,
    /// What cannot be read, and since when something could not.
    failure: Option<(String, Duration)>,
    errors: SourceErrors,
}

/// Why a file or directory is not read; the message names it.
struct Unread {
    reason: SourceErrorReason,
    message: String,
}

impl FileSource {
    /// A source of this place, not read yet: its list is unknown until the first
    /// [refresh](Source::refresh). The place need not exist.
    ///
    /// # Errors
    /// The kernel has no inotify to give.
    pub fn new(place: Place) -> Result<Self, SysError> {
        Ok(Self {
            watch: Watch::new()?,
            place,
            files: BTreeMap::new(),
            others: Vec::new(),
            complete: false,
            failure: None,
            errors: SourceErrors::default(),
        })
    }

    /// The place.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    fn list(&self) -> ShardList {
        let mut all = ShardList::default();
        for list in self.files.values().flatten() {
            all.shards.extend(list.shards.iter().cloned());
            all.faults.extend(list.faults.iter().cloned());
        }
        all
    }

    /// Reads one file; what it held before stays if that fails.
    fn read_file(&mut self, name: OsString, path: &Path) -> Result<(), Unread> {
        let file = path.display().to_string();
        let list = read(path).and_then(|bytes| {
            manifest::parse(&bytes, &file).map_err(|error| Unread {
                reason: SourceErrorReason::Parse,
                message: format!("{file}:{}: {}", error.line, error.message),
            })
        });
        match list {
            Ok(list) => {
                for _ in &list.faults {
                    self.errors.count(SourceErrorReason::Parse);
                }
                self.files.insert(name, Some(list));
                Ok(())
            }
            Err(unread) => {
                self.files.entry(name).or_insert(None);
                Err(unread)
            }
        }
    }

    /// Reads a directory and the files in it. If it cannot be listed everything stays as it was.
    fn read_directory(&mut self, directory: &Path) -> Vec<Unread> {
        let names = match names(directory) {
            Ok((names, others)) => {
                self.others = others;
                names
            }
            Err(error) => return vec![Unread::io(directory, "list", &error)],
        };
        self.files.retain(|name, _| names.contains(name));
        let mut failed = Vec::new();
        for name in names {
            let path = directory.join(&name);
            let Err(unread) = self.read_file(name.clone(), &path) else {
                continue;
            };
            // Removed since it was listed; a link to nothing is still there.
            if unread.reason == SourceErrorReason::Gone && path.symlink_metadata().is_err() {
                self.files.remove(&name);
            } else {
                failed.push(unread);
            }
        }
        failed
    }
}

impl Source for FileSource {
    fn latest(&self) -> Known<ShardList> {
        match &self.failure {
            _ if !self.complete => Known::Unknown,
            None => Known::Known(self.list()),
            Some((why, since)) => Known::Stale {
                value: self.list(),
                since: *since,
                why: why.clone(),
            },
        }
    }

    fn events(&self) -> BorrowedFd<'_> {
        self.watch.events()
    }

    fn acknowledge(&mut self) -> bool {
        self.watch.acknowledge()
    }

    fn refresh(&mut self, now: Duration) {
        // First, so that no change falls between reading and watching.
        self.watch.renew(&self.place);
        let failed = match self.place.clone() {
            Place::Directory(path) => self.read_directory(&path),
            Place::File(path) => {
                let read = self.read_file(OsString::new(), &path);
                read.err().into_iter().collect()
            }
        };
        for unread in &failed {
            self.errors.count(unread.reason);
        }
        if failed.is_empty() {
            self.complete = true;
            self.failure = None;
            return;
        }
        let mut why: Vec<_> = failed.into_iter().map(|one| one.message).collect();
        if why.len() > MOST_NAMED {
            let more = why.len() - MOST_NAMED;
            why.truncate(MOST_NAMED);
            why.push(format!("and {more} more"));
        }
        let since = self.failure.take().map_or(now, |(_, since)| since);
        self.failure = Some((why.join("; "), since));
    }

    fn passed_over(&self) -> Vec<String> {
        let directory = self.place.path();
        let others = self.others.iter().take(MOST_NAMED);
        let mut texts: Vec<_> = others
            .map(|name| {
                let path = directory.join(name);
                let path = path.display();
                format!("{path} is not read: only files whose names end in .json are")
            })
            .collect();
        if let Some(more @ 1..) = self.others.len().checked_sub(MOST_NAMED) {
            let directory = directory.display();
            texts.push(format!("{more} more files in {directory} are not read"));
        }
        texts
    }

    fn errors(&self) -> SourceErrors {
        self.errors
    }

    fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(|(why, _)| why.clone())
    }
}

impl Unread {
    fn new(path: &Path, reason: SourceErrorReason, message: impl fmt::Display) -> Self {
        let message = format!("{}: {message}", path.display());
        Self { reason, message }
    }

    fn io(path: &Path, op: &str, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SourceErrorReason::Gone,
            io::ErrorKind::PermissionDenied => SourceErrorReason::Forbidden,
            _ => SourceErrorReason::Closed,
        };
        Self::new(path, reason, format_args!("cannot {op} it: {error}"))
    }
}

/// Whether a name in a directory is a manifest's.
fn is_manifest(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.ends_with(b".json") && !bytes.starts_with(b".")
}

/// Whether a name in a directory is hidden, or one that editors and writers use until they rename.
fn is_passing(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let ends = [&b"~"[..], b".tmp", b".swp"];
    bytes.starts_with(b".") || ends.iter().any(|end| bytes.ends_with(end))
}

/// Names of the manifests in a directory, and of other files that may be meant to be some, sorted.
fn names(directory: &Path) -> io::Result<(Vec<OsString>, Vec<OsString>)> {
    let (mut names, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_manifest(&name) {
            if !entry.file_type()?.is_dir() {
                names.push(name);
            }
        } else if !is_passing(&name) && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            others.push(name);
        }
    }
    names.sort_unstable();
    others.sort_unstable();
    Ok((names, others))
}

/// Reads a file, never waiting for a writer: what is no regular file is refused.
fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| Unread::io(path, "open", &error))?;
    let metadata = file
        .metadata()
        .map_err(|error| Unread::io(path, "look at", &error))?;
    if !metadata.is_file() {
        let reason = SourceErrorReason::Parse;
        return Err(Unread::new(path, reason, "is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Unread::io(path, "read", &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("has more than {MAX_BYTES} bytes");
        return Err(Unread::new(path, SourceErrorReason::Parse, message));
    }
    Ok(bytes)
}
