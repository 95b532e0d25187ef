// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The crate's tables, and nothing else of it.

#[path = "../../../src/maglev/mod.rs"]
pub mod maglev;
