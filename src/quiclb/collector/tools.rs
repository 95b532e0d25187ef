// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The programs that a collector calls, loaded around the maps of an instance.

use super::CollectError;
use crate::abi;
use crate::kernel::map::Map;
use crate::kernel::routine::{LoadError, Options, Routine, Routines, Source};
use crate::kernel::typed::{Array, Hash};
use crate::kernel::SysError;
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::{entries, Maps, QuicLb};

/// What a pass in the kernel takes.
#[derive(Debug)]
pub(super) struct Passes {
    pub(super) flows: Routine,
    pub(super) cids: Routine,
    pub(super) rules: Hash<u32, abi::SweepService>,
    pub(super) differ: Array<u64>,
    pub(super) tally: Array<abi::Bound>,
}

/// Everything that could be loaded. What could not is done in another way, or not at all.
#[derive(Debug)]
pub(super) struct Tools {
    /// The maps that they work on.
    maps: Vec<u32>,
    pub(super) passes: Result<Passes, LoadError>,
    /// Counts for a pass in user space.
    pub(super) count: Option<Routine>,
    /// Sets levels.
    pub(super) level: Option<Routine>,
    pub(super) occupancy: Option<Routine>,
}

/// The maps that the programs share with the packets' one.
fn shared(maps: &Maps) -> [&Map; 6] {
    [
        maps.flows.map(),
        maps.cids.map(),
        maps.levels.map(),
        maps.collection.map(),
        maps.slot.map(),
        maps.services.map(),
    ]
}

fn ids(maps: &Maps) -> Vec<u32> {
    shared(maps).into_iter().map(Map::id).collect()
}

fn handles(maps: &[&Map]) -> Result<Vec<Map>, SysError> {
    maps.iter().map(|map| map.try_clone()).collect()
}

impl Tools {
    pub(super) fn load(instance: &QuicLb) -> Result<Self, CollectError> {
        let meta = instance.maps.meta.get(0)?;
        let [flows, cids] = entries(&meta);
        let sizes = [flows, cids, ("gw_ql_differ", meta.cells)];
        let reuse = handles(&shared(&instance.maps))?;
        Self::load_by(instance, |only| {
            let options = Options {
                entries: &sizes,
                reuse: &reuse,
                only,
                ..Options::default()
            };
            options.load(Source::Sweep)
        })
    }

    /// `load` loads the programs of these names, or all.
    pub(super) fn load_by(
        instance: &QuicLb,
        load: impl Fn(Option<&[&str]>) -> Result<Routines, LoadError>,
    ) -> Result<Self, CollectError> {
        let (passes, rest) = match load(None) {
            Ok(mut loaded) => {
                let passes = Passes {
                    flows: loaded.take("gw_sweep_flows")?,
                    cids: loaded.take("gw_sweep_cids")?,
                    rules: Hash::new(loaded.take_map("gw_ql_rules")?)?,
                    differ: Array::new(loaded.take_map("gw_ql_differ")?)?,
                    tally: Array::new(loaded.take_map("gw_ql_tally")?)?,
                };
                (Ok(passes), Some(loaded))
            }
            Err(error) => (
                Err(error),
                load(Some(&["gw_sweep_count", "gw_sweep_level"])).ok(),
            ),
        };
        let (count, level) = match rest {
            Some(mut loaded) => (
                Some(loaded.take("gw_sweep_count")?),
                Some(loaded.take("gw_sweep_level")?),
            ),
            None => (None, None),
        };
        Ok(Self {
            maps: ids(&instance.maps),
            passes,
            count,
            level,
            occupancy: occupancy(instance)?,
        })
    }

    /// Whether they work on the maps of this instance, and not on those of one before it.
    pub(super) fn fit(&self, instance: &QuicLb) -> bool {
        self.maps == ids(&instance.maps)
    }
}

/// The program that counts entries; none where the kernel cannot.
pub(super) fn occupancy(instance: &QuicLb) -> Result<Option<Routine>, InstanceError> {
    let maps = &instance.maps;
    let options = Options {
        entries: &entries(&maps.meta.get(0)?),
        reuse: &handles(&[
            maps.flows.map(),
            maps.cids.map(),
            maps.levels.map(),
            maps.collection.map(),
        ])?,
        ..Options::default()
    };
    match options.load(Source::Occupancy) {
        Ok(mut loaded) => Ok(Some(loaded.take("gw_occupancy")?)),
        Err(_) => Ok(None),
    }
}
