// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the arguments name: specifications, plans, instances.

use std::ffi::OsStr;
use std::path::Path;

use guideway::error::ErrorKind;
use guideway::id::InstanceId;
use guideway::plan::{Live, PlanFile};
use guideway::quiclb::{HardwareLb, InstanceError, QuicLb, StateRoot};
use guideway::service::Spec;

pub(crate) use crate::tool::input::{file, name, open, read};
use crate::tool::Failure;

/// A document that stands for a specification.
pub(crate) enum Document {
    /// A specification itself.
    Spec(Spec),
    /// A plan.
    Plan(PlanFile),
}

impl Document {
    /// Reads a specification or plan from the content of `path`.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Failure> {
        let parsed = if PlanFile::recognises(bytes) {
            PlanFile::from_json(bytes).map(Self::Plan)
        } else {
            Spec::from_json(bytes).map(Self::Spec)
        };
        parsed.map_err(|faults| Failure::invalid(name(path), &faults))
    }

    pub(crate) fn into_spec(self) -> Spec {
        match self {
            Self::Spec(spec) => spec,
            Self::Plan(file) => file.spec,
        }
    }
}

/// Reads a specification.
pub(crate) fn spec(path: &Path) -> Result<Spec, Failure> {
    let bytes = read(path)?;
    if PlanFile::recognises(&bytes) {
        let name = name(path);
        let message = format!("{name} is a plan: apply it, or give the specification");
        return Err(Failure::new(ErrorKind::Invalid, message).about(name));
    }
    Spec::from_json(&bytes).map_err(|faults| Failure::invalid(name(path), &faults))
}

/// An argument that names an instance, if it has the form of one.
pub(crate) fn instance(argument: &OsStr) -> Option<InstanceId> {
    argument.to_str()?.parse().ok()
}

/// The specification that an argument names: that of a live instance, or of a file.
pub(crate) fn any_spec(root: &StateRoot, argument: &OsStr) -> Result<Spec, Failure> {
    let Some(instance) = instance(argument) else {
        let path = Path::new(argument);
        return Ok(Document::parse(path, &read(path)?)?.into_spec());
    };
    Ok(live(root, instance)?.spec().clone())
}

/// What is live of an instance.
pub(crate) fn live(root: &StateRoot, instance: InstanceId) -> Result<Live, Failure> {
    let dir = root.quiclb(instance);
    let live = match QuicLb::open(&dir) {
        Err(InstanceError::Profile { .. }) => {
            HardwareLb::open(&dir).and_then(|card| card.live_record())
        }
        opened => opened.and_then(|instance| instance.live_record()),
    };
    match live.map_err(|error| Failure::from(error).about(instance))? {
        Some(live) => Ok(live),
        None => {
            let message = format!("instance {instance} has published nothing");
            Err(Failure::new(ErrorKind::NotFound, message).about(instance))
        }
    }
}
