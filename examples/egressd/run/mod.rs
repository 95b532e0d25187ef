// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `run`: the loop that keeps this node's egress in line with its shards.

pub(crate) mod config;
