// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the load balancer's program for network cards, and takes its object apart into owned
//! handles.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{AsRawLibbpf, OpenObject};
use nix::libc;

use super::load::{LoadError, Loading};
use super::map::MapShape;
use super::object::Object;
use super::probe::Capability;
use super::skeleton;

const NAME: &str = "gw_quiclb for network cards";
const PROGRAM: &str = "gw_quiclb";

/// How the object for network cards is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Index of the interface whose card runs the program: program and maps are bound to it before
    /// they are loaded. None: they stay in the kernel, which runs the same program, for tests.
    pub device: Option<u32>,
    /// Sizes of maps that differ from those in the object: name and number of entries.
    pub entries: &'a [(&'a str, u32)],
    /// Have the verifier summarise its work in [`Object::verifier_report`].
    pub verifier_report: bool,
}

impl Options<'_> {
    fn loading(&self) -> Loading<'_> {
        Loading {
            name: NAME,
            rights: &[Capability::Bpf, Capability::NetAdmin, Capability::Perfmon],
            entries: self.entries,
            reuse: &[],
            only: None,
            verifier_report: self.verifier_report,
        }
    }

    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub fn shapes(&self) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let mut storage = MaybeUninit::uninit();
        let builder = skeleton::quiclb_offload::QuiclbOffloadSkelBuilder::default();
        self.loading().shapes(builder, &mut storage)
    }

    /// Loads the object. Nothing is attached or pinned. Takes CAP_BPF, CAP_NET_ADMIN and
    /// CAP_PERFMON.
    ///
    /// # Errors
    /// [`LoadError`]. An interface whose driver runs no programs on its card is
    /// [`Refused`](LoadError::Refused) with EINVAL or EOPNOTSUPP; what a driver's verifier says is
    /// in the log of [`Verifier`](LoadError::Verifier).
    pub fn load(&self) -> Result<Object, LoadError> {
        let mut storage = MaybeUninit::uninit();
        let builder = skeleton::quiclb_offload::QuiclbOffloadSkelBuilder::default();
        let parts = self.loading().load(builder, &mut storage, |skeleton| {
            self.device
                .map_or(Ok(()), |device| bind(skeleton.open_object_mut(), device))
        })?;
        Object::new(parts, PROGRAM).map_err(LoadError::from)
    }
}

/// Binds every program and every map to a device.
fn bind(object: &mut OpenObject, device: u32) -> Result<(), libbpf_rs::Error> {
    for map in object.maps_mut() {
        // SAFETY: the opened object outlives the call, which only sets a field of it.
        let result =
            unsafe { libbpf_sys::bpf_map__set_ifindex(map.as_libbpf_object().as_ptr(), device) };
        if result != 0 {
            return Err(libbpf_rs::Error::from_raw_os_error(-result));
        }
    }
    if i32::try_from(device).is_err() {
        return Err(libbpf_rs::Error::from_raw_os_error(libc::ENODEV));
    }
    for program in object.progs_mut() {
        // SAFETY: as above.
        unsafe {
            libbpf_sys::bpf_program__set_ifindex(program.as_libbpf_object().as_ptr(), device);
        }
    }
    Ok(())
}
