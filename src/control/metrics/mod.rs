// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The numbers that a control loop and its node export, as OpenMetrics text.
//!
//! ```text
//! loop -----> LoopCounters --copy--.
//!                                   render(counters, reading, format) -> text
//! kernel's maps -----> Reading ----'
//! ```
//!
//! A program that embeds the loop keeps [`LoopCounters`] in [`SharedCounters`]; a scrape takes a copy
//! of them, reads the maps by a handle of its own and writes both down with [`render`]. The loop waits
//! for none of that. [`METRICS`] is the list of all metrics.
//!
//! Labels have bounded sets of values: shards and classes, but never tenants or their addresses.

mod counters;
mod counts;
mod label;
mod read;
mod reading;
mod registry;
mod render;
mod text;

pub use counters::{LoopCounters, SharedCounters};
pub use counts::{Carried, Counts, Histogram};
pub use label::{Label, Optional, Publication, Side, SourceKind, Stage, Unresolved};
pub use reading::{GroupReading, Reading};
pub use registry::{Kind, Metric, METRICS};
pub use render::render;
pub use text::Format;
