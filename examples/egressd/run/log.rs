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
    faults: Faults,
}

/// What is tried all the time and keeps failing, by what it is.
#[derive(Default)]
struct Faults(BTreeMap<&'static str, Fault>);

struct Fault {
    text: String,
    repeats: u64,
}

/// A line, and how often what it tells of was seen again.
type Line = (Level, String, Option<u64>);

impl Faults {
    /// Takes in how something went; what is to be said of it, if anything.
    fn tried(&mut self, what: &'static str, error: Option<String>) -> Option<Line> {
        let before = self.0.remove(what);
        let Some(text) = error else {
            let Fault { text, repeats } = before?;
            let message = format!("{what}: over, seen {} times: {text}", repeats + 1);
            return Some((Level::Info, message, Some(repeats)));
        };
        let again = before.filter(|before| before.text == text);
        let repeats = again.as_ref().map_or(0, |before| before.repeats + 1);
        let line = format!("{what}: {text}");
        self.0.insert(what, Fault { text, repeats });
        again.is_none().then_some((Level::Error, line, None))
    }
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
            faults: Faults::default(),
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

    /// Takes in how something went that is tried all the time: says an error when it begins or becomes
    /// another one, and when it is over.
    pub(crate) fn tried(&mut self, event: &'static str, what: &'static str, error: Option<String>) {
        if let Some((level, message, repeats)) = self.faults.tried(what, error) {
            self.line(level, event, &message, repeats);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_when_it_begins_when_it_is_another_one_and_when_it_is_over() {
        let mut faults = Faults::default();
        let mut tried = |error: Option<&str>| {
            let line = faults.tried("view", error.map(str::to_owned))?;
            Some((line.0.name(), line.1, line.2))
        };
        let line = |level, text: &str, repeats| Some((level, text.to_owned(), repeats));
        assert_eq!(tried(None), None);
        assert_eq!(tried(Some("EIO")), line("error", "view: EIO", None));
        assert_eq!((tried(Some("EIO")), tried(Some("EIO"))), (None, None));
        assert_eq!(tried(Some("EPERM")), line("error", "view: EPERM", None));
        assert_eq!(tried(Some("EPERM")), None);
        let over = "view: over, seen 2 times: EPERM";
        assert_eq!(tried(None), line("info", over, Some(1)));
        assert_eq!(tried(None), None);
        // Others have their own.
        assert!(faults.tried("reports", Some("EIO".to_owned())).is_some());
        assert!(faults.tried("view", Some("EIO".to_owned())).is_some());
        assert!(faults.tried("reports", Some("EIO".to_owned())).is_none());
    }
}
