// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Taking the program off interfaces, and removing the instance's state.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::interfaces::{InterfaceName, Interfaces};
use super::Error;
use crate::egress::Loader;
use crate::kernel::statedir::{StateDir, StateError};

/// What was taken off and removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DetachDocument {
    /// Names this form.
    pub schema: DetachSchema,
    /// The interfaces that were asked for.
    pub interfaces: Vec<InterfaceDetached>,
    /// Whether the state of the instance was removed.
    pub purged: bool,
    /// What was removed with it.
    pub removed: Vec<String>,
    /// What should have been taken off or removed and was not.
    pub left: Vec<LeftBehind>,
}

/// Names the form of what was detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DetachSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.detach/v1")]
    V1,
}

/// An interface that the program is not on any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfaceDetached {
    /// The interface.
    pub interface: InterfaceName,
    /// Whether the program was on it before.
    pub detached: bool,
}

/// Something that should have been removed and was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeftBehind {
    /// An interface, or a path.
    pub name: String,
    /// Why it is still there.
    pub reason: String,
}

/// Takes the instance's program off the interfaces of these names, or off all where none is named;
/// packets pass untouched from then on. With `purge` the state is removed when the program is
/// nowhere any more: groups, routes, pins and counters. Programs of others stay. Waits for the
/// instance's lock as long as `lock` says.
///
/// # Errors
/// Nothing was changed: no such instance or interface, state of another version, another writer.
pub fn detach(
    dir: &StateDir,
    names: &[String],
    purge: bool,
    lock: Duration,
) -> Result<DetachDocument, Error> {
    let mut writer = Loader::new(dir).patience(lock).open()?;
    let interfaces = Interfaces::read()?;
    let mut named = BTreeSet::new();
    for name in names {
        let found = interfaces
            .find(name)
            .ok_or_else(|| Error::NoInterface { name: name.clone() })?;
        named.insert(found);
    }
    if names.is_empty() {
        named.extend(writer.attachments()?.iter().map(|view| view.ifindex));
    }
    let mut document = DetachDocument {
        schema: DetachSchema::V1,
        interfaces: Vec::new(),
        purged: false,
        removed: Vec::new(),
        left: Vec::new(),
    };
    for ifindex in named {
        let interface = interfaces.name(ifindex);
        match writer.detach(ifindex) {
            Ok(detached) => document.interfaces.push(InterfaceDetached {
                interface,
                detached,
            }),
            Err(error) => document.leave(interface, &error),
        }
    }
    if purge && document.left.is_empty() {
        match writer.remove() {
            Ok(removed) => {
                document.purged = true;
                document.removed = removed;
            }
            Err(error) => document.leave(dir.path().display(), &error),
        }
    }
    if document.purged {
        document.sweep(dir.remove_leftovers(), dir);
    }
    Ok(document)
}

impl DetachDocument {
    fn leave(&mut self, name: impl ToString, reason: &dyn std::error::Error) {
        let (name, reason) = (name.to_string(), reason.to_string());
        self.left.push(LeftBehind { name, reason });
    }

    /// What processes that died have left of the instance.
    fn sweep(&mut self, removed: Result<Vec<String>, StateError>, dir: &StateDir) {
        match removed {
            Ok(removed) => self.removed.extend(removed),
            Err(error) => self.leave(dir.path().display(), &error),
        }
    }
}
