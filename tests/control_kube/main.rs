// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The Kubernetes source against a server that misbehaves in ways that a real one does not on demand.

mod cluster;
mod errors;
mod groups;
mod life;
mod lists;
mod manifests;
mod support;
mod watches;
