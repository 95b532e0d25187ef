// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Lists and watches for ever: what the thread of a source does.

use std::time::Duration;

use tokio::time::{sleep, timeout, Instant};

use super::api::{Api, Watch};
use super::backoff::Backoff;
use super::failure::{Failure, Verb};
use super::object::{Event, EventKind, Head, Object, Page, Status};
use super::shared::Shared;
use super::view::Objects;
use super::Listing;
use crate::control::source::SourceErrorReason as Reason;
use crate::kernel::{clock, random};

/// A watch without an error for so long is taken to be well: a server that refuses does so at once.
const SETTLES: Duration = Duration::from_secs(1);
/// A watch that lasted so long is no part of a row of failures.
const STEADY: Duration = Duration::from_secs(10);

/// Where the watch is.
#[derive(Default)]
struct At {
    /// The version that the view is of; none where it has to be listed anew.
    version: Option<String>,
    /// Since when the watch that stands has done what it should.
    well_since: Option<Instant>,
}

impl At {
    fn is_well(&mut self, shared: &Shared) {
        self.well_since = Some(Instant::now());
        shared.resumes();
    }
}

/// Keeps the view in line with the server, as long as it is polled.
pub(super) async fn run(api: &Api, mut listing: Listing, shared: &Shared) {
    let mut backoff = Backoff::default();
    let mut at = At::default();
    loop {
        at.well_since = None;
        let ended = match (&at.version, listing) {
            (None, Listing::Stream) => stream(api, &mut at, shared).await,
            (None, Listing::Pages) => pages(api, &mut at, shared).await,
            (Some(_), _) => resume(api, &mut at, shared).await,
        };
        // The end of a watch at its time, or of a list, is no failure.
        let Err(failure) = ended else {
            continue;
        };
        if failure.is_gone() {
            at.version = None;
        }
        if at.version.is_none() && listing == Listing::Stream && gives_up_streaming(&failure) {
            listing = Listing::Pages;
            shared.falls_back(&failure);
            continue;
        }
        shared.fails(&failure);
        if at.well_since.is_some_and(|since| since.elapsed() >= STEADY) {
            backoff.reset();
        }
        let random = random::word().unwrap_or_else(|_| clock::monotonic_ns());
        sleep(backoff.next(random, failure.retry_after)).await;
    }
}

/// Whether pages may do where a streamed list does not: the server does not know it, or begins a watch
/// without a list. That it is busy, down or forbids it says nothing of that.
fn gives_up_streaming(failure: &Failure) -> bool {
    failure.is_not_understood() || failure.reason == Reason::Timeout
}

/// Lists page by page. The view changes once all are there.
async fn pages(api: &Api, at: &mut At, shared: &Shared) -> Result<(), Failure> {
    let mut objects = Objects::new();
    let mut next: Option<String> = None;
    loop {
        let text = api.list(next.as_deref()).await?;
        let page: Page<'_> = serde_json::from_slice(&text).map_err(|error| {
            let why = format!("the list makes no sense: {error}");
            Failure::new(Verb::List, Reason::Parse, why)
        })?;
        for raw in page.items() {
            let Object { name, read } = Object::read(raw);
            objects.insert(name, read);
        }
        match (page.next(), page.version()) {
            (Some(token), _) => next = Some(token.to_owned()),
            (None, Some(listed)) => {
                at.version = Some(listed.to_owned());
                shared.replaces(objects);
                return Ok(());
            }
            (None, None) => {
                let why = "the list has no resourceVersion";
                return Err(Failure::new(Verb::List, Reason::Parse, why));
            }
        }
    }
}

/// Lists by a watch that begins with the list, and goes on with it. The view changes once the list is
/// complete.
async fn stream(api: &Api, at: &mut At, shared: &Shared) -> Result<(), Failure> {
    let mut watch = api.watch(None).await?;
    let mut objects = Objects::new();
    loop {
        let line = timeout(api.answer_timeout(), watch.next()).await;
        let line = line.unwrap_or_else(|_| Err(api.silent(Verb::Watch)))?;
        let Some(line) = line else {
            let why = "the watch ended before the list did";
            return Err(Failure::new(Verb::Watch, Reason::Closed, why));
        };
        let event = event(&line)?;
        match event.kind {
            EventKind::Added | EventKind::Modified => {
                let Object { name, read } = Object::read(event.object);
                objects.insert(name, read);
            }
            EventKind::Deleted => drop(objects.remove(&Head::of(event.object).name)),
            EventKind::Error => return Err(refusal(&event)),
            EventKind::Bookmark => {
                let head = Head::of(event.object);
                if head.ends_list {
                    at.version = Some(head.version).filter(|version| !version.is_empty());
                    shared.replaces(objects);
                    return follow(watch, at, shared).await;
                }
            }
        }
    }
}

/// Watches on from the version that the view is of.
async fn resume(api: &Api, at: &mut At, shared: &Shared) -> Result<(), Failure> {
    let watch = api.watch(at.version.as_deref()).await?;
    follow(watch, at, shared).await
}

/// Applies events until the watch ends.
async fn follow(mut watch: Watch, at: &mut At, shared: &Shared) -> Result<(), Failure> {
    loop {
        let line = if at.well_since.is_some() {
            watch.next().await?
        } else if let Ok(line) = timeout(SETTLES, watch.next()).await {
            line?
        } else {
            at.is_well(shared);
            continue;
        };
        let Some(line) = line else {
            return Ok(());
        };
        let event = event(&line)?;
        match event.kind {
            EventKind::Added | EventKind::Modified => shared.applies(Object::read(event.object)),
            EventKind::Deleted => shared.deletes(&Head::of(event.object).name),
            EventKind::Bookmark => {}
            EventKind::Error => return Err(refusal(&event)),
        }
        let reached = Head::of(event.object).version;
        if reached.is_empty() {
            // Where the watch should go on is not known.
            at.version = None;
            let why = "an event has no resourceVersion";
            return Err(Failure::new(Verb::Watch, Reason::Parse, why));
        }
        at.version = Some(reached);
        if at.well_since.is_none() {
            at.is_well(shared);
        }
    }
}

fn event(line: &[u8]) -> Result<Event<'_>, Failure> {
    serde_json::from_slice(line).map_err(|error| {
        let why = format!("an event makes no sense: {error}");
        Failure::new(Verb::Watch, Reason::Parse, why)
    })
}

/// The failure that an error event tells of.
fn refusal(event: &Event<'_>) -> Failure {
    let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
    let seconds = status.details.retry_after_seconds;
    Failure::refused(Verb::Watch, status.code, &status.message)
        .retry_after(seconds.map(Duration::from_secs))
}
