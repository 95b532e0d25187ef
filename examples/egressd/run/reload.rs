// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Another configuration while the loop runs.

use guideway::control::machine::Trigger;

use super::config::load;
use super::control::{timing, Control};
use super::inputs;
use super::worker::now;
use crate::tool::Failure;

impl Control {
    /// Reads the configuration anew. One that makes no sense is refused as a whole.
    pub(super) fn reload(&mut self) {
        match self.reloaded() {
            Ok(()) => {
                self.log.info("configuration", "read anew and in force");
                self.machine.kick(Trigger::Command, now());
            }
            Err(failure) => {
                self.refused += 1;
                let message = format!(
                    "refused ({} so far), the one before stays in force: {}",
                    self.refused,
                    failure.text()
                );
                self.log.error("configuration", &message);
            }
        }
    }

    fn reloaded(&mut self) -> Result<(), Failure> {
        let config = load(&self.flags)?.config;
        config.may_replace(&self.config)?;
        // All that may fail comes before all that changes something.
        let source = match config.source == self.config.source {
            true => None,
            false => Some(inputs::source(&config.source)?),
        };
        let monitor = match config.uplinks == self.config.uplinks {
            true => None,
            false => Some(inputs::monitor(&config, &self.log)?),
        };
        if let Some(source) = source {
            self.source = source;
            self.counting.source_replaced();
        }
        if let Some(monitor) = monitor {
            self.counting.network(&self.monitor);
            self.monitor = monitor;
            self.deaf.works();
            self.counting.monitor_replaced();
        }
        self.machine.retime(timing(&config));
        self.health.interval(config.sweep);
        self.counting.configured(&config);
        self.config = config;
        self.configuration += 1;
        Ok(())
    }
}
