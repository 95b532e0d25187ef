// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the egress program and takes its object apart into owned handles.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::OpenObject;
use nix::libc;

use super::build::Build;
use super::load::{LoadError, Loading};
use super::map::{Map, MapKind, MapShape};
use super::object::Object;
use super::probe::Capability;
use super::skeleton;
use super::SysError;
use crate::abi;

const NAME: &str = "gw_egress";
const GROUPS: &str = "gw_groups";
const COUNTERS: &str = "gw_shardstat";
/// Name of the maps that groups are published in.
pub const SNAPSHOT: &str = "gw_eg_snapshot";

/// Sizes that are compiled into the loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Groups, at most 64.
    pub groups: u32,
    /// Members of a group, at most 256.
    pub members: u32,
    /// Slots of a group's Maglev table, at most 65,537 and prime.
    pub table: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        use abi::EgressLimit as L;
        Self {
            groups: L::GW_EGRESS_GROUPS.0,
            members: L::GW_EGRESS_MEMBERS.0,
            table: L::GW_EGRESS_SLOTS.0,
        }
    }
}

impl Sizes {
    /// Programs divide by the size of the table, and rely on the limits of the others.
    fn are_possible(&self) -> bool {
        use abi::EgressLimit as L;
        let within = |value: u32, max: L| value >= 1 && value <= max.0;
        within(self.groups, L::GW_EGRESS_MAX_GROUPS)
            && within(self.members, L::GW_EGRESS_MAX_MEMBERS)
            && within(self.table, L::GW_EGRESS_MAX_SLOTS)
    }

    /// Bytes of a snapshot: header, members, table, and zeros up to whole words of eight bytes.
    pub fn snapshot_bytes(&self) -> usize {
        abi::snapshot_bytes(self.members as usize, self.table as usize)
    }

    /// The shape of a map that a group is published in: an array of one entry that programs cannot
    /// write. Template and instances must agree in all of it; there is no type information on
    /// purpose, since Linux 6.1 refuses a map with it where the template has none, and the reverse.
    pub fn snapshot_shape(&self) -> MapShape {
        MapShape {
            name: SNAPSHOT.to_owned(),
            kind: MapKind::ARRAY,
            key_size: 4,
            value_size: self.snapshot_bytes() as u32,
            max_entries: 1,
            flags: libbpf_sys::BPF_F_RDONLY_PROG,
        }
    }
}

/// How the egress object is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Sizes of what is swapped.
    pub sizes: Sizes,
    /// Sizes of other maps that differ from those in the object: name and number of entries.
    pub entries: &'a [(&'a str, u32)],
    /// Maps to use instead of new ones; each must have the shape of the map with its name.
    pub reuse: &'a [Map],
    /// Have the verifier summarise its work in [`Object::verifier_report`].
    pub verifier_report: bool,
}

impl Options<'_> {
    fn with_loading<T>(&self, work: impl FnOnce(Loading<'_>) -> T) -> T {
        let Sizes {
            groups, members, ..
        } = self.sizes;
        let mut entries = vec![(GROUPS, groups), (COUNTERS, groups * members)];
        entries.extend_from_slice(self.entries);
        work(Loading {
            name: NAME,
            rights: &[Capability::Bpf, Capability::NetAdmin],
            entries: &entries,
            reuse: self.reuse,
            only: None,
            verifier_report: self.verifier_report,
        })
    }

    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub fn shapes(&self) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let mut storage = MaybeUninit::uninit();
        let builder = skeleton::egress::EgressSkelBuilder::default();
        self.with_loading(|loading| loading.shapes(builder, &mut storage))
    }

    /// What the program is made of.
    pub fn build(&self) -> Build {
        Build::this(env!("GUIDEWAY_DIGEST_EGRESS"))
    }

    /// Loads the object. Nothing is attached or pinned.
    ///
    /// # Errors
    /// [`LoadError`]; a size of 0, or one beyond its limit, is EINVAL.
    pub fn load(&self) -> Result<Object, LoadError> {
        if !self.sizes.are_possible() {
            let sizes = format!("{NAME} with {:?}", self.sizes);
            return Err(SysError::new("load", &sizes, libc::EINVAL).into());
        }
        let template = Map::create(&self.sizes.snapshot_shape(), None)?;
        let mut storage = MaybeUninit::uninit();
        let builder = skeleton::egress::EgressSkelBuilder::default();
        let parts = self.with_loading(|loading| {
            loading.load(builder, &mut storage, |skeleton| {
                let Some(data) = skeleton.maps.rodata_data.as_mut() else {
                    return Err(libbpf_rs::Error::from_raw_os_error(libc::ENOENT));
                };
                data.gw_max_groups = self.sizes.groups;
                data.gw_max_members = self.sizes.members;
                data.gw_table_size = self.sizes.table;
                set_template(skeleton.open_object_mut(), &template)
            })
        })?;
        Object::new(parts, NAME).map_err(LoadError::from)
    }
}

fn set_template(object: &mut OpenObject, template: &Map) -> Result<(), libbpf_rs::Error> {
    let mut maps = object.maps_mut().filter(|map| map.name() == GROUPS);
    maps.try_for_each(|mut map| map.set_inner_map_fd(template.as_fd()))
}
