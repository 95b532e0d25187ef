// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the programs that remove pins around the maps of an egress instance.

use std::mem::MaybeUninit;

use super::load::{self, Loading};
use super::map::Map;
use super::probe::Capability;
use super::routine::Routine;
use super::skeleton;

pub use super::load::LoadError;

const NAME: &str = "gw_pins";

/// Names of the maps that the programs work on, all of which are an instance's.
pub const SHARED: [&str; 5] = [
    "gw_groups",
    "gw_pins",
    "gw_flow_pins",
    "gw_pin_use",
    "gw_eg_stat",
];

/// How the programs are loaded.
#[derive(Debug)]
pub struct Options<'a> {
    /// Members of a group that its snapshots have room for.
    pub members: u32,
    /// The maps named in [`SHARED`], of any size.
    pub maps: &'a [Map],
    /// Have the verifier summarise its work in [`Remover::verifier_report`].
    pub verifier_report: bool,
}

/// The programs. Each is called with a context of the type named.
#[derive(Debug)]
pub struct Remover {
    /// `gw_pin_sources`, [`PinPass`](crate::abi::PinPass): one pass over the pins of addresses.
    pub sources: Routine,
    /// `gw_pin_flows`, [`PinPass`](crate::abi::PinPass): one pass over the pins of flows.
    pub flows: Routine,
    /// `gw_pin_remove`, [`PinOne`](crate::abi::PinOne): removes one pin.
    pub one: Routine,
    /// The verifier's summary, empty unless it was asked for.
    pub verifier_report: String,
}

impl Options<'_> {
    /// Loads the programs. Takes CAP_BPF.
    ///
    /// # Errors
    /// [`LoadError`]; also where one of the maps is missing.
    pub fn load(&self) -> Result<Remover, LoadError> {
        // Without one of them libbpf would make a map of its own, and the programs work on nothing.
        for name in SHARED {
            if !self.maps.iter().any(|map| map.shape().name == name) {
                return Err(super::SysError::new(
                    "load programs without",
                    format_args!("map {name}"),
                    nix::libc::ENOENT,
                )
                .into());
            }
        }
        let entries: Vec<_> = self
            .maps
            .iter()
            .map(|map| (map.shape().name.as_str(), map.shape().max_entries))
            .collect();
        let loading = Loading {
            name: NAME,
            rights: &[Capability::Bpf],
            entries: &entries,
            reuse: self.maps,
            only: None,
            verifier_report: self.verifier_report,
        };
        let mut storage = MaybeUninit::uninit();
        let builder = skeleton::pins::PinsSkelBuilder::default();
        let mut parts = loading.load(builder, &mut storage, |skeleton| {
            if let Some(data) = skeleton.maps.rodata_data.as_mut() {
                data.gw_max_members = self.members;
            }
            Ok(())
        })?;
        let mut take = |name| load::take(&mut parts.programs, "program", name).map(Routine::new);
        Ok(Remover {
            sources: take("gw_pin_sources")?,
            flows: take("gw_pin_flows")?,
            one: take("gw_pin_remove")?,
            verifier_report: parts.verifier_report,
        })
    }
}
