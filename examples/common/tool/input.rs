// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Files that arguments name.

use std::io::Read;
use std::path::Path;

use guideway::error::ErrorKind;

use super::failure::Failure;

/// More than any document has.
const MAX_BYTES: u64 = 256 << 20;

/// The file that an argument names: "-" is standard input.
pub(crate) fn file(path: &Path) -> &Path {
    if path == Path::new("-") {
        Path::new("/dev/stdin")
    } else {
        path
    }
}

/// What to call the file that an argument names.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Opens a file that a person named.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    match std::fs::File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let name = name(path);
    Failure::new(ErrorKind::Io, format!("cannot read {name}: {error}")).about(&name)
}

/// Reads a file that a person named.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = name(path);
    let mut bytes = Vec::new();
    open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("{name} has more than {MAX_BYTES} bytes");
        return Err(Failure::new(ErrorKind::Invalid, message).about(name));
    }
    Ok(bytes)
}
