// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances of the egress datapath that get maps of other sizes: what is kept, under packets, failures
//! and kills.

#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/stops.rs"]
mod stops;
#[path = "../common/udp6.rs"]
mod udp6;

#[allow(dead_code)] // a part of it is used here
#[path = "../egress_instance/support.rs"]
mod support;

mod counts;
mod limits;
mod others;
mod scene;
mod steps;
mod traffic;
mod versions;
