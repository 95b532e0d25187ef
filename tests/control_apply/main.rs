// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop does with its plans, and who sets up tenants with their routes: on a node in
//! memory where each operation fails or is the last, and on the kernel, by the same suite.

mod conformance;
mod damaged;
mod deadline;
mod faults;
mod installs;
mod invariants;
mod killed;
mod late;
mod live;
mod node;
mod traffic;

#[path = "../control_reconcile/fixture.rs"]
#[allow(dead_code)] // this binary uses a part
mod fixture;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/udp6.rs"]
mod udp6;
