// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants' egress over groups of shards, in the kernel.

pub mod pins;
