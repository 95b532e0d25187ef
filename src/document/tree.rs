// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A JSON document as it was written: members in order and doubles kept, every value numbered.
//!
//! `serde_json::Value` keeps one of two members of the same name and no order, so it can neither
//! refuse the double nor report faults in the order of the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};

use super::fault::{Fault, FaultCode, Faults};

/// A value and its place in the document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Number of the value in reading order; an object or list comes before what it holds.
    pub(crate) at: u32,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(u64),
    /// Any number that is not an integer from 0 to 2^64 - 1 written in digits alone, as it is
    /// printed, and whether it lies outside of the integers' range.
    OtherNumber {
        text: String,
        outside: bool,
    },
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) node: Node,
}

impl Node {
    /// An object without members.
    pub(crate) const EMPTY: &'static Self = &Self {
        at: 0,
        value: Value::Object(Vec::new()),
    };

    /// Reads a whole document; what is no JSON is its only fault.
    pub(crate) fn document(bytes: &[u8]) -> Result<Self, Faults> {
        Self::parse(bytes).map_err(|error| {
            let message = format!("is not JSON: {error}");
            Fault::new("", FaultCode::Json, message).into()
        })
    }

    /// Reads any text. The error names line and column.
    fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_slice(bytes)?;
        Ok(Self::number(value))
    }

    /// Numbers the values of a document.
    pub(crate) fn number(value: Value) -> Self {
        let mut root = Self { at: 0, value };
        let mut next = 0;
        root.renumber(&mut next);
        root
    }

    // As deep as the document, which the parser bounds.
    fn renumber(&mut self, next: &mut u32) {
        self.at = *next;
        // A document of 2^32 values would only lose the order of its last faults.
        *next = next.saturating_add(1);
        match &mut self.value {
            Value::List(nodes) => nodes.iter_mut().for_each(|node| node.renumber(next)),
            Value::Object(members) => {
                members
                    .iter_mut()
                    .for_each(|member| member.node.renumber(next));
            }
            _ => {}
        }
    }

    /// The value of the first member of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Object(members) => members
                .iter()
                .find(|member| member.name == name)
                .map(|member| &member.node),
            _ => None,
        }
    }
}

impl Value {
    /// The JSON type with its article, as messages name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::OtherNumber { .. } => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self { at: 0, value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;

        impl<'de> Visitor<'de> for Values {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Integer(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(match u64::try_from(value) {
                    Ok(value) => Value::Integer(value),
                    Err(_) => Value::OtherNumber {
                        text: value.to_string(),
                        outside: true,
                    },
                })
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                // The parser gives an integer as f64 only if no integer type holds it.
                let outside = value >= 2f64.powi(64) || value <= -(2f64.powi(63));
                // As short as it can be, always with a fraction or an exponent.
                let text = format!("{value:?}");
                Ok(Value::OtherNumber { text, outside })
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(Value::Text(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = access.next_element()? {
                    nodes.push(node);
                }
                Ok(Value::List(nodes))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, node)) = access.next_entry()? {
                    members.push(Member { name, node });
                }
                Ok(Value::Object(members))
            }
        }

        deserializer.deserialize_any(Values)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_u64(*value),
            Self::OtherNumber { .. } => Err(S::Error::custom("no document of ours has one")),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(nodes) => serializer.collect_seq(nodes.iter().map(|node| &node.value)),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for Member { name, node } in members {
                    map.serialize_entry(name, &node.value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_and_doubles_and_values_are_numbered_in_reading_order() {
        let root = Node::parse(br#"{"b": [1, {"x": null}], "a": true, "b": 2}"#).unwrap();
        let Value::Object(members) = &root.value else {
            panic!("{root:?}")
        };
        let found: Vec<_> = members
            .iter()
            .map(|member| (member.name.as_str(), member.node.at))
            .collect();
        assert_eq!((root.at, found), (0, vec![("b", 1), ("a", 5), ("b", 6)]));
        let Value::List(entries) = &root.member("b").unwrap().value else {
            panic!("{root:?}")
        };
        assert_eq!(entries[1].member("x").unwrap().at, 4);
    }

    #[test]
    fn only_digits_make_an_integer() {
        let outside = |text: &str| match Node::parse(text.as_bytes()).unwrap().value {
            Value::OtherNumber { outside, .. } => outside,
            other => panic!("{text}: {other:?}"),
        };
        for (text, value) in [("0", 0), ("18446744073709551615", u64::MAX)] {
            assert_eq!(
                Node::parse(text.as_bytes()).unwrap().value,
                Value::Integer(value)
            );
        }
        for text in ["1.0", "1e3", "1E3", "-0", "0.5", "-1.5"] {
            assert!(!outside(text), "{text}");
        }
        for text in [
            "-1",
            "18446744073709551616",
            "1e300",
            "-9223372036854775809",
            "-1e300",
        ] {
            assert!(outside(text), "{text}");
        }
    }

    #[test]
    fn a_document_nested_too_deep_is_an_error_not_a_crash() {
        assert!(Node::parse("[".repeat(1_000_000).as_bytes()).is_err());
        assert!(Node::parse("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
    }
}
