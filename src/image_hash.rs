// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The hashes of the open-addressed tables in a generation: services by key, server IDs by bytes.
//!
//! Twins of `gw_directory_hash`, `gw_server_id_hash` and `gw_cid_hash` in `bpf/lib/hash.h`, where the formula is.
//! They are local to one machine: a generation carries its seeds, and only the program that reads
//! this generation and the builder that wrote it must agree. Draw seeds from a generator that
//! changes every bit from one to the next; neighbouring numbers give related multipliers.

use crate::abi;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of a service's key; the directory's index is `hash & mask`.
pub(crate) fn directory_hash(key: &abi::ServiceKey, seed: u64) -> u32 {
    let bytes: [u8; 20] = bytemuck::cast(*key);
    let s = multiplier(seed);
    let h = word64(&bytes, 0)
        .wrapping_mul(s)
        .wrapping_add(word64(&bytes, 8));
    let c = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
    finish(h.wrapping_mul(s).wrapping_add(u64::from(c)), s)
}

/// Hash of a server ID of `length` bytes (zeros behind it) under the config with this ID; the
/// index among the server IDs of its service is `hash & mask`.
pub(crate) fn server_id_hash(config: u8, length: u8, bytes: &[u8; 16], seed: u64) -> u32 {
    let s = multiplier(seed);
    let tag = u64::from(config << 4 | length) << 56;
    let h = word64(bytes, 0)
        .wrapping_mul(s)
        .wrapping_add(word64(bytes, 8) | tag);
    finish(h, s)
}

/// Hash of a connection ID under the secret of its map; the low 16 bits are its entry's tag.
///
/// Of the key's 28 bytes the words are a (service, and the length above it), b, c (16 bytes of the
/// connection ID) and d (the last four): `((a * s + b) * s + c) * s + d`, finished as the others.
pub(crate) fn cid_hash(key: &abi::CidKey, seed: u64) -> u32 {
    let s = multiplier(seed);
    let a = u64::from(key.service) | u64::from(key.length) << 32;
    let d = u32::from_le_bytes([key.cid[16], key.cid[17], key.cid[18], key.cid[19]]);
    let h = [word64(&key.cid, 0), word64(&key.cid, 8), u64::from(d)]
        .into_iter()
        .fold(a, |h, word| h.wrapping_mul(s).wrapping_add(word));
    finish(h, s)
}

fn multiplier(seed: u64) -> u64 {
    (seed ^ STEP) | 1
}

fn finish(h: u64, s: u64) -> u32 {
    ((h ^ (h >> 32)).wrapping_mul(s) >> 32) as u32
}

fn word64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::splitmix64;

    fn key(vip: [u8; 16], port: u16) -> abi::ServiceKey {
        abi::ServiceKey {
            family: 4,
            protocol: 17,
            port: port.to_be(),
            vip,
        }
    }

    /// The longest probe in a table that is a quarter full.
    fn longest_probe(hashes: &[u32]) -> usize {
        let mask = (4 * hashes.len()).next_power_of_two() - 1;
        let mut used = vec![false; mask + 1];
        let mut longest = 0;
        for hash in hashes {
            let mut index = *hash as usize & mask;
            let mut probes = 1;
            while used[index] {
                index = (index + 1) & mask;
                probes += 1;
            }
            used[index] = true;
            longest = longest.max(probes);
        }
        longest
    }

    /// How many of the first seeds of splitmix64 keep every probe within the limit.
    fn good_seeds(hashes: impl Fn(u64) -> Vec<u32>) -> usize {
        let mut state = 0_u64;
        (0..64)
            .filter(|_| {
                let seed = splitmix64(&mut state);
                longest_probe(&hashes(seed)) <= abi::Limit::GW_MAX_PROBES.0 as usize
            })
            .count()
    }

    #[test]
    fn neighbouring_services_spread() {
        for bytes in [0..4_usize, 12..16, 4..8] {
            let good = good_seeds(|seed| {
                (0..256_u32)
                    .map(|index| {
                        let mut vip = [0; 16];
                        vip[bytes.clone()]
                            .copy_from_slice(&(0xcb00_7100 + index / 2).to_be_bytes());
                        directory_hash(&key(vip, 443 + (index % 2) as u16), seed)
                    })
                    .collect()
            });
            assert!(good >= 16, "{good} of 64 seeds for addresses in {bytes:?}");
        }
        let good = good_seeds(|seed| {
            (0..256)
                .map(|port| directory_hash(&key([7; 16], 8000 + port), seed))
                .collect()
        });
        assert!(good >= 16, "{good} of 64 seeds for ports");
    }

    #[test]
    fn neighbouring_server_ids_spread() {
        for at in 0..13 {
            let good = good_seeds(|seed| {
                (0..256_u16)
                    .map(|index| {
                        let mut bytes = [0; 16];
                        bytes[at..at + 2].copy_from_slice(&index.to_be_bytes());
                        server_id_hash(3, 15, &bytes, seed)
                    })
                    .collect()
            });
            assert!(good >= 16, "{good} of 64 seeds at byte {at}");
        }
    }

    #[test]
    fn every_part_counts() {
        let zero = key([0; 16], 0);
        for at in 0..20 {
            let mut bytes: [u8; 20] = bytemuck::cast(zero);
            bytes[at] ^= 1;
            let other: abi::ServiceKey = bytemuck::cast(bytes);
            assert_ne!(
                directory_hash(&zero, 5),
                directory_hash(&other, 5),
                "byte {at}"
            );
        }
        let base = server_id_hash(1, 2, &[0; 16], 5);
        assert_ne!(base, server_id_hash(2, 2, &[0; 16], 5));
        assert_ne!(base, server_id_hash(1, 3, &[0; 16], 5));
        assert_ne!(base, server_id_hash(1, 2, &[0; 16], 6 ^ STEP));
    }
}
