// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Chains of plans without a kernel: what slots remember through changes, for how long, and what a
//! plan foretells of flows.

mod forecast;
mod removal;
mod sharing;
mod support;
mod tracking;
mod windows;
