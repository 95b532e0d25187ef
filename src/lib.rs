// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Kernel traffic steering for control planes.

pub mod abi;
pub mod addr;
pub mod error;
pub mod flow;
pub mod hash;
pub mod hex;
pub mod id;
#[allow(dead_code)] // the builder of generations is its only user
mod image_hash;
pub mod kernel;
pub mod maglev;
pub mod oracle;
pub mod plan;
pub mod quic;
pub mod reason;
pub mod service;
