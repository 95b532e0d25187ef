// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Counts that packets change meanwhile.

use nix::libc;

use crate::abi::{AdjustResult, MorePins, MoreShard, ShardStats};
use crate::egress::instance::Maps;
use crate::egress::{Egress, InstanceError};
use crate::kernel::map::Map;
use crate::kernel::routine::{Options, Routine, Source};
use crate::kernel::SysError;

/// Adds to the counts of an instance, and loses nothing that packets add.
#[derive(Debug)]
pub(super) struct Adjuster {
    shard: Routine,
    pins: Routine,
}

impl Adjuster {
    pub(super) fn load(egress: &Egress) -> Result<Self, InstanceError> {
        let Maps {
            shards, pin_use, ..
        } = &egress.maps;
        let maps = [shards.map(), pin_use.map()];
        let entries = maps.map(|map| (map.shape().name.as_str(), map.shape().max_entries));
        let [shards, pin_use] = maps.map(Map::try_clone);
        let mut loaded = Options {
            entries: &entries,
            reuse: &[shards?, pin_use?],
            ..Options::default()
        }
        .load(Source::Adjust)?;
        Ok(Self {
            shard: loaded.take("gw_add_shard")?,
            pins: loaded.take("gw_add_pins")?,
        })
    }

    /// More packets and bytes for what is counted at `index`.
    pub(super) fn add_shard(&self, index: u32, more: ShardStats) -> Result<(), SysError> {
        let mut context = MoreShard {
            more,
            index,
            zero: 0,
        };
        done(&self.shard, self.shard.call(&mut context)?)
    }

    /// More pins of the tenant with that table, modulo 2^64; of one that is gone there is no count.
    pub(super) fn add_pins(&self, table_id: u32, more: u64) -> Result<(), SysError> {
        let mut context = MorePins {
            more,
            table_id,
            zero: 0,
        };
        self.pins.call(&mut context).map(drop)
    }
}

fn done(routine: &Routine, result: u32) -> Result<(), SysError> {
    match AdjustResult(result) {
        AdjustResult::GW_ADJUST_DONE => Ok(()),
        _ => Err(SysError::new(
            "call",
            routine.program().name(),
            libc::ENOENT,
        )),
    }
}
