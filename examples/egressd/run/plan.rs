// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a sweep would do.

use std::time::Duration;

use guideway::control::kernel::LiveRoutes;
use guideway::control::netlink::Resolver;
use guideway::control::source::Source;
use guideway::control::sweep::{asked, foresee};
use guideway::control::{
    document, reconcile, ControlDocument, Desired, Known, Observed, Plan, ShardList,
};
use guideway::egress::Egress;
use guideway::error::ErrorKind;
use guideway::kernel::clock;
use guideway::kernel::statedir::StateDir;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::config::{load, Flags};
use super::{inputs, now};
use crate::tool::Failure;

/// How long a source may take to list its shards.
const PATIENCE: Duration = Duration::from_secs(10);

/// The plan of a first sweep that is told this. Nothing is made, locked or changed.
pub(crate) fn plan(flags: &Flags) -> Result<ControlDocument, Failure> {
    let config = load(flags)?.config;
    let mut source = inputs::source(&config.source)?;
    let desired = config.desired(list(source.as_mut())?);
    let dir = StateDir::egress_at(&config.state_dir);
    let about = |failure: Failure| failure.about(dir.path().display());
    let mut resolver = Resolver::looking(&config.uplinks);
    let mut reach = |sids: &_, now| Ok(resolver.resolve(sids, now)?.reachability);
    if !dir.exists().map_err(|error| about(error.into()))? {
        let sids = asked(&[], &desired);
        let ways =
            reach(&sids, now()).map_err(|error: guideway::control::kernel::KernelError| {
                Failure::new(error.kind(), format!("the ways to shards: {error}"))
            })?;
        let limits = config.limits.groups();
        let observed = Observed::nothing(limits, ways, now(), clock::wall_ns());
        let plan = reconcile(&observed, &desired);
        return told(&plan, &observed, &desired, None);
    }
    let egress = Egress::open(&dir).map_err(|error| about(error.into()))?;
    let seen = foresee(&LiveRoutes::new(&egress), &desired, &mut reach);
    let (observed, plan) = seen.map_err(|error| about(Failure::new(error.kind(), error)))?;
    told(&plan, &observed, &desired, Some(&egress)).map_err(about)
}

fn told(
    plan: &Plan,
    observed: &Observed,
    desired: &Desired,
    egress: Option<&Egress>,
) -> Result<ControlDocument, Failure> {
    document(plan, observed, desired, egress).map_err(Failure::from)
}

/// What the source lists, once it does; what is unknown after a while is told as unknown.
fn list(source: &mut dyn Source) -> Result<Known<ShardList>, Failure> {
    let deadline = now() + PATIENCE;
    loop {
        source.refresh(now());
        let left = deadline.saturating_sub(now());
        // A source that has said why it fails has nothing more to say.
        if source.latest().is_current() || source.failure().is_some() || left.is_zero() {
            return Ok(source.latest());
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut events = [PollFd::new(source.events(), PollFlags::POLLIN)];
        poll(&mut events, timeout).map_err(|errno| {
            Failure::new(
                ErrorKind::Kernel,
                format!("cannot wait for shards: {errno}"),
            )
        })?;
        source.acknowledge();
    }
}
