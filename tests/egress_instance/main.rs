// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances of the egress datapath in the kernel: publication, the write barrier, what survives
//! failures, restarts and kills.

#[path = "../common/capabilities.rs"]
mod capabilities;
#[path = "../common/cpus.rs"]
mod cpus;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/stops.rs"]
mod stops;
#[path = "../common/udp6.rs"]
mod udp6;

mod apply;
mod barrier;
mod classes;
mod counters;
mod documents;
mod instance;
mod killed;
mod loss;
mod publish;
mod rights;
mod routes;
mod support;
mod tenants;
