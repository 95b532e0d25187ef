// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Single values that only this document has, each checked on its own.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::spec::{Profile, RouteTo, SCHEMA};
use crate::document::choice::Choice;
use crate::document::fault::FaultCode;
use crate::document::field::{Shape, Written};
use crate::document::scalar::{self, got, integer, shown, text, Problem, Read};
use crate::document::tree::Value;
use crate::encap::{Dscp, DscpValue, Ecn};
use crate::group::{Class, HashMode, Nat64Prefix, Nat64PrefixError};
use crate::placement::{HashGroup, HashTable};
use crate::route::{Block, InvalidPrefix, Prefix, TableId};
use crate::srv6::{Argument, BaseSid, Mtu, NodeSid, SidError};
use crate::tenant::PinQuota;

pub(super) fn schema(value: &Value, _: &Shape) -> Read<&'static str> {
    match text(value)? {
        SCHEMA => Ok(SCHEMA),
        other => Err(got(FaultCode::Enum, format!("must be {SCHEMA}"), other)),
    }
}

pub(super) fn node_sid(value: &Value, _: &Shape) -> Read<NodeSid> {
    sid(value)
}

pub(super) fn base_sid(value: &Value, _: &Shape) -> Read<BaseSid> {
    sid(value)
}

/// A SID whose Argument and slot are zero, as they stand for a tenant.
fn sid<T>(value: &Value) -> Read<T>
where
    T: TryFrom<Ipv6Addr, Error = SidError> + Into<Ipv6Addr> + Copy,
{
    let address: Ipv6Addr = address(value, "IPv6")?;
    let sid = T::try_from(address)
        .map_err(|error| Problem::new(FaultCode::Sid, format!("is not a uSID: {error}")))?;
    let clear: Ipv6Addr = sid.into();
    if clear != address {
        let rule = "must have Argument and slot (bits 68 to 95) 0";
        let message = format!("{rule}, got {address} ({clear} has)");
        return Err(Problem::new(FaultCode::Sid, message));
    }
    Ok(sid)
}

fn address<T: FromStr>(value: &Value, family: &str) -> Read<T> {
    let text = text(value)?;
    let rule = || format!("is not an {family} address");
    text.parse()
        .map_err(|_| got(FaultCode::Address, rule(), text))
}

/// Who answers a tenant over IPv6; an address of the link will do.
pub(super) fn gateway6(value: &Value, _: &Shape) -> Read<Ipv6Addr> {
    let address: Ipv6Addr = address(value, "IPv6")?;
    let kind = if address.is_unspecified() {
        "unspecified"
    } else if address.is_loopback() {
        "loopback"
    } else if address.is_multicast() {
        "multicast"
    } else if address.to_ipv4_mapped().is_some() {
        "IPv4-mapped"
    } else {
        return Ok(address);
    };
    Err(not_unicast(address, kind))
}

/// Who answers a tenant over IPv4.
pub(super) fn gateway4(value: &Value, _: &Shape) -> Read<Ipv4Addr> {
    let address: Ipv4Addr = address(value, "IPv4")?;
    let kind = if address.is_unspecified() {
        "unspecified"
    } else if address.is_loopback() {
        "loopback"
    } else if address.is_multicast() {
        "multicast"
    } else if address.is_broadcast() {
        "broadcast"
    } else {
        return Ok(address);
    };
    Err(not_unicast(address, kind))
}

fn not_unicast(address: impl std::fmt::Display, kind: &str) -> Problem {
    let message = format!("must be a unicast address, {address} is {kind}");
    Problem::new(FaultCode::Address, message)
}

/// `nat66`, or the prefix of a NAT64 with or without the `nat64:` that outputs have.
pub(super) fn class(value: &Value, _: &Shape) -> Read<Class> {
    class_of(text(value)?, "must be nat66 or the /96 prefix of a NAT64")
}

fn class_of(text: &str, rule: &str) -> Read<Class> {
    if text == "nat66" {
        return Ok(Class::Nat66);
    }
    let prefix: Result<Nat64Prefix, _> = text.strip_prefix("nat64:").unwrap_or(text).parse();
    prefix.map(Class::Nat64).map_err(|error| match error {
        Nat64PrefixError::Text => got(FaultCode::Prefix, rule, text),
        error => Problem::new(FaultCode::Prefix, format!("is no class: {error}")),
    })
}

pub(super) fn prefix(value: &Value, _: &Shape) -> Read<Prefix> {
    let text = text(value)?;
    text.parse().map_err(|error| match error {
        InvalidPrefix::Text { .. } => {
            let rule = "must be an address, '/' and a length";
            got(FaultCode::Prefix, rule, text)
        }
        error => Problem::new(FaultCode::Prefix, format!("is no prefix: {error}")),
    })
}

