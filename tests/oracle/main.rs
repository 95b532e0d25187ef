// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What becomes of a frame, by the model.

mod bindings;
#[allow(dead_code)] // a builder for several test programs
#[path = "../flow_parse/build.rs"]
mod build;
mod describe;
mod flows;
mod forwarding;
mod icmp;
mod quic;
mod scene;
mod server_id;
mod world;
