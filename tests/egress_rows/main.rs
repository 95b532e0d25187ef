// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Rows of tenants, routes, pins and encapsulation, byte by byte as the ABI has them; and those that
//! nobody makes.

mod encapsulation;
mod pins;
mod prefixes;
mod routes;
mod tenants;

use bytemuck::{bytes_of, pod_read_unaligned, Pod};
use guideway::route::RowError;
use guideway::srv6::Argument;

/// Bytes at their offsets, the rest zero.
pub(crate) fn row<const N: usize>(parts: &[(usize, &[u8])]) -> [u8; N] {
    let mut bytes = [0; N];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

pub(crate) fn word(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

pub(crate) fn half(number: u16) -> [u8; 2] {
    number.to_ne_bytes()
}

/// Each row that differs in one bit is refused, or is another value whose row is that one. What the
/// bits between these offsets say belongs to nothing.
pub(crate) fn read_whole<R: Pod, V>(
    good: &[u8],
    read: impl Fn(&R) -> Result<V, RowError>,
    write: impl Fn(&V) -> R,
    reserved: &[(usize, usize)],
) {
    assert_eq!(
        bytes_of(&write(&read(&pod_read_unaligned(good)).expect("good"))),
        good
    );
    for bit in 0..good.len() * 8 {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let value = read(&pod_read_unaligned(&bytes));
        if reserved
            .iter()
            .any(|&(from, to)| (from..to).contains(&(bit / 8)))
        {
            assert!(value.is_err(), "byte {}", bit / 8);
        }
        if let Ok(value) = value {
            assert_eq!(bytes_of(&write(&value)), bytes, "bit {bit}");
        }
    }
}

pub(crate) fn argument() -> Argument {
    Argument::new(0x2a5).expect("an Argument")
}
