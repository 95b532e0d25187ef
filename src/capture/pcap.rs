// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Classic capture files: a header of 24 bytes, then packets with a header of 16 bytes each, all
//! in the byte order of their writer.

use super::order::Order;
use super::{CaptureError, Damage, LinkType, Record};

const FILE_HEADER_LEN: usize = 24;
const PACKET_HEADER_LEN: usize = 16;
/// The header's first word tells the order of bytes and the unit of fractions of a second.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The version that everybody writes since 1998.
const VERSION: (u16, u16) = (2, 4);

/// Whether a file that begins so is one.
pub(super) fn recognises(magic: [u8; 4]) -> bool {
    order_and_unit(magic).is_some()
}

fn order_and_unit(magic: [u8; 4]) -> Option<(Order, u64)> {
    [Order::Big, Order::Little]
        .into_iter()
        .find_map(|order| match order.u32(&magic, 0) {
            Some(MICROSECONDS) => Some((order, 1_000)),
            Some(NANOSECONDS) => Some((order, 1)),
            _ => None,
        })
}

#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    order: Order,
    /// Nanoseconds in a unit of the fraction of a second.
    unit_ns: u64,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CaptureError> {
        let cut = |what| CaptureError::Header {
            form: "pcap",
            offset: 0,
            what,
        };
        let (order, unit_ns) = bytes
            .first_chunk()
            .and_then(|magic| order_and_unit(*magic))
            .ok_or(cut("no magic number"))?;
        let field = |at| order.u32(bytes, at).ok_or(cut("the file header is cut"));
        let (Some(major), Some(minor)) = (order.u16(bytes, 4), order.u16(bytes, 6)) else {
            return Err(cut("the file header is cut"));
        };
        if (major, minor) != VERSION {
            return Err(CaptureError::Version {
                form: "pcap",
                major,
                minor,
            });
        }
        // The upper half says whether frames end with their check sequence. It may stay: the IP
        // header says where the packet ends.
        let link_type = LinkType(field(20)? as u16);
        if link_type != LinkType::ETHERNET {
            return Err(CaptureError::LinkType {
                link_type,
                interface: None,
            });
        }
        Ok(Self {
            bytes,
            order,
            unit_ns,
            at: FILE_HEADER_LEN,
        })
    }

    /// The next packet. After damage there is none.
    pub(super) fn next(&mut self) -> Option<Result<Record<'a>, Damage>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let Some(header) = Header::read(self.order, rest) else {
            return Some(Err(self.damage("the header of a packet is cut")));
        };
        // A length beyond the address space is one beyond the file.
        let captured = usize::try_from(header.captured).unwrap_or(usize::MAX);
        let end = PACKET_HEADER_LEN.saturating_add(captured);
        let Some(bytes) = rest.get(PACKET_HEADER_LEN..end) else {
            return Some(Err(self.damage("a packet goes beyond the end of the file")));
        };
        self.at += end;
        Some(Ok(Record {
            bytes,
            timestamp_ns: Some(
                u64::from(header.seconds) * 1_000_000_000
                    + u64::from(header.fraction) * self.unit_ns,
            ),
            original_length: u64::from(header.original),
        }))
    }

    fn damage(&mut self, what: &'static str) -> Damage {
        let offset = std::mem::replace(&mut self.at, self.bytes.len());
        Damage { offset, what }
    }
}

struct Header {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

impl Header {
    fn read(order: Order, bytes: &[u8]) -> Option<Self> {
        Some(Self {
            seconds: order.u32(bytes, 0)?,
            fraction: order.u32(bytes, 4)?,
            captured: order.u32(bytes, 8)?,
            original: order.u32(bytes, 12)?,
        })
    }
}
