// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The pins of an instance.

use super::{Maps, Pins, Rules, Status, Sweeper, Tick};
use crate::egress::{Egress, InstanceError, Writer};
use crate::kernel::map::Map;

impl Egress {
    /// The pins, to look at.
    ///
    /// # Errors
    /// A descriptor cannot be duplicated.
    pub fn pins(&self) -> Result<Pins, InstanceError> {
        let Maps {
            sources,
            flows,
            usage,
            ..
        } = self.pin_maps()?;
        Ok(Pins::new(sources, flows, usage)?)
    }

    /// How the pins stand by what is published at this moment. What is published while they are read
    /// is not taken into account.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn pin_status(&self, now: Tick) -> Result<Status, InstanceError> {
        let rules = Rules::new(&self.groups_as_they_are()?.known);
        Ok(self.pins()?.status(&rules, now)?)
    }

    fn pin_maps(&self) -> Result<Maps, InstanceError> {
        let maps = &self.maps;
        let handle = |map: &Map| map.try_clone();
        Ok(Maps {
            groups: handle(maps.groups.map())?,
            sources: handle(maps.pins.map())?,
            flows: handle(maps.flow_pins.map())?,
            usage: handle(maps.pin_use.map())?,
            counters: handle(maps.counters.map())?,
        })
    }
}

impl Writer {
    /// What removes pins. It is loaded at its first use.
    ///
    /// # Errors
    /// The kernel refuses its programs.
    pub fn sweeper(&mut self) -> Result<&mut Sweeper, InstanceError> {
        let sweeper = match self.sweeper.take() {
            Some(sweeper) => sweeper,
            None => Sweeper::load(self.pin_maps()?, self.limits.groups())?,
        };
        Ok(self.sweeper.insert(sweeper))
    }
}
