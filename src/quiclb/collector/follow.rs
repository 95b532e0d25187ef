// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publications that nobody asked for: windows that are over, slots that no flow needs any more,
//! interfaces that are not what they were.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::pass::Found;
use super::rules::Rules;
use super::{CollectError, Collector};
use crate::kernel::netdev;
use crate::plan::{plan, Live, Options, PlanResult, ServiceSweep};
use crate::quiclb::attachment::{mode_here, pinned_link};
use crate::quiclb::error::{InstanceError, PublishError};
use crate::quiclb::instance::{QuicLb, Writer};
use crate::quiclb::observe::observe_for;

/// Why a step published a generation of the same specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Cause {
    /// The time of open slots was over.
    Windows,
    /// Held slots had no entry left that differs from their owner.
    Released,
    /// An interface of a backend was made again or has another address.
    Interfaces,
}

/// A generation that a step published.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Followed {
    /// Its number.
    pub generation: u64,
    /// Why.
    pub causes: Vec<Cause>,
    /// Open slots of all services, before and afterwards.
    pub open_slots: [u64; 2],
    /// Held slots of all services, before and afterwards.
    pub held_slots: [u64; 2],
    /// Milliseconds that the publication took.
    pub publish_ms: f64,
}

/// After a plan that changed nothing none is made for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// After one that could not be made, or not be published.
const STANDS: Duration = Duration::from_secs(10);

impl Collector {
    /// Publishes what is due, if anything is; what stands in the way is said in words.
    pub(super) fn follow(
        &mut self,
        writer: &mut Writer,
        live: &Live,
        now_ns: u64,
    ) -> Result<Option<Followed>, FollowError> {
        let mut causes = Vec::new();
        if live.closes_ns(now_ns).is_some_and(|due| due <= now_ns) {
            causes.push(Cause::Windows);
        }
        if live.releases() {
            causes.push(Cause::Released);
        }
        if have_moved(writer, live).map_err(CollectError::from)? {
            causes.push(Cause::Interfaces);
        }
        if causes.is_empty() {
            return Ok(None);
        }
        if now_ns < self.follow_ns {
            return self
                .stands
                .clone()
                .map_or(Ok(None), |stands| Err(FollowError::Stands(stands)));
        }
        let followed = self.publish_due(writer, live, causes, now_ns);
        let after = |pause: Duration| now_ns.saturating_add(pause.as_nanos() as u64);
        self.follow_ns = match &followed {
            Ok(Some(_)) => 0,
            Err(FollowError::Stands(_)) => after(STANDS),
            _ => after(PAUSE),
        };
        self.stands = match &followed {
            Err(FollowError::Stands(stands)) => Some(stands.clone()),
            _ => None,
        };
        followed
    }

    fn publish_due(
        &mut self,
        writer: &mut Writer,
        live: &Live,
        causes: Vec<Cause>,
        now_ns: u64,
    ) -> Result<Option<Followed>, FollowError> {
        if let Some(ifindex) = elsewhere(writer).map_err(CollectError::from)? {
            return Err(FollowError::Stands(format!(
                "attached to interface {ifindex} of another network namespace: only there can \
                 windows be closed"
            )));
        }
        let spec = live.spec().clone();
        let mut world = observe_for(&writer.dir, &spec).map_err(CollectError::from)?;
        world.monotonic_ns = now_ns;
        let plan = plan(Some(live), &spec, &world, Options::default())
            .map_err(|faults| FollowError::Stands(format!("no plan can be made: {faults}")))?;
        let lost_targets = !writer
            .missing_targets(&live.record)
            .map_err(CollectError::from)?
            .is_empty();
        let published = match writer.publish(&plan) {
            Ok(published) => published,
            // An insert was refused a moment ago: the window stays open.
            Err(PublishError::Refused { .. }) => return Ok(None),
            Err(PublishError::Instance(error)) => return Err(CollectError::from(error).into()),
            Err(error) => return Err(FollowError::Stands(format!("not published: {error}"))),
        };
        if published.result == PlanResult::Unchanged && !lost_targets {
            return Ok(None);
        }
        let after = writer
            .live_record()
            .map_err(CollectError::from)?
            .ok_or_else(|| FollowError::Stands("nothing is live after a publication".into()))?;
        let (before, after) = (live.all_marks(), after.all_marks());
        Ok(Some(Followed {
            generation: published.generation,
            causes,
            open_slots: [before.open, after.open].map(u64::from),
            held_slots: [before.held, after.held].map(u64::from),
            publish_ms: published.duration.as_secs_f64() * 1e3,
        }))
    }
}

/// Why nothing was published.
pub(super) enum FollowError {
    /// For a reason that somebody has to know and that leaves everything else to be done.
    Stands(String),
    Collect(CollectError),
}

impl From<CollectError> for FollowError {
    fn from(error: CollectError) -> Self {
        Self::Collect(error)
    }
}

/// What a sweep found, as the next plan takes it.
pub(super) fn sweeps(rules: &Rules, found: &Found) -> BTreeMap<u32, ServiceSweep> {
    let services = rules.services.iter().zip(&found.services);
    services
        .map(|(service, found)| {
            let sweep = ServiceSweep::new(
                found.flows.entries,
                found.cids.entries,
                found.differing.clone(),
            );
            (service.id, sweep)
        })
        .collect()
}

/// The interface that holds the program, if it is in another network namespace: what is seen here
/// says nothing then.
fn elsewhere(instance: &QuicLb) -> Result<Option<u32>, InstanceError> {
    let Some(link) = pinned_link(&instance.dir)? else {
        return Ok(None);
    };
    let state = link.state()?;
    Ok(match mode_here(&state)? {
        Some(_) => None,
        None => state.ifindex,
    })
}

/// Whether an interface that frames are sent through is not the one that was published, or not
/// known to the program. One that is missing altogether changes nothing.
fn have_moved(instance: &QuicLb, live: &Live) -> Result<bool, InstanceError> {
    let devices: BTreeMap<_, _> = netdev::all()?
        .into_iter()
        .map(|device| (device.name, (device.index, device.mac)))
        .collect();
    let missing = instance.missing_targets(&live.record)?;
    let mut backends = live.placed().flat_map(|(service, record)| {
        let backends = service.backends.iter();
        backends.filter_map(|backend| Some((backend, record.backend(backend.id.get())?)))
    });
    Ok(backends.any(|(backend, placed)| {
        let Some((index, mac)) = devices.get(backend.interface.as_str()) else {
            return false;
        };
        let other_source = placed.source_mac.is_some_and(|published| published != *mac);
        *index != placed.ifindex || other_source || missing.contains(index)
    }))
}
