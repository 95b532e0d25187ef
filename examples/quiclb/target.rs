// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where results go that were asked for as a file.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use guideway::error::ErrorKind;

use crate::input;
use crate::tool::Failure;

/// Where a result goes that was asked for as a file.
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// A device or pipe: written to, never replaced.
    Through(PathBuf),
    /// A regular file, which is replaced as a whole, or a new one.
    File(PathBuf),
}

impl Target {
    /// What `path` names; links are followed, and stay. It must not be `input`, if that was read.
    pub(crate) fn new(path: &Path, input: Option<&Path>) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let refused = |kind, why: &str| {
            let message = format!("cannot write {}: {why}", path.display());
            Err(Failure::new(kind, message).about(path.display()))
        };
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::File(followed(path)))
            }
            Err(error) => return refused(ErrorKind::Io, &error.to_string()),
        };
        let same = |other: io::Result<Metadata>| {
            other.is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
        };
        let kind = found.file_type();
        if kind.is_dir() {
            return refused(ErrorKind::Io, "it is a directory");
        }
        let read = input.is_some_and(|input| same(fs::metadata(input::file(input))));
        if kind.is_file() && read {
            return refused(ErrorKind::Invalid, "it is the file that was read");
        }
        // Opened a second time it would be written from its beginning.
        let special = path.starts_with("/dev") || path.starts_with("/proc");
        if special && same(fs::metadata("/dev/stdout")) {
            return Ok(Self::Stdout);
        }
        if kind.is_char_device() || kind.is_fifo() {
            return Ok(Self::Through(path.to_owned()));
        }
        if !kind.is_file() {
            return refused(
                ErrorKind::Io,
                "it is neither a file, nor a pipe or terminal",
            );
        }
        match fs::canonicalize(path) {
            Ok(path) => Ok(Self::File(path)),
            Err(error) => refused(ErrorKind::Io, &error.to_string()),
        }
    }

    /// Writes it all. A regular file is there whole or not at all, and only its owner may read it.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), Failure> {
        self.write_with(|to| to.write_all(content))
    }

    /// The same with what `fill` writes, which need not be in memory as a whole.
    pub(crate) fn write_with(
        &self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let (path, written) = match self {
            Self::Stdout => (
                Path::new("standard output"),
                buffered(io::stdout().lock(), fill).map(drop),
            ),
            Self::Through(path) => {
                let file = OpenOptions::new().write(true).open(path);
                let written = file.and_then(|file| buffered(file, fill).map(drop));
                (path.as_path(), written)
            }
            Self::File(path) => (path.as_path(), replace(path, fill)),
        };
        written.map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            Failure::new(ErrorKind::Io, message).about(path.display())
        })
    }
}

/// Where links lead of which the last leads nowhere yet: so they do not lead round.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = fs::read_link(&path) {
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Has `fill` write to `to` in large pieces.
fn buffered<W: Write>(to: W, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<W> {
    let mut to = BufWriter::with_capacity(64 << 10, to);
    fill(&mut to)?;
    let mut to = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    to.flush()?;
    Ok(to)
}

fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(format!(".{}", std::process::id()));
    let draft = path.with_file_name(draft);
    let write = || {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        buffered(file, fill)?.sync_all()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // There may be nothing to remove.
        let _ = fs::remove_file(&draft);
    })
}
