// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `events`: events as they come, until a time or number is reached.

use std::time::{Duration, Instant};

use guideway::error::ErrorKind;
use guideway::quiclb::{Event, EventLine, EventSummary, InstanceError, QuicLb, StateRoot};

use crate::args::EventsArgs;
use crate::tool::text::or_dash;
use crate::tool::{json, Done, Failure, Output};
use crate::trace;

/// Events that are taken at once.
const BATCH: usize = 256;

pub(crate) fn run(
    arguments: &EventsArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let about = |error| {
        let failure = match error {
            InstanceError::Profile { .. } => Failure::new(
                ErrorKind::Unsupported,
                "the instance runs on a network card, which has no events",
            ),
            error => Failure::from(error),
        };
        failure.about(arguments.instance)
    };
    let instance = QuicLb::open(&root.quiclb(arguments.instance)).map_err(about)?;
    let mut stream = instance.events().map_err(about)?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds.into());
    let mut left = arguments.limit as usize;
    while left > 0 {
        let mut lines = String::new();
        let rest = end.saturating_duration_since(Instant::now());
        let count = stream
            .poll(rest, left.min(BATCH), |event| {
                lines.push_str(&line(EventLine::Event(event), output));
            })
            .map_err(about)?;
        left -= count;
        if count > 0 && !output.print(&lines)? {
            return Ok(Done::Well);
        }
        if rest.is_zero() {
            break;
        }
    }
    let summary = stream.summary().map_err(about)?;
    output.print(&line(EventLine::Summary(summary), output))?;
    Ok(Done::Well)
}

fn line(line: EventLine, output: &Output) -> String {
    let mut text = match (&line, output.is_json()) {
        (line, true) => json(line),
        (EventLine::Event(event), false) => event_text(event),
        (EventLine::Summary(summary), false) => summary_text(summary),
    };
    text.push('\n');
    text
}

fn event_text(event: &Event) -> String {
    let mut text = format!(
        "{:>12.6} {:<17} {} {}:{} -> {} port {}",
        event.time_ns as f64 / 1e9,
        event.kind.as_str(),
        trace::protocol_text(event.protocol),
        or_dash(event.source),
        event.source_port,
        event
            .service
            .clone()
            .unwrap_or_else(|| or_dash(event.service_id)),
        event.destination_port,
    );
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!(", {name} {value}"));
        }
    };
    add("backend", event.backend_id.map(|id| id.to_string()));
    add("rule", event.rule.map(|rule| rule.to_string()));
    add("reason", event.reason.map(|reason| reason.to_string()));
    add("cid", event.cid.clone());
    add("slot", event.slot.map(|slot| slot.to_string()));
    add("generation", Some(event.generation.to_string()));
    add(
        "suppressed",
        Some(event.suppressed)
            .filter(|&n| n > 0)
            .map(|n| n.to_string()),
    );
    text
}

fn summary_text(summary: &EventSummary) -> String {
    format!(
        "{} events, {} suppressed, {} lost",
        summary.lines, summary.suppressed, summary.lost
    )
}
