// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hash functions that every node of a fleet, the Rust model and the kernel programs share.
//!
//! Two kinds with two purposes:
//!
//! - **FNV-1a** names things that an operator wrote: service IDs, table digests, Maglev keys. It is
//!   not keyed, so nothing that a stranger can choose may be hashed with it alone.
//! - **The flow hash** ([`FlowHashKey`]) places packets. It is keyed by a secret [`HashSeed`], so
//!   nobody without the seed can prepare flows that meet in one slot.
//!
//! # The flow hash
//!
//! Input is the [`FlowKey`], 24 bytes read as six little-endian `u32` m0 to m5. Where only the
//! client's address shall count, m1 (the two ports) is taken as 0. The seed is two big-endian
//! `u64`, s0 and s1. splitmix64 started at s0 yields z1 to z4; k0 and k1 are the low and high half
//! of z1, k2 and k3 of z2, k4 and k5 of z3, and f = z4 xor s1. Then
//!
//! ```text
//! h64  = fmix64(((m0+k0)*(m1+k1) + (m2+k2)*(m3+k3) + (m4+k4)*(m5+k5)) xor f)
//! hash = h64 >> 32
//! slot = (hash * M) >> 32
//! ```
//!
//! with the additions m + k modulo 2^32 and everything else modulo 2^64. The sum is the NH
//! universal hash: over the choice of the seed, two different keys collide with a probability of
//! about 2^-32. A hash is never an identity: entries are compared by key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::hex::{self, HexError};
use crate::id::ServiceId;

/// FNV-1a with 32 bits, fed piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a32(u32);

impl Fnv1a32 {
    const PRIME: u32 = 16_777_619;

    /// The state before any input: the offset basis.
    pub const fn new() -> Self {
        Self(2_166_136_261)
    }

    /// The state that [`Fnv1a32::finish`] gave, to go on from.
    pub const fn resume(state: u32) -> Self {
        Self(state)
    }

    /// The state after more input.
    #[must_use]
    pub const fn update(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u32).wrapping_mul(Self::PRIME);
            i += 1;
        }
        Self(hash)
    }

    /// The state after `count` zero bytes: one multiplication, as such a byte changes nothing else.
    #[must_use]
    pub const fn zeros(self, count: u32) -> Self {
        Self(self.0.wrapping_mul(Self::PRIME.wrapping_pow(count)))
    }

    /// The hash of the input so far.
    pub const fn finish(self) -> u32 {
        self.0
    }
}

impl Default for Fnv1a32 {
    fn default() -> Self {
        Self::new()
    }
}

/// FNV-1a with 64 bits, fed piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a64(u64);

impl Fnv1a64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    /// The state before any input: the offset basis.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// The state after more input.
    #[must_use]
    pub const fn update(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(Self::PRIME);
            i += 1;
        }
        Self(hash)
    }

    /// The hash of the input so far.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

impl Default for Fnv1a64 {
    fn default() -> Self {
        Self::new()
    }
}

/// FNV-1a with 32 bits of one byte string.
pub const fn fnv1a_32(bytes: &[u8]) -> u32 {
    Fnv1a32::new().update(bytes).finish()
}

/// FNV-1a with 64 bits of one byte string.
pub const fn fnv1a_64(bytes: &[u8]) -> u64 {
    Fnv1a64::new().update(bytes).finish()
}

