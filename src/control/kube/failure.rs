// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why the server was asked in vain, and what follows.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use super::RESOURCE;
use crate::control::source::SourceErrorReason;

/// What was asked for, by the name that roles have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

/// A request that was in vain.
#[derive(Debug)]
pub(super) struct Failure {
    verb: Verb,
    pub(super) reason: SourceErrorReason,
    why: String,
    /// The status that the server answered.
    code: Option<u16>,
    /// How long the server asks to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn new(verb: Verb, reason: SourceErrorReason, why: impl Into<String>) -> Self {
        Self {
            verb,
            reason,
            why: why.into(),
            code: None,
            retry_after: None,
        }
    }

    /// An answer that is no success, or an event that is an error.
    pub(super) fn refused(verb: Verb, code: u16, message: &str) -> Self {
        use SourceErrorReason as Reason;
        let (reason, meaning) = match code {
            401 => (Reason::Forbidden, "the credentials are not accepted"),
            403 => (Reason::Forbidden, "no role grants it"),
            404 => (Reason::Gone, "the server has no such resource"),
            410 => (Reason::Gone, "the version is too old"),
            408 | 504 => (Reason::Timeout, "the server was too slow"),
            429 => (Reason::Throttled, "the server is busy"),
            500..=599 => (Reason::Unavailable, "the server fails"),
            _ => (Reason::Unavailable, "the server refuses"),
        };
        let said: String = message
            .chars()
            .filter(|c| !c.is_control())
            .take(400)
            .collect();
        let said = if said.is_empty() {
            said
        } else {
            format!(": {said}")
        };
        Self {
            code: Some(code),
            ..Self::new(verb, reason, format!("{meaning} ({code}){said}"))
        }
    }

    /// No answer, or none to the end.
    pub(super) fn broken(
        verb: Verb,
        otherwise: SourceErrorReason,
        error: &(dyn Error + 'static),
    ) -> Self {
        let chain = || std::iter::successors(Some(error), |error| (*error).source()).take(16);
        let timed_out = |error: &(dyn Error + 'static)| {
            let error = error.downcast_ref::<io::Error>();
            error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        };
        let reason = if chain().any(timed_out) {
            SourceErrorReason::Timeout
        } else {
            otherwise
        };
        // A wrapping error often repeats the text of the one below.
        let mut why = String::new();
        for text in chain().map(ToString::to_string) {
            if !why.ends_with(&text) {
                why.push_str(if why.is_empty() { "" } else { ": " });
                why.push_str(&text);
            }
        }
        Self::new(verb, reason, why)
    }

    pub(super) fn retry_after(self, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..self
        }
    }

    /// The version that was asked for is no more, and only a new list helps.
    pub(super) fn is_gone(&self) -> bool {
        self.code == Some(410)
    }

    /// The server does not understand such a request, and will not the next time.
    pub(super) fn is_not_understood(&self) -> bool {
        matches!(self.code, Some(400 | 405 | 406 | 415 | 422 | 501))
    }

    /// What an operator should read: what was asked for, where, and why in vain.
    pub(super) fn describe(&self, namespace: &str) -> String {
        let Self { verb, why, .. } = self;
        if self.code == Some(403) {
            return format!(
                "the verb {verb} on {RESOURCE} in namespace {namespace} is missing: {why}"
            );
        }
        format!("cannot {verb} {RESOURCE} in namespace {namespace}: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_reason() {
        let reasons = [
            (401, "forbidden"),
            (403, "forbidden"),
            (404, "gone"),
            (410, "gone"),
            (408, "timeout"),
            (504, "timeout"),
            (429, "throttled"),
            (500, "unavailable"),
            (503, "unavailable"),
            (422, "unavailable"),
        ];
        for (code, reason) in reasons {
            let failure = Failure::refused(Verb::Watch, code, "because");
            assert_eq!(failure.reason.name(), reason, "{code}");
            assert!(failure
                .describe("n")
                .ends_with(&format!("({code}): because")));
            assert_eq!(failure.is_gone(), code == 410);
        }
    }

    #[test]
    fn a_missing_verb_is_named() {
        for (verb, name) in [(Verb::List, "list"), (Verb::Watch, "watch")] {
            let text = Failure::refused(verb, 403, "").describe("galactic");
            let start = format!("the verb {name} on {RESOURCE} in namespace galactic is missing");
            assert!(text.starts_with(&start), "{text}");
        }
    }

    #[test]
    fn what_a_server_says_is_one_short_line() {
        let message = "a\nb\u{1b}[31m".to_owned() + &"x".repeat(9000);
        let text = Failure::refused(Verb::List, 500, &message).describe("n");
        assert!(text.len() < 600 && text.contains(": ab[31mxx"), "{text}");
        assert!(!text.contains(char::is_control));
    }

    #[test]
    fn a_broken_connection_tells_the_whole_chain_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Outer(#[source] io::Error);
        let outer = |kind| Outer(io::Error::new(kind, "inner"));
        let text = |error: &Outer| {
            let failure = Failure::broken(Verb::List, SourceErrorReason::Closed, error);
            (failure.reason.name(), failure.why)
        };
        let reset = outer(io::ErrorKind::ConnectionReset);
        assert_eq!(text(&reset), ("closed", "outer: inner".to_owned()));
        assert_eq!(text(&outer(io::ErrorKind::TimedOut)).0, "timeout");
    }
}
