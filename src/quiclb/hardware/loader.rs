// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes an instance on a network card, or opens one.

use std::time::{Duration, Instant};

use super::maps::{host_shapes, Maps, FLOW_MAP};
use super::{HardwareLb, HardwareWriter, GRACE};
use crate::abi;
use crate::kernel::map::Map;
use crate::kernel::offload_object;
use crate::kernel::statedir::{AbiVersion, Section, StateDir};
use crate::plan::room_cells;
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::{PATIENCE, PROGRAM};
use crate::quiclb::Loader;
use crate::service::Limits;

/// The word of a caller who knows what mode `offload` means. Only a caller can make it: nothing in
/// this library does.
#[derive(Debug, Clone, Copy)]
pub struct HardwareAcknowledged(());

impl HardwareAcknowledged {
    /// The program is to run on the network card alone. If the card does not take it, packets are
    /// not balanced: nothing falls back to a CPU.
    pub fn the_card_runs_it_or_nothing_does() -> Self {
        Self(())
    }
}

/// Makes or opens an instance whose program runs on a network card.
///
/// Program and maps are bound to the card before they are loaded. Whatever fails is an error with
/// the driver's and the verifier's log, and nothing is left behind; there is no fallback. Minimum
/// kernel: 6.1. Takes CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
#[derive(Debug)]
pub struct HardwareLoader {
    dir: StateDir,
    limits: Limits,
    grace: Duration,
}

impl Loader {
    /// The same instance, with its program on a network card.
    pub fn hardware(self, _: HardwareAcknowledged) -> HardwareLoader {
        let (dir, limits) = self.into_parts();
        HardwareLoader {
            dir,
            limits,
            grace: GRACE,
        }
    }
}

impl HardwareLoader {
    /// How long after the start, and after a publication, nothing is swept; [`GRACE`] unless said.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Makes the instance on the card of the interface with this index, or opens it where it is,
    /// and takes its lock, for which it waits up to two seconds.
    ///
    /// # Errors
    /// The driver or its verifier refuses, the lock is held by another process, the instance is there
    /// and was loaded for another card or for none, or the state is of another version or of an
    /// instance that runs on CPUs.
    pub fn load(self, ifindex: u32) -> Result<HardwareWriter, InstanceError> {
        self.load_on(Some(ifindex))
    }

    /// As [`load`](Self::load), but in the kernel and bound to no card: the same program, maps and
    /// calls, to be run by tests. The kernel does not attach such a program to a card.
    pub fn load_in_kernel(self) -> Result<HardwareWriter, InstanceError> {
        self.load_on(None)
    }

    fn load_on(self, device: Option<u32>) -> Result<HardwareWriter, InstanceError> {
        if self.dir.exists()? {
            self.open(device)
        } else {
            self.create(device)
        }
    }

    fn create(self, device: Option<u32>) -> Result<HardwareWriter, InstanceError> {
        let limits = &self.limits;
        // First of all: what a card refuses has changed nothing.
        let mut object = offload_object::Options {
            device,
            entries: &[(FLOW_MAP, limits.flows)],
            ..Default::default()
        }
        .load()?;
        let host = host_shapes()?;
        let draft = self.dir.draft()?;
        let maps = Maps::from(|name| {
            let map = match host.get(name) {
                Some(shape) => Map::create(shape, None)?,
                None => object.take_map(name)?,
            };
            map.pin(&draft.pin(Section::Maps, name))?;
            Ok(map)
        })?;
        object.program.pin(&draft.pin(Section::Programs, PROGRAM))?;
        let meta = abi::Meta {
            magic: abi::Abi::GW_ABI_MAGIC.0,
            abi_major: AbiVersion::QUICLB.major,
            abi_minor: AbiVersion::QUICLB.minor,
            instance: *self.dir.instance().as_bytes(),
            flows: limits.flows,
            cids: limits.cids,
            slots: limits.slots,
            cells: room_cells(limits),
            ..Default::default()
        };
        maps.meta.set(0, &meta)?;
        let lock = draft.publish()?;
        Ok(HardwareWriter {
            card: HardwareLb {
                dir: self.dir,
                program: object.program,
                maps,
            },
            lock,
            grace: self.grace,
            settled: Instant::now(),
        })
    }

    fn open(self, wanted: Option<u32>) -> Result<HardwareWriter, InstanceError> {
        let lock = self.dir.lock_within(PATIENCE)?;
        let card = HardwareLb::open(&self.dir)?;
        let found = card.program.device();
        if found != wanted {
            return Err(InstanceError::Device { found, wanted });
        }
        let found = card.maps.meta.get(0)?.flows;
        if found != self.limits.flows {
            return Err(InstanceError::Limits {
                limit: "flows",
                found,
                wanted: self.limits.flows,
            });
        }
        Ok(HardwareWriter {
            card,
            lock,
            grace: self.grace,
            settled: Instant::now(),
        })
    }
}
