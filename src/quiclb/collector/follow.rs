// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publications that nobody asked for: windows that are over, slots that no flow needs any more,
//! interfaces that are not what they were.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::pass::Found;
use super::rules::Rules;
use super::{CollectError, Collector};
use crate::id::InterfaceName;
use crate::kernel::netdev;
use crate::plan::{plan_again, Live, PlanResult, ServiceSweep};
use crate::quiclb::attachment::{index_of, mode_here};
use crate::quiclb::error::{InstanceError, PublishError};
use crate::quiclb::instance::{QuicLb, Writer};
use crate::quiclb::observe::observe_for;
use crate::quiclb::ours::pinned_link;
use crate::quiclb::root_array::kept;

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
    /// An interface was made again or has another address.
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
    /// Publishes what is due, if anything is; what stands in the way, or had to be left as it was,
    /// is said in words.
    pub(super) fn follow(
        &mut self,
        writer: &mut Writer,
        live: &Live,
        now_ns: u64,
    ) -> Result<(Option<Followed>, Option<String>), CollectError> {
        let mut causes = Vec::new();
        if live.closes_ns(now_ns).is_some_and(|due| due <= now_ns) {
            causes.push(Cause::Windows);
        }
        if live.releases() {
            causes.push(Cause::Released);
        }
        let interfaces = Interfaces::look(writer, live)?;
        if interfaces.have_moved || loose(writer, live)? {
            causes.push(Cause::Interfaces);
        }
        let absent = interfaces.absent_text();
        // In another network namespace those here say nothing.
        let absent = match absent {
            Some(_) if elsewhere(writer)?.is_some() => None,
            absent => absent,
        };
        let mut followed = None;
        if causes.is_empty() {
            self.stands = None;
        } else if now_ns >= self.follow_ns || causes.iter().any(|new| !self.tried.contains(new)) {
            let stands = match self.publish_due(writer, live, &causes, now_ns) {
                Ok((published, held_back)) => {
                    followed = published;
                    held_back
                }
                Err(FollowError::Stands(stands)) => Some(stands),
                Err(FollowError::Collect(error)) => return Err(error),
            };
            let pause = match (&followed, &stands) {
                (_, Some(_)) => STANDS,
                (Some(_), None) => Duration::ZERO,
                (None, None) => PAUSE,
            };
            self.follow_ns = now_ns.saturating_add(pause.as_nanos() as u64);
            self.tried = causes;
            self.stands = stands;
        }
        let problems: Vec<_> = self.stands.iter().cloned().chain(absent).collect();
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        Ok((followed, problem))
    }

    /// What was published, and what was held back.
    fn publish_due(
        &mut self,
        writer: &mut Writer,
        live: &Live,
        causes: &[Cause],
        now_ns: u64,
    ) -> Result<(Option<Followed>, Option<String>), FollowError> {
        if let Some(ifindex) = elsewhere(writer).map_err(CollectError::from)? {
            return Err(FollowError::Stands(format!(
                "attached to interface {ifindex} of another network namespace: only there can \
                 windows be closed"
            )));
        }
        let mut world = observe_for(&writer.dir, live.spec()).map_err(CollectError::from)?;
        world.monotonic_ns = now_ns;
        let plan = plan_again(live, world)
            .map_err(|faults| FollowError::Stands(format!("no plan can be made: {faults}")))?;
        let missing = writer.missing_targets(&live.record);
        let lost_targets = !missing
            .map_err(CollectError::from)?
            .is_subset(plan.absent());
        let held_back = plan
            .held_back()
            .map(|why| format!("slots stay as they are for want of room: {why}"));
        let published = match writer.publish_again(&plan) {
            Ok(published) => published,
            // An insert was refused a moment ago: the window stays open.
            Err(PublishError::Refused { .. }) => return Ok((None, held_back)),
            Err(PublishError::Instance(error)) => return Err(CollectError::from(error).into()),
            Err(error) => return Err(FollowError::Stands(format!("not published: {error}"))),
        };
        let attached = loose(writer, live).map_err(CollectError::from)?;
        if attached {
            let spec = live.spec();
            let attached = writer.attach(spec.interface(), spec.mode().into());
            attached
                .map_err(|error| FollowError::Stands(format!("not attached again: {error}")))?;
        }
        if published.result == PlanResult::Unchanged && !lost_targets && !attached {
            return Ok((None, held_back));
        }
        let after = writer
            .live_record()
            .map_err(CollectError::from)?
            .ok_or_else(|| FollowError::Stands("nothing is live after a publication".into()))?;
        let (before, after) = (live.all_marks(), after.all_marks());
        let followed = Followed {
            generation: published.generation,
            causes: causes.to_vec(),
            open_slots: [before.open, after.open].map(u64::from),
            held_slots: [before.held, after.held].map(u64::from),
            publish_ms: published.duration.as_secs_f64() * 1e3,
        };
        Ok((Some(followed), held_back))
    }
}

/// Why nothing was published.
enum FollowError {
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

/// Whether the link held an interface that is gone, and there is one of its name again.
fn loose(instance: &QuicLb, live: &Live) -> Result<bool, InstanceError> {
    let Some(link) = pinned_link(&instance.dir)? else {
        return Ok(false);
    };
    Ok(link.state()?.ifindex.is_none() && index_of(live.spec().interface())?.is_some())
}

/// The interfaces of a live generation.
struct Interfaces<'a> {
    /// Frames are sent through one that is not what was published, or not known to the program.
    have_moved: bool,
    /// Those to backends that do not exist.
    absent: BTreeSet<&'a InterfaceName>,
    /// The one where packets arrive, if it does not exist, although the program was put there.
    no_ingress: Option<&'a InterfaceName>,
}

impl<'a> Interfaces<'a> {
    fn look(instance: &QuicLb, live: &'a Live) -> Result<Self, InstanceError> {
        let devices: BTreeMap<_, _> = netdev::all()?
            .into_iter()
            .map(|device| (device.name, (device.index, device.mac)))
            .collect();
        let missing = instance.missing_targets(&live.record)?;
        let mut found = Self {
            have_moved: false,
            absent: BTreeSet::new(),
            no_ingress: None,
        };
        // A detached instance waits for no packets.
        if pinned_link(&instance.dir)?.is_some() || !kept(&instance.dir)?.is_empty() {
            let ingress = live.spec().interface();
            match devices.get(ingress.as_str()) {
                Some((index, _)) => found.have_moved |= *index != live.record.ifindex,
                None => found.no_ingress = Some(ingress),
            }
        }
        for (service, record) in live.placed() {
            for backend in &service.backends {
                let Some(placed) = record.backend(backend.id.get()) else {
                    continue;
                };
                let Some((index, mac)) = devices.get(backend.interface.as_str()) else {
                    found.absent.insert(&backend.interface);
                    continue;
                };
                let other_source = placed.source_mac.is_some_and(|published| published != *mac);
                found.have_moved |=
                    *index != placed.ifindex || other_source || missing.contains(index);
            }
        }
        Ok(found)
    }

    fn absent_text(&self) -> Option<String> {
        let names: Vec<_> = self.absent.iter().map(|name| name.as_str()).collect();
        let targets = (!names.is_empty()).then(|| {
            format!(
                "no such interface here: {}; frames to the backends behind it are dropped until \
                 there is one",
                names.join(", ")
            )
        });
        let ingress = self.no_ingress.map(|name| {
            format!("no such interface here: {name}; no packet arrives until there is one")
        });
        let texts: Vec<_> = ingress.into_iter().chain(targets).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
