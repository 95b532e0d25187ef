// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames run through the program in the kernel, and what it says about them.

#[allow(dead_code)] // a builder for several test programs
#[path = "../flow_parse/build.rs"]
mod build;
#[path = "../common/capabilities.rs"]
mod capabilities;
mod captures;
mod document;
#[path = "../common/netns.rs"]
mod netns;
mod payloads;
mod production;
mod reasons;
mod rights;
mod scenario;
mod state;
mod vectors;

use guideway::capture::Frame;
use guideway::plan::{Options, World};
use guideway::quiclb::trace::{run, Reset, Scenario};
use guideway::service::Spec;
use serde_json::{json, Value};

/// The example of the documentation, as JSON to be changed.
fn example() -> Value {
    serde_json::from_str(include_str!("../data/spec/example.json")).expect("JSON")
}

fn parse(spec: &Value) -> Spec {
    Spec::from_json(spec.to_string().as_bytes()).expect("a valid specification")
}

/// A scenario on a machine that has none of the interfaces.
fn elsewhere(spec: &Value) -> Scenario {
    let world = World::offline();
    Scenario::new(None, &parse(spec), &world, Options::default()).expect("a plan")
}

/// The trace of these frames as it is printed.
fn trace(spec: &Value, frames: &[Vec<u8>]) -> Value {
    let frames = frames.iter().enumerate();
    let frames = frames.map(|(index, bytes)| Frame::new(index as u64, bytes));
    trace_frames(spec, frames, Reset::Never)
}

fn trace_frames<'a>(
    spec: &Value,
    frames: impl IntoIterator<Item = Frame<'a>>,
    reset: Reset,
) -> Value {
    let document = run(&elsewhere(spec), frames, reset).expect("a trace");
    let document = serde_json::to_value(&document).expect("JSON");
    document::check_schema(&document);
    document
}

/// The only packet of a trace.
fn trace_one(spec: &Value, frame: Vec<u8>) -> Value {
    let document = trace(spec, &[frame]);
    assert_eq!(document["packets"].as_array().map(Vec::len), Some(1));
    document["packets"][0].clone()
}

/// The number of packets of each kind that a summary counts, but for zeros.
fn counts(document: &Value) -> Value {
    let summary = document["summary"].as_object().expect("an object");
    let counts = summary.iter().filter(|(_, count)| **count != json!(0));
    counts
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect()
}
