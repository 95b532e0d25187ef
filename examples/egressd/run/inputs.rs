// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop hears of: shards and the network.

use guideway::control::files::FileSource;
use guideway::control::netlink::Monitor;
use guideway::control::source::Source;

use super::config::{Config, SourceChoice};
use super::log::Log;
use crate::tool::Failure;

/// The source of shards that was chosen, not read yet.
pub(crate) fn source(choice: &SourceChoice) -> Result<Box<dyn Source>, Failure> {
    match choice {
        SourceChoice::Files(place) => {
            let source = FileSource::new(place.clone())
                .map_err(|error| Failure::new(error.kind(), error).about(place))?;
            Ok(Box::new(source))
        }
        #[cfg(feature = "kube")]
        SourceChoice::Kube(namespace) => kube(namespace),
    }
}

/// The shards of a namespace of the cluster that a kubeconfig or the pod's service account names.
#[cfg(feature = "kube")]
fn kube(namespace: &str) -> Result<Box<dyn Source>, Failure> {
    use guideway::control::kube::{KubeSource, Settings};
    let source = KubeSource::start(Settings::new(namespace))
        .map_err(|error| Failure::new(error.kind(), error).about(format!("kube:{namespace}")))?;
    Ok(Box::new(source))
}

/// Who hears of changes of the network.
pub(crate) fn monitor(config: &Config, log: &Log) -> Result<Monitor, Failure> {
    let monitor = Monitor::open(&config.uplinks)
        .map_err(|error| Failure::new(error.kind(), format!("the network: {error}")))?;
    if let Some(warning) = monitor.warning() {
        log.warning("network", &warning.to_string());
    }
    Ok(monitor)
}
