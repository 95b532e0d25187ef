// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Lines about what changed: one when something begins, one when it is over, none in between.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use guideway::affinity::rfc3339;
use guideway::kernel::clock;
use serde_json::json;

/// Where lines go: standard output.
pub(crate) struct Log {
    json: bool,
    standing: BTreeMap<Wrong, Standing>,
}

/// Something that is not as it could be, and stays so for a while.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// It should be otherwise.
    Problem(String),
    /// It may be meant.
    Ineligible(String),
}

impl Wrong {
    fn line(&self) -> (Level, &'static str, &'static str, &str) {
        match self {
            Self::Problem(text) => (Level::Warning, "problem", "problem-over", text),
            Self::Ineligible(text) => (Level::Info, "ineligible", "ineligible-over", text),
        }
    }
}

/// Since when something is so.
struct Standing {
    since: Duration,
    /// How often it was seen again.
    repeats: u64,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Log {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            standing: BTreeMap::new(),
        }
    }

    pub(crate) fn info(&self, event: &str, message: &str) {
        self.line(Level::Info, event, message, None);
    }

    pub(crate) fn warning(&self, event: &str, message: &str) {
        self.line(Level::Warning, event, message, None);
    }

    pub(crate) fn error(&self, event: &str, message: &str) {
        self.line(Level::Error, event, message, None);
    }

    fn line(&self, level: Level, event: &str, message: &str, repeats: Option<u64>) {
        let time = rfc3339(clock::wall_ns() / 1_000_000_000);
        let level = level.name();
        let text = if self.json {
            let mut line =
                json!({"time": time, "level": level, "event": event, "message": message});
            if let Some(repeats) = repeats {
                line["repeats"] = repeats.into();
            }
            line.to_string()
        } else {
            // A message of several lines would pass for several events.
            format!("{time} {level} {event}: {}", message.replace('\n', "; "))
        };
        let mut stdout = std::io::stdout().lock();
        // Who does not read any more is no reason to end.
        let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    }

    /// Takes in everything that is wrong now: says what is new, and what is over with how often it
    /// was seen.
    pub(crate) fn standing(&mut self, now: Duration, wrong: impl IntoIterator<Item = Wrong>) {
        let before = std::mem::take(&mut self.standing);
        for wrong in wrong {
            // The same thing twice in one look is one thing.
            if self.standing.contains_key(&wrong) {
                continue;
            }
            let standing = match before.get(&wrong) {
                Some(standing) => Standing {
                    since: standing.since,
                    repeats: standing.repeats + 1,
                },
                None => {
                    let (level, event, _, text) = wrong.line();
                    self.line(level, event, text, None);
                    Standing {
                        since: now,
                        repeats: 0,
                    }
                }
            };
            self.standing.insert(wrong, standing);
        }
        for (wrong, standing) in before {
            if !self.standing.contains_key(&wrong) {
                let (_, _, event, text) = wrong.line();
                let seconds = now.saturating_sub(standing.since).as_secs_f64();
                let repeats = standing.repeats;
                let message = format!(
                    "over after {seconds:.1} s, seen {} times: {text}",
                    repeats + 1
                );
                self.line(Level::Info, event, &message, Some(repeats));
            }
        }
    }
}
