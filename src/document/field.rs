// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a member of the document may hold: one description for the validator and the schema.

use std::net::IpAddr;
use std::time::Duration;

use super::choice::Choice;
use super::scalar::{self, Number, Problem};
use super::tree::Value;
use crate::addr::MacAddr;
use crate::id::{InstanceId, InterfaceName};

const UUID: &str = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$";
const MAC: &str = "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$";

/// The members of one object.
pub(crate) struct Table {
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [&'static dyn AnyField],
}

impl Table {
    pub(crate) fn find(&self, name: &str) -> Option<&'static dyn AnyField> {
        self.fields
            .iter()
            .copied()
            .find(|field| field.name() == name)
    }
}

/// One member: its name, what it may hold, and how a value of it is read.
pub(crate) struct Field<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) need: Need<T>,
    pub(crate) shape: Shape,
    pub(crate) read: fn(&Value, &Shape) -> Result<T, Problem>,
}

/// Whether a member must be there.
pub(crate) enum Need<T: 'static> {
    Required,
    /// Absent means this value.
    Default(T),
    /// What absence means depends on other members.
    Optional,
}

/// The form of a value, for messages and for the schema.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Text that this pattern allows. No pattern uses `\s`, `\d` or `\w`, which differ between
    /// dialects, nor allows less than the validator.
    Text(&'static str),
    /// Text of any of these formats.
    Format(&'static [&'static str]),
    Interface,
    Choice(&'static [&'static str]),
    Bool,
    Integer {
        min: u64,
        max: u64,
    },
    /// A prime in these bounds; the upper one may be lower in a document.
    Prime {
        min: u32,
        max: u32,
    },
    /// Bounds in seconds.
    Duration {
        min: u64,
        max: u64,
    },
    Object(&'static Table),
    List {
        min: usize,
        max: usize,
        of: &'static Shape,
    },
    /// Null as well as a shape of one JSON type.
    Nullable(&'static Shape),
    AnyOf(&'static [Shape]),
}

/// A [`Field`] of any type.
pub(crate) trait AnyField: Sync {
    fn name(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn shape(&self) -> &Shape;
    fn is_required(&self) -> bool;
    fn default(&self) -> Option<Value>;
}

impl<T: Written + Sync + 'static> AnyField for Field<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn is_required(&self) -> bool {
        matches!(self.need, Need::Required)
    }

    fn default(&self) -> Option<Value> {
        match &self.need {
            Need::Default(value) => Some(value.written()),
            Need::Required | Need::Optional => None,
        }
    }
}

impl<T> Field<T> {
    pub(crate) const fn new(
        name: &'static str,
        need: Need<T>,
        shape: Shape,
        read: fn(&Value, &Shape) -> Result<T, Problem>,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            need,
            shape,
            read,
        }
    }
}

pub(crate) const fn uuid(name: &'static str, about: &'static str) -> Field<InstanceId> {
    Field::new(name, Need::Required, Shape::Text(UUID), scalar::uuid, about)
}

pub(crate) const fn interface(name: &'static str, about: &'static str) -> Field<InterfaceName> {
    Field::new(
        name,
        Need::Required,
        Shape::Interface,
        scalar::interface,
        about,
    )
}

pub(crate) const fn mac(
    name: &'static str,
    need: Need<MacAddr>,
    about: &'static str,
) -> Field<MacAddr> {
    Field::new(name, need, Shape::Text(MAC), scalar::mac, about)
}

pub(crate) const fn choice<T: Choice>(
    name: &'static str,
    need: Need<T>,
    about: &'static str,
) -> Field<T> {
    Field::new(name, need, Shape::Choice(T::TEXTS), scalar::choice, about)
}

pub(crate) const fn boolean(
    name: &'static str,
    need: Need<bool>,
    about: &'static str,
) -> Field<bool> {
    Field::new(name, need, Shape::Bool, scalar::boolean, about)
}

pub(crate) const fn integer<T: TryFrom<u64>>(
    name: &'static str,
    need: Need<T>,
    (min, max): (u64, u64),
    about: &'static str,
) -> Field<T> {
    Field::new(
        name,
        need,
        Shape::Integer { min, max },
        scalar::integer,
        about,
    )
}

pub(crate) const fn prime(
    name: &'static str,
    default: u32,
    (min, max): (u32, u32),
    about: &'static str,
) -> Field<Number> {
    let default = Need::Default(Number::Integer(default as u64));
    Field::new(
        name,
        default,
        Shape::Prime { min, max },
        scalar::number,
        about,
    )
}

/// Bounds in seconds.
pub(crate) const fn duration(
    name: &'static str,
    need: Need<Duration>,
    (min, max): (u64, u64),
    about: &'static str,
) -> Field<Duration> {
    Field::new(
        name,
        need,
        Shape::Duration { min, max },
        scalar::duration,
        about,
    )
}

/// A value that the validator walks into itself.
pub(crate) const fn nested(
    name: &'static str,
    need: Need<()>,
    shape: Shape,
    about: &'static str,
) -> Field<()> {
    Field::new(name, need, shape, |_, _| Ok(()), about)
}

/// A value as the document writes it.
pub(crate) trait Written {
    fn written(&self) -> Value;
}

impl Written for () {
    fn written(&self) -> Value {
        Value::Object(Vec::new())
    }
}

impl Written for bool {
    fn written(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Written for Number {
    fn written(&self) -> Value {
        match self {
            Self::Integer(value) => Value::Integer(*value),
            Self::Other(text) => Value::OtherNumber {
                text: text.clone(),
                outside: true,
            },
        }
    }
}

impl Written for Duration {
    fn written(&self) -> Value {
        match self.subsec_nanos() {
            0 => Value::Integer(self.as_secs()),
            // No form of duration has fractions: the validator says so.
            nanos => Value::Text(format!("{}.{nanos:09}s", self.as_secs())),
        }
    }
}

macro_rules! written_integer {
    ($($type:ty),+) => { $(
        impl Written for $type {
            fn written(&self) -> Value {
                Value::Integer(u64::from(*self))
            }
        }
    )+ };
}
written_integer!(u8, u16, u32, u64);

macro_rules! written_text {
    ($($type:ty),+) => { $(
        impl Written for $type {
            fn written(&self) -> Value {
                Value::Text(self.to_string())
            }
        }
    )+ };
}
written_text!(String, InstanceId, InterfaceName, IpAddr, MacAddr);
