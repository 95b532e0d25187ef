// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the specification documents share: how they are read, judged, described and written.
//!
//! A document is a tree of values ([`tree`]). Tables of members ([`field`]) say what each object
//! may hold; the [`reader`] reads by them and reports every [`Fault`](fault::Fault) of a document
//! at once, and the JSON [`schema`] is made from them.
#![forbid(unsafe_code)]

pub(crate) mod choice;
pub(crate) mod digest;
pub(crate) mod fault;
pub(crate) mod field;
pub(crate) mod origin;
pub(crate) mod prime;
pub(crate) mod reader;
pub(crate) mod scalar;
pub(crate) mod schema;
pub(crate) mod severity;
pub(crate) mod tree;
pub(crate) mod write;
