// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the load balancer's program and takes its object apart into owned handles.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::OpenObject;

use super::build::Build;
use super::load::{take, Loading, Parts};
use super::map::{Map, MapShape};
use super::probe::Capability;
use super::program::Program;
use super::publish;
use super::skeleton;
use super::SysError;

pub use super::load::LoadError;

/// How the load balancer's object is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Load the program that notes its decisions in the trace map.
    pub tracing: bool,
    /// Load the program that decrypts server IDs; it and its maps are that of the other and more.
    /// Where [`keys::support`](super::keys::support) says that it works.
    pub keys: bool,
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
    /// The program that packets meet.
    pub program: Program,
    maps: BTreeMap<String, Map>,
    verifier_report: String,
}

const NAME: &str = "gw_quiclb";
/// Where the generation is, and its template.
const SLOT: &str = "gw_ql_gen";
const CELLS: &str = "gw_ql_cells";

/// Runs `$do` with the builder of the skeleton of the object with keys or without; both have the
/// same members.
macro_rules! with_builder {
    ($keys:expr, $builder:ident => $do:expr) => {
        if $keys {
            #[cfg(guideway_keys)]
            {
                let $builder = skeleton::quiclb_keys::QuiclbKeysSkelBuilder::default();
                $do
            }
            #[cfg(not(guideway_keys))]
            Err(without_keys())
        } else {
            let $builder = skeleton::quiclb::QuiclbSkelBuilder::default();
            $do
        }
    };
}

#[cfg(not(guideway_keys))]
fn without_keys() -> LoadError {
    LoadError::Refused {
        object: NAME,
        cause: "this build has no program that decrypts server IDs".into(),
        messages: String::new(),
    }
}

impl Options<'_> {
    fn loading(&self) -> Loading<'_> {
        Loading {
            name: NAME,
            rights: &[Capability::Bpf, Capability::NetAdmin],
            entries: self.entries,
            reuse: self.reuse,
            only: None,
            verifier_report: self.verifier_report,
        }
    }

    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub fn shapes(&self) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let mut storage = MaybeUninit::uninit();
        with_builder!(self.keys, builder => self.loading().shapes(builder, &mut storage))
    }

    /// What the program is made of, unless it is loaded for tracing.
    pub fn build(&self) -> Build {
        #[cfg(guideway_keys)]
        if self.keys {
            return Build::this(env!("GUIDEWAY_DIGEST_QUICLB_KEYS"));
        }
        Build::this(env!("GUIDEWAY_DIGEST_QUICLB"))
    }

    /// Loads the object. Nothing is attached or pinned.
    ///
    /// # Errors
    /// [`LoadError`]; [`Refused`](LoadError::Refused) also if [`keys`](Self::keys) are asked of a
    /// build without.
    pub fn load(&self) -> Result<Object, LoadError> {
        self.load_changed(|_| Ok(()))
    }

    /// Loads the object after `change` had its way with it.
    fn load_changed(
        &self,
        change: impl FnOnce(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
    ) -> Result<Object, LoadError> {
        let template = self
            .cells
            .map(|cells| Map::create(&publish::shape(CELLS, cells), None));
        // It must live until the object is loaded.
        let template = template.transpose()?;
        let mut storage = MaybeUninit::uninit();
        let parts = with_builder!(self.keys, builder => {
            self.loading().load(builder, &mut storage, |skeleton| {
                if let Some(data) = skeleton.maps.rodata_data.as_mut() {
                    data.gw_tracing = self.tracing;
                }
                if let Some(template) = &template {
                    set_template(skeleton.open_object_mut(), template)?;
                }
                change(skeleton.open_object_mut())
            })
        })?;
        Ok(Object::new(parts, NAME)?)
    }
}

fn set_template(object: &mut OpenObject, template: &Map) -> Result<(), libbpf_rs::Error> {
    let mut maps = object.maps_mut().filter(|map| map.name() == SLOT);
    maps.try_for_each(|mut map| map.set_inner_map_fd(template.as_fd()))
}

impl Object {
    pub(super) fn new(mut parts: Parts, program: &str) -> Result<Self, SysError> {
        Ok(Self {
            program: take(&mut parts.programs, "program", program)?,
            maps: parts.maps,
            verifier_report: parts.verifier_report,
        })
    }

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
                .load_changed(|object| set_template(object, &template))
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
