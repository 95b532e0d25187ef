// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members that only this document has.

use std::net::IpAddr;
use std::path::PathBuf;

use super::scalar;
use crate::document::field::{Field, Need, Shape, Written};
use crate::document::scalar::hex_text;
use crate::document::tree::Value;
use crate::hash::HashSeed;
use crate::quic::lb::{Key, ServerId};

const NAME: Shape = Shape::Text("^[0-9A-Za-z][0-9A-Za-z._-]{0,62}$");
const HEX_128: Shape = Shape::Text("^[0-9A-Fa-f]{32}$");

pub(super) const fn service_name(name: &'static str, about: &'static str) -> Field<String> {
    Field::new(name, Need::Required, NAME, scalar::service_name, about)
}

pub(super) const fn address(name: &'static str, about: &'static str) -> Field<IpAddr> {
    Field::new(
        name,
        Need::Required,
        Shape::Format(&["ipv4", "ipv6"]),
        scalar::address,
        about,
    )
}

pub(super) const fn path(name: &'static str, about: &'static str) -> Field<PathBuf> {
    Field::new(name, Need::Required, Shape::Text("^/"), scalar::path, about)
}

pub(super) const fn seed(name: &'static str, about: &'static str) -> Field<HashSeed> {
    let default = Need::Default(HashSeed::from_bytes([0; 16]));
    Field::new(name, default, HEX_128, scalar::seed, about)
}

pub(super) const fn key(name: &'static str, about: &'static str) -> Field<Option<Key>> {
    Field::new(
        name,
        Need::Default(None),
        Shape::Nullable(&HEX_128),
        scalar::key,
        about,
    )
}

pub(super) const fn config_id(name: &'static str, about: &'static str) -> Field<u8> {
    let shape = Shape::Integer { min: 0, max: 6 };
    Field::new(name, Need::Required, shape, scalar::config_id, about)
}

impl Written for PathBuf {
    fn written(&self) -> Value {
        Value::Text(self.display().to_string())
    }
}

impl Written for HashSeed {
    fn written(&self) -> Value {
        Value::Text(hex_text(&self.to_bytes()))
    }
}

impl Written for Option<Key> {
    fn written(&self) -> Value {
        self.as_ref()
            .map_or(Value::Null, |key| Value::Text(hex_text(key.secret_bytes())))
    }
}

impl Written for ServerId {
    fn written(&self) -> Value {
        Value::Text(self.to_string())
    }
}
