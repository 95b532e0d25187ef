// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Single values that only this document has, each checked on its own.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::document::fault::FaultCode;
use crate::document::field::Shape;
use crate::document::scalar::{got, integer, shown, text, Problem, Read};
use crate::document::tree::Value;
use crate::hash::HashSeed;
use crate::hex;
use crate::quic::lb::Key;

pub(super) fn service_name(value: &Value, _: &Shape) -> Read<String> {
    let text = text(value)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = text
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric);
    if first && text.len() <= 63 && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        let rule = "must be 1 to 63 letters, digits, '.', '_' or '-'";
        Err(got(FaultCode::Name, rule, text))
    }
}

pub(super) fn address(value: &Value, _: &Shape) -> Read<IpAddr> {
    let text = text(value)?;
    let address = text
        .parse()
        .map_err(|_| got(FaultCode::Address, "is not an IPv4 or IPv6 address", text))?;
    let kind = match address {
        IpAddr::V4(v4) if v4.is_unspecified() => "unspecified",
        IpAddr::V4(v4) if v4.is_loopback() => "loopback",
        IpAddr::V4(v4) if v4.is_multicast() => "multicast",
        IpAddr::V4(v4) if v4.is_broadcast() => "broadcast",
        IpAddr::V4(v4) if v4.is_link_local() => "link-local",
        IpAddr::V6(v6) if v6.is_unspecified() => "unspecified",
        IpAddr::V6(v6) if v6.is_loopback() => "loopback",
        IpAddr::V6(v6) if v6.is_multicast() => "multicast",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local",
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => "IPv4-mapped",
        _ => return Ok(address),
    };
    Err(Problem::new(
        FaultCode::Vip,
        format!(
            "must be a unicast address a host can own, {} is {kind}",
            shown(text)
        ),
    ))
}

/// A path that means the same wherever it is used, and that the kernel can take.
pub(super) fn path(value: &Value, _: &Shape) -> Read<PathBuf> {
    /// The kernel takes no longer ones, the closing zero byte included.
    const MOST: usize = 4095;
    let text = text(value)?;
    let plain = text.strip_prefix('/').is_some_and(|below| {
        below
            .split('/')
            .all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
    });
    if plain && text.len() <= MOST {
        Ok(PathBuf::from(text))
    } else {
        let rule = "must be an absolute path without '.', '..' and empty parts";
        Err(got(FaultCode::Path, rule, text))
    }
}

pub(super) fn seed(value: &Value, _: &Shape) -> Read<HashSeed> {
    secret(text(value)?).map(HashSeed::from_bytes)
}

pub(super) fn key(value: &Value, _: &Shape) -> Read<Option<Key>> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => secret(text).map(|bytes| Some(Key::from_bytes(bytes))),
        other => Err(Problem::wrong_type("a string or null", other)),
    }
}

// The message must not repeat any of the text.
fn secret(text: &str) -> Read<[u8; 16]> {
    hex::decode_exact(text).map_err(|_| {
        let length = text.chars().count();
        let others = if length == 32 {
            ", not all of them hexadecimal digits"
        } else {
            ""
        };
        let message = format!("must be 32 hexadecimal digits, got {length} characters{others}");
        Problem::new(FaultCode::Hex, message)
    })
}

/// The bytes of a server ID, of any length above 0.
pub(super) fn server_id(value: &Value) -> Read<Vec<u8>> {
    let text = text(value)?;
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 && !digits.is_empty() => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => {
            let rule = "must be an even number of hexadecimal digits";
            Err(got(FaultCode::Hex, rule, text))
        }
    }
}

/// The number of a config; one of the eight that fit its three bits is taken.
pub(super) fn config_id(value: &Value, shape: &Shape) -> Read<u8> {
    integer(value, shape).map_err(|problem| match problem.code {
        FaultCode::Range => {
            let taken = " (7 is reserved for unroutable connection IDs), got";
            Problem::new(problem.code, problem.message.replacen(", got", taken, 1))
        }
        _ => problem,
    })
}
