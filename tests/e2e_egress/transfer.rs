// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bulk transfers and datagrams of every size, both ways.

use guideway::kernel::tc;

use crate::machine::*;
use crate::netns;
use crate::world::*;

/// With segmentation by the device and without, and with checksums by it and by the tenant.
fn through_the_kernel(name: &'static str, server: &'static str) {
    netns::isolated(name, move || {
        if !needs_seg6(name) {
            return;
        }
        let world = world(&tc::Options::default());
        let off = |feature: &str| {
            let set = world.tenant.offload("gw-inside", feature, "off");
            set.expect("a feature");
        };
        // What the device is to cut up is longer than any frame.
        let average = world.exchange(server);
        assert!(average > u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tso");
        off("gso");
        let average = world.exchange(server);
        assert!(average <= u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tx");
        world.exchange(server);
        let dropped: u64 = world.machine.counters()[32..64].iter().sum();
        assert_eq!(dropped, 0);
    });
}

#[test]
fn linux_decapsulates_ipv6() {
    through_the_kernel("e2e_egress::dx6", SERVER6);
}

#[test]
fn linux_decapsulates_ipv4() {
    through_the_kernel("e2e_egress::dx4", SERVER4);
}

/// As on kernels before Linux 6.6.
#[test]
fn a_filter_of_clsact_does_the_same() {
    netns::isolated("e2e_egress::clsact", || {
        if !needs_seg6("e2e_egress::clsact") {
            return;
        }
        let world = world(&tc::Options {
            way: tc::Way::Clsact,
            ..tc::Options::default()
        });
        world.exchange(SERVER6);
        world.exchange(SERVER4);
        assert!(world.count(C::GW_EGRESS_GROUP) > 20);
    });
}
