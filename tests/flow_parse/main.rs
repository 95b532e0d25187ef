// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames and what must be read from them.

mod any_bytes;
mod build;
mod check;
mod icmp;
mod ipv4;
mod ipv6;
mod link;
mod transport;
