// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames out of capture files and hexadecimal text, and frames made around a payload.
//!
//! Everything works on bytes in memory, and any bytes give frames or an error. [`read`] takes
//! classic pcap and pcapng files of Ethernet interfaces. What speaks against a file as a whole is
//! its error; what speaks against a single frame stands in [`Frame::error`], so that the others
//! can still be used. A file that was cut or damaged behind its header gives the frames before the
//! damage, and a last one that says what is wrong.
//!
//! Reading copies nothing. Memory is only taken for the interfaces that a pcapng file describes,
//! no more than a small multiple of their descriptions.

mod hex_text;
mod link_type;
mod order;
mod pcap;
mod pcapng;
mod udp;

pub use hex_text::{from_hex, HexTextError};
pub use link_type::LinkType;
pub use udp::{default_source, udp_frame, UdpFrameError};

use std::borrow::Cow;

/// Bytes of the shortest frame that a program can be run on: an Ethernet header.
pub const MIN_FRAME_BYTES: usize = 14;

/// Bytes of the longest frame there is: the largest IPv6 packet behind an Ethernet header with two
/// VLAN tags. The kernel runs XDP programs on frames of this length.
pub const MAX_FRAME_BYTES: usize = 14 + 2 * 4 + 40 + 65_535;

/// A frame to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// Its place in the input, from 0.
    pub index: u64,
    /// Its bytes, from the destination address on; as many as there are.
    pub bytes: Cow<'a, [u8]>,
    /// When it was captured, in nanoseconds since 1970, where that is known.
    pub timestamp_ns: Option<u64>,
    /// How many bytes it had before it was captured.
    pub original_length: u64,
    /// Why it cannot be used.
    pub error: Option<FrameError>,
}

/// Why a frame cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The capture kept a part of it.
    #[error("truncated by the capture: {captured} of {original} bytes")]
    #[non_exhaustive]
    Truncated {
        /// Bytes in the file.
        captured: usize,
        /// Bytes of the frame.
        original: u64,
    },
    /// It has no whole Ethernet header.
    #[error("{length} bytes, below the {MIN_FRAME_BYTES} of an Ethernet header")]
    #[non_exhaustive]
    Short {
        /// Its bytes.
        length: usize,
    },
    /// No interface receives a frame of this length: it was put together from several.
    #[error("{length} bytes, above the {MAX_FRAME_BYTES} that programs are run on")]
    #[non_exhaustive]
    Long {
        /// Its bytes.
        length: usize,
    },
    /// The file ends or makes no sense from here on.
    #[error("the file is damaged at byte {offset}: {what}")]
    #[non_exhaustive]
    Damaged {
        /// Where in the file.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
}

impl<'a> Frame<'a> {
    /// A whole frame; its error says if it is too short or too long.
    pub fn new(index: u64, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        let bytes = bytes.into();
        let original_length = bytes.len() as u64;
        Self::captured(index, bytes, None, original_length)
    }

    /// A frame of which the capture has `bytes`.
    fn captured(
        index: u64,
        bytes: Cow<'a, [u8]>,
        timestamp_ns: Option<u64>,
        original_length: u64,
    ) -> Self {
        let length = bytes.len();
        let error = if original_length > length as u64 {
            Some(FrameError::Truncated {
                captured: length,
                original: original_length,
            })
        } else if length < MIN_FRAME_BYTES {
            Some(FrameError::Short { length })
        } else if length > MAX_FRAME_BYTES {
            Some(FrameError::Long { length })
        } else {
            None
        };
        Self {
            index,
            bytes,
            timestamp_ns,
            original_length,
            error,
        }
    }

    /// Stands for all that would follow in a damaged file.
    fn damaged(index: u64, damage: Damage) -> Self {
        Self {
            index,
            bytes: Cow::Borrowed(&[]),
            timestamp_ns: None,
            original_length: 0,
            error: Some(FrameError::Damaged {
                offset: damage.offset,
                what: damage.what,
            }),
        }
    }
}