/// The finalizer of MurmurHash3 with 64 bits: a bijection in which every input bit moves every
/// output bit.
pub const fn fmix64(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// One step of the splitmix64 generator: advances the state and returns the output.
pub const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The secret that keys the flow hash. All nodes of a fleet share it.
///
/// Its `Debug` form hides the bytes. The default, all zeros, is public: clients can predict where
/// their flows are placed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HashSeed([u8; 16]);

impl HashSeed {
    /// A seed of these bytes, in the order of their hexadecimal text.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, in the order of their hexadecimal text.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// Whether this is the public default.
    pub fn is_default(self) -> bool {
        self == Self::default()
    }
}

impl From<[u8; 16]> for HashSeed {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl FromStr for HashSeed {
    type Err = HexError;

    /// Reads 32 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, HexError> {
        hex::decode_exact(text).map(Self)
    }
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// What a flow is known by within the balancer, 24 bytes; unused ones are zero.
///
/// | offset | field |
/// |---|---|
/// | 0 | service ID, little-endian |
/// | 4 | client port, big-endian |
/// | 6 | VIP port, big-endian |
/// | 8 | client address; IPv4 in the first four bytes |
///
/// The service implies VIP, address family and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FlowKey([u8; 24]);

impl FlowKey {
    /// The key of the flow from `client`:`client_port` to `vip_port` of a service.
    pub fn new(service: ServiceId, client_port: u16, vip_port: u16, client: IpAddr) -> Self {
        let mut key = [0; 24];
        key[..4].copy_from_slice(&service.get().to_le_bytes());
        key[4..6].copy_from_slice(&client_port.to_be_bytes());
        key[6..8].copy_from_slice(&vip_port.to_be_bytes());
        match client {
            IpAddr::V4(address) => key[8..12].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => key[8..].copy_from_slice(&address.octets()),
        }
        Self(key)
    }

    /// A key as it stands in a map.
    pub const fn from_bytes(bytes: [u8; 24]) -> Self {
        Self(bytes)
    }

    /// The key as it stands in a map.
    pub const fn as_bytes(&self) -> &[u8; 24] {
        &self.0
    }

    /// The number of the service.
    pub fn service_id(&self) -> u32 {
        self.word(0)
    }

    /// The client's port.
    pub fn client_port(&self) -> u16 {
        u16::from_be_bytes([self.0[4], self.0[5]])
    }

    /// The port of the VIP.
    pub fn vip_port(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// The client's address in a service whose VIP is IPv4.
    pub fn client_v4(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[8], self.0[9], self.0[10], self.0[11])
    }

    /// The client's address in a service whose VIP is IPv6.
    pub fn client_v6(&self) -> Ipv6Addr {
        let mut address = [0; 16];
        address.copy_from_slice(&self.0[8..]);
        Ipv6Addr::from(address)
    }

    fn word(&self, i: usize) -> u32 {
        let at = 4 * i;
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

/// The material of the flow hash that a seed expands to; see the [module](self).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowHashKey {
    k: [u32; 6],
    f: u64,
}

impl FlowHashKey {
    /// Expands a seed.
    pub fn new(seed: HashSeed) -> Self {
        let seed = u128::from_be_bytes(seed.to_bytes());
        let (mut s0, s1) = ((seed >> 64) as u64, seed as u64);
        let mut k = [0; 6];
        for pair in k.chunks_exact_mut(2) {
            let z = splitmix64(&mut s0);
            pair[0] = z as u32;
            pair[1] = (z >> 32) as u32;
        }
        Self {
            k,
            f: splitmix64(&mut s0) ^ s1,
        }
    }

    /// The six words and the final mask, as the kernel's copy of a service holds them.
    pub(crate) fn parts(&self) -> ([u32; 6], u64) {
        (self.k, self.f)
    }

    /// The 64-bit hash of a key; with `source_only`, of its service and client address alone.
    pub fn h64(&self, key: &FlowKey, source_only: bool) -> u64 {
        let keyed = |i: usize| {
            let m = if i == 1 && source_only {
                0
            } else {
                key.word(i)
            };
            u64::from(m.wrapping_add(self.k[i]))
        };
        let product = |i| keyed(i).wrapping_mul(keyed(i + 1));
        let sum = product(0).wrapping_add(product(2)).wrapping_add(product(4));
        fmix64(sum ^ self.f)
    }
}

impl fmt::Debug for FlowHashKey {
    /// Hides the material: it is as secret as the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlowHashKey(..)")
    }
}

/// The half of a 64-bit flow hash that places the flow.
pub const fn hash32(h64: u64) -> u32 {
    (h64 >> 32) as u32
}

/// The tag that tells a flow's entry from a stranger's in a reused map element: the other end of
/// the full key's hash.
pub const fn tag16(h64: u64) -> u16 {
    h64 as u16
}

/// The slot of a placement hash in a table of `m` slots: multiply and shift, always below `m` (0
/// for an empty table).
pub const fn slot(hash32: u32, m: u32) -> u32 {
    ((hash32 as u64 * m as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ZEROS: &str = "00000000000000000000000000000000";
    const COUNTING: &str = "000102030405060708090a0b0c0d0e0f";

    fn hasher(seed: &str) -> FlowHashKey {
        FlowHashKey::new(seed.parse().unwrap())
    }

    fn key(service: u32, client_port: u16, vip_port: u16, client: &str) -> FlowKey {
        let service = ServiceId::new(service);
        FlowKey::new(service, client_port, vip_port, client.parse().unwrap())
    }

    /// A flow key by its text: the layout is checked apart from the constructor.
    fn key_text(key: &FlowKey) -> String {
        key.as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn fnv1a_meets_its_published_test_vectors() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn zeros_are_what_as_many_bytes_are() {
        for count in 0..50 {
            let state = Fnv1a32::new().update(b"before");
            let bytes = state.update(&vec![0; count as usize]);
            let state = Fnv1a32::resume(state.finish());
            assert_eq!(state.zeros(count), bytes);
            assert_eq!(state.zeros(count).update(b"after"), bytes.update(b"after"));
        }
    }

    #[test]
    fn fnv1a_names_the_example_services() {
        // Length of the name, name, family, protocol, 16 bytes of VIP, port.
        let id = |name: &[u8], family: u8, vip: &[u8]| {
            let mut padded = [0; 16];
            padded[..vip.len()].copy_from_slice(vip);
            Fnv1a32::new()
                .update(&(name.len() as u16).to_be_bytes())
                .update(name)
                .update(&[family, 17])
                .update(&padded)
                .update(&443u16.to_be_bytes())
                .finish()
        };
        assert_eq!(id(b"quic-api", 4, &[203, 0, 113, 80]), 0x8cd5_d28f);
        let vip: Ipv6Addr = "2001:db8::80".parse().unwrap();
        assert_eq!(id(b"quic-api6", 6, &vip.octets()), 0xe9f7_a012);
    }

    #[test]
    fn splitmix64_meets_the_reference_sequence() {
        // First outputs of the reference implementation for the state 1234567.
        let mut state = 1_234_567;
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| splitmix64(&mut state)), expected);
    }

    #[test]
    fn flow_hash_vectors() {
        let v4 = key(7, 40000, 443, "192.0.2.1");
        assert_eq!(
            key_text(&v4),
            "070000009c4001bbc0000201000000000000000000000000"
        );
        let v6 = key(7, 40000, 443, "2001:db8::1");
        assert_eq!(
            key_text(&v6),
            "070000009c4001bb20010db8000000000000000000000001"
        );
        let next = key(7, 40001, 443, "192.0.2.1");

        for (seed, key, source_only, h64, slots) in [
            (
                ZEROS,
                v4,
                false,
                0xd3a2_4a7c_c83b_c1e5,
                [Some(54179), Some(3383)],
            ),
            (
                ZEROS,
                next,
                false,
                0xfda1_a447_fd05_03a6,
                [Some(64930), Some(4055)],
            ),
            (
                ZEROS,
                v6,
                false,
                0x6766_8cbb_90ac_d2bd,
                [Some(26470), Some(1653)],
            ),
            (ZEROS, v4, true, 0x7bcd_b0de_3de5_d51f, [Some(31694), None]),
            (
                COUNTING,
                v4,
                false,
                0x0d2a_7430_cfe2_711f,
                [Some(3370), Some(210)],
            ),
            (
                COUNTING,
                v6,
                false,
                0x60ca_cc25_8128_71b1,
                [Some(24779), Some(1547)],
            ),
            (
                COUNTING,
                v6,
                true,
                0x92a8_1fbb_842d_88de,
                [Some(37544), None],
            ),
        ] {
            let found = hasher(seed).h64(&key, source_only);
            assert_eq!(found, h64, "{} under {seed}", key_text(&key));
            for (m, expected) in [65537, 4093].into_iter().zip(slots) {
                if let Some(expected) = expected {
                    assert_eq!(slot(hash32(found), m), expected, "{found:016x} of {m}");
                }
            }
        }
    }

    #[test]
    fn flow_hash_vectors_of_the_example_service() {
        let key = key(0x8cd5_d28f, 50000, 443, "198.51.100.7");
        assert_eq!(
            key_text(&key),
            "8fd2d58cc35001bbc6336407000000000000000000000000"
        );
        for (seed, source_only, h64, expected) in [
            (ZEROS, false, 0x5630_5f65_43cb_2707, 1378),
            (COUNTING, false, 0x63d9_eb92_39c1_356c, 1596),
            (ZEROS, true, 0x2073_3fac_0c9a_8f7b, 518),
            (COUNTING, true, 0x114e_f7bd_1629_7831, 276),
        ] {
            let found = hasher(seed).h64(&key, source_only);
            assert_eq!(found, h64);
            assert_eq!(slot(hash32(found), 4093), expected);
        }
    }

    #[test]
    fn a_key_gives_back_its_parts() {
        let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let key = FlowKey::new(ServiceId::new(0x0102_0304), 40000, 443, v6.into());
        assert_eq!(key.service_id(), 0x0102_0304);
        assert_eq!((key.client_port(), key.vip_port()), (40000, 443));
        assert_eq!(key.client_v6(), v6);
        let v4 = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(
            FlowKey::new(ServiceId::new(1), 2, 3, v4.into()).client_v4(),
            v4
        );
        assert_eq!(FlowKey::from_bytes(*key.as_bytes()), key);
    }

    #[test]
    fn secrets_are_not_printed() {
        let seed: HashSeed = COUNTING.parse().unwrap();
        assert_eq!(format!("{seed:?}"), "HashSeed(..)");
        assert_eq!(format!("{:?}", FlowHashKey::new(seed)), "FlowHashKey(..)");
        assert!(!seed.is_default());
        assert!(ZEROS.parse::<HashSeed>().unwrap().is_default());
    }

    proptest! {
        #[test]
        fn source_only_ignores_the_ports_and_nothing_else(
            seed: [u8; 16], bytes: [u8; 24], ports: [u8; 4], flipped in 0usize..20, bit in 0u8..8,
        ) {
            let hasher = FlowHashKey::new(HashSeed::from_bytes(seed));
            let source = hasher.h64(&FlowKey::from_bytes(bytes), true);
            let mut other = bytes;
            other[4..8].copy_from_slice(&ports);
            prop_assert_eq!(hasher.h64(&FlowKey::from_bytes(other), true), source);
            let outside_ports = if flipped < 4 { flipped } else { flipped + 4 };
            other[outside_ports] ^= 1 << bit;
            prop_assert_ne!(hasher.h64(&FlowKey::from_bytes(other), true), source);
        }

        #[test]
        fn a_slot_is_in_the_table(hash: u32, m in 1u32..) {
            prop_assert!(slot(hash, m) < m);
        }
    }
}
