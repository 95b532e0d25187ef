// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads a document of bindings from a file or pipe.

use std::io::{self, Read};

use crate::affinity::{read, AffinityDocument, DocumentError, Guard, ReadOptions, Stop};
use crate::error::ErrorKind;

/// Bytes that are fetched at once.
const PIECE_BYTES: usize = 64 << 10;

/// Why a document was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not such a document, or not a whole one.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

impl ReadError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Document(_) => ErrorKind::Invalid,
            Self::Io(_) => ErrorKind::Io,
        }
    }
}

/// Reads a document piece by piece: what is held is its bindings, about 40 bytes each, and never
/// its text. Any bytes give a document or an error.
///
/// # Errors
/// What is wrong with the document, as [`AffinityDocument::from_json`], or the source failed.
pub fn read_affinity(
    source: impl Read,
    options: &ReadOptions,
) -> Result<AffinityDocument, ReadError> {
    let mut watched = Watched {
        source,
        guard: Guard::new(options.limit_bytes),
        piece: vec![0; PIECE_BYTES],
        at: 0,
        end: 0,
        stop: None,
        failure: None,
    };
    let document = read(serde_json::Deserializer::from_reader(&mut watched), options);
    if let Some(error) = watched.failure {
        return Err(ReadError::Io(error));
    }
    match (document, watched.stop) {
        // The parser came to where nothing more was let through.
        (Ok(_) | Err(DocumentError::Truncated { .. }), Some(stop)) => Err(stop.error().into()),
        (document, _) => Ok(document?),
    }
}

/// A source behind a guard.
struct Watched<R> {
    source: R,
    guard: Guard,
    piece: Vec<u8>,
    at: usize,
    end: usize,
    /// Why nothing may pass behind this piece.
    stop: Option<Stop>,
    failure: Option<io::Error>,
}

impl<R: Read> Watched<R> {
    fn fetch(&mut self) -> io::Result<()> {
        let read = loop {
            match self.source.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        (self.at, self.end) = (0, read);
        let piece = self.piece.get(..read).unwrap_or_default();
        if let Err((at, stop)) = self.guard.pass(piece) {
            self.end = at;
            self.stop = Some(stop);
        }
        Ok(())
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.end {
            if self.stop.is_some() {
                return Ok(0);
            }
            if let Err(error) = self.fetch() {
                let kind = error.kind();
                self.failure = Some(error);
                return Err(kind.into());
            }
        }
        let left = self.piece.get(self.at..self.end).unwrap_or_default();
        let count = left.len().min(to.len());
        if let (Some(to), Some(left)) = (to.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(left);
        }
        self.at += count;
        Ok(count)
    }
}
