// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The number of a service.

use std::net::IpAddr;

use super::spec::Protocol;
use crate::hash::Fnv1a32;
use crate::id::ServiceId;

/// The number that names a service in the kernel's maps, the same on every node: FNV-1a 32 over
/// the name's length (2 bytes, big-endian), the name, address family (4 or 6), protocol number,
/// address (16 bytes, IPv4 in the first four) and port (2 bytes, big-endian).
///
/// The length delimits the name, so that no two services make the same bytes.
pub fn service_id(name: &str, vip: IpAddr, protocol: Protocol, port: u16) -> ServiceId {
    let mut address = [0; 16];
    let family = match vip {
        IpAddr::V4(v4) => {
            address[..4].copy_from_slice(&v4.octets());
            4
        }
        IpAddr::V6(v6) => {
            address = v6.octets();
            6
        }
    };
    // The names of a specification are far shorter; of a longer one the low bits count.
    let length = (name.len() as u16).to_be_bytes();
    let hash = Fnv1a32::new()
        .update(&length)
        .update(name.as_bytes())
        .update(&[family, protocol.number()])
        .update(&address)
        .update(&port.to_be_bytes());
    ServiceId::new(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, vip: &str, protocol: Protocol, port: u16) -> u32 {
        service_id(name, vip.parse().unwrap(), protocol, port).get()
    }

    #[test]
    fn vectors() {
        assert_eq!(
            number("quic-api", "203.0.113.80", Protocol::Udp, 443),
            0x8cd5_d28f
        );
        assert_eq!(
            number("quic-api6", "2001:db8::80", Protocol::Udp, 443),
            0xe9f7_a012
        );
    }

    #[test]
    fn the_name_is_delimited_from_the_address() {
        // '1' followed by 10.0.0.1 shifted by a byte reads like 49.10.0.0 without a delimiter.
        assert_ne!(
            number("a", "110.0.0.1", Protocol::Udp, 443),
            number("a1", "10.0.0.1", Protocol::Udp, 443)
        );
    }
}
