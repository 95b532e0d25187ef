// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How it works and how to use it, page by page. No code.

#[doc = include_str!("docs/affinity.md")]
pub mod affinity {}

#[doc = include_str!("docs/architecture.md")]
pub mod architecture {}

#[doc = include_str!("docs/control.md")]
pub mod control {}

#[doc = include_str!("docs/datapath.md")]
pub mod datapath {}

#[doc = include_str!("docs/egress.md")]
pub mod egress {}

#[doc = include_str!("docs/embedding.md")]
pub mod embedding {}

#[doc = include_str!("docs/keys.md")]
pub mod keys {}

#[doc = include_str!("docs/lru.md")]
pub mod lru {}

#[doc = include_str!("docs/offload.md")]
pub mod offload {}

#[doc = include_str!("docs/pcc.md")]
pub mod pcc {}

#[doc = include_str!("docs/sharing.md")]
pub mod sharing {}

#[doc = include_str!("docs/state.md")]
pub mod state {}

#[doc = include_str!("docs/upgrade.md")]
pub mod upgrade {}
