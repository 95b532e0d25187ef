// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The flow label that encapsulated packets get in the profile `FLOW_LABEL`.
//!
//! Routers and network devices that spread flows over paths and queues look no further than the outer
//! header, so the label stands for the inner flow (RFC 6438). It is a function of that flow alone: the
//! same for all its packets, on every CPU, node and architecture.

use std::net::IpAddr;

/// What tells two flows between the same addresses apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The inner packet's own flow label, which its sender chose: 20 bits, not 0.
    Label(u32),
    /// The protocol, of IPv6 the first next header, and the ports: those of TCP and UDP, 0 where a
    /// packet is a fragment, has something else there, or is cut off before them.
    Ports {
        /// The protocol.
        protocol: u8,
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
}

impl Subject {
    fn word(self) -> u64 {
        match self {
            Self::Label(label) => u64::from(label),
            Self::Ports {
                protocol,
                source,
                destination,
            } => {
                let ports = u64::from(source) << 16 | u64::from(destination);
                (u64::from(protocol) + 1) << 32 | ports
            }
        }
    }
}

/// An address as two words; IPv4 in the first four bytes of sixteen.
fn words(address: IpAddr) -> [u64; 2] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    let whole = u128::from_le_bytes(bytes);
    [whole as u64, (whole >> 64) as u64]
}

/// The label of a flow: 20 bits, never 0.
pub fn flow_label(source: IpAddr, destination: IpAddr, subject: Subject) -> u32 {
    let ([from, from_low], [to, to_low]) = (words(source), words(destination));
    let sum = [
        (subject.word(), 0x9b05_688c_2b3e_6c1f),
        (from, 0xbb67_ae85_84ca_a73b),
        (from_low, 0x3c6e_f372_fe94_f82b),
        (to, 0xa54f_f53a_5f1d_36f1),
        (to_low, 0x510e_527f_ade6_82d1_u64),
    ]
    .into_iter()
    .fold(0_u64, |sum, (word, factor)| {
        sum.wrapping_add(word.wrapping_mul(factor))
    });
    let mixed = (sum ^ sum >> 32).wrapping_mul(0x6a09_e667_f3bc_c909);
    ((mixed >> 44) as u32).max(1)
}
