// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the arguments name: specifications, plans, instances.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use guideway::error::ErrorKind;
use guideway::id::InstanceId;
use guideway::plan::{Live, PlanFile};
use guideway::quiclb::{QuicLb, StateRoot};
use guideway::service::Spec;

use crate::tool::Failure;

/// More than any document has.
const MAX_BYTES: u64 = 256 << 20;

/// The file that an argument names: "-" is standard input.
pub(crate) fn file(path: &Path) -> &Path {
    if path == Path::new("-") {
        Path::new("/dev/stdin")
    } else {
        path
    }
}

/// What to call the file that an argument names.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Opens a file that a person named.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    match std::fs::File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let name = name(path);
    Failure::new(ErrorKind::Io, format!("cannot read {name}: {error}")).about(&name)
}

/// Reads a file that a person named.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = name(path);
    let mut bytes = Vec::new();
    open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("{name} has more than {MAX_BYTES} bytes");
        return Err(Failure::new(ErrorKind::Invalid, message).about(name));
    }
    Ok(bytes)
}

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
    let live = QuicLb::open(&root.quiclb(instance)).and_then(|instance| instance.live_record());
    match live.map_err(|error| Failure::from(error).about(instance))? {
        Some(live) => Ok(live),
        None => {
            let message = format!("instance {instance} has published nothing");
            Err(Failure::new(ErrorKind::NotFound, message).about(instance))
        }
    }
}