/// The texts that a route may lead to; an object is a shard.
pub(super) fn route_to(value: &Value) -> Read<RouteTo> {
    let text = match value {
        Value::Text(text) => text.as_str(),
        other => return Err(Problem::wrong_type("a string or an object", other)),
    };
    let [pass, block, unreachable] = super::members::route::ACTIONS;
    Ok(match text {
        _ if text == pass => RouteTo::Pass,
        _ if text == block => RouteTo::Block(Block::Drop),
        _ if text == unreachable => RouteTo::Block(Block::Unreachable),
        class => {
            let rule = "must be pass, block, unreachable, a class (nat66 or a NAT64 prefix) or a \
                        shard (an object)";
            RouteTo::Class(class_of(class, rule)?)
        }
    })
}

pub(super) fn table(value: &Value, shape: &Shape) -> Read<TableId> {
    integer(value, shape).map(TableId::new)
}

pub(super) fn hash_table(value: &Value, shape: &Shape) -> Read<HashTable> {
    integer(value, shape).map(HashTable)
}

pub(super) fn hash_group(value: &Value, shape: &Shape) -> Read<HashGroup> {
    integer(value, shape).map(HashGroup)
}

/// A number, or its hexadecimal text.
pub(super) fn argument(value: &Value, _: &Shape) -> Read<Argument> {
    let range = |shown: &dyn std::fmt::Display| {
        let message = format!("must be 0x001 to {:#05x}, got {shown}", Argument::MAX);
        Problem::new(FaultCode::Range, message)
    };
    let number = match value {
        Value::Text(text) => {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
            let hex = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let Some(digits) = digits.filter(hex).filter(|digits| !digits.is_empty()) else {
                let rule = "must be a number, or hexadecimal text that begins with 0x";
                return Err(got(FaultCode::Hex, rule, text));
            };
            u32::from_str_radix(digits, 16).map_err(|_| range(&shown(text)))?
        }
        Value::Integer(number) => u32::try_from(*number).map_err(|_| range(number))?,
        Value::OtherNumber { .. } => {
            let number = scalar::number(value, &Shape::Bool)?;
            return Err(range(&number));
        }
        other => return Err(Problem::wrong_type("a number or a string", other)),
    };
    Argument::new(number).map_err(|_| match value {
        Value::Text(text) => range(&shown(text)),
        _ => range(&number),
    })
}

/// A text of the shape's choices, or a number in the bounds of its other form.
fn text_or_number<T, N: TryFrom<u64>>(
    value: &Value,
    shape: &Shape,
    of_text: impl Fn(&str) -> Option<T>,
    of_number: impl Fn(N) -> Option<T>,
) -> Read<T> {
    // Another shape has no text, and any number.
    let (texts, min, max) = match shape {
        Shape::AnyOf([Shape::Choice(texts), Shape::Integer { min, max }]) => (*texts, *min, *max),
        _ => (&[][..], 0, u64::MAX),
    };
    let rule = || format!("must be {}, or {min} to {max}", texts.join(", "));
    match value {
        Value::Text(text) => of_text(text).ok_or_else(|| got(FaultCode::Enum, rule(), text)),
        Value::Integer(_) | Value::OtherNumber { .. } => {
            let number = scalar::number(value, shape)?;
            let bounds = Shape::Integer { min, max };
            let fitting = integer(value, &bounds).ok().and_then(of_number);
            fitting
                .ok_or_else(|| Problem::new(FaultCode::Range, format!("{}, got {number}", rule())))
        }
        other => Err(Problem::wrong_type("a string or a number", other)),
    }
}

pub(super) fn dscp(value: &Value, shape: &Shape) -> Read<Dscp> {
    let of_text = |text: &str| match text {
        "zero" => Some(Dscp::Zero),
        "copy" => Some(Dscp::Copy),
        _ => None,
    };
    let of_number = |number| DscpValue::new(number).ok().map(Dscp::Fixed);
    text_or_number(value, shape, of_text, of_number)
}

pub(super) fn pin_quota(value: &Value, shape: &Shape) -> Read<PinQuota> {
    let of_text = |text: &str| (text == "unlimited").then_some(PinQuota::UNLIMITED);
    text_or_number(value, shape, of_text, |number| Some(PinQuota(number)))
}

pub(super) fn mtu(value: &Value, shape: &Shape) -> Read<Mtu> {
    let number = scalar::number(value, shape)?;
    let max = super::members::next_hop::MAX_MTU;
    let bounds = Shape::Integer { min: 0, max };
    let mtu = integer(value, &bounds).ok();
    mtu.and_then(|mtu| Mtu::new(mtu).ok()).ok_or_else(|| {
        let min = Mtu::MIN;
        let message = format!(
            "must be 0 (unchecked) or {min} (1280 and 40 of encapsulation) to {max}, got {number}"
        );
        Problem::new(FaultCode::Range, message)
    })
}

macro_rules! choice_of {
    ($type:ty: $($variant:ident = $text:literal),+) => {
        impl Choice for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            const TEXTS: &'static [&'static str] = &[$($text),+];
        }

        impl Written for $type {
            fn written(&self) -> Value {
                let text = match self { $(Self::$variant => $text),+ };
                Value::Text(text.to_owned())
            }
        }
    };
}
choice_of!(Profile: Standard = "standard", Compat = "compat");
choice_of!(HashMode: Source = "source", Flow = "flow");
choice_of!(Ecn: Compatibility = "compatibility", Normal = "normal");
