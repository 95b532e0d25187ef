// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Capture files of the next generation: sections of blocks, each with its type and length.
//!
//! A section header gives the byte order and forgets the interfaces before it; interfaces are
//! numbered in the order of their descriptions. Blocks that hold no packet and describe no
//! interface are skipped.

use super::order::Order;
use super::{CaptureError, Damage, LinkType, Record};

/// Reads the same in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Written by old tools only.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const MAJOR_VERSION: u16 = 1;

const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Type and length before the body of a block.
const BLOCK_HEADER_LEN: usize = 8;
/// The length again, behind the body.
const BLOCK_TRAILER_LEN: usize = 4;

/// Whether a file that begins so is one.
pub(super) fn recognises(magic: [u8; 4]) -> bool {
    magic == SECTION_HEADER.to_be_bytes()
}

#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// Bytes kept of each packet; 0: all.
    snap_len: u32,
    clock: Clock,
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The option of the interface description: the high bit selects powers of 2 instead of 10,
    /// the others are the exponent, negated.
    resolution: u8,
    /// Seconds to be added.
    offset: i64,
}

struct Block<'a> {
    kind: u32,
    body: &'a [u8],
}

struct Packet<'a> {
    interface: u32,
    link_type: LinkType,
    record: Record<'a>,
}

impl<'a> Reader<'a> {
    /// Checks the first section's header, and that all packets are Ethernet frames.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CaptureError> {
        let mut reader = Self {
            bytes,
            at: 0,
            order: Order::Big,
            interfaces: Vec::new(),
        };
        let first = reader.block().map_err(|damage| CaptureError::Header {
            form: "pcapng",
            offset: damage.offset,
            what: damage.what,
        })?;
        let order = reader.order;
        let version = |at| order.u16(first.body, at).unwrap_or(0);
        let (major, minor) = (version(4), version(6));
        if major != MAJOR_VERSION {
            return Err(CaptureError::Version {
                form: "pcapng",
                major,
                minor,
            });
        }
        let mut ahead = reader.clone();
        while let Some(Ok(packet)) = ahead.packet() {
            if packet.link_type != LinkType::ETHERNET {
                return Err(CaptureError::LinkType {
                    link_type: packet.link_type,
                    interface: Some(packet.interface),
                });
            }
        }
        Ok(reader)
    }

    /// The next packet. After damage there is none.
    pub(super) fn next(&mut self) -> Option<Result<Record<'a>, Damage>> {
        Some(self.packet()?.map(|packet| packet.record))
    }

    fn packet(&mut self) -> Option<Result<Packet<'a>, Damage>> {
        while self.at < self.bytes.len() {
            let start = self.at;
            match self.block().and_then(|block| self.read(start, &block)) {
                Ok(None) => {}
                Ok(Some(packet)) => return Some(Ok(packet)),
                Err(damage) => {
                    self.at = self.bytes.len();
                    return Some(Err(damage));
                }
            }
        }
        None
    }

    /// Takes the next block, and the byte order from a section header.
    fn block(&mut self) -> Result<Block<'a>, Damage> {
        let offset = self.at;
        let damage = |what| Damage { offset, what };
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let cut = || damage("a block is cut");
        let kind = self.order.u32(rest, 0).ok_or_else(cut)?;
        if kind == SECTION_HEADER {
            let magic = |order: Order| order.u32(rest, BLOCK_HEADER_LEN);
            self.order = [Order::Big, Order::Little]
                .into_iter()
                .find(|order| magic(*order) == Some(BYTE_ORDER_MAGIC))
                .ok_or_else(|| damage("a section header has no byte-order magic"))?;
        }
        let length = self.order.u32(rest, 4).ok_or_else(cut)?;
        // A length beyond the address space is one beyond the file.
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length % 4 != 0 || length < BLOCK_HEADER_LEN + BLOCK_TRAILER_LEN {
            return Err(damage("a block has an impossible length"));
        }
        let block = rest.get(..length).ok_or_else(cut)?;
        let (block, trailer) = block.split_at(length - BLOCK_TRAILER_LEN);
        if self.order.u32(trailer, 0).map(|length| length as usize) != Some(length) {
            return Err(damage("the two lengths of a block differ"));
        }
        self.at += length;
        Ok(Block {
            kind,
            body: block.get(BLOCK_HEADER_LEN..).unwrap_or_default(),
        })
    }

    fn read(&mut self, offset: usize, block: &Block<'a>) -> Result<Option<Packet<'a>>, Damage> {
        let damage = |what| Damage { offset, what };
        match block.kind {
            SECTION_HEADER => {
                if self.order.u16(block.body, 4) != Some(MAJOR_VERSION) {
                    return Err(damage("a section of another version"));
                }
                self.interfaces.clear();
                Ok(None)
            }
            INTERFACE_DESCRIPTION => {
                let interface = Interface::read(self.order, block.body)
                    .ok_or_else(|| damage("an interface description is cut"))?;
                self.interfaces.push(interface);
                Ok(None)
            }
            PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                let place = Place::read(self.order, block, &self.interfaces)
                    .ok_or_else(|| damage("a packet's block is cut"))?;
                let interface = self
                    .interfaces
                    .get(place.interface as usize)
                    .ok_or_else(|| damage("a packet's interface is not described"))?;
                let bytes = block
                    .body
                    .get(place.at..)
                    .and_then(|data| data.get(..place.captured as usize))
                    .ok_or_else(|| damage("a packet goes beyond its block"))?;
                Ok(Some(Packet {
                    interface: place.interface,
                    link_type: interface.link_type,
                    record: Record {
                        bytes,
                        timestamp_ns: place.time.and_then(|time| interface.clock.ns(time)),
                        original_length: u64::from(place.original),
                    },
                }))
            }
            _ => Ok(None),
        }
    }
}

