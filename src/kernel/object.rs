// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the load balancer's program and takes its object apart into owned handles.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use super::load::{take, Loading};
use super::map::{Map, MapShape};
use super::probe::Capability;
use super::program::Program;
use super::publish;
use super::SysError;

pub use super::load::LoadError;

#[allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    dead_code
)]
mod quiclb {
    include!(concat!(env!("OUT_DIR"), "/quiclb.skel.rs"));
}

/// How the load balancer's object is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Load the program that notes its decisions in the trace map.
    pub tracing: bool,
    /// Cells that each generation has room for, [`ROOM_CELLS`](super::publish::ROOM_CELLS) if
    /// none.
    pub cells: Option<u32>,
    /// Sizes of maps that differ from those in the object: name and number of entries.
    pub entries: &'a [(&'a str, u32)],
    /// Maps to use instead of new ones; each must have the shape of the map with its name.
    pub reuse: &'a [Map],
    /// Have the verifier summarise its work in [`Object::verifier_report`].
    pub verifier_report: bool,
}

/// A loaded program and its maps, each an owned handle.
#[derive(Debug)]
pub struct Object {
    /// The program, `gw_quiclb`.
    pub program: Program,
    maps: BTreeMap<String, Map>,
    verifier_report: String,
}

const NAME: &str = "gw_quiclb";

impl Options<'_> {
    fn loading(&self) -> Loading<'_> {
        Loading {
            name: NAME,
            rights: &[Capability::Bpf, Capability::NetAdmin],
            entries: self.entries,
            reuse: self.reuse,
            verifier_report: self.verifier_report,
        }
    }

    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub fn shapes(&self) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let builder = quiclb::QuiclbSkelBuilder::default();
        self.loading().shapes(builder, &mut MaybeUninit::uninit())
    }

    /// Loads the object. Nothing is attached or pinned.
    pub fn load(&self) -> Result<Object, LoadError> {
        self.load_changed(|_| {})
    }

    /// Loads the object after `change` had its way with it.
    fn load_changed(
        &self,
        change: impl FnOnce(&mut quiclb::OpenQuiclbSkel<'_>),
    ) -> Result<Object, LoadError> {
        let template = self
            .cells
            .map(|cells| Map::create(&publish::shape("gw_ql_cells", cells), None));
        // It must live until the object is loaded.
        let template = template.transpose()?;
        let builder = quiclb::QuiclbSkelBuilder::default();
        let mut storage = MaybeUninit::uninit();
        let mut parts = self.loading().load(builder, &mut storage, |skeleton| {
            if let Some(data) = skeleton.maps.rodata_data.as_mut() {
                data.gw_tracing = self.tracing;
            }
            if let Some(template) = &template {
                skeleton.maps.gw_ql_gen.set_inner_map_fd(template.as_fd())?;
            }
            change(skeleton);
            Ok(())
        })?;
        Ok(Object {
            program: take(&mut parts.programs, "program", NAME)?,
            maps: parts.maps,
            verifier_report: parts.verifier_report,
        })
    }
}

impl Object {
    /// Takes a map out by its name.
    pub fn take_map(&mut self, name: &str) -> Result<Map, SysError> {
        take(&mut self.maps, "map", name)
    }

    /// The maps that were not taken yet, by name.
    pub fn maps(&self) -> impl Iterator<Item = &Map> {
        self.maps.values()
    }

    /// The verifier's summary, empty unless it was asked for.
    pub fn verifier_report(&self) -> &str {
        &self.verifier_report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::kernel::map::MapKind;
    use crate::kernel::netns;

    #[test]
    fn a_rejected_program_comes_with_the_end_of_the_verifiers_log() {
        netns::isolated("kernel::object::rejected", || {
            // Generations of single bytes: too small for whatever the program reads there.
            let cells = MapShape {
                name: "gw_ql_cells".into(),
                kind: MapKind::ARRAY,
                key_size: 4,
                value_size: 1,
                max_entries: 1,
                flags: 0,
            };
            let template = Map::create(&cells, None).expect("create");
            let error = Options::default()
                .load_changed(|skeleton| {
                    let outer = &mut skeleton.maps.gw_ql_gen;
                    outer
                        .set_inner_map_fd(template.as_fd())
                        .expect("a template");
                })
                .expect_err("the verifier refuses it");
            assert_eq!(error.kind(), ErrorKind::Verifier, "{error}");
            let LoadError::Verifier { program, log, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(*program, "gw_quiclb");
            assert!(
                log.contains("invalid access to map value, value_size=1"),
                "{log}"
            );
            // The last line of a verifier's log sums up its work.
            assert!(
                log.lines()
                    .last()
                    .is_some_and(|line| line.starts_with("processed ")),
                "{log}"
            );
            assert!(error.to_string().contains(log.as_str()));
        });
    }
}
