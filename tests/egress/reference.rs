// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement once more, from the specification alone: FNV-1a over all 44 bytes, and the Maglev table.

use std::net::{IpAddr, Ipv6Addr};

/// What the placement hash is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) table: u32,
    pub(crate) group: u8,
    pub(crate) source: IpAddr,
    /// By flow: destination, protocol and ports.
    pub(crate) flow: Option<(IpAddr, u8, [u16; 2])>,
}

fn address(of: IpAddr) -> [u8; 16] {
    match of {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

impl Placed {
    pub(crate) fn bytes(&self) -> [u8; 44] {
        let mut key = [0; 44];
        key[..4].copy_from_slice(&self.table.to_le_bytes());
        key[4] = u8::from(self.source.is_ipv4());
        key[6] = self.group;
        key[12..28].copy_from_slice(&address(self.source));
        if let Some((destination, protocol, [from, to])) = self.flow {
            key[5] = protocol;
            key[8..10].copy_from_slice(&from.to_be_bytes());
            key[10..12].copy_from_slice(&to.to_be_bytes());
            key[28..].copy_from_slice(&address(destination));
        }
        key
    }

    pub(crate) fn hash(&self) -> u32 {
        fnv32(&self.bytes())
    }
}

/// FNV-1a with 32 bits.
pub(crate) fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn fnv64(key: &str, seed: u64) -> u64 {
    let bytes = key.bytes().chain(seed.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Which of these SIDs owns each slot of a table, all with the same weight.
pub(crate) fn maglev(sids: &[Ipv6Addr], size: u64) -> Vec<Ipv6Addr> {
    let mut keys: Vec<_> = sids.iter().map(|sid| (sid.to_string(), *sid)).collect();
    keys.sort();
    let mut next: Vec<_> = keys
        .iter()
        .map(|(key, _)| {
            let offset = fnv64(key, 0xda7a_5eed_0ffc_e7e5) % size;
            let skip = fnv64(key, 0x5eed_da7a_1ceb_00c5) % (size - 1) + 1;
            (offset, skip)
        })
        .collect();
    let mut table = vec![None; size as usize];
    let mut left = size;
    while left > 0 {
        for (member, (at, skip)) in next.iter_mut().enumerate() {
            while table[*at as usize].is_some() {
                *at = (*at + *skip) % size;
            }
            table[*at as usize] = Some(keys[member].1);
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    table.into_iter().flatten().collect()
}
