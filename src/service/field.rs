// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a member of the document may hold: one description for the validator and the schema.

use std::net::IpAddr;
use std::time::Duration;

use super::choice::Choice;
use super::scalar::{self, Number, Problem};
use super::tree::Value;
use crate::addr::MacAddr;
use crate::hash::HashSeed;
use crate::id::{InstanceId, InterfaceName};
use crate::quic::lb::{Key, ServerId};

/// The members of one object.
pub(super) struct Table {
    pub(super) about: &'static str,
    pub(super) fields: &'static [&'static dyn AnyField],
}

impl Table {
    pub(super) fn find(&self, name: &str) -> Option<&'static dyn AnyField> {
        self.fields
            .iter()
            .copied()
            .find(|field| field.name() == name)
    }
}

/// One member: its name, what it may hold, and how a value of it is read.
pub(super) struct Field<T: 'static> {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) need: Need<T>,
    pub(super) shape: Shape,
    pub(super) read: fn(&Value, &Shape) -> Result<T, Problem>,
}

/// Whether a member must be there.
pub(super) enum Need<T: 'static> {
    Required,
    /// Absent means this value.
    Default(T),
    /// What absence means depends on other members.
    Optional,
}

/// The form of a value, for messages and for the schema.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Uuid,
    Interface,
    ServiceName,
    Address,
    Mac,
    /// 32 hexadecimal digits.
    Hex128 {
        nullable: bool,
    },
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
    /// Hexadecimal text, or a list of up to so many.
    ServerIds {
        max: usize,
    },
    Object(&'static Table),
    List {
        min: usize,
        max: usize,
        of: &'static Table,
    },
}

/// A [`Field`] of any type.
pub(super) trait AnyField: Sync {
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
    const fn new(
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

pub(super) const fn uuid(name: &'static str, about: &'static str) -> Field<InstanceId> {
    Field::new(name, Need::Required, Shape::Uuid, scalar::uuid, about)
}

pub(super) const fn interface(name: &'static str, about: &'static str) -> Field<InterfaceName> {
    Field::new(
        name,
        Need::Required,
        Shape::Interface,
        scalar::interface,
        about,
    )
}

pub(super) const fn service_name(name: &'static str, about: &'static str) -> Field<String> {
    Field::new(
        name,
        Need::Required,
        Shape::ServiceName,
        scalar::service_name,
        about,
    )
}

pub(super) const fn address(name: &'static str, about: &'static str) -> Field<IpAddr> {
    Field::new(name, Need::Required, Shape::Address, scalar::address, about)
}

pub(super) const fn mac(name: &'static str, about: &'static str) -> Field<MacAddr> {
    Field::new(name, Need::Required, Shape::Mac, scalar::mac, about)
}

pub(super) const fn seed(name: &'static str, about: &'static str) -> Field<HashSeed> {
    let default = Need::Default(HashSeed::from_bytes([0; 16]));
    Field::new(
        name,
        default,
        Shape::Hex128 { nullable: false },
        scalar::seed,
        about,
    )
}

pub(super) const fn key(name: &'static str, about: &'static str) -> Field<Option<Key>> {
    Field::new(
        name,
        Need::Default(None),
        Shape::Hex128 { nullable: true },
        scalar::key,
        about,
    )
}

pub(super) const fn choice<T: Choice>(
    name: &'static str,
    need: Need<T>,
    about: &'static str,
) -> Field<T> {
    Field::new(name, need, Shape::Choice(T::TEXTS), scalar::choice, about)
}

pub(super) const fn boolean(
    name: &'static str,
    need: Need<bool>,
    about: &'static str,
) -> Field<bool> {
    Field::new(name, need, Shape::Bool, scalar::boolean, about)
}

pub(super) const fn integer<T: TryFrom<u64>>(
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

pub(super) const fn config_id(name: &'static str, about: &'static str) -> Field<u8> {
    let shape = Shape::Integer { min: 0, max: 6 };
    Field::new(name, Need::Required, shape, scalar::config_id, about)
}

pub(super) const fn prime(
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
pub(super) const fn duration(
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
pub(super) const fn nested(
    name: &'static str,
    need: Need<()>,
    shape: Shape,
    about: &'static str,
) -> Field<()> {
    Field::new(name, need, shape, |_, _| Ok(()), about)
}

/// A value as the document writes it.
pub(super) trait Written {
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

impl Written for HashSeed {
    fn written(&self) -> Value {
        Value::Text(scalar::hex_text(&self.to_bytes()))
    }
}

impl Written for Option<Key> {
    fn written(&self) -> Value {
        self.as_ref().map_or(Value::Null, |key| {
            Value::Text(scalar::hex_text(key.secret_bytes()))
        })
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
written_text!(
    super::spec::Mode,
    super::spec::SourceMac,
    super::spec::Protocol
);
written_text!(
    super::spec::HashOf,
    super::spec::Tracking,
    super::spec::Fragments
);
written_text!(
    super::spec::Routing,
    super::spec::UnknownServerId,
    super::spec::Unhealthy
);
written_text!(super::spec::BackendState, ServerId);
