// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The segment size that a tenant's TCP announces, lowered to what fits the way back.

use std::borrow::Cow;
use std::net::IpAddr;

use super::answer::fold;
use super::inner::{be16, bytes, Inner, ETHERNET_BYTES};
use super::Packet;
use crate::encap::Encap;
use crate::tenant::Tenant;

const TCP_BYTES: usize = 20;
/// Where a TCP header says how long it is, and its flags.
const OFFSET_AT: usize = 12;
const CHECKSUM_AT: usize = 16;
const SYN: u8 = 0x02;
/// Kinds of options.
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const MSS_BYTES: usize = 4;
/// Options that are looked at.
const MAX_OPTIONS: usize = 20;

/// The frame with a lower segment size, if its packet announces a greater one than may be.
pub(super) fn clamp<'a>(
    packet: &Packet<'a>,
    inner: &Inner<'_>,
    encap: &Encap,
    tenant: &Tenant,
) -> Cow<'a, [u8]> {
    let most = encap
        .mss
        .filter(|_| tenant.mss)
        .map(|mss| match inner.source {
            IpAddr::V6(_) => mss.ipv6,
            IpAddr::V4(_) => mss.ipv4,
        });
    let most = most.filter(|&most| most != 0);
    let lowered = most
        .zip(inner.whole_tcp())
        .and_then(|(most, at)| lower(packet.frame, at, inner, most));
    lowered.map_or(Cow::Borrowed(packet.frame), Cow::Owned)
}

/// A changed copy; none where nothing is to be changed. The TCP header begins at `at`.
fn lower(frame: &[u8], at: usize, inner: &Inner<'_>, most: u16) -> Option<Vec<u8>> {
    let [offset, flags] = bytes(frame, at + OFFSET_AT)?;
    let end = at + usize::from(offset >> 4) * 4;
    if flags & SYN == 0 || end > ETHERNET_BYTES + inner.bytes as usize {
        return None;
    }
    let mut lowered = None;
    for option in mss_options(frame, at + TCP_BYTES, end) {
        let [_, _, high, low] = bytes(frame, option)?;
        if be16(high, low) > most {
            let out = lowered.take().unwrap_or_else(|| frame.to_vec());
            lowered = lower_option(out, at, option, most);
        }
    }
    lowered
}

/// One option of the TCP header at `at`.
fn lower_option(mut out: Vec<u8>, at: usize, option: usize, most: u16) -> Option<Vec<u8>> {
    let [_, _, high, low] = bytes(&out, option)?;
    let announced = be16(high, low);
    out.get_mut(option + 2..option + MSS_BYTES)?
        .copy_from_slice(&most.to_be_bytes());
    // At an odd place it is in two words of the checksum, the bytes of each the other way round.
    let [before, after] = match (option - at) % 2 {
        0 => [announced, most],
        _ => [announced, most].map(u16::swap_bytes),
    };
    let field = at + CHECKSUM_AT..at + CHECKSUM_AT + 2;
    let [high, low] = bytes(&out, field.start)?;
    // RFC 1624.
    let sum = [!be16(high, low), !before, after]
        .map(u64::from)
        .iter()
        .sum();
    out.get_mut(field)?
        .copy_from_slice(&(!fold(sum)).to_be_bytes());
    Some(out)
}

/// Where the options are. Of several, receivers heed the last one, or the first.
fn mss_options(frame: &[u8], mut at: usize, end: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for _ in 0..MAX_OPTIONS {
        let option = bytes::<MSS_BYTES>(frame, at).filter(|_| at + MSS_BYTES <= end);
        let Some([kind, length, ..]) = option else {
            break;
        };
        let length = usize::from(length);
        if kind == MSS && length == MSS_BYTES {
            found.push(at);
        }
        at += match kind {
            END => break,
            NOTHING => 1,
            _ if length < 2 => break,
            _ => length,
        };
    }
    found
}
