// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop hears of a real kernel's routes, neighbours and links, and what it makes
//! of them. Each test is in namespaces of its own.

#[path = "../common/capabilities.rs"]
mod capabilities;
mod flood;
mod keep;
#[path = "../../examples/common/namespace.rs"]
#[allow(dead_code)]
mod namespace;
#[path = "../common/netns.rs"]
mod netns;
mod news;
mod rights;
#[path = "../common/routes.rs"]
mod routes;
mod scene;
mod ways;
