// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Exact bindings of connection IDs: registering them, and taking them from one instance to another.

mod read;

pub use read::{read_affinity, ReadError};
