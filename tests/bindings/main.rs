// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Registered and imported connection IDs in the kernel's table.

#[path = "../common/netns.rs"]
mod netns;

mod import;
mod instance;
mod many;
mod orders;
mod packets;
mod register;

use netns::isolated;
