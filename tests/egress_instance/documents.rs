// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Specifications whose shards are all behind loopback.

use guideway::egress::resolve;
use guideway::egress_spec::{Resolved, Spec};
use serde_json::{json, Value};

fn shard(number: u16) -> Value {
    json!({
        "sid": format!("2001:db8:ff09:{number:x}:e000::"),
        "next_hop": {"interface": "lo", "destination": "02:00:00:00:09:09",
            "source": "02:00:00:00:08:08", "mtu": 0},
    })
}

pub(crate) fn class(name: &str, shards: &[u16]) -> Value {
    let shards: Vec<_> = shards.iter().map(|&number| shard(number)).collect();
    json!({"class": name, "shards": shards})
}

pub(crate) fn tenants(tenants: &[(u32, &str)]) -> Value {
    let tenants = tenants.iter().map(|(table, interface)| {
        json!({"table": table, "argument": 0x200 + table, "interfaces": [interface]})
    });
    tenants.collect()
}

pub(crate) fn resolved(classes: &[Value], tenants: Value) -> Resolved {
    let document = json!({
        "schema": "guideway.egress.spec/v1",
        "node_sid": "2001:db8:ff01:1:e000::",
        "encap": {"profile": "compat"},
        "classes": classes,
        "tenants": tenants,
    });
    let spec = Spec::from_json(document.to_string().as_bytes());
    let spec = spec.unwrap_or_else(|faults| panic!("{faults}"));
    resolve(&spec).unwrap_or_else(|error| panic!("{error}"))
}
