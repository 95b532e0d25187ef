// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards that differ by their node.

use std::net::Ipv6Addr;

use guideway::placement::Shard;
use guideway::srv6::BaseSid;

pub(crate) fn sid(node: u16) -> BaseSid {
    let sid = Ipv6Addr::new(0x2001, 0xdb8, 0xff09, node, 0xe000, 0, 0, 0);
    BaseSid::new(sid).expect("a SID")
}

/// Shards of weight 1.
pub(crate) fn shards(nodes: impl IntoIterator<Item = u16>) -> Vec<Shard> {
    nodes
        .into_iter()
        .map(|node| Shard::new(sid(node)))
        .collect()
}
