// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The maps of an instance on a card.

use std::collections::BTreeMap;

use crate::abi;
use crate::kernel::map::{Map, MapShape};
use crate::kernel::object;
use crate::kernel::offload_object;
use crate::kernel::statedir::{Section, StateDir, META_MAP};
use crate::kernel::typed::{Array, Hash};
use crate::quiclb::error::InstanceError;

/// The map whose size is the instance's own.
pub(super) const FLOW_MAP: &str = "gw_of_flow";
/// The map that tells an instance on a card from another.
pub(super) const ACTIVE_MAP: &str = "gw_of_active";
const REMOVED_MAP: &str = "gw_ql_removed";

/// Maps of the card, which its program reads, and two of this host.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) active: Array<abi::OffloadActive>,
    pub(super) generations: Hash<u64, abi::OffloadGeneration>,
    pub(super) services: Hash<abi::OffloadServiceKey, abi::OffloadService>,
    pub(super) configs: Hash<abi::OffloadKey, abi::OffloadConfig>,
    pub(super) ids: Hash<abi::OffloadIdKey, abi::OffloadId>,
    pub(super) rows: Hash<abi::OffloadKey, abi::Backend>,
    pub(super) slots: Hash<abi::OffloadKey, abi::Slot>,
    pub(super) flows: Hash<abi::FlowKey, abi::OffloadBinding>,
    pub(super) epoch: Array<abi::OffloadEpoch>,
    pub(super) reasons: Array<u64>,
    pub(super) counters: Array<u64>,
    pub(super) backends: Array<abi::BackendStats>,
    pub(super) meta: Array<abi::Meta>,
    pub(super) removed: Array<u64>,
}

impl Maps {
    /// Takes each map from where `take` finds it by its name.
    pub(super) fn from(
        mut take: impl FnMut(&'static str) -> Result<Map, InstanceError>,
    ) -> Result<Self, InstanceError> {
        Ok(Self {
            active: Array::new(take(ACTIVE_MAP)?)?,
            generations: Hash::new(take("gw_of_gen")?)?,
            services: Hash::new(take("gw_of_service")?)?,
            configs: Hash::new(take("gw_of_config")?)?,
            ids: Hash::new(take("gw_of_id")?)?,
            rows: Hash::new(take("gw_of_row")?)?,
            slots: Hash::new(take("gw_of_slot")?)?,
            flows: Hash::new(take(FLOW_MAP)?)?,
            epoch: Array::new(take("gw_of_epoch")?)?,
            reasons: Array::new(take("gw_of_reason")?)?,
            counters: Array::new(take("gw_of_stats")?)?,
            backends: Array::new(take("gw_of_backend")?)?,
            meta: Array::new(take(META_MAP)?)?,
            removed: Array::new(take(REMOVED_MAP)?)?,
        })
    }
}

impl Maps {
    /// Those that are pinned, if they have the shapes that they were made with.
    pub(super) fn pinned(dir: &StateDir) -> Result<Self, InstanceError> {
        let mut shapes = host_shapes()?;
        let path = |name: &str| dir.pin(Section::Maps, name);
        let meta = match shapes.get(META_MAP) {
            Some(shape) => Map::open(&path(META_MAP), shape)?,
            None => Map::open_any(&path(META_MAP))?,
        };
        let meta: abi::Meta = Array::new(meta)?.get(0)?;
        let options = offload_object::Options {
            entries: &[(FLOW_MAP, meta.flows)],
            ..Default::default()
        };
        shapes.extend(options.shapes()?);
        Self::from(|name| match shapes.get(name) {
            Some(shape) => Ok(Map::open(&path(name), shape)?),
            // Every name is a map of the object or of this host; a build without it fails its
            // first test.
            None => Ok(Map::open_any(&path(name))?),
        })
    }
}

/// The shapes of the maps that stay in this host's memory.
pub(super) fn host_shapes() -> Result<BTreeMap<String, MapShape>, InstanceError> {
    let mut shapes = object::Options::default().shapes()?;
    shapes.retain(|name, _| [META_MAP, REMOVED_MAP].contains(&name.as_str()));
    Ok(shapes)
}

/// Whether a state directory is that of an instance on a card.
pub(in crate::quiclb) fn is_on_card(dir: &StateDir) -> bool {
    dir.pin(Section::Maps, ACTIVE_MAP).exists()
}
