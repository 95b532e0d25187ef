// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames out of capture files and text. The files are written here byte by byte from the
//! descriptions of their formats, or by other tools (`tests/data/capture`).

mod hostile;
mod pcap;
mod pcapng;
mod text;
mod tools;
mod udp;
mod write;

use guideway::capture::{read, CaptureError, Frame};

/// All frames of a file that can be read.
fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
    read(bytes).expect("a capture").collect()
}

/// Why a file cannot be read.
fn error(bytes: &[u8]) -> CaptureError {
    read(bytes).expect_err("no capture")
}

/// A frame of this many bytes, no two neighbours of which are equal.
fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + 1) as u8).collect()
}
