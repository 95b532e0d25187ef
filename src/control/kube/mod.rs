// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! EgressShards of one namespace of a Kubernetes cluster (feature `kube`).
//!
//! ```no_run
//! use guideway::control::kube::{KubeSource, Settings};
//! use guideway::control::source::Source;
//!
//! let source = KubeSource::start(Settings::new("galactic-system"))?;
//! // Poll source.events(); what is known so far:
//! println!("{:?}", source.latest());
//! # Ok::<(), guideway::control::kube::KubeError>(())
//! ```
//!
//! A thread lists the objects and watches them; it alone runs the async runtime that the client
//! needs. It asks for `list` and `watch` of `egressshards` in that namespace and for nothing else;
//! `examples/egressd/kube/` has the definition of the resource and a role that fits.
//!
//! # What is known when
//!
//! | the server | the list |
//! |---|---|
//! | has not listed everything yet, whatever the reason | [`Known::Unknown`] |
//! | has listed, or goes on with a watch | [`Known::Known`] |
//! | ends a watch early, refuses, is busy, silent or down | [`Known::Stale`]: the last list, with what was heard since |
//! | forgot the version of the watch, and lists anew | [`Known::Stale`] until that list is complete |
//!
//! A watch ends at the time that it was asked for, and the next one goes on where it was: that is no
//! failure. After each failure the thread waits 1 to 2 seconds, then twice as long each time up to 15
//! to 30, or as long as the server asks for within 30. An object that cannot be read is left out,
//! counted and told of, and affects no other.
//!
//! # What it needs
//!
//! Rust 1.89, which is more than the crate without this feature, and a C compiler for `ring`: TLS is
//! rustls, so that neither libssl nor CMake is needed. The thread inherits the signal mask: block what
//! your program takes by `signalfd` before it starts.

mod api;
mod backoff;
mod failure;
mod object;
mod settings;
mod shared;
mod view;
mod watch;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};

use kube::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub use settings::{Cluster, KubeError, Listing, Settings};

use super::source::{Source, SourceErrors};
use super::{Known, ShardList};
use api::Api;
use shared::Shared;

/// The resource's name in paths.
const PLURAL: &str = "egressshards";
/// And in roles and messages.
const RESOURCE: &str = "egressshards.network.datumapis.com";

/// A thread that watches EgressShards, and what it has heard. Dropping it ends the thread.
pub struct KubeSource {
    shared: Arc<Shared>,
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KubeSource {
    /// Starts to watch. Whether the server can be reached shows later; waits for nothing but local
    /// files, and for the command that a kubeconfig may name to get credentials.
    ///
    /// # Errors
    /// A setting makes no sense, there is no usable configuration of a cluster, or a thread or an
    /// event cannot be had.
    pub fn start(settings: Settings) -> Result<Self, KubeError> {
        settings.validate()?;
        let shared = Shared::new(settings.namespace.clone(), settings.listing)
            .map_err(|errno| KubeError::Start(errno.into()))?;
        let shared = Arc::new(shared);
        let (stop, stopped) = oneshot::channel();
        let (report, started) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("guideway-kube".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let runtime = Builder::new_current_thread().enable_all().build();
                    match runtime.map_err(KubeError::Start) {
                        Ok(runtime) => work(runtime, &settings, shared, &report, stopped),
                        Err(error) => drop(report.send(Err(error))),
                    }
                }
            });
        let mut source = Self {
            shared,
            stop: Some(stop),
            thread: Some(thread.map_err(KubeError::Start)?),
        };
        let started = started.recv().unwrap_or(Err(KubeError::Ended));
        if started.is_err() {
            source.stop();
        }
        started.map(|()| source)
    }

    /// How lists are asked for now: streamed ones fall back to pages for good where the server does
    /// not know them.
    #[must_use]
    pub fn listing(&self) -> Listing {
        self.shared.listing()
    }

    /// Ends the thread: at once, as it waits for nothing but its runtime.
    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the client has been told of as a failure of the source.
            let _ = thread.join();
        }
    }
}

/// Runs the watch until the other side of `stopped` is dropped.
fn work(
    runtime: Runtime,
    settings: &Settings,
    shared: Arc<Shared>,
    report: &mpsc::SyncSender<Result<(), KubeError>>,
    stopped: oneshot::Receiver<()>,
) {
    let client = runtime.block_on(async {
        let config = settings.config().await?;
        Client::try_from(config).map_err(KubeError::config)
    });
    let client = match client {
        Ok(client) => client,
        Err(error) => return drop(report.send(Err(error))),
    };
    if report.send(Ok(())).is_err() {
        return;
    }
    let api = Api::new(client, settings);
    let listing = settings.listing;
    let end = End(shared);
    runtime.spawn(async move {
        // Moved in as a whole, so that it tells of the end however the task ends.
        let End(shared) = &end;
        watch::run(&api, listing, shared).await;
    });
    let _ = runtime.block_on(stopped);
    // A look-up of the server's name may still be waiting for an answer; nobody waits for that.
    runtime.shutdown_background();
}

/// Tells of the end of the watch.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ends();
    }
}

impl Source for KubeSource {
    fn latest(&self) -> Known<ShardList> {
        self.shared.view().list()
    }

    fn events(&self) -> BorrowedFd<'_> {
        self.shared.event()
    }

    fn acknowledge(&mut self) -> bool {
        self.shared.acknowledge()
    }

    fn errors(&self) -> SourceErrors {
        self.shared.view().errors()
    }

    fn failure(&self) -> Option<String> {
        self.shared.view().failure()
    }
}

impl Drop for KubeSource {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeSource")
            .field("listing", &self.listing())
            .field("latest", &self.latest())
            .finish_non_exhaustive()
    }
}
