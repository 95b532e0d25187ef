// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Kernel traffic steering for control planes, to embed in a program of your own: Maglev tables, an
//! XDP load balancer with direct server return for QUIC, UDP and TCP, and a TC datapath that spreads
//! tenants' egress over groups of SRv6 shards.
//!
//! # Where to begin
//!
//! - [`guide::embedding`]: what machine, network and servers need, and ten lines to copy.
//! - [`service::Spec`]: what to serve; [`plan()`](plan::plan): what that would do; [`quiclb`]: do it.
//! - [`egress_spec::Spec`]: which tenants' packets go to which egress shards.
//! - [`guide::egress`]: tenants' packets to shards; [`egress_spec::Spec`]: who, and to which;
//!   [`egress`]: do it.
//! - [`maglev`]: the tables alone, without any kernel; [`placement`]: which egress shard carries a
//!   packet of a tenant.
//! - [`guide::affinity`]: when a connection keeps its backend and when it can still break;
//!   [`guide::pcc`], [`guide::lru`]: what comes of other ways.
//! - [`guide::keys`]: server IDs in connection IDs, encrypted or not.
//! - [`guide::upgrade`]: another program under traffic, back again, and what to do when that was
//!   interrupted.
//! - [`guide::architecture`], [`guide::datapath`], [`guide::state`]: how it works.
//!
//! # Types
//!
//! A [`Loader`](quiclb::Loader) becomes a [`Writer`](quiclb::Writer), which holds the instance's
//! lock and alone can publish, attach and detach; a [`QuicLb`](quiclb::QuicLb) only looks. Wrong
//! orders do not compile; everything that changes at run time is an enum that is checked. Handles
//! are owned and `Send`, nothing has a lifetime, calls block and are bounded. Every error has a
//! `kind()`.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `aes` | encrypted server IDs in user space: encoder, decoder, key check values (crate `aes`) | yes |
//! | `kube` | `control::kube`: the list of egress shards from a Kubernetes API server. Brings an async runtime, TLS and about a hundred crates, and needs Rust 1.89 | no |
//! | `schema` | `schemars::JsonSchema` on the documents; the schemas themselves are always there | no |
//! | `static` | links libelf and zlib statically | no |
//!
//! # Minimum versions
//!
//! Linux 6.1, Rust 1.85, clang 14.

pub mod abi;
pub mod addr;
pub mod affinity;
pub mod capture;
pub mod control;
mod document;
pub mod egress;
pub mod egress_spec;
pub mod encap;
pub mod error;
pub mod flow;
pub mod flow_label;
pub mod group;
pub mod guide;
pub mod hash;
pub mod hex;
pub mod id;
#[allow(dead_code)] // the builder of generations is its only user
mod image_hash;
pub mod kernel;
pub mod maglev;
pub mod oracle;
pub mod pin;
pub mod placement;
pub mod plan;
pub mod quic;
pub mod quiclb;
pub mod reason;
pub mod route;
pub mod service;
pub mod srv6;
pub mod tenant;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
