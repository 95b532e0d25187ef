// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members that only this document has.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::scalar;
use super::spec::SCHEMA;
use crate::document::field::{Field, Need, Shape, Written};
use crate::document::tree::Value;
use crate::encap::Dscp;
use crate::group::Class;
use crate::placement::{HashGroup, HashTable};
use crate::route::{Prefix, TableId};
use crate::srv6::{Argument, BaseSid, Mtu, NodeSid};
use crate::tenant::PinQuota;

const IPV6: Shape = Shape::Format(&["ipv6"]);
const IPV4: Shape = Shape::Format(&["ipv4"]);
const ANY_U32: Shape = Shape::Integer {
    min: 0,
    max: u32::MAX as u64,
};
/// `nat66`, or the prefix of a NAT64.
pub(super) const CLASS: Shape = Shape::Text("^(nat66|(nat64:)?[0-9A-Fa-f:.]+/[0-9]+)$");

pub(super) const fn schema(about: &'static str) -> Field<&'static str> {
    let shape = Shape::Choice(&[SCHEMA]);
    Field::new("schema", Need::Required, shape, scalar::schema, about)
}

pub(super) const fn node_sid(name: &'static str, about: &'static str) -> Field<NodeSid> {
    Field::new(name, Need::Required, IPV6, scalar::node_sid, about)
}

pub(super) const fn base_sid(name: &'static str, about: &'static str) -> Field<BaseSid> {
    Field::new(name, Need::Required, IPV6, scalar::base_sid, about)
}

pub(super) const fn gateway6(name: &'static str, about: &'static str) -> Field<Ipv6Addr> {
    Field::new(name, Need::Optional, IPV6, scalar::gateway6, about)
}

pub(super) const fn gateway4(name: &'static str, about: &'static str) -> Field<Ipv4Addr> {
    Field::new(name, Need::Optional, IPV4, scalar::gateway4, about)
}

pub(super) const fn class(name: &'static str, about: &'static str) -> Field<Class> {
    Field::new(name, Need::Required, CLASS, scalar::class, about)
}

pub(super) const fn prefix(name: &'static str, about: &'static str) -> Field<Prefix> {
    let shape = Shape::Text("^[0-9A-Fa-f:.]+/[0-9]+$");
    Field::new(name, Need::Required, shape, scalar::prefix, about)
}

pub(super) const fn table(name: &'static str, about: &'static str) -> Field<TableId> {
    Field::new(name, Need::Required, ANY_U32, scalar::table, about)
}

pub(super) const fn hash_table(name: &'static str, about: &'static str) -> Field<HashTable> {
    Field::new(name, Need::Optional, ANY_U32, scalar::hash_table, about)
}

pub(super) const fn hash_group(name: &'static str, about: &'static str) -> Field<HashGroup> {
    let shape = Shape::Integer {
        min: 0,
        max: u8::MAX as u64,
    };
    Field::new(name, Need::Optional, shape, scalar::hash_group, about)
}

pub(super) const fn argument(name: &'static str, about: &'static str) -> Field<Argument> {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Text("^0[xX][0-9A-Fa-f]+$"),
        Shape::Integer {
            min: 1,
            max: Argument::MAX as u64,
        },
    ]);
    Field::new(name, Need::Required, SHAPE, scalar::argument, about)
}

pub(super) const fn dscp(name: &'static str, about: &'static str) -> Field<Dscp> {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Choice(&["zero", "copy"]),
        Shape::Integer { min: 0, max: 63 },
    ]);
    Field::new(name, Need::Optional, SHAPE, scalar::dscp, about)
}

pub(super) const fn pin_quota(name: &'static str, about: &'static str) -> Field<PinQuota> {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Choice(&["unlimited"]),
        Shape::Integer {
            min: 0,
            max: u32::MAX as u64 - 1,
        },
    ]);
    Field::new(name, Need::Optional, SHAPE, scalar::pin_quota, about)
}

pub(super) const fn mtu(name: &'static str, max: u64, about: &'static str) -> Field<Mtu> {
    let shape = Shape::Integer { min: 0, max };
    Field::new(name, Need::Optional, shape, scalar::mtu, about)
}

macro_rules! written {
    ($($type:ty: $value:ident => $written:expr;)+) => { $(
        impl Written for $type {
            fn written(&self) -> Value {
                let $value = self;
                $written
            }
        }
    )+ };
}
written! {
    &'static str: text => Value::Text((*text).to_owned());
    NodeSid: sid => Value::Text(sid.to_string());
    BaseSid: sid => Value::Text(sid.to_string());
    Ipv6Addr: address => Value::Text(address.to_string());
    Ipv4Addr: address => Value::Text(address.to_string());
    Class: class => Value::Text(class.to_string());
    Prefix: prefix => Value::Text(prefix.to_string());
    Argument: argument => Value::Text(argument.to_string());
    TableId: table => table.get().written();
    HashTable: table => table.0.written();
    HashGroup: group => group.0.written();
    Mtu: mtu => mtu.get().written();
    Dscp: dscp => match dscp {
        Dscp::Zero => Value::Text("zero".to_owned()),
        Dscp::Copy => Value::Text("copy".to_owned()),
        Dscp::Fixed(value) => value.get().written(),
    };
    PinQuota: quota => match *quota {
        PinQuota::UNLIMITED => Value::Text("unlimited".to_owned()),
        PinQuota(pins) => pins.written(),
    };
}
