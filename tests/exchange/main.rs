// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Programs exchanged under traffic: no packet is lost or goes elsewhere, whatever step fails or dies.

mod balancer;
mod egress;
mod killed;
mod layout;
#[path = "../common/netns.rs"]
mod netns;
mod quiclb;
mod traffic;
#[path = "../common/udp6.rs"]
mod udp6;
