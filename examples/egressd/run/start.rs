// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is there before the first sweep: a kernel that can, a state, and the right to publish in it.

use guideway::control::files::FileSource;
use guideway::control::netlink::Monitor;
use guideway::control::source::Source;
use guideway::egress::{Limits, Loader};
use guideway::error::ErrorKind;
use guideway::group::HashMode;
use guideway::kernel::statedir::{PublisherLock, StateDir};
use guideway::quiclb::ErrorFault;

use super::config::{Config, SourceChoice};
use super::log::Log;
use crate::tool::Failure;

/// A state that this process alone publishes in.
pub(crate) struct Opened {
    pub(crate) dir: StateDir,
    pub(crate) made: bool,
    _publisher: PublisherLock,
}

/// Opens the state, or makes it, and becomes its publisher.
pub(crate) fn open(config: &Config) -> Result<Opened, Failure> {
    let dir = StateDir::egress_at(&config.state_dir);
    let about = |failure: Failure| failure.about(dir.path().display());
    let made = !dir.exists().map_err(|error| about(error.into()))?;
    if made {
        let limits = new_limits(config);
        let loader = Loader::new(&dir).limits(limits);
        drop(loader.load().map_err(|error| about(error.into()))?);
    }
    let publisher = dir.publisher().map_err(|error| about(error.into()))?;
    let writer = Loader::new(&dir).open();
    let writer = writer.map_err(|error| about(error.into()))?;
    require(&writer.limits(), &config.limits).map_err(about)?;
    Ok(Opened {
        made,
        _publisher: publisher,
        dir: dir.clone(),
    })
}

/// Room for pins of flows only where flows are pinned: their memory is taken at once.
fn new_limits(config: &Config) -> Limits {
    let limits = config.limits;
    match config.settings.hash_mode {
        HashMode::Source => limits,
        // As many as pins of addresses, which are in range.
        HashMode::Flow => limits.with_flow_pins(limits.pins()).unwrap_or(limits),
    }
}

/// Insists that a state has the room that it is said to have.
fn require(made: &Limits, wanted: &Limits) -> Result<(), Failure> {
    let numbers = |limits: &Limits| {
        let groups = limits.groups();
        [
            ("groups", u32::from(groups.groups())),
            ("members", u32::from(groups.members())),
            ("table-size", groups.table_size().get()),
            ("pins", limits.pins()),
        ]
    };
    let pairs = numbers(made).into_iter().zip(numbers(wanted));
    let differing = pairs.filter(|((_, made), (_, wanted))| made != wanted);
    let (mut differences, mut flags) = (Vec::new(), Vec::new());
    for ((flag, made), (_, wanted)) in differing {
        differences.push(format!("{made} {flag}, not {wanted}"));
        flags.push(format!("--{flag} {made}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the state was made for {}; start with {}, or remove it by \"egressd detach --purge\", which \
         forgets all pins, and start again",
        differences.join(", for "),
        flags.join(" ")
    );
    Err(Failure::new(ErrorKind::Conflict, message))
}

/// The source of shards that was chosen, not read yet.
pub(crate) fn source(choice: &SourceChoice) -> Result<Box<dyn Source>, Failure> {
    match choice {
        SourceChoice::Files(place) => {
            let source = FileSource::new(place.clone())
                .map_err(|error| Failure::new(error.kind(), error).about(place))?;
            Ok(Box::new(source))
        }
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

#[cfg(not(feature = "kube"))]
fn kube(namespace: &str) -> Result<Box<dyn Source>, Failure> {
    let message = format!(
        "shards of the namespace {namespace} cannot be read: this build has no feature \"kube\""
    );
    Err(Failure::new(ErrorKind::Usage, message))
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

/// Makes sure that the kernel can do what is needed, and that this process may.
///
/// # Errors
/// Everything that is missing, at once.
pub(crate) fn preflight(config: &Config, log: &Log) -> Result<(), Failure> {
    let dir = StateDir::egress_at(&config.state_dir);
    let checks = guideway::egress::preflight(&dir);
    for check in checks.iter().filter(|check| !check.needed) {
        if let Some(why) = &check.missing {
            log.info(
                "preflight",
                &format!("goes on without {}: {why}", check.name),
            );
        }
    }
    let faults: Vec<_> = checks
        .iter()
        .filter_map(|check| {
            let why = check.missing.as_ref().filter(|_| check.needed)?;
            Some(ErrorFault {
                pointer: check.name.to_owned(),
                code: "preflight".to_owned(),
                message: why.clone(),
            })
        })
        .collect();
    if faults.is_empty() {
        return Ok(());
    }
    let count = faults.len();
    let message = format!(
        "this machine cannot run it: {count} of {} checks failed",
        checks.len()
    );
    Err(Failure::new(ErrorKind::Preflight, message).with_faults(faults))
}
