// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames of UDP over IPv6.

use std::net::Ipv6Addr;

/// A UDP packet over IPv6 in a frame.
pub(crate) fn frame(source: &str, destination: &str) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 16, 17, 64]);
    for address in [source, destination] {
        frame.extend(address.parse::<Ipv6Addr>().expect("an address").octets());
    }
    frame.extend([0x30, 0x39, 1, 0xbb, 0, 16, 0, 0]);
    frame.extend([0; 8]);
    frame
}
