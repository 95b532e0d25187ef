// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A frame around a UDP payload, as a client would send it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Locally administered; nothing decides by them.
const DESTINATION_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];
const SOURCE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const IPV4_HEADER_LEN: usize = 20;
const UDP_HEADER_LEN: usize = 8;
const PROTOCOL_UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;
const DONT_FRAGMENT: u16 = 0x4000;

/// Why no frame can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UdpFrameError {
    /// One address is IPv4, the other IPv6.
    #[error("no packet goes from {from} to {to}: they are of different IP versions")]
    #[non_exhaustive]
    Families {
        /// The source.
        from: IpAddr,
        /// The destination.
        to: IpAddr,
    },
    /// The payload does not fit a packet.
    #[error("a payload of {length} bytes does not fit a packet, at most {most} do")]
    #[non_exhaustive]
    Payload {
        /// Its bytes.
        length: usize,
        /// Bytes of the longest one.
        most: usize,
    },
}

/// A client's address and port for packets to `to`: one set aside for documentation.
pub fn default_source(to: IpAddr) -> SocketAddr {
    let address = match to {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::new(198, 51, 100, 1)),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    SocketAddr::new(address, 40_000)
}

/// An Ethernet frame with a UDP datagram, all lengths and checksums right.
///
/// # Errors
/// The addresses are of different families, or the payload is too long for a packet.
pub fn udp_frame(
    source: SocketAddr,
    destination: SocketAddr,
    payload: &[u8],
) -> Result<Vec<u8>, UdpFrameError> {
    let header_len = match destination {
        SocketAddr::V4(_) => IPV4_HEADER_LEN + UDP_HEADER_LEN,
        // The length field of IPv6 does not count the IP header.
        SocketAddr::V6(_) => UDP_HEADER_LEN,
    };
    let most = usize::from(u16::MAX) - header_len;
    let length = payload.len();
    if length > most {
        return Err(UdpFrameError::Payload { length, most });
    }
    // Both fit: `most` leaves room for the headers.
    let udp_len = (UDP_HEADER_LEN + length) as u16;
    let declared_len = (header_len + length) as u16;

    let mut frame = Vec::with_capacity(14 + 40 + usize::from(udp_len));
    frame.extend(DESTINATION_MAC);
    frame.extend(SOURCE_MAC);
    let mut sum = Sum::default();
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend(ETHERTYPE_IPV4.to_be_bytes());
            frame.extend(ipv4_header(declared_len, from, to));
            sum.add(&from.octets());
            sum.add(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend(ETHERTYPE_IPV6.to_be_bytes());
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(declared_len.to_be_bytes());
            frame.extend([PROTOCOL_UDP, HOP_LIMIT]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            sum.add(&from.octets());
            sum.add(&to.octets());
        }
        (from, to) => return Err(UdpFrameError::Families { from, to }),
    }
    let mut header = [0; UDP_HEADER_LEN];
    header[..2].copy_from_slice(&source.port().to_be_bytes());
    header[2..4].copy_from_slice(&destination.port().to_be_bytes());
    header[4..6].copy_from_slice(&udp_len.to_be_bytes());
    // The pseudo header: addresses, length, protocol.
    sum.add(&udp_len.to_be_bytes());
    sum.add(&[0, PROTOCOL_UDP]);
    sum.add(&header);
    sum.add(payload);
    // Zero stands for no checksum.
    let checksum = match sum.checksum() {
        0 => u16::MAX,
        checksum => checksum,
    };
    header[6..].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    frame.extend_from_slice(payload);
    Ok(frame)
}

fn ipv4_header(total_len: u16, from: Ipv4Addr, to: Ipv4Addr) -> [u8; IPV4_HEADER_LEN] {
    let mut header = [0; IPV4_HEADER_LEN];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total_len.to_be_bytes());
    header[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    header[8] = HOP_LIMIT;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let mut sum = Sum::default();
    sum.add(&header);
    header[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
    header
}

/// The sum of the Internet checksum (RFC 1071).
#[derive(Default)]
struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words, the last one padded with zero.
    fn add(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            self.0 += u64::from(u16::from_be_bytes([word[0], low]));
        }
    }

    fn checksum(&self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        // Not above 0xffff any more.
        !(sum as u16)
    }
}
