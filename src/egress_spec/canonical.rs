// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The one text of a specification, and its digest.

use super::members::{
    class, encap, interface, limits, mss, next_hop, rate, root, route, route_shard, shard, tenant,
};
use super::spec::{
    ClassSpec, InterfaceSpec, Limits, NextHopSpec, RouteSpec, RouteTo, ShardSpec, Spec, TenantSpec,
    SCHEMA,
};
use crate::document::digest::SpecDigest;
use crate::document::field::Written;
use crate::document::scalar::Number;
use crate::document::tree::Value;
use crate::document::write::Object;
use crate::encap::{Ecn, Encap, Mss, Rate};
use crate::route::Block;

impl Spec {
    /// The canonical document: every member with its value in force, in a fixed order; classes as
    /// they were given, the rest in the order of [`Spec`], no white space.
    ///
    /// [`Spec::from_json`] reads an equal specification from it.
    pub fn to_canonical_json(&self) -> Vec<u8> {
        // A sound specification holds no value that JSON has not, and a vector takes any bytes.
        serde_json::to_vec(&self.written()).unwrap_or_default()
    }

    /// The digest of the canonical document, by which others name it.
    pub fn digest(&self) -> SpecDigest {
        SpecDigest::of(&self.to_canonical_json())
    }
}

impl Written for Spec {
    fn written(&self) -> Value {
        Object::default()
            .put(&root::SCHEMA, Some(&SCHEMA))
            .put(&root::NODE_SID, Some(&self.encap.node_sid))
            .put(&root::ENCAP, Some(&self.encap))
            .put(&root::LIMITS, Some(&self.limits))
            .put(&root::CLASSES, Some(&self.classes))
            .put(&root::TENANTS, Some(&self.tenants))
            .done()
    }
}

/// Without the profile, which only stands for the others, and the SID, which the root has.
impl Written for Encap {
    fn written(&self) -> Value {
        Object::default()
            .put(&encap::HOP_LIMIT, Some(&self.hop_limit))
            .put(&encap::DSCP, Some(&self.dscp))
            .put(&encap::ECN, Some(&self.ecn))
            .put(&encap::FLOW_LABEL, Some(&self.flow_label))
            .put(&encap::TOO_BIG, Some(&self.too_big))
            .put(&encap::MSS, self.mss.as_ref())
            .put(&encap::ICMP, Some(&self.icmp))
            .put(&encap::EVENTS, Some(&self.events))
            .done()
    }
}

impl Written for Mss {
    fn written(&self) -> Value {
        Object::default()
            .put(&mss::IPV6, Some(&self.ipv6))
            .put(&mss::IPV4, Some(&self.ipv4))
            .done()
    }
}

impl Written for Rate {
    fn written(&self) -> Value {
        Object::default()
            .put(&rate::PER_SECOND, Some(&self.per_second))
            .put(&rate::BURST, Some(&self.burst))
            .done()
    }
}

impl Written for Limits {
    fn written(&self) -> Value {
        let groups = self.groups;
        let table_size = Number::Integer(groups.table_size().get().into());
        Object::default()
            .put(&limits::TENANTS, Some(&self.tenants))
            .put(&limits::ROUTES, Some(&self.routes))
            .put(&limits::GROUPS, Some(&groups.groups()))
            .put(&limits::MEMBERS, Some(&groups.members()))
            .put(&limits::TABLE_SIZE, Some(&table_size))
            .put(&limits::PINS, Some(&self.pins))
            .put(&limits::FLOW_PINS_OF, Some(&self.flow_pins))
            .put(&limits::RING_BYTES, Some(&self.ring_bytes))
            .done()
    }
}

impl Written for ClassSpec {
    fn written(&self) -> Value {
        let settings = &self.settings;
        let ecn = if settings.ecn_normal {
            Ecn::Normal
        } else {
            Ecn::Compatibility
        };
        Object::default()
            .put(&class::CLASS, Some(&self.class))
            .put(&class::HASH_GROUP, self.hash_group.as_ref())
            .put(&class::HASH, Some(&settings.hash_mode))
            .put(&class::PIN_IDLE, Some(&settings.pin_idle.as_secs()))
            .put(&class::REJECT, Some(&settings.reject))
            .put(&class::ECN, Some(&ecn))
            .put(&class::SHARDS, Some(&self.shards))
            .done()
    }
}

impl Written for ShardSpec {
    fn written(&self) -> Value {
        Object::default()
            .put(&shard::SID, Some(&self.sid))
            .put(&shard::WEIGHT, Some(&self.weight))
            .put(&shard::DRAINING, Some(&self.draining))
            .put(&shard::NEXT_HOP, Some(&self.next_hop))
            .done()
    }
}

impl Written for Option<NextHopSpec> {
    fn written(&self) -> Value {
        self.as_ref().map_or(Value::Null, Written::written)
    }
}

impl Written for NextHopSpec {
    fn written(&self) -> Value {
        Object::default()
            .put(&next_hop::INTERFACE, Some(&self.interface))
            .put(&next_hop::DESTINATION, Some(&self.destination))
            .put(&next_hop::SOURCE, self.source.as_ref())
            .put(&next_hop::MTU, self.mtu.as_ref())
            .done()
    }
}

impl Written for TenantSpec {
    fn written(&self) -> Value {
        Object::default()
            .put(&tenant::TABLE_ID, Some(&self.table))
            .put(&tenant::ARGUMENT, Some(&self.argument))
            .put(&tenant::HASH_TABLE, Some(&self.hash_table))
            .put(&tenant::PIN_QUOTA, Some(&self.pin_quota))
            .put(&tenant::ICMP, Some(&self.icmp))
            .put(&tenant::MSS, Some(&self.mss))
            .put(&tenant::INTERFACES, Some(&self.interfaces))
            .put(&tenant::ROUTES, Some(&self.routes))
            .done()
    }
}

impl Written for InterfaceSpec {
    fn written(&self) -> Value {
        Object::default()
            .put(&interface::NAME, Some(&self.name))
            .put(&interface::GATEWAY6, self.gateway6.as_ref())
            .put(&interface::GATEWAY4, self.gateway4.as_ref())
            .done()
    }
}

impl Written for RouteSpec {
    fn written(&self) -> Value {
        Object::default()
            .put(&route::PREFIX, Some(&self.prefix))
            .put(&route::TO, Some(&self.to))
            .done()
    }
}

impl Written for RouteTo {
    fn written(&self) -> Value {
        let [pass, block, unreachable] = route::ACTIONS;
        match self {
            Self::Pass => pass.written(),
            Self::Block(Block::Drop) => block.written(),
            Self::Block(Block::Unreachable) => unreachable.written(),
            Self::Class(class) => class.written(),
            Self::Shard { sid, next_hop } => Object::default()
                .put(&route_shard::SID, Some(sid))
                .put(&route_shard::NEXT_HOP, Some(next_hop))
                .done(),
        }
    }
}
