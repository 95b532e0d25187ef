// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keys of encrypted server IDs on their way into the kernel.

use super::error::{InstanceError, PublishError};
use super::instance::{shapes, QuicLb};
use crate::kernel::keys::{self, Contexts, Maker, Support};
use crate::kernel::probe;
use crate::kernel::statedir::StateDir;
use crate::kernel::SysError;
use crate::plan::{Decryption, Live, PlacedContext};
use crate::service::Spec;

/// Whether programs can decrypt server IDs on this machine; none if this process may not try, which
/// takes CAP_BPF and CAP_NET_ADMIN.
pub fn decryption() -> Option<Decryption> {
    match keys::support() {
        Support::Works => Some(Decryption::Works),
        Support::NotBuilt => Some(Decryption::NotBuilt {
            compiler: keys::COMPILER.to_owned(),
        }),
        Support::Missing(what) => Some(Decryption::Missing {
            release: format!("Linux {}", probe::release().text),
            what,
        }),
        Support::Unknown => None,
    }
}

/// Whether anything in it has to be decrypted.
pub(super) fn needed(spec: &Spec) -> bool {
    let mut configs = spec.services().iter().flat_map(|s| &s.quic.configs);
    configs.any(|config| config.key.is_some())
}

/// The pinned map of contexts; none if the program of the instance was loaded without.
pub(super) fn pinned(dir: &StateDir) -> Result<Option<Contexts>, InstanceError> {
    if !keys::BUILT {
        return Ok(None);
    }
    match dir.map(&shapes(dir)?, keys::MAP) {
        Ok(map) => Ok(Some(Contexts::new(map)?)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Those that are not in their slots.
fn missing<'a>(
    contexts: &Contexts,
    placed: &'a [PlacedContext],
) -> Result<Vec<&'a PlacedContext>, SysError> {
    let there = contexts.incarnations()?;
    let mut missing: Vec<_> = placed.iter().collect();
    missing.retain(|placed| there.get(placed.slot as usize) != Some(&placed.incarnation));
    Ok(missing)
}

/// Contexts that are to be made, with what makes them.
pub(super) struct Making<'a> {
    missing: Vec<&'a PlacedContext>,
    maker: Option<Maker>,
}

impl Making<'_> {
    pub(super) fn make(&self) -> Result<(), SysError> {
        let Some(maker) = &self.maker else {
            return Ok(());
        };
        self.missing.iter().try_for_each(|context| {
            maker.put(
                context.slot,
                context.incarnation,
                context.key.secret_bytes(),
            )
        })
    }
}

impl QuicLb {
    /// What it takes to have these contexts.
    pub(super) fn making<'a>(
        &self,
        placed: &'a [PlacedContext],
    ) -> Result<Making<'a>, PublishError> {
        let contexts = match &self.maps.contexts {
            Some(contexts) if !placed.is_empty() => contexts,
            None if !placed.is_empty() => return Err(PublishError::Plain),
            _ => {
                return Ok(Making {
                    missing: Vec::new(),
                    maker: None,
                })
            }
        };
        let missing = missing(contexts, placed).map_err(InstanceError::from)?;
        let maker = match missing.is_empty() {
            true => None,
            false => Some(contexts.maker().map_err(InstanceError::from)?),
        };
        Ok(Making { missing, maker })
    }

    /// Gives up all contexts but those in these slots.
    pub(super) fn keep_contexts(&self, slots: &[u32]) -> Result<(), SysError> {
        let Some(contexts) = &self.maps.contexts else {
            return Ok(());
        };
        let there = contexts.incarnations()?;
        let mut gone = (0..).zip(there).filter(|(slot, incarnation)| {
            let kept = slots.contains(slot);
            *incarnation != 0 && !kept
        });
        gone.try_for_each(|(slot, _)| contexts.remove(slot))
    }

    /// How many keys of the live generation the program cannot use; none if this build cannot say.
    pub(super) fn missing_contexts(&self, live: &Live) -> Result<Option<usize>, SysError> {
        let placed = live.contexts();
        match &self.maps.contexts {
            Some(contexts) => Ok(Some(missing(contexts, &placed)?.len())),
            None => Ok(keys::BUILT.then_some(placed.len())),
        }
    }
}
