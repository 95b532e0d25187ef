// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Single values of the document, each checked on its own.

use std::fmt::{self, Write};
use std::time::Duration;

use super::choice::Choice;
use super::fault::FaultCode;
use super::field::Shape;
use super::tree::Value;
use crate::addr::MacAddr;
use crate::id::{InstanceId, InterfaceName};

/// What is wrong with one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: FaultCode,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The value is of another JSON type.
    pub(crate) fn wrong_type(wanted: &str, got: &Value) -> Self {
        Self::new(
            FaultCode::Type,
            format!("must be {wanted}, got {}", got.kind()),
        )
    }
}

/// A value, or what is wrong with it.
pub(crate) type Read<T> = Result<T, Problem>;

/// A number of the document that is checked together with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Number {
    Integer(u64),
    /// Anything else, as it prints.
    Other(String),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// A text of the document as messages show it: plain where that is clear, else quoted, escaped and
/// cut.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 64;
    let plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    if !text.is_empty() && text.len() <= MOST && text.chars().all(plain) {
        return text.to_owned();
    }
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Lower-case digits.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

pub(crate) fn text(value: &Value) -> Read<&str> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(Problem::wrong_type("a string", other)),
    }
}

pub(crate) fn uuid(value: &Value, _: &Shape) -> Read<InstanceId> {
    let text = text(value)?;
    text.parse()
        .map_err(|error| got(FaultCode::Uuid, error, text))
}

pub(crate) fn interface(value: &Value, _: &Shape) -> Read<InterfaceName> {
    let text = text(value)?;
    text.parse()
        .map_err(|error| got(FaultCode::Ifname, error, text))
}

pub(crate) fn mac(value: &Value, _: &Shape) -> Read<MacAddr> {
    let text = text(value)?;
    let mac: MacAddr = text
        .parse()
        .map_err(|error| got(FaultCode::Mac, error, text))?;
    let kind = if mac.is_zero() {
        "all zero"
    } else if mac.is_broadcast() {
        "broadcast"
    } else if mac.is_multicast() {
        "multicast"
    } else {
        return Ok(mac);
    };
    Err(Problem::new(
        FaultCode::Mac,
        format!("must be a unicast address, {text} is {kind}"),
    ))
}

pub(crate) fn choice<T: Choice>(value: &Value, _: &Shape) -> Read<T> {
    let text = text(value)?;
    let found = T::TEXTS.iter().position(|&known| known == text);
    found
        .and_then(|index| T::ALL.get(index).copied())
        .ok_or_else(|| {
            let rule = format!("must be one of {}", T::TEXTS.join(", "));
            got(FaultCode::Enum, rule, text)
        })
}

pub(crate) fn boolean(value: &Value, _: &Shape) -> Read<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(Problem::wrong_type("a boolean", other)),
    }
}

/// An integer of any size, or a number that is none but is outside of every bound.
pub(crate) fn number(value: &Value, _: &Shape) -> Read<Number> {
    match value {
        Value::Integer(value) => Ok(Number::Integer(*value)),
        Value::OtherNumber {
            text,
            outside: true,
        } => Ok(Number::Other(text.clone())),
        Value::OtherNumber {
            text,
            outside: false,
        } => Err(Problem::new(
            FaultCode::Type,
            format!("must be an integer without sign, fraction or exponent, got {text}"),
        )),
        other => Err(Problem::wrong_type("a number", other)),
    }
}

pub(crate) fn integer<T: TryFrom<u64>>(value: &Value, shape: &Shape) -> Read<T> {
    let number = number(value, shape)?;
    let (min, max) = bounds(shape);
    let fitting = match number {
        Number::Integer(value) if (min..=max).contains(&value) => T::try_from(value).ok(),
        _ => None,
    };
    fitting.ok_or_else(|| {
        Problem::new(
            FaultCode::Range,
            format!("must be {min} to {max}, got {number}"),
        )
    })
}

/// An integer of seconds, or text such as `90s`, `2m`, `2h4m`.
pub(crate) fn duration(value: &Value, shape: &Shape) -> Read<Duration> {
    let (min, max) = bounds(shape);
    let (seconds, shown) = match value {
        Value::Integer(seconds) => (Some(*seconds), seconds.to_string()),
        Value::OtherNumber { text, .. } => (None, text.clone()),
        Value::Text(text) => (seconds(text), shown(text)),
        other => {
            return Err(Problem::wrong_type(
                "a number of seconds or a string",
                other,
            ));
        }
    };
    match seconds {
        Some(seconds) if (min..=max).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => {
            let (min, max) = (span(min), span(max));
            let message = format!("must be a duration from {min} to {max}, got {shown}");
            Err(Problem::new(FaultCode::Duration, message))
        }
    }
}

/// Reads numbers with the units `d`, `h`, `m`, `s`, each at most once and in this order.
fn seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    for (unit, length) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
        let Some((digits, behind)) = rest.split_once(unit) else {
            continue;
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        total = total.checked_add(count.checked_mul(length)?)?;
        rest = behind;
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

/// The bound of a duration as messages name it: days where there are whole ones.
fn span(seconds: u64) -> String {
    match seconds {
        0 => "0s".to_owned(),
        days if days % 86_400 == 0 => format!("{}d", days / 86_400),
        _ => format!("{seconds}s"),
    }
}

/// The bounds of a number or duration; those of other shapes hold any number.
fn bounds(shape: &Shape) -> (u64, u64) {
    match *shape {
        Shape::Integer { min, max } | Shape::Duration { min, max } => (min, max),
        _ => (0, u64::MAX),
    }
}

/// A text that breaks a rule.
pub(crate) fn got(code: FaultCode, rule: impl fmt::Display, text: &str) -> Problem {
    Problem::new(code, format!("{rule}, got {}", shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("2m", Some(120)),
            ("2h4m", Some(7440)),
            ("7d", Some(604_800)),
            ("1d2h3m4s", Some(93_784)),
            ("0s", Some(0)),
            ("18446744073709551615s", Some(u64::MAX)),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        for text in [
            "",
            "s",
            "90",
            "90 s",
            " 90s",
            "90s ",
            "+90s",
            "-90s",
            "1.5s",
            "90S",
            "2m2h",
            "2m2m",
            "2mm",
            "2h4",
            "0x10s",
            "٣s",
            "1w",
            "18446744073709551616s",
            "213503982334602d",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn texts_are_shown_plain_where_that_is_clear() {
        assert_eq!(shown("turbo"), "turbo");
        assert_eq!(shown(""), "\"\"");
        assert_eq!(shown("a b"), "\"a b\"");
        assert_eq!(shown("a\u{1b}[0m\u{202e}"), "\"a\\u{1b}[0m\\u{202e}\"");
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(shown(&"é".repeat(65)), format!("\"{}\"...", "é".repeat(64)));
    }
}