/// Where in its block a packet is, and what the block says about it.
struct Place {
    interface: u32,
    /// In the interface's own units.
    time: Option<u64>,
    captured: u32,
    original: u32,
    at: usize,
}

impl Place {
    fn read(order: Order, block: &Block<'_>, interfaces: &[Interface]) -> Option<Self> {
        let field = |at| order.u32(block.body, at);
        if block.kind == SIMPLE_PACKET {
            let original = field(0)?;
            // It belongs to the first interface, whose limit alone says how much of it is there.
            let limit = interfaces.first().map_or(0, |interface| interface.snap_len);
            let captured = if limit == 0 {
                original
            } else {
                original.min(limit)
            };
            return Some(Self {
                interface: 0,
                time: None,
                captured,
                original,
                at: 4,
            });
        }
        let interface = match block.kind {
            // The other half of the word counts lost packets.
            PACKET => u32::from(order.u16(block.body, 0)?),
            _ => field(0)?,
        };
        Some(Self {
            interface,
            time: Some(u64::from(field(4)?) << 32 | u64::from(field(8)?)),
            captured: field(12)?,
            original: field(16)?,
            at: 20,
        })
    }
}

impl Interface {
    fn read(order: Order, body: &[u8]) -> Option<Self> {
        let mut interface = Self {
            link_type: LinkType(order.u16(body, 0)?),
            snap_len: order.u32(body, 4)?,
            clock: Clock {
                resolution: 6,
                offset: 0,
            },
        };
        let mut options = body.get(8..)?;
        while !options.is_empty() {
            let (code, length) = (order.u16(options, 0)?, order.u16(options, 2)?);
            if code == END_OF_OPTIONS {
                break;
            }
            let value = options.get(4..)?.get(..usize::from(length))?;
            match (code, value) {
                (IF_TSRESOL, [resolution]) => interface.clock.resolution = *resolution,
                (IF_TSOFFSET, value) if value.len() == 8 => {
                    interface.clock.offset = order.i64(value, 0)?;
                }
                _ => {}
            }
            // Bodies and values are multiples of four bytes, so the padding is there.
            options = options.get(4 + value.len().next_multiple_of(4)..)?;
        }
        Some(interface)
    }
}

impl Clock {
    const NS_PER_SECOND: i128 = 1_000_000_000;

    /// Nanoseconds since 1970, unless they are before that or do not fit.
    fn ns(self, time: u64) -> Option<u64> {
        let exponent = u32::from(self.resolution & 0x7f);
        // Below 2^94.
        let scaled = i128::from(time) * Self::NS_PER_SECOND;
        let ns = if self.resolution & 0x80 != 0 {
            scaled >> exponent
        } else {
            // Where a second has more units than can be counted, all these units are within
            // the first nanosecond.
            10_i128
                .checked_pow(exponent)
                .map_or(0, |units| scaled / units)
        };
        u64::try_from(ns + i128::from(self.offset) * Self::NS_PER_SECOND).ok()
    }
}
