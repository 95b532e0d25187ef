// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The crate's tables and placement, and nothing else of it than what these use.

#[path = "../../src/addr.rs"]
pub mod addr;
#[allow(dead_code)] // other modules use the rest
#[path = "../../src/hash.rs"]
pub mod hash;
#[allow(dead_code)] // other modules use the rest
#[path = "../../src/hex.rs"]
mod hex;
#[path = "../../src/id.rs"]
pub mod id;
#[path = "../../src/maglev/mod.rs"]
pub mod maglev;
#[path = "../../src/placement/mod.rs"]
pub mod placement;
#[path = "../../src/srv6.rs"]
pub mod srv6;