/// Why a file gives no frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// It is no capture file, or one of another form.
    #[error("not a pcap or pcapng file: {found}")]
    #[non_exhaustive]
    Form {
        /// What it is instead.
        found: String,
    },
    /// It is of a version that is not read.
    #[error("{form} version {major}.{minor} is not read")]
    #[non_exhaustive]
    Version {
        /// `pcap` or `pcapng`.
        form: &'static str,
        /// Major number.
        major: u16,
        /// Minor number.
        minor: u16,
    },
    /// Its frames are not Ethernet frames.
    #[error(
        "frames of link type {link_type}{}, only ETHERNET (1) is read",
        on_interface(*interface)
    )]
    #[non_exhaustive]
    LinkType {
        /// Their type.
        link_type: LinkType,
        /// The interface of a pcapng file where they were captured, from 0.
        interface: Option<u32>,
    },
    /// Its header is cut or makes no sense.
    #[error("the {form} file is damaged at byte {offset}: {what}")]
    #[non_exhaustive]
    Header {
        /// `pcap` or `pcapng`.
        form: &'static str,
        /// Where in the file.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
}

fn on_interface(interface: Option<u32>) -> String {
    interface.map_or_else(String::new, |number| format!(" on interface {number}"))
}

/// A place where a file makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Damage {
    offset: usize,
    what: &'static str,
}

/// Opens the bytes of a capture file.
///
/// # Errors
/// The file is no capture of Ethernet frames. A pcapng file may describe other interfaces too, as
/// long as no packet was captured there.
pub fn read(bytes: &[u8]) -> Result<Frames<'_>, CaptureError> {
    let source = match bytes.first_chunk() {
        Some(magic) if pcapng::recognises(*magic) => Source::Pcapng(pcapng::Reader::open(bytes)?),
        Some(magic) if pcap::recognises(*magic) => Source::Pcap(pcap::Reader::open(bytes)?),
        _ => return Err(CaptureError::Form { found: form(bytes) }),
    };
    Ok(Frames { source, next: 0 })
}

/// The frames of a capture file in their order there.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    source: Source<'a>,
    next: u64,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Pcap(pcap::Reader<'a>),
    Pcapng(pcapng::Reader<'a>),
}

/// A packet as a file holds it.
#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    bytes: &'a [u8],
    timestamp_ns: Option<u64>,
    original_length: u64,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let record = match &mut self.source {
            Source::Pcap(reader) => reader.next()?,
            Source::Pcapng(reader) => reader.next()?,
        };
        let index = self.next;
        self.next += 1;
        Some(match record {
            Ok(record) => Frame::captured(
                index,
                Cow::Borrowed(record.bytes),
                record.timestamp_ns,
                record.original_length,
            ),
            Err(damage) => Frame::damaged(index, damage),
        })
    }
}

impl std::iter::FusedIterator for Frames<'_> {}

/// What a file that is no capture may be, for the message.
fn form(bytes: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 10] = [
        (b"\x1f\x8b", "gzip data, unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data, unpack it first"),
        (b"\xfd7zXZ\0", "xz data, unpack it first"),
        (b"BZh", "bzip2 data, unpack it first"),
        (b"\x04\x22\x4d\x18", "lz4 data, unpack it first"),
        (b"PK\x03\x04", "a zip archive, unpack it first"),
        (b"snoop\0\0\0", "a snoop capture"),
        // Two variants of pcap with longer packet headers, in both byte orders.
        (b"\xa1\xb2\xcd\x34", "pcap with extended packet headers"),
        (b"\x34\xcd\xb2\xa1", "pcap with extended packet headers"),
        (b"\x7fELF", "an ELF file"),
    ];
    if let Some((_, name)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*name).to_owned();
    }
    match bytes.get(..4) {
        Some(first) => {
            let first: Vec<_> = first.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with {}", first.join(" "))
        }
        None => format!("it has {} bytes", bytes.len()),
    }
}
