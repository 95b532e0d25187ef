// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `watch`: what an instance does, interval after interval, until somebody stops it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use guideway::affinity::rfc3339;
use guideway::kernel::clock;
use guideway::quiclb::{QuicLb, StateRoot, Stats, Status, WatchLine};

use crate::args::WatchArgs;
use crate::collect::Collecting;
use crate::tool::{json, Done, Failure, Output};

pub(crate) fn run(
    arguments: &WatchArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let dir = root.quiclb(arguments.instance);
    let about = |error: Failure| error.about(arguments.instance);
    let look = || -> Result<(Instant, Stats), Failure> {
        // Opened anew each time: whoever purges it and makes it again is watched on.
        let stats = QuicLb::open(&dir)?.stats()?;
        Ok((Instant::now(), stats))
    };
    let mut collecting = arguments
        .repair
        .then(|| Collecting::new(arguments.instance, root));
    let (mut then, mut before) = look().map_err(about)?;
    let mut left = arguments.count.unwrap_or(u32::MAX);
    while left > 0 {
        let problem = wait(arguments.interval, collecting.as_mut())?;
        let (now, after) = look().map_err(about)?;
        let status = Status::of(&dir).map_err(|error| about(error.into()))?;
        let mut line = WatchLine::between(
            &before,
            &after,
            now - then,
            rfc3339(clock::wall_ns() / 1_000_000_000),
            status.findings,
        );
        line.problem = problem;
        let text = if output.is_json() {
            format!("{}\n", json(&line))
        } else {
            text(&line)
        };
        if !output.print(&text)? {
            break;
        }
        (then, before) = (now, after);
        left -= 1;
    }
    Ok(Done::Well)
}

/// Waits for so long, and works meanwhile; what stands in the way of that at the end.
fn wait(time: Duration, collecting: Option<&mut Collecting>) -> Result<Option<String>, Failure> {
    let Some(collecting) = collecting else {
        sleep(time);
        return Ok(None);
    };
    let end = Instant::now() + time;
    loop {
        let step = collecting.step()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(step.problem);
        }
        sleep(step.next.min(left));
    }
}

fn text(line: &WatchLine) -> String {
    let mut text = format!("{}\n", line.time);
    for service in &line.services {
        let rules = list(service.rules.iter());
        text += &format!(
            "  {:<20}{:>12.0} packets/s{:>14.0} bytes/s   {rules}\n",
            service.name, service.packets_per_second, service.bytes_per_second,
        );
        for backend in &service.backends {
            let (id, share) = (backend.id, backend.share * 100.0);
            let rate = backend.packets_per_second;
            text += &format!("    backend {id:<10}{rate:>12.0} packets/s{share:>11.1} %\n");
        }
    }
    let others = line
        .reasons
        .iter()
        .filter(|(name, _)| **name != "forwarded");
    text += &format!("  not forwarded: {}\n", list(others));
    for finding in &line.findings {
        text += &format!("  {}: {}\n", finding.object, finding.message);
    }
    if let Some(problem) = &line.problem {
        text += &format!("  not repaired: {problem}\n");
    }
    text
}

/// Rates by name.
fn list<'a>(rates: impl Iterator<Item = (&'a &'static str, &'a f64)>) -> String {
    let parts: Vec<_> = rates
        .map(|(name, rate)| format!("{name} {rate:.0}/s"))
        .collect();
    match parts.is_empty() {
        true => "none".to_owned(),
        false => parts.join(", "),
    }
}

/// The shortest interval: counters are read from every service.
const SHORTEST: Duration = Duration::from_millis(100);

/// An interval as the command line writes it: seconds, or a number with a unit.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds: f64 = number
        .parse()
        .map_err(|_| "must be a number with the unit s or ms, or of seconds".to_owned())?;
    let interval = Duration::try_from_secs_f64(seconds * unit);
    match interval {
        Ok(interval) if interval >= SHORTEST && interval <= Duration::from_secs(86_400) => {
            Ok(interval)
        }
        _ => Err("must be from 100ms to 86400s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units_and_bounds() {
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        for wrong in [
            "", "s", "x", "-1", "0", "99ms", "86401", "NaN", "inf", "1e300",
        ] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
