// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writes capture files field by field.

/// The byte order of the machine that writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    Big,
    Little,
}

pub(crate) const BOTH: [Writer; 2] = [Writer::Big, Writer::Little];

impl Writer {
    pub(crate) fn u16(self, number: u16) -> Vec<u8> {
        match self {
            Self::Big => number.to_be_bytes().to_vec(),
            Self::Little => number.to_le_bytes().to_vec(),
        }
    }

    pub(crate) fn u32(self, number: u32) -> Vec<u8> {
        match self {
            Self::Big => number.to_be_bytes().to_vec(),
            Self::Little => number.to_le_bytes().to_vec(),
        }
    }

    fn words(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|&n| self.u32(n)).collect()
    }

    /// Header of a classic file of version 2.4: magic, version, two unused words, limit of packet
    /// lengths, link type.
    pub(crate) fn pcap(self, magic: u32, link_type: u32) -> Vec<u8> {
        [
            self.u32(magic),
            self.u16(2),
            self.u16(4),
            self.words(&[0, 0, 262_144, link_type]),
        ]
        .concat()
    }

    /// A packet of a classic file: seconds, fraction, bytes here, bytes of the packet, the bytes.
    pub(crate) fn packet(self, time: (u32, u32), original: usize, bytes: &[u8]) -> Vec<u8> {
        let lengths = [bytes.len() as u32, original as u32];
        let header = self.words(&[time.0, time.1, lengths[0], lengths[1]]);
        [&header, bytes].concat()
    }

    /// A block: type, length of all, body, length of all.
    pub(crate) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let body = padded(body);
        let length = body.len() as u32 + 12;
        [self.words(&[kind, length]), body, self.words(&[length])].concat()
    }

    /// A section header: byte-order magic, version 1.0, length of the section not given.
    pub(crate) fn section(self) -> Vec<u8> {
        let version = [self.u16(1), self.u16(0)].concat();
        let body = [self.words(&[0x1a2b_3c4d]), version, vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    /// An interface description: link type, unused half word, limit of packet lengths, options.
    pub(crate) fn interface(self, link_type: u16, limit: u32, options: &[u8]) -> Vec<u8> {
        let body = [
            self.u16(link_type),
            self.u16(0),
            self.u32(limit),
            options.to_vec(),
        ]
        .concat();
        self.block(1, &body)
    }

    /// An option: code, length, value, padding.
    pub(crate) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        [self.u16(code), self.u16(value.len() as u16), padded(value)].concat()
    }

    /// An enhanced packet: interface, time in two halves, bytes here, bytes of the packet, the
    /// bytes, options.
    pub(crate) fn enhanced(
        self,
        interface: u32,
        time: u64,
        original: usize,
        bytes: &[u8],
    ) -> Vec<u8> {
        let time = [(time >> 32) as u32, time as u32];
        let lengths = [bytes.len() as u32, original as u32];
        let header = self.words(&[interface, time[0], time[1], lengths[0], lengths[1]]);
        let comment = self.option(1, b"seen");
        let end = self.option(0, &[]);
        self.block(6, &[header, padded(bytes), comment, end].concat())
    }

    /// A packet block, which only old files have: interface and number of lost packets share a
    /// word, the rest is as above.
    pub(crate) fn old_packet(
        self,
        interface: u16,
        time: u64,
        original: usize,
        bytes: &[u8],
    ) -> Vec<u8> {
        let time = [(time >> 32) as u32, time as u32];
        let lengths = [bytes.len() as u32, original as u32];
        let header = self.words(&[time[0], time[1], lengths[0], lengths[1]]);
        let lost = 0xffff;
        let body = [self.u16(interface), self.u16(lost), header, padded(bytes)].concat();
        self.block(2, &body)
    }

    /// A simple packet: bytes of the packet, the bytes.
    pub(crate) fn simple(self, original: usize, bytes: &[u8]) -> Vec<u8> {
        self.block(3, &[self.u32(original as u32), padded(bytes)].concat())
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
