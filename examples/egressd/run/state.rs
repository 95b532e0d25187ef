// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The state that the daemon publishes in, and the right to do so.

use guideway::egress::{Limits, Loader, Repair, SeenHow, UpgradeError, Upgraded};
use guideway::error::ErrorKind;
use guideway::group::HashMode;
use guideway::kernel::statedir::{PublisherLock, StateDir};

use super::config::Config;
use crate::tool::Failure;

/// A state that this process alone publishes in.
pub(crate) struct Opened {
    pub(crate) dir: StateDir,
    pub(crate) made: bool,
    /// What it had lost, and has again.
    pub(crate) repaired: Vec<Repair>,
    /// What became of a program that was not this build's, or not on every interface; none if it was.
    pub(crate) upgraded: Option<Result<Upgraded, UpgradeError>>,
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
    let mut writer = writer.map_err(|error| about(error.into()))?;
    require(&writer.limits(), &config.limits).map_err(about)?;
    let sound = writer.refuse_foreign();
    sound.map_err(|error| about(error.into()))?;
    let unchanged = |upgraded: &Upgraded| {
        upgraded.done
            && upgraded.seen.verification == SeenHow::Unchanged
            && upgraded.interfaces.iter().all(|one| one.error.is_none())
    };
    let upgraded = Some(writer.upgrade()).filter(|result| !result.as_ref().is_ok_and(unchanged));
    Ok(Opened {
        made,
        repaired: writer.repairs().to_vec(),
        upgraded,
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
    let (mut differences, mut flags, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for ((flag, made), (_, wanted)) in differing {
        differences.push(format!("{made} {flag}, not {wanted}"));
        flags.push(format!("--{flag} {made}"));
        others.push(format!("--{flag} {wanted}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    // Another table would lead tenants without pins elsewhere.
    let other = match made.groups().table_size() == wanted.groups().table_size() {
        true => format!(
            "change it by \"egressd migrate {}\", which keeps all that it has,",
            others.join(" ")
        ),
        false => "remove it by \"egressd detach --purge\", which forgets all pins,".to_owned(),
    };
    let message = format!(
        "the state was made for {}; start with {}, or {other} and start again",
        differences.join(", for "),
        flags.join(" "),
    );
    Err(Failure::new(ErrorKind::Conflict, message))
}
