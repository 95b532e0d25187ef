// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The two requests: one page of the list, and a watch.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use kube::Client;
use tokio::time::{timeout, timeout_at, Instant};

use super::failure::{Failure, Verb};
use super::object::Status;
use super::{Settings, PLURAL};
use crate::control::manifest::API_VERSION;
use crate::control::source::SourceErrorReason as Reason;

/// More than any page and any event has: objects are of 1.5 MiB at most, as etcd stores them.
const LONGEST_PAGE: usize = 256 << 20;
const LONGEST_EVENT: usize = 8 << 20;
/// What is read of a refusal.
const LONGEST_REFUSAL: usize = 64 << 10;
/// How much later than asked for a server may end a watch before the connection counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// The objects of one namespace.
pub(super) struct Api {
    client: Client,
    request: Request,
    page: u32,
    answer_timeout: Duration,
    watch_timeout: Duration,
}

impl Api {
    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        let namespace = &settings.namespace;
        Self {
            client,
            request: Request::new(format!(
                "/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"
            )),
            page: settings.page,
            answer_timeout: settings.answer_timeout,
            watch_timeout: settings.watch_timeout,
        }
    }

    /// The text of one page, of the whole list if it is the first.
    pub(super) async fn list(&self, next: Option<&str>) -> Result<Vec<u8>, Failure> {
        let mut parameters = ListParams::default().limit(self.page);
        if let Some(token) = next {
            parameters = parameters.continue_token(token);
        }
        let request = self.request.list(&parameters);
        let whole = async {
            let body = self.ask(Verb::List, request).await?;
            let body = Limited::new(body, LONGEST_PAGE).collect().await;
            let body =
                body.map_err(|error| Failure::broken(Verb::List, Reason::Closed, &*error))?;
            Ok(body.to_bytes().to_vec())
        };
        let answer = timeout(self.answer_timeout, whole).await;
        answer.unwrap_or_else(|_| Err(self.silent(Verb::List)))
    }

    /// Watches from a version on; without one the watch begins with events that stand for the list.
    pub(super) async fn watch(&self, version: Option<&str>) -> Result<Watch, Failure> {
        let seconds = u32::try_from(self.watch_timeout.as_secs()).unwrap_or(u32::MAX);
        let mut parameters = WatchParams::default().timeout(seconds);
        if version.is_none() {
            parameters = parameters.initial_events();
        }
        // No version is the newest.
        let request = self.request.watch(&parameters, version.unwrap_or_default());
        let begun = Instant::now();
        let answer = timeout(self.answer_timeout, self.ask(Verb::Watch, request)).await;
        let body = answer.unwrap_or_else(|_| Err(self.silent(Verb::Watch)))?;
        Ok(Watch {
            body,
            lines: Lines::default(),
            due: begun + self.watch_timeout,
        })
    }

    /// How long the server may be silent where an answer is due.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.answer_timeout
    }

    pub(super) fn silent(&self, verb: Verb) -> Failure {
        let why = format!("no answer within {:?}", self.answer_timeout);
        Failure::new(verb, Reason::Timeout, why)
    }

    /// The body of a successful answer.
    async fn ask(
        &self,
        verb: Verb,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Body, Failure> {
        let request =
            request.map_err(|error| Failure::broken(verb, Reason::Unavailable, &error))?;
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|error| {
            let reason = match error {
                kube::Error::Auth(_) => Reason::Forbidden,
                _ => Reason::Unavailable,
            };
            Failure::broken(verb, reason, &error)
        })?;
        let code = answer.status().as_u16();
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        // A date instead of seconds is of proxies, and would need a clock that both agree on.
        let header = answer.headers().get("retry-after");
        let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let body = Limited::new(answer.into_body(), LONGEST_REFUSAL)
            .collect()
            .await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let message = match serde_json::from_slice::<Status>(&body) {
            Ok(status) => status.message,
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        Err(Failure::refused(verb, code, &message).retry_after(seconds.map(Duration::from_secs)))
    }
}

/// A watch that the server has accepted.
pub(super) struct Watch {
    body: Body,
    lines: Lines,
    /// When the server should end it.
    due: Instant,
}

impl Watch {
    /// The next line; none once the server has ended the watch at the time that it was asked to.
    ///
    /// Can be dropped and called again at any time.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(line) = self.lines.next() {
                return Ok(Some(line));
            }
            if self.lines.pending() > LONGEST_EVENT {
                let why = format!("an event of more than {LONGEST_EVENT} bytes");
                return Err(Failure::new(Verb::Watch, Reason::Parse, why));
            }
            let frame = timeout_at(self.due + WATCH_GRACE, self.body.frame()).await;
            match frame {
                Err(_) => {
                    let why = "the server did not end the watch when it should have";
                    return Err(Failure::new(Verb::Watch, Reason::Timeout, why));
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(&data);
                    }
                }
                Ok(Some(Err(error))) => {
                    return Err(Failure::broken(Verb::Watch, Reason::Closed, &error));
                }
                Ok(None) => return self.ended(),
            }
        }
    }

    fn ended(&self) -> Result<Option<Vec<u8>>, Failure> {
        let closed = |why| Err(Failure::new(Verb::Watch, Reason::Closed, why));
        // Servers count whole seconds.
        let early = Instant::now() + Duration::from_secs(1) < self.due;
        match (self.lines.pending(), early) {
            (0, false) => Ok(None),
            (0, true) => closed("the server ended the watch"),
            _ => closed("the watch ended in the middle of an event"),
        }
    }
}

/// Lines of a text that arrives in pieces.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    /// Up to where there is no end of a line.
    searched: usize,
}

impl Lines {
    fn push(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// The next complete line that is not empty.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let rest = self.text.get(self.searched..).unwrap_or_default();
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.text.len();
                return None;
            };
            let behind = self.text.split_off(self.searched + end + 1);
            let mut line = std::mem::replace(&mut self.text, behind);
            self.searched = 0;
            line.truncate(line.trim_ascii_end().len());
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// How much there is of a line that is not complete.
    fn pending(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\r\n\n{\"two\": 2}\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                found.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(
                found,
                [b"one".to_vec(), b"{\"two\": 2}".to_vec()],
                "pieces of {size}"
            );
            assert_eq!(lines.pending(), 5);
        }
    }
}
