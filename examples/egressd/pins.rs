// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `pins`: who is held to which shard, one after the other.

use std::ops::ControlFlow;

use guideway::egress::document::{
    expire, pins, remove, Error, PinDocument, PinFilter, SweepDocument,
};
use guideway::egress::pins::Standing;
use guideway::egress::Egress;
use guideway::error::ErrorKind;
use guideway::kernel::statedir::StateDir;
use guideway::route::TableId;

use crate::args::PinsArgs;
use crate::tool::text::or_dash;
use crate::tool::{json, Done, Failure, Output};

/// Bytes that are printed at once.
const CHUNK: usize = 64 << 10;

pub(crate) fn run(
    arguments: &PinsArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let failed = |error: Error| Failure::from(error).about(state.path().display());
    let filter = arguments.filter();
    let swept = if arguments.expire {
        expire(state, arguments.wait())
    } else if arguments.remove {
        if filter.table.is_none() && filter.group.is_none() {
            return Err(Failure::usage("--remove needs --table or --group"));
        }
        remove(state, &filter, arguments.held(), arguments.wait())
    } else {
        return list(arguments, state, output);
    };
    let swept = swept.map_err(failed)?;
    let done = format!("{} pins were removed", swept.removed.total());
    output
        .result(&swept, sweep_text)
        .map_err(|failure| failure.although(done))?;
    // What packets renewed meanwhile is not idle.
    if swept.complete || arguments.expire {
        Ok(Done::Well)
    } else {
        Ok(Done::Partly)
    }
}

fn list(arguments: &PinsArgs, state: &StateDir, output: &Output) -> Result<Done, Failure> {
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut chunk = String::new();
    if !output.is_json() {
        chunk.push_str(&line([
            "tenant",
            "group",
            "slot",
            "generation",
            "idle",
            "standing",
            "shard",
            "source",
        ]));
    }
    let failed = |error: Error| Failure::from(error).about(state.path().display());
    if let Some(table) = arguments.filter().table {
        if !is_known(state, table).map_err(failed)? {
            let message =
                format!("tenant {table} has neither an interface nor a pin in this instance");
            return Err(Failure::new(ErrorKind::NotFound, message).about(table));
        }
    }
    let mut count = 0;
    let mut printed = Ok(true);
    let unknown = pins(state, &arguments.filter(), |pin| {
        if count == limit {
            return ControlFlow::Break(());
        }
        count += 1;
        if output.is_json() {
            chunk.push_str(&json(&pin));
            chunk.push('\n');
        } else {
            chunk.push_str(&pin_text(&pin));
        }
        if chunk.len() < CHUNK {
            return ControlFlow::Continue(());
        }
        printed = output.print(&std::mem::take(&mut chunk));
        match printed {
            Ok(true) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    let unknown = unknown.map_err(failed)?;
    if printed? && !chunk.is_empty() {
        output.print(&chunk)?;
    }
    Ok(Done::degraded_if(unknown > 0))
}

/// Whether there is such a tenant, or one that lost its interfaces has pins yet.
fn is_known(state: &StateDir, table: TableId) -> Result<bool, Error> {
    let tenants = Egress::open(state)?.tenants()?;
    if tenants.values().any(|tenant| tenant.table == table) {
        return Ok(true);
    }
    let of_it = PinFilter {
        table: Some(table),
        ..PinFilter::default()
    };
    let mut found = false;
    pins(state, &of_it, |_| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn line(cells: [&str; 8]) -> String {
    let [tenant, group, slot, generation, idle, standing, shard, source] = cells;
    let line = format!(
        "{tenant:>10}  {group:>5}  {slot:>4}  {generation:>10}  {idle:>9}  {standing:<8}  \
         {shard:<26}  {source}"
    );
    format!("{}\n", line.trim_end())
}

fn pin_text(pin: &PinDocument) -> String {
    let mut source = pin.source.to_string();
    if let Some(flow) = &pin.flow {
        source.push_str(&format!(
            " port {} to {} port {} protocol {}",
            flow.source_port, flow.destination, flow.destination_port, flow.protocol
        ));
    }
    line([
        &pin.table.to_string(),
        &pin.group.to_string(),
        &pin.slot.to_string(),
        &pin.generation.to_string(),
        &format!("{} s", pin.idle_seconds),
        match pin.standing {
            Standing::Live => "live",
            Standing::Idle => "idle",
            Standing::Stale => "stale",
            Standing::Dead => "dead",
            Standing::Unjudged => "unjudged",
        },
        &or_dash(pin.shard),
        &source,
    ])
}

fn sweep_text(swept: &SweepDocument) -> String {
    let (found, removed) = (&swept.found, &swept.removed);
    let mut text = format!(
        "removed {} of {} pins in {:.1} ms: {} idle, {} of members that are gone, {} asked for\n",
        removed.total(),
        found.total(),
        swept.duration_ms,
        removed.idle,
        removed.stale,
        removed.tenant + removed.called,
    );
    let left = [
        (swept.changed, "were used or bound meanwhile, and stay"),
        (swept.torn, "are not what they seem, and stay"),
        (swept.busy, "were locked, and are there still"),
        (
            swept.uncounted,
            "were removed that their tenant had no count of",
        ),
    ];
    for (count, what) in left.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("  {count} {what}\n"));
    }
    for (table, more) in &swept.recounted {
        text.push_str(&format!("  count of table {table} made right: {more:+}\n"));
    }
    text
}
