// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which cluster and namespace, and how to ask.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::Config;

use crate::error::ErrorKind;

/// How a whole list is got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Listing {
    /// Page by page, then a watch from there on: what every server knows.
    #[default]
    Pages,
    /// A watch that begins with the list, which is easier on servers since Kubernetes 1.32; one that
    /// does not know it is asked for pages.
    Stream,
}

/// Where the API server and the credentials are found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cluster {
    /// The kubeconfig that `KUBECONFIG` names or `~/.kube/config` is, with its current context; if
    /// there is none, the service account of the pod.
    #[default]
    Infer,
    /// A kubeconfig.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The context in it; the current one if none is given.
        context: Option<String>,
    },
}

/// What to watch and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The namespace whose objects count.
    pub namespace: String,
    /// The cluster.
    pub cluster: Cluster,
    /// How lists are asked for.
    pub listing: Listing,
    /// How many objects a page has at most; 500 unless set, at least 1.
    pub page: u32,
    /// How long one answer may take, a page of a list or the begin of a watch; 30 s unless set, at
    /// least 1 s.
    pub answer_timeout: Duration,
    /// After how long the server should end a watch, so that a dead connection shows: 10 s later it
    /// counts as one. 2 minutes unless set, whole seconds, at least 5.
    pub watch_timeout: Duration,
}

impl Settings {
    /// The objects of a namespace, all else as usual.
    #[must_use]
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            cluster: Cluster::default(),
            listing: Listing::default(),
            page: 500,
            answer_timeout: Duration::from_secs(30),
            watch_timeout: Duration::from_secs(120),
        }
    }

    pub(super) fn validate(&self) -> Result<(), KubeError> {
        let mut faults = Vec::new();
        if !is_label(&self.namespace) {
            faults.push(format!(
                "namespace: must be 1 to 63 characters of a-z, 0-9 and - that begin and end with none \
                 of the last, got {:?}",
                self.namespace
            ));
        }
        if self.page == 0 {
            faults.push("page: must be at least 1, got 0".to_owned());
        }
        let times = [
            ("answer_timeout", self.answer_timeout, 1),
            ("watch_timeout", self.watch_timeout, 5),
        ];
        for (name, time, least) in times {
            if time < Duration::from_secs(least) || time > LONGEST {
                faults.push(format!("{name}: must be {least} s to 1 h, got {time:?}"));
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(KubeError::Settings(faults.join("; "))),
        }
    }

    /// What the client needs to reach the cluster.
    pub(super) async fn config(&self) -> Result<Config, KubeError> {
        let mut config = match &self.cluster {
            Cluster::Infer => Config::infer().await.map_err(KubeError::config)?,
            Cluster::Kubeconfig { path, context } => {
                let options = KubeConfigOptions {
                    context: context.clone(),
                    ..KubeConfigOptions::default()
                };
                let file = Kubeconfig::read_from(path).map_err(KubeError::config)?;
                let config = Config::from_custom_kubeconfig(file, &options).await;
                config.map_err(KubeError::config)?
            }
        };
        config.connect_timeout = Some(self.answer_timeout);
        // Whether and when to ask again is decided, and each failure counted, above the client.
        config.default_retry = false;
        Ok(config)
    }
}

/// Longer ones are a mistake, and near the end of what fits they overflow.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whether it is a name of a namespace, which is a part of the path of a request.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Why a source cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeError {
    /// Settings make no sense: all that do not.
    #[error("{0}")]
    Settings(String),
    /// There is no configuration of a cluster, or none that can be used.
    #[error("no usable configuration of a cluster: {0}")]
    Config(#[source] Box<dyn Error + Send + Sync>),
    /// The thread, its runtime or the event cannot be had.
    #[error("cannot start the watch: {0}")]
    Start(#[source] io::Error),
    /// The thread ended before it had begun.
    #[error("the client failed while it was set up")]
    Ended,
}

impl KubeError {
    pub(super) fn config(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Config(error.into())
    }

    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Settings(_) => ErrorKind::Usage,
            Self::Config(_) => ErrorKind::Invalid,
            Self::Start(error) => match error.raw_os_error() {
                Some(errno) => ErrorKind::of_errno(errno),
                None => ErrorKind::Io,
            },
            Self::Ended => ErrorKind::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_namespace_never_gets_into_a_path() {
        let long = "a".repeat(64);
        for name in [
            "", "a/b", "..", "A", "-a", "a-", "a b", "ä", "a?watch", &long,
        ] {
            let error = Settings::new(name).validate().expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("namespace"), "{error}");
        }
        for name in ["a", "kube-system", "0", &"a".repeat(63)] {
            Settings::new(name).validate().expect(name);
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let settings = Settings {
            page: 0,
            answer_timeout: Duration::ZERO,
            watch_timeout: Duration::MAX,
            ..Settings::new("_")
        };
        let text = settings.validate().expect_err("faults").to_string();
        for field in ["namespace", "page", "answer_timeout", "watch_timeout"] {
            assert!(text.contains(field), "{text}");
        }
    }
}
